# Detached maps: cluster_map(..., .journal = path, .detach = TRUE).

workspace <- function(f) {
  environment(f) <- globalenv()
  f
}

test_that("a detached map returns at once, and its values are those of the map", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  path <- journal_file()
  power <- 3
  f <- function(i) {
    message("element ", i)
    i^power
  }
  x <- c(a = 1, b = 2, c = 3)
  job <- cluster_map(cl, x, f, .journal = path, .detach = TRUE)
  expect_s3_class(job, "clutch_job")
  expect_identical(cluster_jobs()$name, "fits")
  said <- character()
  values <- withCallingHandlers(collect(job), message = function(m) {
    said <<- c(said, conditionMessage(m))
    invokeRestart("muffleMessage")
  })
  expect_identical(values, list(a = 1, b = 8, c = 27))
  expect_identical(said, sprintf("element %d\n", 1:3))
  # it is listed no more; the handle still has the values, and the journal
  expect_identical(nrow(cluster_jobs()), 0L)
  expect_identical(suppressMessages(collect(job)), values)
  expect_identical(nrow(journal_read(path)), 3L)
  # another handle has none, in whatever session
  suppressMessages({
    job <- cluster_map(cl, x, f, .journal = path, .detach = TRUE)
    collect(cluster_attach("fits"))
  })
  e <- tryCatch(collect(job), error = identity)
  expect_s3_class(e, c("clutch_jobs", "clutch_error"), exact = FALSE)
  expect_no_match(conditionMessage(e), "session")
  # the same call, not detached, takes all from the journal
  expect_identical(suppressMessages(cluster_map(cl, x, f, .journal = path)), values)
  expect_identical(nrow(journal_read(path, all = TRUE)), 3L)
})

test_that("each map can be detached, and its values have their type", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  d <- function(...) list(..., .detach = TRUE)
  go <- function(map, ...) do.call(map, list(2, ..., .journal = journal_file(), .detach = TRUE))
  jobs <- list(
    go(cluster_map_dbl, 1:3, workspace(function(i) i / 2)),
    go(cluster_map_chr, c(a = 1, b = 2), workspace(function(i) paste("x", i))),
    go(cluster_map_dfr, 1:2, workspace(function(i) data.frame(i = i, j = i^2))),
    go(cluster_walk, 1:2, workspace(function(i) i)),
    go(cluster_map2_int, 1:3, 4:6, workspace(function(x, y) x + y)),
    go(cluster_pmap, list(a = 1:2, b = 3:4), workspace(function(a, b) a - b)),
    go(cluster_imap, c(x = 1), workspace(function(v, n) paste(n, v))),
    go(cluster_map, list(), identity)
  )
  expect_true(all(vapply(jobs, inherits, NA, "clutch_job")))
  # another process knows of the type, too
  first <- cluster_attach(jobs[[1L]]$job$name)
  expect_identical(collect(first), c(0.5, 1, 1.5))
  values <- lapply(jobs[-1L], collect)
  expect_identical(values, list(c(a = "x 1", b = "x 2"), data.frame(i = 1:2, j = c(1, 4)),
                                list(NULL, NULL), c(5L, 7L, 9L), list(-2L, -2L),
                                list(x = "x 1"), list()))
})

test_that("it goes on when the session is killed, and another one collects it", {
  linux_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  path <- journal_file()
  s <- start_script(c(
    "cl <- make_cluster(2)",
    sprintf("job <- cluster_map(cl, 1:40, function(i) {Sys.sleep(0.02); c(i, rnorm(1))},
                                .seed = 7, .journal = '%s', .detach = 'draws')", path),
    "cat('submitted\\n')", "Sys.sleep(100)"
  ))
  expect_true(said(s, "^submitted"))
  tools::pskill(s$pid, tools::SIGKILL)
  expect_true(eventually(!alive(s$pid)))
  job <- cluster_attach("draws")
  expect_output(print(job), "draws")
  values <- collect(job, timeout = 60)
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  f <- workspace(function(i) c(i, rnorm(1)))
  expect_identical(values, cluster_map(cl, 1:40, f, .seed = 7))
  expect_true(eventually(!length(runners_in(folder))))
  expect_identical(list.files(folder), character())
})

test_that("a session that ends at once leaves the map at work", {
  linux_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  path <- journal_file()
  for (end in c("q('no')", "tools::pskill(Sys.getpid(), 1L)", "stop('over')")) {
    s <- start_script(c(
      sprintf("job <- cluster_map_dbl(NULL, 1:5, sqrt, .journal = '%s', .detach = 'end')", path),
      end
    ))
    expect_true(eventually(!alive(s$pid)))
    expect_identical(collect(cluster_attach("end"), timeout = 60), sqrt(1:5))
    unlink(path)
  }
})

test_that("the same map again gets the handle, another one with this journal an error", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  path <- journal_file()
  f <- workspace(function(i) {
    Sys.sleep(0.2)
    i
  })
  g <- workspace(function(i) i)
  set.seed(5)
  on.exit(rm(".Random.seed", envir = globalenv()), add = TRUE)
  first <- cluster_map(2, 1:30, f, .journal = path, .detach = "first")
  # its random numbers are others now: it is another map
  e <- tryCatch(cluster_map(2, 1:30, f, .journal = path, .detach = TRUE),
                clutch_journal_locked = identity)
  expect_s3_class(e, "clutch_journal_locked")
  set.seed(5)
  expect_message(again <- cluster_map(2, 1:30, f, .journal = path, .detach = TRUE), "at work")
  expect_identical(again$entry, first$entry)
  e <- tryCatch(cluster_map(2, 1:30, g, .journal = path, .detach = TRUE),
                clutch_journal_locked = identity)
  expect_match(conditionMessage(e), "cluster_attach(\"first\")", fixed = TRUE)
  e <- tryCatch(cluster_map(2, 1:3, f, .journal = path, .detach = TRUE),
                clutch_journal_locked = identity)
  expect_s3_class(e, "clutch_journal_locked")
  # other maps may have the same name
  other <- cluster_map(2, 1, g, .journal = journal_file(), .detach = "first")
  expect_identical(other$job$name, "first-2")
  expect_identical(collect(other), list(1))
  cancel(first)
})

test_that("it is cancelled, and nothing of it is left", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  path <- journal_file()
  job <- cluster_map(2, 1:1000, workspace(function(i) {
    Sys.sleep(0.05)
    i
  }), .journal = path, .detach = TRUE)
  expect_true(eventually(cluster_jobs()$done > 4))
  expect_false(resolved(job))
  some <- collect(job, partial = TRUE)
  expect_gt(length(unlist(some)), 0)
  expect_true(cancel(job))
  expect_true(eventually(!length(runners_in(folder))))
  expect_identical(cluster_jobs()$state, "cancelled")
  expect_false(cancel(job))
  expect_error(collect(job), class = "clutch_task_cancelled")
  expect_identical(nrow(cluster_jobs()), 0L)
  done <- nrow(journal_read(path))
  expect_gt(done, 4)
  # before it has begun
  job <- cluster_map(2, 1:1000, Sys.sleep, .journal = path, .detach = TRUE)
  cancel(job)
  expect_identical(state_of(job), "cancelled")
  # nodes that do not listen
  job <- cluster_map(2, 1:2, workspace(function(i) {
    tryCatch(Sys.sleep(1000), interrupt = function(e) Sys.sleep(1000))
  }), .journal = path, .detach = TRUE)
  expect_true(eventually(state_of(job) == "running"))
  cancel(job)
  expect_true(eventually(!length(runners_in(folder))))
})

test_that("a runner that is killed is told of, and another one goes on", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  path <- journal_file()
  marks <- tempfile("marks-")
  dir.create(marks)
  Sys.setenv(CLUTCH_TEST_COUNT = marks)
  on.exit(Sys.unsetenv("CLUTCH_TEST_COUNT"), add = TRUE)
  f <- workspace(function(i) {
    file.create(tempfile(sprintf("%d-", i), Sys.getenv("CLUTCH_TEST_COUNT")))
    Sys.sleep(0.1)
    c(i, runif(1))
  })
  job <- cluster_map(2, 1:60, f, .seed = 3, .journal = path, .detach = "killed")
  expect_true(eventually(NROW(journal_read_quietly(path)) > 5))
  tools::pskill(runner_of(job), tools::SIGKILL)
  expect_true(eventually(state_of(job) == "lost"))
  expect_error(collect(job), class = "clutch_job_lost")
  expect_true(eventually(!length(runners_in(folder)))) # its nodes have ended
  left <- readLines(file.path(job$entry, "tmp"))
  expect_true(dir.exists(left))
  expect_message(cluster_attach("killed"), "resume = TRUE")
  job <- cluster_attach("killed", resume = TRUE)
  values <- collect(job, timeout = 60)
  expect_false(dir.exists(left))
  started <- table(sub("-.*", "", list.files(marks)))
  expect_identical(length(started), 60L)
  expect_lte(sum(started), 60L + 2L * 4L) # those in flight
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  unlink(marks, recursive = TRUE)
  expect_identical(values, suppressWarnings(cluster_map(cl, 1:60, f, .seed = 3)))
})

test_that("a map that another session has resumed meanwhile keeps its runner", {
  linux_only()
  entry <- tempfile()
  dir.create(entry)
  on.exit(unlink(entry, recursive = TRUE))
  owner <- paste(clutch:::this_owner(), collapse = " ")
  writeLines(owner, file.path(entry, "owner"))
  file.create(file.path(entry, c("work", "cancel")))
  saveRDS(list(by = "false"), file.path(entry, "job.rds"))
  clutch:::resume_entry(entry)
  expect_identical(readLines(file.path(entry, "owner")), owner)
  expect_true(file.exists(file.path(entry, "cancel")))
})

test_that("a host that gives no answer does not keep other maps from being stopped", {
  linux_only()
  folder <- new_jobs_folder()
  on.exit(Sys.unsetenv("CLUTCH_JOBS_FOLDER"))
  on.exit(unlink(folder, recursive = TRUE), add = TRUE)
  there <- list(on = hosts("nowhere.invalid", ssh = "false"), id = "x")
  far <- clutch:::new_entry(list(name = "far", there = there))
  near <- file.path(folder, "99999999") # entries are sorted by their names
  dir.create(near)
  saveRDS(list(name = "near", n = 1), file.path(near, "job.rds"))
  expect_error(cluster_jobs(stop = TRUE), "nowhere", class = "clutch_host")
  expect_false(dir.exists(near))
  expect_true(dir.exists(far))
})

test_that("errors of elements come when it is collected", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  f <- workspace(function(i) if (i == 3) stop("three") else i)
  job <- cluster_map(2, 1:5, f, .journal = journal_file(), .detach = TRUE)
  e <- tryCatch(collect(job), clutch_task_error = identity)
  expect_identical(e$element, 3)
  expect_match(conditionMessage(e), "three")
  job <- cluster_map(2, 1:5, f, .journal = journal_file(), .detach = TRUE, .on_error = "continue")
  expect_true(resolved(job, timeout = 60))
  jobs <- cluster_jobs()
  expect_identical(c(jobs$state, jobs$failed), c("done", "1"))
  expect_warning(values <- collect(job), class = "clutch_failed")
  expect_s3_class(values[[3L]], "clutch_task_error")
  expect_identical(values[-3L], list(1L, 2L, 4L, 5L))
  # a cluster that cannot be made
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  cluster_setup(cl, if (file.exists("/no/such/file")) 1)
  job <- cluster_map(hosts("nowhere", ssh = "false"), 1:2, sqrt, .journal = journal_file(),
                     .detach = TRUE)
  expect_error(collect(job, timeout = 60), class = "clutch_start")
})

test_that("the cluster of the runner is as that of the session", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  cl <- make_cluster(3, packages = "stats4", env = c(CLUTCH_TEST_VAR = "here"),
                     preload = preloaded <- 41)
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  cluster_setup(cl, set_up <- 5)
  exported <- 7
  cluster_export(cl, "exported", environment())
  old <- setwd(tempdir())
  on.exit(setwd(old), add = TRUE)
  f <- workspace(function(i) {
    Sys.sleep(0.2) # so that each node has one
    list("package:stats4" %in% search(), Sys.getenv("CLUTCH_TEST_VAR"), get("preloaded"),
         get("set_up"), get("exported"), getwd(), Sys.getpid())
  })
  job <- cluster_map(cl, 1:3, f, .journal = journal_file(), .detach = TRUE)
  values <- collect(job, timeout = 60)
  expected <- list(TRUE, "here", 41, 5, 7, getwd())
  expect_identical(lapply(values, `[`, 1:6), rep(list(expected), 3))
  expect_identical(length(unique(vapply(values, `[[`, 1L, 7))), 3L)
  # some of its nodes
  job <- cluster_map(cl[2], 1:3, f, .journal = journal_file(), .detach = TRUE)
  values <- collect(job, timeout = 60)
  expect_identical(length(unique(vapply(values, `[[`, 1L, 7))), 1L)
})

test_that("objects with pointers are made again in its runner and nodes, or refused", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  reader <- function(lines) {
    structure(list(lines = lines, con = textConnection(lines)), class = "clutch_test_reader")
  }
  environment(reader) <- globalenv()
  r <- reader(c("a", "b"))
  on.exit(close(r$con), add = TRUE)
  f <- workspace(function(i, r) c(readLines(r$con, 1), Sys.getpid()))
  expect_error(cluster_map(2, 1:2, f, r = r, .journal = journal_file(), .detach = TRUE), "r\\$con",
               class = "clutch_pointer")
  expect_identical(nrow(cluster_jobs()), 0L)
  register_travel("clutch_test_reader", to = workspace(function(x) x$lines), from = reader)
  on.exit(register_travel("clutch_test_reader", NULL), add = TRUE)
  job <- cluster_map(2, 1:2, f, r = r, .journal = journal_file(), .detach = TRUE)
  values <- collect(job, timeout = 60)
  expect_identical(vapply(values, `[[`, "", 1L) %in% c("a", "b"), c(TRUE, TRUE))
  expect_false(Sys.getpid() %in% vapply(values, `[[`, "", 2L))
  # results, too, also where nothing that travels there has a pointer
  g <- workspace(function(i) {
    lines <- c("c", i)
    structure(list(lines = lines, con = textConnection(lines)), class = "clutch_test_reader")
  })
  job <- cluster_map(2, 1:2, g, .journal = journal_file(), .detach = TRUE)
  values <- collect(job, timeout = 60)
  on.exit(for (v in values) close(v$con), add = TRUE)
  expect_identical(lapply(values, function(v) readLines(v$con)), list(c("c", "1"), c("c", "2")))
})

test_that("a bound in time or memory ends it", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  path <- journal_file()
  f <- workspace(function(i) {
    Sys.sleep(0.1)
    i
  })
  job <- cluster_map(2, 1:1000, f, .journal = path, .detach = list(time = 15))
  expect_error(collect(job, timeout = 120), class = "clutch_limit")
  expect_gt(nrow(journal_read(path)), 0)
  if (!clutch:::system_can("memory")) {
    expect_error(cluster_map(2, 1, f, .journal = journal_file(), .detach = list(memory = 2e8)),
                 class = "clutch_unsupported")
    return(invisible())
  }
  job <- cluster_map(2, 1:1000, workspace(function(i) {
    assign("kept", stats::runif(3e7), globalenv())
    Sys.sleep(1)
  }), .journal = journal_file(), .detach = list(name = "large", memory = 2e8))
  expect_error(collect(job, timeout = 60), "large", class = "clutch_limit")
  expect_true(eventually(!length(runners_in(folder))))
})

test_that("a map on nodes of base R is not detached", {
  cl <- make_cluster(1, node = "psock")
  journal <- tempfile(fileext = ".journal")
  on.exit({
    stop_cluster(cl)
    unlink(journal)
  })
  expect_error(cluster_map(cl, 1:2, sqrt, .journal = journal, .detach = TRUE), "psock",
               class = "clutch_argument")
  expect_false(file.exists(journal))
})

test_that("what is of no use is an error before anything starts", {
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  path <- journal_file()
  bad <- function(...) expect_error(cluster_map(1, 1:2, sqrt, ...), class = "clutch_argument")
  bad(.detach = TRUE)
  bad(.detach = NA, .journal = path)
  bad(.detach = 3, .journal = path)
  bad(.detach = list(5), .journal = path)
  bad(.detach = list(nam = "x"), .journal = path)
  bad(.detach = list(time = -1), .journal = path)
  bad(.detach = list(time = "5 parsecs"), .journal = path)
  bad(.detach = list(memory = "much"), .journal = path)
  bad(.detach = list(on = 3), .journal = path)
  bad(.detach = list(by = NA_character_), .journal = path)
  bad(.detach = TRUE, .journal = path, .relay = function(cond) NULL)
  bad(.detach = TRUE, .journal = file.path(path, "no", "folder"))
  bad(.detach = FALSE)
  expect_error(cluster_attach("none"), class = "clutch_argument")
  expect_error(cluster_attach(1), class = "clutch_argument")
  expect_error(cluster_jobs(stop = NA), class = "clutch_argument")
  expect_identical(list.files(folder), character())
  expect_output(print(cluster_jobs()), "no detached maps")
})

test_that("the list is the user's own: links, other modes and other users are refused", {
  linux_only()
  folder <- tempfile("jobs-")
  dir.create(folder, mode = "0755")
  Sys.chmod(folder, "0755", use_umask = FALSE)
  Sys.setenv(CLUTCH_JOBS_FOLDER = folder)
  on.exit(Sys.unsetenv("CLUTCH_JOBS_FOLDER"))
  on.exit(unlink(folder, recursive = TRUE), add = TRUE)
  expect_error(cluster_jobs(), class = "clutch_jobs")
  expect_error(cluster_map(1, 1:2, sqrt, .journal = journal_file(), .detach = TRUE),
               class = "clutch_jobs")
  Sys.chmod(folder, "0700", use_umask = FALSE)
  expect_identical(nrow(cluster_jobs()), 0L)
  link <- paste0(folder, "-link")
  file.symlink(folder, link)
  on.exit(unlink(link), add = TRUE)
  Sys.setenv(CLUTCH_JOBS_FOLDER = link)
  expect_error(cluster_jobs(), class = "clutch_jobs")
  Sys.setenv(CLUTCH_JOBS_FOLDER = folder)
  testthat::skip_if_not(Sys.info()[["effective_user"]] == "root", "needs another user")
  system2("chown", c("nobody", shQuote(folder)))
  expect_error(cluster_jobs(), class = "clutch_jobs")
  system2("chown", c("root", shQuote(folder)))
  # what it has cannot be seen by another user
  job <- cluster_map(1, 1:2, workspace(function(i) i), .journal = journal_file(), .detach = "mine")
  as_nobody <- c("--reuid=65534", "--regid=65534", "--clear-groups", "ls", shQuote(folder))
  seen <- suppressWarnings(system2("setpriv", as_nobody, stdout = TRUE, stderr = FALSE))
  expect_length(seen, 0L)
  expect_identical(collect(job, timeout = 60), list(1L, 2L))
})

test_that("a command starts it, and a job that waits in its queue can be cancelled", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  bin <- tempfile("bin-")
  dir.create(bin)
  program <- function(name, lines) {
    file <- file.path(bin, name)
    writeLines(c("#!/bin/sh", lines), file)
    Sys.chmod(file, "0755", use_umask = FALSE)
    file
  }
  submit <- program("submit", c("shift", "setsid sh \"$1\" </dev/null >/dev/null 2>&1 &"))
  f <- workspace(function(i) i + 1)
  job <- cluster_map_dbl(2, 1:3, f, .journal = journal_file(),
                         .detach = list(by = c(submit, "--time=1")))
  expect_identical(collect(job, timeout = 60), c(2, 3, 4))
  # it stays in the queue
  queue <- program("queue", "echo 'Submitted batch job 77'")
  program("scancel", sprintf("echo $1 > %s", shQuote(file.path(bin, "cancelled"))))
  job <- cluster_map(2, 1:3, f, .journal = journal_file(), .detach = list(by = queue))
  expect_identical(state_of(job), "queued")
  old <- Sys.getenv("PATH")
  Sys.setenv(PATH = paste(bin, old, sep = ":"))
  on.exit(Sys.setenv(PATH = old), add = TRUE)
  expect_true(cancel(job))
  expect_identical(readLines(file.path(bin, "cancelled")), "77")
  # what the queue starts all the same ends
  expect_identical(system2("sh", shQuote(file.path(job$entry, "run.sh"))), 0L)
  expect_identical(state_of(job), "cancelled")
  # it refuses
  fails <- program("fails", c("echo no such partition", "exit 3"))
  expect_error(cluster_map(2, 1:3, f, .journal = journal_file(), .detach = list(by = fails)),
               "status 3.*no such partition", class = "clutch_start")
})

test_that("a map is submitted on another host, and asked for there", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  there <- tempfile("there-")
  dir.create(there, mode = "0700")
  on.exit(unlink(there, recursive = TRUE), add = TRUE)
  # as ssh: its last argument is what a shell there runs
  ssh <- file.path(there, "ssh")
  writeLines(c(
    "#!/bin/bash", sprintf("export CLUTCH_JOBS_FOLDER=%s/jobs HOME=%s", there, there),
    sprintf("export R_LIBS=%s", paste(.libPaths(), collapse = ":")),
    "echo a line of the profile there", "cd \"$HOME\"",
    "[ -e off ] && { echo connection refused >&2; exit 255; }", "exec sh -c \"${@: -1}\""
  ), ssh)
  Sys.chmod(ssh, "0700", use_umask = FALSE)
  login <- hosts("login", ssh = ssh, rscript = file.path(R.home("bin"), "Rscript"))
  factor <- 4
  job <- cluster_map_dbl(2, c(x = 1, y = 2), function(i) i * factor, .journal = "far.journal",
                         .detach = list(on = login, name = "far"))
  expect_identical(job$job$name, "far")
  expect_true(file.exists(file.path(there, "far.journal")))
  expect_true(resolved(job, timeout = 60))
  jobs <- cluster_jobs()
  expect_identical(c(jobs$name, jobs$state, jobs$done, jobs$total), c("far", "done", "2", "2"))
  expect_identical(collect(cluster_attach("far")), c(x = 4, y = 8))
  expect_identical(nrow(cluster_jobs()), 0L)
  expect_identical(list.files(file.path(there, "jobs")), character())
  # cancelled from here; then the host is off
  slow <- workspace(function(i) Sys.sleep(0.1))
  job <- cluster_map(2, 1:500, slow, .journal = "far.journal", .detach = list(on = login))
  file.create(file.path(there, "off"))
  expect_identical(cluster_jobs()$state, "unreachable")
  expect_error(collect(job), class = "clutch_host")
  unlink(file.path(there, "off"))
  expect_false(resolved(job))
  expect_true(cancel(job))
  expect_error(collect(job), class = "clutch_task_cancelled")
  expect_true(eventually(!length(runners_in(file.path(there, "jobs")))))
  # an error there is one here
  expect_error(cluster_map(2, 1:3, sqrt, .journal = "no/such/folder/x",
                           .detach = list(on = login)), class = "clutch_argument")
})

test_that("twenty in a row leave nothing", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  fds <- open_fds()
  shm <- length(list.files("/dev/shm"))
  tmp <- list.files(tempdir())
  f <- workspace(function(i) i)
  for (k in 1:20) {
    path <- journal_file()
    job <- cluster_map(1, 1:3, f, .journal = path, .detach = TRUE)
    expect_identical(collect(job, timeout = 60), list(1L, 2L, 3L))
    unlink(dirname(path), recursive = TRUE)
  }
  expect_true(eventually(!length(runners_in(folder))))
  expect_identical(list.files(folder), character())
  expect_lte(open_fds(), fds)
  expect_true(eventually(length(list.files("/dev/shm")) <= shm))
  expect_identical(list.files(tempdir()), tmp)
})

# Each is submitted by a process that ends at once, and collected by this one. 'make chaos': 1,000.
test_that("many in a row leave no process, file, or shared memory", {
  linux_only()
  outside_checks_only()
  is_chaos <- as.integer(Sys.getenv("CLUTCH_EVENTS", "150")) >= 10000L
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  place <- tempfile("journals-")
  dir.create(place)
  on.exit(unlink(place, recursive = TRUE), add = TRUE)
  shared <- list.files("/dev/shm")
  n <- if (is_chaos) 1000L else 5L
  code <- c(
    "large <- seq_len(3e5) + 0", # goes by shared memory
    "cluster_map_dbl(2, 1:6, function(i, k) large[[i]] * k, .more = list(k = %d),",
    "                .journal = '%s', .detach = list(name = 'row'))"
  )
  for (k in seq_len(n)) {
    path <- file.path(place, sprintf("%d.journal", k))
    s <- start_script(sprintf(paste(code, collapse = "\n"), k, path))
    expect_true(eventually(!alive(s$pid), 60))
    job <- cluster_attach("row")
    if (!identical(collect(job, timeout = 60), (1:6) * as.double(k))) {
      fail(sprintf("map %d has other values", k))
    }
    # its temporary folder is where that of its session was
    expect_true(eventually(!length(list.files(s$tmp))))
    unlink(c(path, s$tmp), recursive = TRUE)
  }
  expect_true(eventually(!length(runners_in(folder))))
  expect_identical(list.files(folder), character())
  expect_identical(list.files(place), character())
  expect_true(eventually(!length(setdiff(list.files("/dev/shm"), shared))))
})

test_that("how far a map is, is read whatever option OutDec was", {
  entry <- tempfile()
  dir.create(entry)
  old <- options(OutDec = ",")
  on.exit({
    options(old)
    unlink(entry, recursive = TRUE)
  })
  clutch:::write_progress(entry, 3, 1)
  expect_identical(clutch:::read_progress(entry)[1:2], c(done = 3, failed = 1))
})
