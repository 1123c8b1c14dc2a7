# Programs in R processes of their own, and what they start.

# Files of fixtures/ by name. Whoever changes the working folder still finds them.
fixtures <- normalizePath("fixtures")
fixture_lines <- function(names) {
  unlist(lapply(file.path(fixtures, sprintf("%s.R", names)), readLines))
}

# The shared object of a C file of fixtures/, for dyn.load().
compiled <- function(name) {
  dir <- tempfile("compiled-")
  dir.create(dir)
  file <- file.path(dir, paste0(name, ".c"))
  file.copy(file.path(fixtures, basename(file)), file)
  lib <- file.path(dir, paste0(name, .Platform$dynlib.ext))
  log <- system2(file.path(R.home("bin"), "R"),
                 c("CMD", "SHLIB", "-o", shQuote(lib), shQuote(file)), stdout = TRUE, stderr = TRUE)
  if (!file.exists(lib)) stop(paste(log, collapse = "\n"))
  lib
}

# A script in an R process of its own that can be signalled; its output goes to a file.
# `lines`: the program; `fixture`: files of fixtures/ that come after them, and `...` values by name
# that they use; `program`: in place of Rscript.
start_script <- function(lines = NULL, program = file.path(R.home("bin"), "Rscript"),
                         fixture = NULL, ...) {
  outside_checks_only()
  values <- list(...)
  values <- sprintf("%s <- %s", names(values), vapply(values, deparse1, "", collapse = "\n"))
  file <- tempfile(fileext = ".R")
  out <- tempfile(fileext = ".out")
  file.create(out) # the shell opens it in the background, maybe after it has said the process
  writeLines(c("library(clutch)", lines, values, fixture_lines(fixture)), file)
  pidfile <- tempfile()
  tmp <- tempfile("session-") # a killed session leaves its temporary folder: here
  dir.create(tmp)
  cmd <- sprintf("TMPDIR=%s R_LIBS=%s R_TESTS= %s --vanilla %s > %s 2>&1 & echo $! > %s",
                 shQuote(tmp), shQuote(paste(.libPaths(), collapse = ":")), shQuote(program),
                 shQuote(file), shQuote(out), shQuote(pidfile))
  # with job control: what a shell starts in the background without it ignores SIGINT, and R 4.5
  # leaves it so. What started the tests may have been started like that, too.
  if (can_reset_signals()) cmd <- paste("env --default-signal=INT", cmd)
  system(paste("bash -c", shQuote(paste("set -m;", cmd))), wait = TRUE)
  stopifnot(eventually(file.exists(pidfile) && length(readLines(pidfile)) == 1L))
  list(pid = as.integer(readLines(pidfile)), out = out, tmp = tmp)
}

# The same, in a session that runs after these shell commands, such as a limit: so does all that it
# starts.
start_limited <- function(commands, lines = NULL, ...) {
  wrapper <- tempfile(fileext = ".sh")
  writeLines(
    c("#!/bin/bash", "set -e", commands,
      sprintf("exec %s \"$@\"", shQuote(file.path(R.home("bin"), "Rscript")))), wrapper
  )
  Sys.chmod(wrapper, "0755")
  start_script(lines, program = wrapper, ...)
}

# GNU's env from coreutils 8.31 on.
can_reset_signals <- function() {
  system2("env", c("--default-signal=INT", "true"), stdout = FALSE, stderr = FALSE) == 0L
}

# Those that a script has started, and itself: they have its TMPDIR, or one within it, from their
# start on.
processes_of <- function(s) {
  mark <- paste0("TMPDIR=", s$tmp)
  p <- as.integer(list.files("/proc", "^[0-9]+$"))
  p[vapply(p, function(p) {
    env <- tryCatch(suppressWarnings(readBin(file.path("/proc", p, "environ"), "raw", 1e5)),
                    error = function(e) raw())
    env[env == 0] <- charToRaw("\n")
    alive(p) && any(startsWith(strsplit(rawToChar(env), "\n", fixed = TRUE)[[1L]], mark))
  }, NA)]
}

# Their command lines, as far as they are still there.
commands_of <- function(pids) {
  vapply(pids, function(p) {
    bytes <- tryCatch(suppressWarnings(readBin(file.path("/proc", p, "cmdline"), "raw", 1e4)),
                      error = function(e) raw())
    bytes[bytes == 0] <- charToRaw(" ")
    paste(p, rawToChar(bytes))
  }, "")
}

# What it has printed, as far as lines are complete: cat() writes each argument by itself.
lines_of <- function(script) {
  text <- readChar(script$out, file.size(script$out), useBytes = TRUE)
  if (!length(text)) return(character())
  strsplit(sub("[^\n]*$", "", text, useBytes = TRUE), "\n", useBytes = TRUE)[[1L]]
}
said <- function(script, pattern, seconds = 30) {
  eventually(file.exists(script$out) && any(grepl(pattern, lines_of(script))), seconds)
}
value_of <- function(script, name) {
  line <- grep(paste0("^", name, "="), lines_of(script), value = TRUE)
  sub(paste0("^", name, "="), "", line[[1L]])
}

server_pid <- function(cl) .Call(clutch:::ffi_node_info, cl[[1L]]$handle)$server_pid
node_died <- function(expr) tryCatch(expr, clutch_node_died = identity)
# The time begins when system() has returned: until then it ignores SIGINT, which may be sent.
later <- function(seconds, command, ...) {
  has_returned <- tempfile()
  wait <- "(until [ -e %1$s ]; do sleep 0.01; done; rm %1$s; sleep %2$.3f; "
  wait <- sprintf(wait, has_returned, seconds)
  system(paste0(wait, sprintf(command, ...), ") >/dev/null 2>&1 &"))
  file.create(has_returned)
}
works <- function(cl) {
  x <- stats::runif(1)
  identical(parallel::clusterCall(cl, identity, x), rep(list(x), length(cl)))
}
# Ctrl-C ends a map on all nodes, and these go on to be of use.
expect_interruptible <- function(cl) {
  before <- pids(cl)
  caught <- tryCatch({
    later(1, "kill -INT %d", Sys.getpid())
    cluster_map(cl, seq_along(cl), function(i) Sys.sleep(60))
  }, interrupt = function(e) "int")
  testthat::expect_identical(caught, "int")
  testthat::expect_true(works(cl))
  testthat::expect_identical(pids(cl), before)
}
# `seconds`: how long it may say nothing. Each new line counts as progress of the suite.
expect_done <- function(s, seconds = 60) {
  lines <- character()
  says_more <- function() {
    before <- length(lines)
    if (file.exists(s$out)) lines <<- lines_of(s)
    length(lines) > before
  }
  # by its process, where that is known: what it has started may print that it was halted, too
  has_ended <- function() any(grepl("^done", lines)) || !all(alive(s$pid))
  while (!has_ended() && eventually(says_more(), seconds)) {
    getOption("suite.progress", identity)(paste("line", length(lines), "of a script"))
  }
  found <- readLines(s$out, warn = FALSE)
  expect_true(any(grepl("^done", found)), info = paste(found, collapse = "\n"))
}
ends <- function(s) eventually(length(processes_of(s)) == 0L)
# Files that are left when all is over: a session that was killed leaves its own folder, as any R
# does.
left_in <- function(s) {
  folder <- grep("^session=", readLines(s$out, warn = FALSE), value = TRUE)
  setdiff(list.files(s$tmp), basename(sub("^session=", "", folder)))
}
# What nodes leave. Fork servers of other tests, which stay for a while, have folders of their own.
left_by_nodes <- function(dir = tempdir()) list.files(dir, "^clutch-node")

# A profile that says its pid in a file, and does not end.
profile_that_says_its_pid <- function(pid_file) {
  file <- tempfile("profile-")
  writeLines(c(sprintf("cat(Sys.getpid(), '\\n', file = '%s')", pid_file),
               "repeat Sys.sleep(0.2)"), file)
  file
}

# The library that has a newer future than Debian's.
newer_future <- function() {
  lib <- Sys.getenv("CLUTCH_NEWER_LIB")
  there <- nzchar(lib) && dir.exists(file.path(lib, "future"))
  testthat::skip_if_not(there, "needs a newer package future (tools/deps.sh newer)")
  lib
}
