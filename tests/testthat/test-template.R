# Hosts that a command of the user's starts, here on this machine.

outside_checks_only()

# The session is killed, or its start fails, while R there is in its profile, and what has started
# it is something that passes no signal on.
expect_ended <- function(secret, template, how) {
  pid_file <- tempfile("pid-")
  profile <- profile_that_says_its_pid(pid_file)
  folder <- tempfile("folder-")
  on.exit(unlink(c(pid_file, profile, folder), recursive = TRUE))
  s <- start_script(c(
    sprintf("x <- hosts_command('%s', each = 2, secret = '%s', folder = '%s',", template, secret,
            folder),
    sprintf("              env = c(R_PROFILE_USER = '%s'))", profile),
    sprintf("try(make_cluster(x, setup_timeout = %d))", if (how == "kill") 300L else 5L)
  ))
  on.exit(unlink(c(s$out, s$tmp), recursive = TRUE), add = TRUE)
  there <- function() as.integer(readLines(pid_file, warn = FALSE))
  expect_true(eventually(file.exists(pid_file) && length(there()) == 1L, 60), info = template)
  pid <- there()
  if (how == "kill") tools::pskill(s$pid, 9L)
  expect_true(eventually(!alive(pid), 30), info = paste(template, how))
  expect_true(eventually(!length(list.files(folder))), info = paste(template, how))
}

test_that("R that has not connected ends with the session, and where the start fails", {
  linux_only()
  for (how in c("kill", "fail")) {
    expect_ended("stdin", "cd / && {command}; true", how)
    expect_ended("file", "cd / && {command}; true", how)
    expect_ended("file", "sh {script} & true", how)
  }
})

test_that("R that is ended before it has connected changes no .RData", {
  linux_only()
  # three that are ended in the same folder, soon after each other: each writes a .RData, which is
  # there for a second
  for (is_there in c(TRUE, FALSE)) {
    pid_files <- tempfile(c("pid-", "pid-", "pid-"))
    folder <- tempfile("work-")
    tmp <- tempfile("tmp-")
    for (i in c(folder, tmp)) dir.create(i)
    data <- file.path(folder, ".RData")
    if (is_there) writeLines("the user's", data)
    profiles <- vapply(pid_files, profile_that_says_its_pid, "")
    sessions <- lapply(profiles, function(profile) start_script(c(
      sprintf("setwd('%s')", folder),
      sprintf("x <- hosts_command('{command}', secret = 'stdin', env = %s)",
              deparse1(c(R_PROFILE_USER = profile, TMPDIR = tmp))),
      "make_cluster(x, setup_timeout = 300)"
    )))
    there <- function() {
      as.integer(unlist(lapply(Filter(file.exists, pid_files), readLines, warn = FALSE)))
    }
    expect_true(eventually(length(there()) == 3L, 60))
    pids_there <- there()
    for (s in sessions) {
      tools::pskill(s$pid, 9L)
      Sys.sleep(0.4)
    }
    expect_true(eventually(!any(alive(pids_there)), 60))
    for (s in sessions) expect_true(eventually(!length(processes_of(s)), 30))
    expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), basename(data)[is_there])
    if (is_there) {
      expect_identical(readLines(data), "the user's")
    } else {
      expect_identical(list.files(tmp), character())
    }
    unlink(c(pid_files, profiles, folder, tmp), recursive = TRUE)
    for (s in sessions) unlink(c(s$out, s$tmp), recursive = TRUE)
  }
})

test_that("nodes are started in both ways, and leave nothing", {
  linux_only()
  folder <- tempfile("folder-")
  on.exit(unlink(folder, recursive = TRUE))
  for (template in c("{command}", "nohup sh {script} > /dev/null 2>&1 &")) {
    secret <- if (grepl("&", template, fixed = TRUE)) "file" else "stdin"
    x <- hosts_command(template, each = 2, secret = secret, folder = folder)
    cl <- make_cluster(x)
    expect_identical(cluster_map_dbl(cl, 1:3, sqrt), sqrt(1:3))
    there <- pids(cl)
    stop_cluster(cl)
    expect_true(eventually(!any(alive(there))))
    expect_identical(list.files(folder), character())
  }
})
