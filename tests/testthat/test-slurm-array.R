# Clusters that grow by arrays of Slurm's jobs: few commands for many hosts.

launches <- function(hosts, ...) {
  x <- slurm(nodes = c(hosts, 5000), ...)
  clutch:::launches_of(x, FALSE, of = seq_len(hosts))
}

test_that("one command asks for up to 1,000 hosts, and one host has a job that is no array", {
  one <- launches(1)[[1L]]
  expect_no_match(paste(one$argv, collapse = " "), "--array")
  expect_null(one$cancel_some)
  all <- launches(1000)
  expect_length(all, 1L)
  expect_true("--array=0-999" %in% all[[1L]]$argv)
  expect_true("--nodes=1" %in% all[[1L]]$argv)
  expect_identical(all[[1L]]$hosts, 1:1000)
  expect_identical(all[[1L]]$rank, "SLURM_ARRAY_TASK_ID")
  some <- launches(2501)
  expect_identical(lengths(lapply(some, `[[`, "hosts")), c(`0` = 1000L, `1` = 1000L, `2` = 501L))
  expect_length(unique(lapply(some, `[[`, "settings")), 3L)
  lines <- capture.output(print(launch_plan(slurm(nodes = c(10, 200)))))
  expect_match(lines, "several as these:", all = FALSE)
  expect_match(lines, "sbatch .*--array=0-9 --nodes=1", all = FALSE)
})

# Hosts come in any order and at any time: how many commands ask for 1,000 of them.
commands_to_grow <- function(least, most, seed) {
  set.seed(seed)
  r <- new.env()
  r$at <- rep(c("there", "none"), c(least, most - least))
  r$failures <- 0L
  commands <- 1L # that of the first ones
  now <- 0
  while (any(r$at != "there")) {
    n <- clutch:::hosts_to_ask_together(r, most, now)
    if (n > 0L) {
      commands <- commands + 1L
      r$at[utils::head(which(r$at == "none"), n)] <- "asked"
    }
    asked <- which(r$at == "asked")
    comes <- asked[runif(length(asked)) < runif(1, 0, 0.2)]
    r$at[comes] <- "there"
    now <- now + 0.2
  }
  commands
}

test_that("a cluster grows from 1 host to 1,000 by 10 commands at most, however they come", {
  skip_on_os("windows")
  commands <- vapply(1:20, function(seed) commands_to_grow(1L, 1000L, seed), 1L)
  expect_lte(max(commands), 10L)
  expect_gte(min(commands), 5L) # not all at once: they follow those that have come
  commands <- vapply(1:20, function(seed) commands_to_grow(100L, 1000L, seed), 1L)
  expect_lte(max(commands), 5L)
})

test_that("few hosts wait for others, after a failure one is asked for, and never too many", {
  r <- list2env(list(at = rep(c("there", "none"), c(20, 100)), failures = 0L))
  ask <- function(wanted, now) clutch:::hosts_to_ask_together(r, wanted, now)
  expect_identical(ask(20L, 0), 0L)
  expect_identical(ask(22L, 0), 0L)
  expect_identical(ask(23L, 1), 0L)
  expect_equal(ask(23L, 2), 3)
  expect_equal(ask(200L, 3), 40) # twice as many as are there
  r$failures <- 1L
  expect_identical(ask(200L, 3), 1L)
  r$failures <- 0L
  r$at[21:30] <- "asked"
  expect_equal(ask(200L, 4), 30)
  r$at[31] <- "asked" # too many are under way
  expect_identical(ask(200L, 99), 0L)
})

# Programs of the names of Slurm's commands, each with lines of a shell, come first on the PATH.
stand_ins <- function(..., env = parent.frame()) {
  folder <- tempfile("stand-ins-")
  dir.create(folder)
  programs <- list(...)
  for (name in names(programs)) {
    path <- file.path(folder, name)
    writeLines(c("#!/bin/sh", sprintf("cd '%s'", folder), programs[[name]]), path)
    Sys.chmod(path)
  }
  old <- Sys.getenv("PATH")
  conf <- Sys.getenv("SLURM_CONF", NA)
  # what is known of another Slurm does not hold
  Sys.setenv(PATH = paste0(folder, ":", old), SLURM_CONF = folder)
  leave <- function() {
    Sys.setenv(PATH = old)
    if (is.na(conf)) Sys.unsetenv("SLURM_CONF") else Sys.setenv(SLURM_CONF = conf)
    unlink(folder, recursive = TRUE)
  }
  do.call(on.exit, list(as.call(list(leave)), add = TRUE), envir = env)
  folder
}
lines_of <- function(folder, name) {
  path <- file.path(folder, name)
  if (file.exists(path)) readLines(path) else character()
}

test_that("Slurm says how large an array may be", {
  skip_on_os("windows")
  expect_most <- function(size, most) {
    # each with a configuration of its own
    stand_ins(scontrol = sprintf("echo 'MaxArraySize            = %s'", size))
    expect_identical(clutch:::most_in_slurm_array(), most)
  }
  expect_most("1001", 1000L)
  expect_most("50", 50L)
  expect_most("0", 1L)
  stand_ins(scontrol = "exit 1")
  expect_identical(clutch:::most_in_slurm_array(), 1000L)
  x <- slurm(nodes = c(5, 9))
  stand_ins(scontrol = "echo 'MaxArraySize            = 2'")
  hosts <- lapply(clutch:::launches_of(x, FALSE, "/nowhere", of = 3:7), `[[`, "hosts")
  expect_identical(unname(hosts), list(3:4, 5:6, 7L))
})

test_that("the cleanup shell of an array cancels what it is told to, and all when it is to end", {
  skip_on_os("windows")
  folder <- stand_ins(
    sbatch = "echo '77;here'",
    scancel = "echo \"$*\" >> cancelled",
    squeue = "exit 0"
  )
  cancelled <- function() lines_of(folder, "cancelled")
  begin <- function(tasks) {
    unlink(file.path(folder, "cancelled"))
    argv <- clutch:::array_command("sbatch", tasks, clutch:::shell_lines("slurm-cancel"),
                                   clutch:::shell_lines("slurm-cancel-tasks"))
    log <- tempfile()
    handle <- clutch:::run_command(argv, clutch:::effective_env(NULL), log, input = "\n",
                                   hold = TRUE)
    expect_true(eventually(identical(lines_of(dirname(log), basename(log)), "77;here")))
    handle
  }
  say <- function(handle, text) .Call(clutch:::ffi_psock_say, handle, text)
  has_ended <- function(handle) .Call(clutch:::ffi_node_info, handle)$state == "dead"
  at_once <- "--quiet --state=PENDING 77_[%s]"
  handle <- begin(4L)
  say(handle, "2 0 2\n")
  expect_true(eventually(identical(cancelled()[1L], sprintf(at_once, "2,0"))))
  expect_true(eventually("--quiet 77_[2,0]" %in% cancelled())) # what runs gets a moment
  say(handle, "0\n\n3\n")
  expect_true(eventually(sprintf(at_once, "3") %in% cancelled()))
  expect_false(has_ended(handle))
  say(handle, "1\n")
  expect_true(eventually(has_ended(handle)))
  expect_false(any(grepl("[0]", cancelled(), fixed = TRUE)))
  # to cancel an array is to cancel all of its tasks
  handle <- begin(4L)
  clutch:::end_command(handle)
  expect_true(eventually(has_ended(handle)))
  expect_identical(cancelled(), c("--quiet --state=PENDING 77", "--quiet 77"))
  # its input ends with the session
  argv <- clutch:::array_command("sbatch", 4L, clutch:::shell_lines("slurm-cancel"), "true")
  unlink(file.path(folder, "cancelled"))
  expect_identical(system2(argv[[1L]], shQuote(argv[-1L]), stdin = "/dev/null", stdout = TRUE),
                   "77;here")
  expect_identical(cancelled(), c("--quiet --state=PENDING 77", "--quiet 77"))
})

outside_checks_only()
linux_only()

test_that("1,000 hosts are one command, whose failure is told, and nothing stays", {
  folder <- stand_ins(
    sbatch = c("echo \"$*\" >> submitted", "echo 77"),
    scontrol = "exit 0",
    squeue = c("case \"$*\" in",
               "*--states=all*) for k in $(seq 0 999); do echo \"77_$k|FAILED|None\"; done;;",
               "esac"),
    scancel = "echo \"$*\" >> cancelled"
  )
  shared <- file.path(folder, "shared")
  e <- tryCatch(make_cluster(slurm(nodes = c(1000, 2000), folder = shared), setup_timeout = 60),
                error = identity)
  expect_s3_class(e, "clutch_start")
  expect_match(conditionMessage(e), "job 77_0 of Slurm has failed")
  expect_length(lines_of(folder, "submitted"), 1L)
  expect_match(lines_of(folder, "submitted"), "--array=0-999 ", fixed = TRUE)
  expect_true("--quiet 77" %in% lines_of(folder, "cancelled"))
  expect_identical(list.files(shared), character())
})

slurm_there <- NULL # made by the first test that needs it, ended by the last one
needs_slurm <- function() if (is.null(slurm_there)) slurm_there <<- slurm_or_skip()
grows <- function(...) slurm(..., folder = file.path(slurm_there$folder, "shared"), time = "10min")
# "12_3 RUNNING"
tasks_now <- function() of_slurm("squeue", "-h", "-r", "-o", "%i %T")
number_of <- function(cl, k) cl[[1L]]$info$remote$jobs[[format(k)]]$number
expect_nothing_left <- function() {
  expect_true(eventually(!length(tasks_now())))
  expect_true(eventually(!length(processes_of_jobs(slurm_there))))
  expect_true(eventually(!length(list.files(file.path(slurm_there$folder, "shared")))))
  expect_true(eventually(!length(cleanup_shells())))
}
# Shells of this session that each see to the end of an array.
cleanup_shells <- function() {
  args <- of_slurm("ps", "--ppid", Sys.getpid(), "-o", "args=")
  grep("left=", args, value = TRUE, fixed = TRUE)
}
task_here <- function(seconds = 0) {
  Sys.sleep(seconds)
  paste0(Sys.getenv("SLURM_ARRAY_JOB_ID"), "_", Sys.getenv("SLURM_ARRAY_TASK_ID"))
}

test_that("hosts are tasks of arrays, a cancelled one is asked for again, the others stay", {
  needs_slurm()
  cl <- make_cluster(grows(nodes = c(4, 10), idle = 5))
  on.exit(stop_cluster(cl))
  first <- sub("_.*", "", number_of(cl, 1))
  expect_identical(tasks_now(), sprintf("%s_%d RUNNING", first, 0:3))
  # each knows which of them it is
  tasks <- unlist(parallel::clusterCall(cl, task_here))
  expect_identical(tasks, vapply(1:4, function(k) number_of(cl, k), ""))
  expect_identical(tasks, paste0(first, "_", 0:3))
  shared <- file.path(slurm_there$folder, "shared")
  expect_identical(list.files(shared, "^settings", recursive = TRUE), character())
  # one task of the array ends: its start is no retry, and the host comes again, by another job
  later(2, "scancel %s_2", first)
  r <- cluster_map(cl, 1:4, function(i, f, which) {
    if (f() == which) Sys.sleep(60)
    c(f(3), clutch::task_attempt())
  }, task_here, paste0(first, "_2"), .chunk = 1, .retries = 1)
  expect_identical(sort(vapply(r, `[[`, "", 2L)), c("1", "1", "1", "2"))
  expect_length(cl[[1L]]$info$remote$ends, 0L)
  again <- cluster_map_chr(cl, 1:12, function(i, f) f(2), task_here, .chunk = 1)
  expect_false(paste0(first, "_2") %in% again)
  expect_true(all(paste0(first, "_", c(0, 1, 3)) %in% again))
  # those that came later end when they are idle, and of their arrays nothing stays
  expect_true(eventually(length(tasks_now()) == 4L, 60))
  expect_true(eventually(length(cleanup_shells()) <= 2L))
  expect_identical(cluster_map_dbl(cl, 1:100, function(i) i), as.numeric(1:100))
  stop_cluster(cl)
  expect_nothing_left()
})

test_that("without retries the error says what was done to the task of the array", {
  needs_slurm()
  cl <- make_cluster(grows(nodes = c(2, 4), idle = 60))
  on.exit(stop_cluster(cl))
  number <- number_of(cl, 2)
  later(2, "scancel %s", number)
  e <- tryCatch(cluster_map(cl, 1:2, function(i) Sys.sleep(60), .chunk = 1), error = identity)
  expect_s3_class(e, "clutch_task_died")
  expect_identical(e$cause, "cancelled")
  expect_match(conditionMessage(e), paste("job", number, "of Slurm was cancelled"))
  # the other one is there
  expect_true(sub("2?$", "0", sub("_.*", "_", number)) %in%
                cluster_map_chr(cl, 1:4, function(i, f) f(0.5), task_here, .chunk = 1))
})

test_that("preemption of one task of an array", {
  needs_slurm()
  cl <- make_cluster(grows(nodes = c(8, 16), each = 4, idle = 60))
  on.exit(stop_cluster(cl))
  expect_length(tasks_now(), 2L)
  # a whole host of the two, in which one of the tasks is
  urgent <- "sbatch -p high -N1 -n1 -c8 --output=/dev/null --wrap 'sleep 3'"
  fill <- of_slurm("sbatch", "-N1", "-n1", "-c8", "--output=/dev/null", "--parsable", "--wrap",
                   "sleep 100")
  expect_true(eventually(any(grepl("RUNNING", of_slurm("squeue", "-h", "-j", fill, "-o", "%T")))))
  later(1, urgent)
  later(1.2, urgent)
  e <- tryCatch(cluster_map(cl, 1:8, function(i) Sys.sleep(60), .chunk = 1), error = identity)
  of_slurm("scancel", fill)
  expect_s3_class(e, "clutch_task_died")
  expect_identical(e$cause, "preempted")
  expect_match(conditionMessage(e), "[0-9]+_[01] to make room")
  stop_cluster(cl)
  of_slurm("scancel", "-u", "root")
  expect_nothing_left()
})

test_that("one task of the array fails at the start: its own output is told, and nothing stays", {
  needs_slurm()
  fails <- "[ $SLURM_ARRAY_TASK_ID != 1 ] || { echo no room >&2; exit 3; }"
  e <- tryCatch(make_cluster(grows(nodes = c(3, 5), setup = fails), setup_timeout = 60),
                clutch_start = identity)
  expect_match(conditionMessage(e), "1 of 3 hosts could not be started; nothing was left running")
  expect_match(conditionMessage(e), "host 2 of Slurm: .*exit code 3; it printed last:\n  no room")
  expect_nothing_left()
})

test_that("tasks that wait in the queue are cancelled when nobody needs them, and others stay", {
  needs_slurm()
  # 16 processors: of those that are asked for only one more can come
  cl <- make_cluster(grows(nodes = c(6, 60), each = 6, idle = 2))
  on.exit(stop_cluster(cl))
  waiting <- function() sum(grepl("PENDING", tasks_now()))
  task <- lapply(1:30, function(i) cluster_submit_call(cl, Sys.sleep, list(600)))
  expect_true(eventually({
    try(collect(task[[1L]], timeout = 1), silent = TRUE)
    waiting() > 2L && sum(grepl("RUNNING", tasks_now())) == 2L
  }, 60))
  # this session does something else: see src/core/tasks/idle.c
  cancel(task)
  expect_true(eventually(length(tasks_now()) == 1L, 30))
  expect_true(eventually(length(cleanup_shells()) == 0L, 30)) # the first host has no array
  expect_identical(cluster_map_dbl(cl, 1:10, function(i) i), as.numeric(1:10))
  # a killed session leaves nothing
  stop_cluster(cl)
  s <- start_script(c(
    sprintf("cl <- make_cluster(slurm(nodes = c(2, 20), each = 1, folder = '%s'))",
            file.path(slurm_there$folder, "shared")),
    "cat('ready\n')",
    "cluster_map(cl, 1:400, function(i) Sys.sleep(2), .chunk = 1)"
  ))
  expect_true(said(s, "^ready", 60))
  expect_true(eventually(length(tasks_now()) > 9L, 60))
  tools::pskill(s$pid, 9L)
  expect_nothing_left()
  expect_true(ends(s))
})

test_that("where arrays are of no use to Slurm each host has a job", {
  needs_slurm()
  old <- clutch:::the$slurm_arrays
  key <- paste0("at ", Sys.getenv("SLURM_CONF"))
  arrays <- old
  arrays[[key]] <- 1L
  assign("slurm_arrays", arrays, envir = clutch:::the)
  on.exit(assign("slurm_arrays", old, envir = clutch:::the))
  cl <- make_cluster(grows(nodes = c(2, 3)))
  expect_no_match(tasks_now(), "_")
  expect_identical(unlist(parallel::clusterCall(cl, task_here)), c("_", "_"))
  stop_cluster(cl)
  expect_nothing_left()
})

test_that("Slurm ends", {
  if (is.null(slurm_there)) skip("there was none")
  expect_true(stop_slurm(slurm_there))
})
