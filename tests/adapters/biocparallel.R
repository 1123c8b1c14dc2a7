# Those of BiocParallel's own tests that run over several parameter objects, and those of SnowParam:
# as they are, and with ClutchParam in the place of each SnowParam. They come with the installed
# package, since it is not on CRAN.

source(file.path(Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters"), "_common.R"))

# BatchJobs is not on CRAN any more: it is taken out of the lists of parameter objects, and where a
# test is about it alone, a SerialParam takes its place.
as_they_are <- function(lines) {
  text <- paste(lines, collapse = "\n")
  text <- gsub(",\\s*batchjobs=BatchJobsParam\\([^)]*\\)", "", text)
  strsplit(gsub("\\bBatchJobsParam\\(", "serial_param(", text), "\n", fixed = TRUE)[[1L]]
}

serial_param <- function(workers, stop.on.error = TRUE, ...) {
  BiocParallel::SerialParam(stop.on.error = stop.on.error)
}

# One of its tests demands that what a function uses that a function uses is not found: ClutchParam()
# finds it, so that this one fails.
with_clutch <- function(lines) gsub("\\bSnowParam\\(", "clutch_param(", as_they_are(lines))

# Arguments that say how base R's workers are started mean nothing here.
clutch_param <- function(workers = BiocParallel::snowWorkers(), type = "SOCK", ...) {
  if (type != "SOCK") return(BiocParallel::SnowParam(workers, type, ...))
  clutch::ClutchParam(workers, ...)
}

tests <- system.file("unitTests", package = "BiocParallel")
can_run <- nzchar(tests) && requireNamespace("RUnit", quietly = TRUE)
if (!can_run) unavailable("BiocParallel", "its tests or RUnit are not installed")
if (can_run) {
  suppressPackageStartupMessages({
    library(RUnit)
    library(BiocParallel)
  })
  files <- list.files(tests, "\\.R$", full.names = TRUE)
  uses_snow <- vapply(files, function(f) any(grepl("\\bSnowParam\\(", readLines(f))), NA)
  files <- sprintf("^(%s)$", paste(basename(files[uses_snow]), collapse = "|"))
  suppressMessages(run_runit("BiocParallel", "SnowParam", copy_tests(tests, as_they_are), files))
  suppressMessages(run_runit("BiocParallel", "clutch", copy_tests(tests, with_clutch), files))
}
