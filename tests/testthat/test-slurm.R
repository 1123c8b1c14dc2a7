# Clusters on hosts that a real Slurm allocates.

outside_checks_only()

slurm_there <- NULL # made by the first test that needs it, ended by the last one
needs_slurm <- function() {
  if (is.null(slurm_there)) slurm_there <<- slurm_or_skip()
}
where <- function(cl) vapply(parallel::clusterCall(cl, Sys.info), `[[`, "", "nodename")
steps_of <- function(job) {
  steps <- of_slurm("squeue", "-h", "-s", "-j", job, "-o", "%i %j")
  grep("\\.(extern|batch|interactive) ", steps, value = TRUE, invert = TRUE)
}
expect_nothing_runs <- function() {
  eventually(!length(processes_of_jobs(slurm_there)))
  testthat::expect_identical(processes_of_jobs(slurm_there), character())
}

test_that("in an allocation: one step by srun, with nodes on all hosts, which leaves nothing", {
  needs_slurm()
  job <- in_allocation("-N2", "--ntasks-per-node=1", "-c4")
  cl <- make_cluster(slurm(nodes = 2, each = 2))
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
  before <- pids(cl)
  later(1, "kill -INT %d", Sys.getpid())
  caught <- tryCatch(cluster_map(cl, 1:4, function(i) Sys.sleep(60)), interrupt = function(e) "int")
  expect_identical(caught, "int")
  expect_true(works(cl))
  expect_identical(pids(cl), before)
  stop_cluster(cl)
  expect_nothing_runs()
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
  link <- cl[[1]]$info$link
  known <- .Call(clutch:::ffi_link_info, link$handle)
  key <- strsplit(known$own, "\n")[[1L]][[2L]]
  for (file in Sys.glob(c("/proc/[0-9]*/cmdline", "/proc/[0-9]*/environ"))) {
    bytes <- tryCatch(suppressWarnings(readBin(file, "raw", 1e6)), error = function(e) raw())
    bytes <- rawToChar(bytes[bytes != 0])
    found <- grepl(known$secret, bytes, fixed = TRUE) || grepl(key, bytes, fixed = TRUE)
    expect_false(found, info = file)
  }
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
  cl <- make_cluster(slurm(nodes = 2, each = 2, time = "10min", name = "my-fit", folder = shared))
  job <- cl[[1]]$info$job$number
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

test_that("a job that waits: it is cancelled when it waits too long, by Ctrl-C, and with the session", {
  needs_slurm()
  shared <- shared_folder()
  held <- function(...) slurm(nodes = 1, options = "--hold", folder = shared, ...)
  no_job <- function() !length(jobs_of_slurm()) && !length(list.files(shared))
  e <- tryCatch(make_cluster(held(wait = 1)), clutch_start = identity)
  expect_match(conditionMessage(e), "still waits after 1 s \\(JobHeldUser\\); it was cancelled")
  expect_true(eventually(no_job()))
  later(2, "kill -INT %d", Sys.getpid())
  expect_identical(tryCatch(make_cluster(held()), interrupt = function(e) "int"), "int")
  expect_true(eventually(no_job()))
  s <- start_script(c(
    "cat('ready\\n')",
    sprintf("cl <- make_cluster(slurm(nodes = 1, options = '--hold', folder = '%s'))", shared)
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
  job <- slurm(nodes = 1, options = "--hold", folder = shared, name = "waits")
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
    e <- tryCatch(make_cluster(slurm(nodes = 2, folder = shared, ...), setup_timeout = 60),
                  clutch_start = identity)
    expect_s3_class(e, "clutch_start")
    expect_nothing_runs()
    expect_true(eventually(!length(jobs_of_slurm()) && !length(list.files(shared))))
    conditionMessage(e)
  }
  expect_match(fails(rscript = "/nowhere/Rscript"), "exit code 127.*/nowhere/Rscript")
  expect_match(fails(partition = "nowhere"), "invalid partition")
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
