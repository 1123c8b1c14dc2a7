# What rshcmd has started elsewhere, and has not connected: here, by a command that passes no signal
# on.

outside_checks_only()

# What it starts has this profile, and goes on when it is killed. `before`: shell code.
fake_rsh <- function(profile, before = "") {
  file <- tempfile("rsh-")
  writeLines(c("#!/bin/sh", "shift", before, sprintf("export R_PROFILE_USER=%s", shQuote(profile)),
               "sh -c \"$*\"", "exit $?"), file)
  Sys.chmod(file, "0755")
  file
}

# The session is killed, or its start fails, while R there is in its profile.
expect_ended_with <- function(how, options) {
  pid_file <- tempfile("pid-")
  profile <- profile_that_says_its_pid(pid_file)
  rsh <- fake_rsh(profile)
  on.exit(unlink(c(pid_file, profile, rsh)))
  s <- start_script(sprintf(
    "try(make_cluster('far.example', rshcmd = '%s', master = '127.0.0.1', setup_timeout = %d, %s))",
    rsh, if (how == "kill") 300L else 5L, options
  ))
  on.exit(unlink(c(s$out, s$tmp), recursive = TRUE), add = TRUE)
  there <- function() as.integer(readLines(pid_file, warn = FALSE))
  begun <- eventually(file.exists(pid_file) && length(there()) == 1L, 60)
  expect_true(begun, info = paste(options, paste(lines_of(s), collapse = "\n")))
  if (!begun) return(invisible())
  pid <- there()
  expect_true(alive(pid))
  if (how == "kill") tools::pskill(s$pid, 9L)
  expect_true(eventually(!alive(pid), 30), info = paste(how, options))
  expect_true(eventually(!length(processes_of(s)), 30), info = paste(how, options))
}

test_that("R that rshcmd has started ends with the session, and where the start fails", {
  linux_only()
  expect_ended_with("kill", "homogeneous = TRUE")
  expect_ended_with("kill", "homogeneous = FALSE")
  expect_ended_with("kill", "node = 'psock'")
  expect_ended_with("fail", "homogeneous = FALSE")
})

test_that("a node that has connected has no watcher, and nothing on its standard input", {
  linux_only()
  rsh <- fake_rsh("/dev/null")
  on.exit(unlink(rsh))
  for (kind in c("clutch", "psock")) {
    cl <- make_cluster(c("far.example", "near.example"), rshcmd = rsh, master = "127.0.0.1",
                       node = kind)
    there <- pids(cl)
    expect_identical(parallel::clusterCall(cl, Sys.getenv, "CLUTCH_WATCHER", "none"),
                     list("none", "none"))
    port <- paste0("PORT=", cl[[1L]]$info$port)
    watchers <- function() { # each has the command line of the shell that has become R
      lines <- system2("ps", c("-e", "-ww", "-o", "args="), stdout = TRUE)
      sum(grepl("CLUTCH_WATCHER", lines, fixed = TRUE) & grepl(port, lines, fixed = TRUE))
    }
    expect_true(eventually(watchers() == 0L))
    if (kind == "clutch") {
      read <- function() readLines(file("stdin"), warn = FALSE)
      expect_identical(parallel::clusterCall(cl, read), list(character(), character()))
    }
    stop_cluster(cl)
    expect_true(eventually(!any(alive(there))))
  }
})

test_that("base R's workers are started also where no standard input arrives", {
  linux_only()
  rsh <- fake_rsh("/dev/null", "exec < /dev/null")
  on.exit(unlink(rsh))
  cl <- make_cluster("far.example", rshcmd = rsh, master = "127.0.0.1", node = "psock")
  expect_true(works(cl))
  stop_cluster(cl)
})
