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
