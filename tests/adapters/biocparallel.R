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

with_clutch <- function(lines) {
  lines <- gsub("\\bSnowParam\\(", "clutch_param(", as_they_are(lines))
  finds_helpers(lines)
}

# BiocParallel does not find what a function uses that a function uses, and has a test that such
# calls fail. ClutchParam() finds it: there they have to give the value.
finds_helpers <- function(lines) {
  at <- grep("## enable auto export would not solve the problem", lines, fixed = TRUE)
  if (!length(at)) return(lines)
  calls <- c("bplapply(1:2, foo, BPPARAM = p)", "bplapply(1:2, foo2, BPPARAM = p)")
  found <- c("checkIdentical(%s, rep(list(10), 2))", "checkTrue(is(%s[[1]], \"SerialParam\"))")
  for (i in 1:2) {
    fails <- grep(sprintf("checkException(%s, silent = TRUE)", calls[[i]]), lines, fixed = TRUE)
    fails <- fails[fails > at]
    stopifnot(length(fails) == 1L)
    lines[[fails]] <- sprintf(found[[i]], calls[[i]])
  }
  lines
}

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
