# Clusters on hosts that a real Slurm allocates.

outside_checks_only()

slurm_there <- NULL # made by the first test that needs it, ended by the last one
time_limit <- NULL # a script, see run_into_time_limit()
needs_slurm <- function() {
  if (!is.null(slurm_there)) return()
  slurm_there <<- slurm_or_skip()
  time_limit <<- run_into_time_limit()
}
# Slurm looks every 30 s for limits that have passed: this is under way beside the other tests. See
# processes_of_jobs(), jobs_of_slurm().
run_into_time_limit <- function() {
  job <- paste("slurm(1, 2, 60, partition = 'high', name = 'limit', rscript_args = '--limit',",
               "folder = '%s')")
  start_script(c(
    sprintf(paste0("cl <- make_cluster(", job, ")"), slurm_there$folder),
    "job <- paste0('JobId=', cl[[1]]$info$remote$jobs[[1]]$number)",
    "end <- format(Sys.time() + 1, 'EndTime=%Y-%m-%dT%H:%M:%S')",
    "system2('scontrol', c('update', job, end))",
    "e <- tryCatch(cluster_map(cl, 1:2, function(i) Sys.sleep(100)), error = identity)",
    "cat('cause=', e$cause, '\\ntext=', conditionMessage(e), '\\n', sep = '')",
    "stop_cluster(cl)", "cat('done\\n')"
  ))
}
where <- function(cl) vapply(parallel::clusterCall(cl, Sys.info), `[[`, "", "nodename")
steps_of <- function(job) {
  steps <- of_slurm("squeue", "-h", "-s", "-j", job, "-o", "%i %j")
  grep("\\.(extern|batch|interactive) ", steps, value = TRUE, invert = TRUE)
}
expect_nothing_runs <- function() {
  left <- "not looked"
  eventually({
    left <- processes_of_jobs(slurm_there)
    !length(left)
  }, 20)
  testthat::expect_identical(left, character())
}

test_that("in an allocation: one step by srun, with nodes on all hosts, which leaves nothing", {
  needs_slurm()
  job <- in_allocation("-N2", "--ntasks-per-node=1", "-c4")
  cl <- make_cluster(slurm(hosts = 2, each = 2))
  expect_identical(sort(where(cl)), rep(c("n1", "n2"), each = 2))
  expect_identical(cluster_status(cl)$host, where(cl))
  expect_identical(steps_of(job), paste0(job, ".0 clutch"))
  expect_identical(cluster_map_dbl(cl, 1:1000, function(i) i^2), (1:1000)^2)
  # a node has its share of what the step has on its host
  cores <- parallel::clusterCall(cl, function() {
    c(Sys.getenv("SLURM_CPUS_PER_TASK"), available_cores(), Sys.getenv("OMP_NUM_THREADS"))
  })
  expect_identical(unique(cores), list(c("2", "1", "1")))
  big <- runif(1e6)
  expect_identical(cluster_map_dbl(cl, 1:4, function(i) sum(big) + i), sum(big) + 1:4)
  expect_interruptible(cl)
  stop_cluster(cl)
  expect_nothing_runs()
  expect_true(eventually(!length(temporary_files_of(slurm_there, job))))
  expect_true(eventually(!length(steps_of(job))))
  # the allocation is the user's
  expect_identical(of_slurm("squeue", "-h", "-j", job, "-o", "%T"), "RUNNING")
})

test_that("the secret is on no command line and in no environment", {
  needs_slurm()
  in_allocation("-N2", "--ntasks-per-node=1", "-c4")
  cl <- make_cluster(slurm(each = 1))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  expect_identical(length(cl), 2L)
  link <- cl[[1]]$info$remote$link
  known <- secrets_of(link)
  key <- strsplit(known[["own"]], "\n")[[1L]][[2L]]
  files <- Sys.glob(c("/proc/[0-9]*/cmdline", "/proc/[0-9]*/environ"))
  has_it <- vapply(files, function(file) {
    bytes <- tryCatch(suppressWarnings(readBin(file, "raw", 1e6)), error = function(e) raw())
    bytes <- rawToChar(bytes[bytes != 0])
    grepl(known[["secret"]], bytes, fixed = TRUE) || grepl(key, bytes, fixed = TRUE)
  }, NA)
  expect_identical(files[has_it], character())
})

test_that("a step that fails: what it printed, on which host, and nothing is left", {
  needs_slurm()
  job <- in_allocation("-N2", "--ntasks-per-node=1", "-c4")
  fails <- function(...) {
    e <- tryCatch(make_cluster(slurm(each = 2, ...), setup_timeout = 60), clutch_start = identity)
    expect_s3_class(e, "clutch_start")
    expect_nothing_runs()
    expect_true(eventually(!length(steps_of(job))))
    conditionMessage(e)
  }
  text <- fails(rscript = "/nowhere/Rscript")
  expect_match(text, "2 of 2 hosts could not be started; nothing was left running")
  expect_match(text, "exit (code|status) 127.*/nowhere/Rscript.*try: is R there")
  # on one of them only, and the other one is there
  text <- fails(setup = "[ $SLURM_PROCID = 0 ] || { echo no room >&2; exit 3; }")
  expect_match(text, "1 of 2 hosts could not be started; nothing was left running")
  expect_match(text, "host 2 of Slurm: on n2: Exited with exit code 3; it printed last:\n  no room")
  expect_match(fails(options = "--nonsense"), "unrecognized option")
  # the other one is enough
  half <- slurm(each = 2, setup = "[ $SLURM_PROCID = 0 ] || exit 3")
  expect_warning(cl <- make_cluster(half, min_hosts = 1), "on n2: Exited with exit code 3",
                 class = "clutch_hosts_missing")
  expect_identical(where(cl), c("n1", "n1"))
  stop_cluster(cl)
  expect_nothing_runs()
})

shared_folder <- function() {
  folder <- file.path(slurm_there$folder, "shared")
  dir.create(folder, showWarnings = FALSE)
  folder
}
job_state <- function(job) clutch:::slurm_job(job)$JobState

test_that("outside: a job by sbatch, whose secret is in a file for this user, while it starts", {
  needs_slurm()
  shared <- shared_folder()
  old <- Sys.umask("022")
  on.exit(Sys.umask(old))
  cl <- make_cluster(slurm(hosts = 2, each = 2, time = "10min", name = "my-fit", folder = shared))
  job <- cl[[1]]$info$remote$jobs[[1]]$number
  expect_identical(sort(where(cl)), rep(c("n1", "n2"), each = 2))
  expect_identical(jobs_of_slurm(), paste(job, "my-fit RUNNING"))
  expect_identical(clutch:::slurm_job(job)$TimeLimit, "00:10:00")
  folder <- list.files(shared, full.names = TRUE)
  expect_identical(format(file.mode(folder)), "700")
  expect_identical(list.files(folder, "settings"), character())
  expect_identical(cluster_map_dbl(cl, 1:100, function(i) i^2), (1:100)^2)
  stop_cluster(cl)
  expect_nothing_runs()
  expect_true(eventually(job_state(job) == "COMPLETED"))
  expect_identical(list.files(shared), character())
})

test_that("a job that waits is cancelled when it waits too long, by Ctrl-C, with the session", {
  needs_slurm()
  shared <- shared_folder()
  held <- function(...) slurm(hosts = 1, options = "--hold", folder = shared, ...)
  no_job <- function() !length(jobs_of_slurm()) && !length(list.files(shared))
  e <- tryCatch(make_cluster(held(wait = 1)), clutch_start = identity)
  expect_match(conditionMessage(e), "still waits after 1 s \\(JobHeldUser\\); it was cancelled")
  expect_true(eventually(no_job()))
  later(2, "kill -INT %d", Sys.getpid())
  expect_identical(tryCatch(make_cluster(held()), interrupt = function(e) "int"), "int")
  expect_true(eventually(no_job()))
  s <- start_script(c(
    "cat('ready\\n')",
    sprintf("cl <- make_cluster(slurm(hosts = 1, options = '--hold', folder = '%s'))", shared)
  ))
  expect_true(eventually(length(jobs_of_slurm()) == 1L, 60))
  file <- list.files(shared, "^settings$", full.names = TRUE, recursive = TRUE)
  expect_identical(format(file.mode(file)), "600")
  tools::pskill(s$pid, 9L)
  expect_true(eventually(no_job()))
  expect_true(ends(s))
})

test_that("time in the queue does not count for setup_timeout", {
  needs_slurm()
  shared <- shared_folder()
  later(4, "scontrol release $(squeue -h -n waits -o %%i)")
  job <- slurm(hosts = 1, options = "--hold", folder = shared, name = "waits")
  began <- proc.time()[[3L]]
  cl <- make_cluster(job, setup_timeout = 30)
  expect_gt(proc.time()[[3L]] - began, 3)
  expect_gt(clutch:::queued_for(cl[[1]]$info), 3)
  stop_cluster(cl)
  expect_nothing_runs()
})

test_that("a job that fails: what it printed, and why it has ended", {
  needs_slurm()
  shared <- shared_folder()
  fails <- function(...) {
    e <- tryCatch(make_cluster(slurm(hosts = 2, folder = shared, ...), setup_timeout = 60),
                  clutch_start = identity)
    expect_s3_class(e, "clutch_start")
    expect_nothing_runs()
    expect_true(eventually(!length(jobs_of_slurm()) && !length(list.files(shared))))
    conditionMessage(e)
  }
  expect_match(fails(rscript = "/nowhere/Rscript"), "exit code 127.*/nowhere/Rscript")
  expect_match(fails(partition = "nowhere"), "invalid partition")
})

# A map of which elements are under way on all hosts when `deed` is done: its error.
ended_in_map <- function(cl, deed, ..., env = parent.frame()) {
  system(sprintf("(sleep 1.5; %s) > /dev/null 2>&1 &", deed))
  tryCatch(cluster_map(cl, 1:8, function(i) Sys.sleep(60), .chunk = 1, ...), error = identity)
}

test_that("what srun says of a process that was killed is not the last word", {
  ask <- clutch:::ask_end_of_host
  said <- list(list(cause = "ended", text = "srun says Killed"),
               list(cause = "cancelled", text = "it was cancelled"))
  asked <- 0L
  environment(ask) <- list2env(list(
    end_said_by_slurm = function(info, k) {
      asked <<- asked + 1L
      said[[min(asked, length(said))]]
    },
    host_has_ended = function(server) TRUE,
    name_of_host = function(info, k) "n1"
  ), parent = asNamespace("clutch"))
  expect_identical(ask(list(remote = clutch:::new_remote()), 1L, TRUE)$cause, "cancelled")
  asked <- 0L
  said <- said[1L] # it is, where nothing else comes
  expect_identical(ask(list(remote = clutch:::new_remote()), 1L, TRUE)$cause, "ended")
})

test_that("an allocation or a step that is cancelled: the errors of its tasks say so", {
  needs_slurm()
  job <- in_allocation("-N2", "--ntasks-per-node=1", "-c4")
  cl <- make_cluster(slurm(each = 1))
  # a node that dies by itself is no doing of Slurm's
  e <- tryCatch(cluster_map(cl, 1, function(i) tools::pskill(Sys.getpid(), 9L)), error = identity)
  expect_match(conditionMessage(e), "SIGKILL")
  expect_identical(e$cause, NA_character_)
  e <- ended_in_map(cl, paste0("scancel ", job, ".0"))
  expect_s3_class(e, "clutch_task_died")
  expect_match(conditionMessage(e), "the step of job [0-9]+ of Slurm was cancelled \\(scancel\\)")
  expect_identical(e$cause, "cancelled")
  stop_cluster(cl)
  expect_nothing_runs()
  cl <- make_cluster(slurm(each = 1))
  e <- ended_in_map(cl, paste("scancel", job), .retries = 5)
  expect_s3_class(e, "clutch_task_died")
  expect_match(conditionMessage(e),
               "no node is left: job [0-9]+ of Slurm was cancelled \\(scancel\\)")
  expect_identical(e$cause, "cancelled")
  expect_error(parallel::clusterCall(cl, identity, 1), "was cancelled", class = "clutch_node_died")
  stop_cluster(cl)
  expect_nothing_runs()
})

test_that("a host that is set down: what was there is done elsewhere, and that start is no retry", {
  needs_slurm()
  job <- in_allocation("-N2", "--no-kill", "--ntasks-per-node=1", "-c4")
  cl <- make_cluster(slurm(each = 1))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  on.exit(of_slurm("scontrol", "update", "NodeName=n2", "State=RESUME"), add = TRUE)
  system("(sleep 1.5; scontrol update NodeName=n2 State=DOWN Reason=test) > /dev/null 2>&1 &")
  expect_warning(r <- cluster_map(cl, 1:2, function(i) {
    if (Sys.info()[["nodename"]] == "n2") Sys.sleep(60)
    Sys.sleep(0.5)
    if (task_attempt() == 2) tools::pskill(Sys.getpid(), 9L)
    c(Sys.info()[["nodename"]], task_attempt())
  }, .chunk = 1, .retries = 1), NA)
  expect_identical(sort(vapply(r, `[[`, "", 2L)), c("1", "3"))
  expect_identical(unique(vapply(r, `[[`, "", 1L)), "n1")
})

test_that("preemption of a job", {
  needs_slurm()
  shared <- shared_folder()
  for (options in c("--no-requeue", "--requeue")) {
    cl <- make_cluster(slurm(hosts = 2, each = 2, options = options, folder = shared))
    urgent <- "sbatch -p high -N2 -n2 --ntasks-per-node=1 -c7 --output=/dev/null --wrap 'sleep 1'"
    e <- ended_in_map(cl, urgent)
    expect_s3_class(e, "clutch_task_died")
    expect_match(conditionMessage(e), "to make room for another")
    expect_identical(e$cause, "preempted")
    # of the other host, too, after the job that was put back into the queue has been cancelled
    said <- lapply(1:2, function(k) clutch:::end_said_by_slurm(cl[[1]]$info, k)$cause)
    expect_identical(said, list("preempted", "preempted"))
    stop_cluster(cl)
    expect_nothing_runs()
    expect_true(eventually(!length(jobs_of_slurm())))
  }
})

test_that("the time limit of a job", {
  needs_slurm()
  expect_done(time_limit, 60)
  expect_match(value_of(time_limit, "text"), "at its time limit")
  expect_identical(value_of(time_limit, "cause"), "time_limit")
  expect_true(ends(time_limit))
})

test_that("hosts_command(): a step, a job, and what takes its command into the background", {
  needs_slurm()
  shared <- shared_folder()
  job <- in_allocation("-N2", "--ntasks-per-node=1", "-c4")
  step <- "srun --overlap -N1 -n1 -c{each} -w n{host} --job-name={name} {command}"
  cl <- make_cluster(hosts_command(step, hosts = 2, each = 2, secret = "stdin"))
  expect_identical(where(cl), rep(c("n1", "n2"), each = 2))
  expect_length(steps_of(job), 2L)
  stop_cluster(cl)
  expect_nothing_runs()
  expect_true(eventually(!length(steps_of(job))))
  submit <- "sbatch --parsable -N1 -c{each} --job-name={name} --output=/dev/null {script}"
  submitted <- function(template = submit, ...) {
    hosts_command(template, cancel = "scancel {job}", name = "by-hand", folder = shared, ...)
  }
  cl <- make_cluster(submitted(hosts = 2))
  own <- grep("by-hand", jobs_of_slurm(), value = TRUE)
  expect_identical(sub("^[0-9]+ ", "", own), rep("by-hand RUNNING", 2))
  expect_identical(list.files(shared, "^settings", recursive = TRUE), character())
  expect_identical(cluster_map_dbl(cl, 1:100, function(i) i), as.numeric(1:100))
  stop_cluster(cl)
  expect_nothing_runs()
  expect_true(eventually(!length(list.files(shared)) && !any(grepl("by-hand", jobs_of_slurm()))))
  # a job that waits is cancelled
  e <- tryCatch(make_cluster(submitted(sub("-N1", "-N1 --hold", submit)), setup_timeout = 4),
                clutch_start = identity)
  expect_match(conditionMessage(e), "did not come within setup_timeout")
  expect_true(eventually(!length(list.files(shared)) && !any(grepl("by-hand", jobs_of_slurm()))))
})

test_that("hosts_command(): commands in the background of this machine", {
  linux_only()
  folder <- tempfile("launcher-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  for (template in c("{command} &", "nohup {command} > /dev/null 2>&1 &", "{command}")) {
    cl <- make_cluster(hosts_command(template, each = 2, folder = folder))
    expect_identical(cluster_map_dbl(cl, 1:10, function(i) i), as.numeric(1:10))
    expect_identical(list.files(folder, "^settings", recursive = TRUE), character())
    p <- pids(cl)
    stop_cluster(cl)
    expect_true(eventually(!any(alive(p))))
    expect_identical(list.files(folder), character())
  }
  e <- tryCatch(make_cluster(hosts_command("echo no room; exit 4; {command}", folder = folder)),
                clutch_start = identity)
  expect_match(conditionMessage(e), "it ended with exit status 4; it printed last:\n  no room")
  expect_identical(list.files(folder), character())
})

test_that("hosts_command(): its folder goes with a killed session, and with a garbage cluster", {
  linux_only()
  folder <- tempfile("launcher-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  launch <- sprintf("hosts_command('{script} &', folder = '%s')", folder)
  is_empty <- function() !length(list.files(folder))
  s <- start_script(c(sprintf("cl <- make_cluster(%s)", launch), "cat('ready\\n')",
                      "Sys.sleep(600)"))
  expect_true(said(s, "^ready", 60))
  expect_false(is_empty())
  tools::pskill(s$pid, 9L)
  expect_true(eventually(is_empty()))
  expect_true(ends(s))
  s <- start_script(c(sprintf("cl <- make_cluster(%s)", launch), "rm(cl)", "invisible(gc())",
                      "cat('ready\\n')", "cl <- make_cluster(1)",
                      "repeat parallel::clusterCall(cl, Sys.sleep, 0.1)"))
  expect_true(said(s, "^ready", 60))
  expect_true(eventually(is_empty()))
  tools::pskill(s$pid, 9L)
  expect_true(ends(s))
})

test_that("hosts_command(): its folder goes also while somebody makes files in it", {
  linux_only()
  folder <- tempfile("launcher-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  writer <- c("cd %s/* || exit", "for k in {1..99999}; do echo > \"$PWD/$0-$k\" || exit; done")
  start_writers <- function() {
    script <- sprintf(paste(writer, collapse = "; "), folder)
    for (i in 1:3) system(paste("bash -c", shQuote(script), i, "> /dev/null 2>&1 &"))
    eventually(length(list.files(folder, recursive = TRUE)) > 100L)
  }
  launch <- sprintf("hosts_command('{script} &', folder = '%s')", folder)
  s <- start_script(c(sprintf("cl <- make_cluster(%s)", launch), "cat('ready\\n')",
                      "Sys.sleep(600)"))
  expect_true(said(s, "^ready", 60))
  expect_true(start_writers())
  tools::pskill(s$pid, 9L)
  expect_true(ends(s))
  expect_true(eventually(!length(list.files(folder))))
  cl <- make_cluster(hosts_command("{script} &", folder = folder))
  info <- cl[[1L]]$info
  # who keeps it does not end in time
  cleanup <- info$remote$cleanup
  clutch:::set_remote(info, cleanup = NULL)
  expect_true(start_writers())
  stop_cluster(cl)
  expect_true(eventually(!length(list.files(folder))))
  .Call(clutch:::ffi_nodes_stop, cleanup, 0, 2)
})

test_that("what a task has printed is waited for, which may come after how it has ended", {
  log <- tempfile()
  writeLines(c("0: a", "srun: error: n2: task 1: Exited with exit code 3"), log)
  later(0.7, "echo ' 1: no room' >> %s", shQuote(log))
  command <- list(handle = .Call(clutch:::ffi_psock_node, 0L), log = log, hosts = 1:2)
  info <- list(plan = list(kind = clutch:::slurm_kind()), remote = list(commands = list(command)))
  clutch:::let_end(info, 2L)
  expect_identical(clutch:::printed_by_task(readLines(log), 1), "no room")
  unlink(log)
})

test_that("what srun prints tells which host has failed", {
  lines <- c("0: a", " 1: b", "srun: error: n[1-2,4]: tasks 1-2,4: Exited with exit code 7",
             "srun: error: n1: task 0: Killed", "10: c", "slurmstepd: error: x")
  says <- function(k) clutch:::srun_says(lines, k)
  expect_identical(says(0), "on n1: Killed")
  expect_identical(says(2), "on n[1-2,4]: Exited with exit code 7")
  expect_identical(says(3), character())
  expect_identical(clutch:::exit_code_of(says(4)), 7L)
  expect_identical(clutch:::printed_by_task(lines, 1), c("b", lines[[6L]]))
})

test_that("Slurm ends", {
  if (is.null(slurm_there)) skip("there was none")
  expect_true(stop_slurm(slurm_there))
})
