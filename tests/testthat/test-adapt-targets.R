# Pipelines of package targets whose steps are done by nodes of ours. The newer library may have
# targets where the usual one has not.

outside_checks_only()

libraries_with_targets <- function() {
  newer <- Sys.getenv("CLUTCH_NEWER_LIB")
  libraries <- if (nzchar(newer)) c(newer, .libPaths()) else .libPaths()
  for (package in c("targets", "crew", "future")) {
    found <- system.file(package = package, lib.loc = libraries)
    skip_if_not(nzchar(found), paste(package, "is not installed (tools/deps.sh adapters)"))
  }
  libraries
}

start_pipeline <- function(libraries, ...) {
  lines <- c(sprintf(".libPaths(%s)", deparse1(libraries)),
             sprintf("Sys.setenv(R_LIBS = '%s')", paste(libraries, collapse = ":")))
  start_script(lines, fixture = "targets-pipeline", ...)
}

# The session is killed when half of the targets are done, and the pipeline is run again. `how`: the
# first time, and the second.
expect_goes_on <- function(how, n) {
  libraries <- libraries_with_targets()
  folder <- tempfile("pipeline-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  log <- function() {
    file <- file.path(folder, "log")
    if (file.exists(file)) as.integer(readLines(file)) else integer()
  }
  s <- start_pipeline(libraries, folder = folder, how = how[[1L]], n = n)
  expect_true(eventually(length(log()) >= n / 2, 60))
  tools::pskill(s$pid, 9L)
  expect_true(eventually(!length(processes_of(s)), 20))
  before <- log()
  expect_lt(length(before), n)
  meta <- readLines(file.path(folder, "_targets", "meta", "meta"))
  meta <- grep("^x[0-9]+[|]", meta, value = TRUE)
  # to targets a killed process runs until its parent has reaped it
  unlink(file.path(folder, "_targets", "meta", "process"))
  recorded <- as.integer(sub("^x([0-9]+)[|].*", "\\1", meta))
  expect_gt(length(recorded), n / 4)
  s <- start_pipeline(libraries, folder = folder, how = how[[2L]], n = n)
  expect_done(s, 100)
  expect_identical(value_of(s, "right"), "TRUE")
  expect_identical(value_of(s, "skipped"), format(length(recorded)))
  again <- utils::tail(log(), -length(before))
  expect_identical(sort(again), setdiff(seq_len(n), recorded))
  expect_true(eventually(!length(processes_of(s)), 20))
}

test_that("a pipeline of 200 targets that was killed goes on where it was, also on a cluster", {
  expect_goes_on(c("crew", "cluster"), 200L)
})

test_that("so it does where targets uses futures", {
  code <- sprintf(".libPaths(%s); cat(exists('tar_make_future', asNamespace('targets')))",
                  deparse1(libraries_with_targets()))
  has_it <- system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = TRUE)
  skip_if_not(identical(has_it, "TRUE"), "this version of targets has no tar_make_future()")
  expect_goes_on(c("future", "future"), 24L)
})
