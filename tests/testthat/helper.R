# Deadlines and counts of what is left behind. No test asserts on time but that something does not
# hang.

# Other sessions of this user have cores that these tests count on.
Sys.setenv(CLUTCH_BUDGET_FOLDER = tempdir())

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

# What `cl = NULL` and mclapply() have started, and what is registered, is not there for the next
# test, which may count what is.
end_own_cluster <- function() {
  parallel::setDefaultCluster(NULL)
  shared <- clutch:::the
  if (!is.null(shared$own) || !is.null(shared$pool)) clutch:::stop_own()
  shared$own <- shared$pool <- NULL
}

# A package with this code, in library `lib`.
install_made_package <- function(name, code, lib, namespace = "") {
  src <- file.path(lib, "src", name)
  dir.create(file.path(src, "R"), recursive = TRUE)
  writeLines(c(paste("Package:", name), "Version: 1.0", "Title: T", "Description: D.",
               "License: MIT", "Author: A", "Maintainer: A <a@b.c>"),
             file.path(src, "DESCRIPTION"))
  writeLines(namespace, file.path(src, "NAMESPACE"))
  writeLines(code, file.path(src, "R", "a.R"))
  utils::install.packages(src, lib = lib, repos = NULL, type = "source", quiet = TRUE)
}

alive <- function(pid) {
  vapply(pid, function(p) {
    stat <- tryCatch(suppressWarnings(readLines(file.path("/proc", p, "stat"))),
                     error = function(e) character())
    length(stat) > 0L && !grepl("\\) [ZX] ", stat[[1L]])
  }, NA)
}

# Without what garbage holds: shared memory that has come keeps its descriptor until a collection.
# And without the lock by which a session where memory is short says that it is at work: its thread
# lets go of that a little after.
open_fds <- function(pid = Sys.getpid()) {
  if (pid == Sys.getpid()) gc()
  files <- list.files(file.path("/proc", pid, "fd"), full.names = TRUE)
  sum(!grepl("/clutch-memory-", Sys.readlink(files)))
}
pids <- function(cl) cluster_status(cl)$pid

# How often a process or thread, by its folder in /proc, has waited for something.
times_asleep <- function(folder) {
  lines <- readLines(file.path(folder, "status"))
  as.double(sub(".*:", "", grep("^voluntary_ctxt", lines, value = TRUE)))
}

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
  call <- sys.call() # `preload` is found where it was written
  call[[1L]] <- quote(clutch::make_cluster)
  tryCatch(eval(call, parent.frame()), clutch_limit = function(e) {
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
    sprintf("  kids=($(cat /proc/%1$d/task/%1$d/children 2>/dev/null))", server),
    "  [ ${#kids[@]} -gt 0 ] || continue",
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
