# Deadlines and counts of what is left behind. No test asserts on time but that something does not
# hang.

eventually <- function(expr, seconds = 20) {
  expr <- substitute(expr)
  env <- parent.frame()
  end <- proc.time()[[3L]] + seconds
  while (proc.time()[[3L]] < end) {
    if (isTRUE(eval(expr, env))) return(TRUE)
    Sys.sleep(0.01)
  }
  FALSE
}

alive <- function(pid) {
  vapply(pid, function(p) {
    stat <- tryCatch(suppressWarnings(readLines(file.path("/proc", p, "stat"))),
                     error = function(e) character())
    length(stat) > 0L && !grepl("\\) [ZX] ", stat[[1L]])
  }, NA)
}

open_fds <- function(pid = Sys.getpid()) length(list.files(file.path("/proc", pid, "fd")))
pids <- function(cl) cluster_status(cl)$pid

long_test <- function() testthat::skip_if(nzchar(Sys.getenv("CLUTCH_FAST_TESTS")), "long")
# For tests that look at processes and descriptors by means of /proc
linux_only <- function() testthat::skip_if_not(dir.exists("/proc/self/fd"), "needs /proc")
# For tests of what not every system can do: asks the package, which may have been built without
# (make test-portable). `what`: see system_can()
needs <- function(what) {
  testthat::skip_if_not(system_can(what), paste("this system, or this build, lacks:", what))
}
system_can <- function(what) clutch:::system_can(what)

# ---- R CMD check ----

# CRAN's checks allow two processes at a time and little time. There only what keeps to that runs: a
# larger cluster and an R of the test's own (start_script()) skip the test.
limited <- nzchar(Sys.getenv("_R_CHECK_LIMIT_CORES_")) && !identical(Sys.getenv("NOT_CRAN"), "true")
outside_checks_only <- function() {
  testthat::skip_if(limited, "not in a check that allows two processes")
}
if (limited) make_cluster <- function(...) {
  tryCatch(clutch::make_cluster(...), clutch_limit = function(e) {
    if (grepl("simultaneous processes", conditionMessage(e))) outside_checks_only()
    stop(e)
  })
}

# Does a `deed`, a line of bash, to a random child $p of `server` again and again, after a `pause`
# (what sleep takes, may have $RANDOM in it) each time, as long as this session lives. The deed
# writes to "$log" what it did. A function that ends it: TRUE, and nobody is harmed any more.
start_fault_injector <- function(server, log, pause, deed, seed = sample.int(32767L, 1L)) {
  mark <- tempfile()
  at_work <- tempfile()
  script <- tempfile(fileext = ".sh")
  file.create(log, mark, at_work)
  writeLines(c("#!/bin/bash", sprintf("RANDOM=%d", seed), paste0("log=", shQuote(log)),
    sprintf("while [ -e %s ] && [ -e /proc/%d ]; do", shQuote(mark), Sys.getpid()),
    paste("  sleep", pause),
    sprintf(
      "  kids=($(cat /proc/%1$d/task/%1$d/children 2>/dev/null)); [ ${#kids[@]} -gt 0 ] || continue", server
    ),
    "  p=${kids[RANDOM % ${#kids[@]}]}", paste0("  ", deed), "done 2>/dev/null",
    paste("rm -f", shQuote(at_work))), script)
  system(paste("bash", shQuote(script), "> /dev/null 2>&1"), wait = FALSE)
  function() {
    unlink(mark)
    ended <- eventually(!file.exists(at_work))
    unlink(script)
    ended
  }
}

# A script in an R process of its own that can be signalled; its output goes to a file.
# `lines`: the program; `fixture`: files of fixtures/ that come after them, and `...` values by name
# that they use; `program`: in place of Rscript.
start_script <- function(lines = NULL, program = file.path(R.home("bin"), "Rscript"),
                         fixture = NULL, ...) {
  outside_checks_only()
  values <- list(...)
  values <- sprintf("%s <- %s", names(values), vapply(values, deparse1, "", collapse = "\n"))
  files <- testthat::test_path("fixtures", paste0(fixture, ".R", recycle0 = TRUE))
  file <- tempfile(fileext = ".R")
  out <- tempfile(fileext = ".out")
  writeLines(c("library(clutch)", lines, values, unlist(lapply(files, readLines))), file)
  pidfile <- tempfile()
  tmp <- tempfile("session-") # a killed session leaves its temporary folder: here
  dir.create(tmp)
  cmd <- sprintf("TMPDIR=%s R_LIBS=%s R_TESTS= %s --vanilla %s > %s 2>&1 & echo $! > %s",
                 shQuote(tmp), shQuote(paste(.libPaths(), collapse = ":")), shQuote(program),
                 shQuote(file), shQuote(out), shQuote(pidfile))
  # with job control: what a shell starts in the background without it ignores SIGINT, and R 4.5
  # leaves it so
  system(paste("bash -c", shQuote(paste("set -m;", cmd))), wait = TRUE)
  stopifnot(eventually(file.exists(pidfile) && length(readLines(pidfile)) == 1L))
  list(pid = as.integer(readLines(pidfile)), out = out, tmp = tmp)
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

said <- function(script, pattern, seconds = 30) {
  eventually(file.exists(script$out) && any(grepl(pattern, readLines(script$out, warn = FALSE))),
             seconds)
}
value_of <- function(script, name) {
  line <- grep(paste0("^", name, "="), readLines(script$out, warn = FALSE), value = TRUE)
  sub(paste0("^", name, "="), "", line[[1L]])
}

server_pid <- function(cl) .Call(clutch:::ffi_node_info, cl[[1L]]$handle)$server_pid
node_died <- function(expr) tryCatch(expr, clutch_node_died = identity)
later <- function(seconds, command, ...) {
  system(sprintf(paste0("(sleep %.3f; ", command, ") >/dev/null 2>&1 &"), seconds, ...))
}
works <- function(cl) {
  x <- stats::runif(1)
  identical(parallel::clusterCall(cl, identity, x), rep(list(x), length(cl)))
}
expect_done <- function(s, seconds = 60) {
  done <- said(s, "^done|^Error|halted", seconds) &&
    any(grepl("^done", readLines(s$out, warn = FALSE)))
  expect_true(done, info = paste(readLines(s$out, warn = FALSE), collapse = "\n"))
}
ends <- function(s) eventually(length(processes_of(s)) == 0L)
# Files that are left when all is over: a session that was killed leaves its own folder, as any R
# does.
left_in <- function(s) {
  folder <- grep("^session=", readLines(s$out, warn = FALSE), value = TRUE)
  setdiff(list.files(s$tmp), basename(sub("^session=", "", folder)))
}

# ---- sockets ----

# Both ends of a TCP connection in this process; what is given goes to both.
socket_pair <- function(..., slot = TRUE, host = NULL) {
  l <- socket_listen(0, host = host, slot = FALSE)
  on.exit(close(l))
  a <- socket_connect(if (is.null(host)) "localhost" else host, socket_info(l)$local_port, ...,
                      slot = slot)
  list(a = a, b = socket_accept(l, ..., slot = slot))
}
close_all <- function(...) for (con in list(...)) close(con)
port_of <- function(listener) socket_info(listener)$local_port

# Descriptors, sockets and places in R's table of connections are as many after `expr` as before.
expect_nothing_left <- function(expr) {
  gc()
  count <- function() c(descriptors = open_fds(), sockets = .Call(clutch:::ffi_socket_count)[[1L]],
                        connections = length(getAllConnections()))
  before <- count()
  force(expr)
  testthat::expect_identical(count(), before)
}

# The condition that `expr` signals, not its value; warnings that go before it are as base R's
caught <- function(expr) tryCatch(suppressWarnings({
  expr
  NULL
}), error = identity)

dead_port <- function(host = "127.0.0.1") {
  l <- socket_listen(0, host = host, slot = FALSE)
  p <- port_of(l)
  close(l)
  p
}
has_ipv6 <- function() {
  l <- tryCatch(socket_listen(0, host = "::1", slot = FALSE), error = function(e) NULL)
  if (!is.null(l)) close(l)
  !is.null(l)
}
