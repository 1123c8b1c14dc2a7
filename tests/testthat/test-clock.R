# The wall clock is moved by a day, forward and back, while clusters start and sockets wait: a
# library loaded before the system's own adds to the time that it tells once a file is there.

outside_checks_only()

moved_clock <- function(days) {
  dir <- tempfile("clock-")
  dir.create(dir)
  writeLines(c(
    "#define _GNU_SOURCE", "#include <dlfcn.h>", "#include <stdlib.h>", "#include <sys/time.h>",
    "#include <time.h>", "#include <unistd.h>",
    "static long offset(void) { const char *f = getenv(\"MOVED_WHEN\"); return f && access(f, F_OK) == 0 ? atol(getenv(\"MOVED_BY\")) : 0; }",
    "int clock_gettime(clockid_t id, struct timespec *t) {",
    "  static int (*real)(clockid_t, struct timespec *);", "  int rc;",
    "  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, \"clock_gettime\");",
    "  rc = real(id, t);", "  if (id == CLOCK_REALTIME) t->tv_sec += offset();", "  return rc;",
    "}",
    "int timespec_get(struct timespec *t, int base) { clock_gettime(CLOCK_REALTIME, t); return base; }",
    "time_t time(time_t *out) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); if (out) *out = t.tv_sec; return t.tv_sec; }",
    "int gettimeofday(struct timeval *tv, void *tz) { struct timespec t; (void)tz; clock_gettime(CLOCK_REALTIME, &t);",
    "  tv->tv_sec = t.tv_sec; tv->tv_usec = t.tv_nsec / 1000; return 0; }"),
    file.path(dir, "clock.c"))
  so <- file.path(dir, "clock.so")
  cc <- strsplit(
    trimws(system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = TRUE)), " "
  )[[1L]]
  if (system2(cc[[1L]], c(cc[-1L], "-shared", "-fPIC", "-o", so, file.path(dir, "clock.c"), "-ldl"),
              stderr = FALSE) != 0L) {
    return(NULL)
  }
  list(dir = dir, so = so, mark = file.path(dir, "moved"), by = days * 86400)
}

with_moved_clock <- function(days, code) {
  m <- moved_clock(days)
  if (is.null(m)) skip("no C compiler")
  script <- file.path(m$dir, "script.R")
  out <- file.path(m$dir, "out")
  on.exit(unlink(m$dir, recursive = TRUE))
  writeLines(c(sprintf(".libPaths(%s); suppressPackageStartupMessages(library(clutch))",
                       deparse1(.libPaths())),
    sprintf("move <- function() file.create(%s)", deparse1(m$mark)),
    sprintf(
      "move_later <- function(s) system(sprintf('(sleep %%g; touch %s) > /dev/null 2>&1', s), wait = FALSE)", m$mark
    ),
    "real <- function() .Call(clutch:::ffi_clock)", code), script)
  began <- .Call(clutch:::ffi_clock)
  status <-
    suppressWarnings(system(sprintf("LD_PRELOAD=%s MOVED_WHEN=%s MOVED_BY=%d %s --vanilla %s > %s 2>&1", m$so, m$mark, m$by,
                                    file.path(R.home("bin"), "Rscript"), script, out),
                                            timeout = 60))
  list(out = readLines(out, warn = FALSE), status = status,
       took = .Call(clutch:::ffi_clock) - began)
}

test_that("no time limit is early or late when the wall clock is moved by a day", {
  linux_only()
  for (days in c(1L, -1L)) {
    r <- with_moved_clock(days, c(
      "before <- Sys.time()", "move_later(0.3)", "l <- socket_listen(0, slot = FALSE)",
      "t <- real()",
      "e <- tryCatch(socket_accept(l, timeout = 1, slot = FALSE), error = identity)",
      "waited <- real() - t",
      "cat('moved', abs(as.numeric(difftime(Sys.time(), before, units = 'hours'))) > 20, '\\n')",
      "cat('accept', class(e)[[1]], waited > 0.95, waited < 3, '\\n')",
      "a <- socket_connect('127.0.0.1', socket_info(l)$local_port, slot = FALSE); t <- real()",
      "cat('select', socket_select(list(a), timeout = 0.5), real() - t > 0.45, real() - t < 2, '\\n')"))
    expect_identical(r$status, 0L)
    expect_true(all(c("moved TRUE ", "accept clutch_socket_timeout TRUE TRUE ",
                      "select FALSE TRUE TRUE ") %in% r$out),
                label = paste(r$out, collapse = "\n"))
  }
})

test_that("clusters start, compute and stop while the wall clock is moved", {
  linux_only()
  for (days in c(1L, -1L)) for (strategy in c("fork_server", "sequential")) {
    r <- with_moved_clock(days, c(
      "move_later(0.05)",
      sprintf("cl <- make_cluster(%d, '%s', setup_timeout = 30)",
              if (strategy == "sequential") 3L else 60L, strategy), "move()",
      "x <- unlist(parallel::clusterCall(cl, function() 5))", "stop_cluster(cl)",
      "cat('mean', mean(x), '\\n')"))
    expect_true("mean 5 " %in% r$out, label = paste(c(strategy, days, r$out), collapse = "\n"))
    expect_true(r$took < 40)
  }
})
