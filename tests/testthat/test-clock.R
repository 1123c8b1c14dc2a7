# The wall clock is moved by a day, forward and back, while clusters start and sockets wait: a
# library loaded before the system's own adds to the time that it tells once a file is there.

outside_checks_only()

moved_clock <- function(days) {
  dir <- tempfile("clock-")
  dir.create(dir)
  source <- normalizePath(test_path("fixtures", "clock.c"))
  so <- file.path(dir, "clock.so")
  cc <- strsplit(
    trimws(system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = TRUE)), " "
  )[[1L]]
  if (system2(cc[[1L]], c(cc[-1L], "-shared", "-fPIC", "-o", so, source, "-ldl"),
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
    "move_later <- function(s) {",
    sprintf("  system(sprintf('(sleep %%g; touch %s) > /dev/null 2>&1', s), wait = FALSE)", m$mark),
    "}",
    "real <- function() .Call(clutch:::ffi_clock)", code), script)
  began <- .Call(clutch:::ffi_clock)
  variables <- sprintf("LD_PRELOAD=%s MOVED_WHEN=%s MOVED_BY=%d", m$so, m$mark, m$by)
  command <- paste(variables, file.path(R.home("bin"), "Rscript"), "--vanilla", script, ">", out)
  status <- suppressWarnings(system(paste(command, "2>&1"), timeout = 60))
  list(out = readLines(out, warn = FALSE), status = status,
       took = .Call(clutch:::ffi_clock) - began)
}

test_that("no time limit is early or late when the wall clock is moved by a day", {
  linux_only()
  for (days in c(1L, -1L)) {
    r <- with_moved_clock(days, fixture_lines("clock-of-sockets"))
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
