# The log of events: option clutch.log. That each kind of event is told where it should be:
# test-events.R.

with_log <- function(to, code) {
  old <- options(clutch.log = to)
  on.exit({
    options(old)
    assign("log_failed", NULL, envir = clutch:::the)
  })
  force(code)
}
read_log <- function(file) {
  testthat::skip_if_not_installed("jsonlite")
  lapply(readLines(file), jsonlite::fromJSON)
}
kinds_in <- function(file) vapply(read_log(file), function(line) line$kind, "")
# Warnings that are shown and not signalled, in the order of their appearance.
shown_by <- function(code) {
  file <- tempfile()
  con <- file(file, "wt")
  old <- options(warn = 1)
  sink(con, type = "message")
  on.exit({
    sink(type = "message")
    close(con)
    unlink(file)
    options(old)
  })
  force(code)
  flush(con)
  readLines(file)
}

test_that("each event is a line, which names what it is about", {
  file <- tempfile()
  on.exit(unlink(file))
  die_once <- function(i) {
    if (i == 2 && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9)
  }
  with_log(file, {
    cl <- make_cluster(2)
    cluster_walk(cl, 1:3, die_once, .retries = 1)
    task_error_of(cluster_walk(cl, 1, function(i) Sys.sleep(60), .timeout = 0.2))
    stop_cluster(cl)
  })
  log <- read_log(file)
  kinds <- vapply(log, function(line) line$kind, "")
  expect_setequal(kinds, c("start", "death", "replacement", "retry", "limit", "stop"))
  expect_length(log, 6L)
  of <- function(kind) log[[match(kind, kinds)]]
  for (line in log) {
    expect_identical(line$session, Sys.getpid())
    expect_match(line$time, "^2[0-9]{3}-[01][0-9]-[0-3][0-9]T[0-9:]{8}[.][0-9]{3}Z$")
    expect_identical(line$cluster, log[[1L]]$cluster)
  }
  expect_length(of("start")$pids, 2L)
  death <- of("death")
  expect_true(death$pid %in% of("start")$pids)
  expect_identical(death[c("cause", "signal", "element")],
                   list(cause = "signal", signal = 9L, element = 2L))
  expect_identical(of("retry")$attempt, 2L)
  expect_identical(of("limit")$limit, "time")
})

test_that("the time is that of the event, in UTC, to the millisecond", {
  expect_identical(clutch:::format_utc(1e9), "2001-09-09T01:46:40.000Z")
  expect_identical(clutch:::format_utc(1e9 + 0.999), "2001-09-09T01:46:40.999Z")
  expect_identical(clutch:::format_utc(1e9 + 0.0079), "2001-09-09T01:46:40.007Z")
})

test_that("a line stays one line whatever the texts have, and is read back as it was", {
  text <- "a \"quoted\" \\ line\nand\tanother \u00e4 \u20ac \U1F600 \u0001"
  event <- list(time = 0, kind = "death", cluster = 1L, node = NA_integer_, host = "a", pid = 2L,
                text = text, pids = 3L)
  line <- clutch:::log_line(event)
  expect_no_match(line, "\n")
  skip_if_not_installed("jsonlite")
  read <- jsonlite::fromJSON(line, simplifyVector = FALSE)
  expect_identical(read$text, text)
  expect_null(read$node)
  expect_identical(read$pids, list(3L))
})

test_that("several sessions share a file, and no line is torn", {
  outside_checks_only()
  file <- tempfile()
  on.exit(unlink(file))
  cl <- make_cluster(4)
  on.exit(stop_cluster(cl), add = TRUE)
  parallel::clusterCall(cl, function(file) {
    info <- list2env(list(hosts = "h", shown_as = 1))
    options(clutch.log = file)
    for (k in 1:500) clutch:::tell_event("death", info, 1L, strrep("x", 50 + 17 * k))
    options(clutch.log = NULL)
  }, file)
  lines <- readLines(file)
  expect_length(lines, 2000L)
  expect_true(all(grepl("^[{]\"time\".*x\"[}]$", lines)))
})

test_that("a file is found from the working directory in which it was first used", {
  folder <- tempfile()
  dir.create(folder)
  old <- setwd(folder)
  on.exit({
    setwd(old)
    unlink(folder, recursive = TRUE)
  })
  with_log("a.log", {
    cl <- make_cluster(1)
    setwd(old)
    stop_cluster(cl)
  })
  expect_identical(kinds_in(file.path(folder, "a.log")), c("start", "stop"))
})

test_that("connections are written to: open ones, and those that are not", {
  con <- textConnection("lines", "w", local = TRUE)
  with_log(con, stop_cluster(make_cluster(1)))
  close(con)
  expect_length(lines, 2L)
  expect_match(lines[[1L]], "\"kind\":\"start\"")

  file <- tempfile()
  on.exit(unlink(file))
  writeLines("before", file)
  con <- file(file)
  with_log(con, stop_cluster(make_cluster(1)))
  close(con)
  expect_length(readLines(file), 3L)
  said <- shown_by(with_log(stderr(), stop_cluster(make_cluster(1))))
  expect_length(grep("\"kind\":\"stop\"", said), 1L)
})

test_that("what cannot be written is shown once, is not signalled, and breaks nothing", {
  linux_only()
  full <- shown_by(with_log("/dev/full", {
    tryCatch({
      cl <- make_cluster(1)
      stop_cluster(cl)
    }, warning = function(w) stop("a handler was called"))
  }))
  expect_length(grep("No space left", full), 1L)
  expect_length(grep("clutch.log", full), 1L)

  missing <- file.path(tempfile(), "no", "folder.log")
  said <- shown_by(with_log(missing, stop_cluster(make_cluster(1))))
  expect_length(grep("No such file", said), 1L)

  # not even where warnings are errors
  values <- NULL
  said <- shown_by(with_log(missing, {
    cl <- make_cluster(1)
    options(warn = 2)
    task_error_of(cluster_walk(cl, 1, function(i) quit()))
    values <- cluster_map(cl, 1:2, identity)
    stop_cluster(cl)
  }))
  expect_identical(values, list(1L, 2L))
  expect_length(grep("No such file", said), 1L)
})

test_that("a connection that was closed is not written to, nor is the next that has its number", {
  file <- tempfile()
  on.exit(unlink(file))
  con <- file(tempfile(), "wt")
  said <- shown_by(with_log(con, {
    cl <- make_cluster(1)
    close(con)
    other <- file(file, "wt")
    expect_identical(as.integer(other), as.integer(con))
    stop_cluster(cl)
    close(other)
  }))
  expect_length(grep("closed", said), 1L)
  expect_length(readLines(file), 0L)
})

test_that("a limit on the size of files, or a pipe that nobody reads, ends nothing", {
  outside_checks_only()
  linux_only()
  file <- tempfile()
  fifo <- tempfile()
  on.exit(unlink(c(file, fifo)))
  system2("mkfifo", fifo)
  said <- shown_by(with_log(fifo, stop_cluster(make_cluster(1))))
  expect_length(grep("clutch.log", said), 1L)
  # a log that is nearly as large as the limit
  blocks <- 400000
  room <- 1500
  system2("truncate", c("-s", sprintf("%.0f", blocks * 512 - room), file))
  code <- sprintf(paste(
    "library(clutch); options(clutch.log = '%s')",
    "for (k in 1:10) stop_cluster(make_cluster(1))",
    "cat('done')", sep = "; "), file)
  out <- system(sprintf("ulimit -f %d; R_LIBS=%s %s -e %s 2>/dev/null", blocks,
                        shQuote(paste(.libPaths(), collapse = ":")),
                        file.path(R.home("bin"), "Rscript"), shQuote(code)), intern = TRUE)
  expect_identical(utils::tail(out, 1L), "done")
  con <- file(file, "rb")
  seek(con, blocks * 512 - room)
  lines <- strsplit(readChar(con, room, useBytes = TRUE), "\n", fixed = TRUE)[[1L]]
  close(con)
  expect_gt(length(lines), 3L)
  expect_true(all(grepl("^[{].*[}]$", lines)))
})

test_that("a value of no use is an error of make_cluster(), and nothing is started", {
  closed <- file(tempfile(), "wt")
  close(closed)
  for (bad in list(1, character(), c("a", "b"), NA_character_, "", TRUE, closed)) {
    with_log(bad, expect_error(make_cluster(1), "clutch.log", class = "clutch_argument"))
  }
})

test_that("a start that fails is a line, too", {
  file <- tempfile()
  on.exit(unlink(file))
  with_log(file, expect_error(make_cluster(1, packages = "no.such.package")))
  log <- read_log(file)
  expect_length(log, 1L)
  expect_identical(log[[1L]][c("kind", "ok")], list(kind = "start", ok = FALSE))
  expect_match(log[[1L]]$text, "no.such.package")
})
