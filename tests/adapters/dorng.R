# doRNG's own tests, in which the places of doParallel and base R's clusters are taken by ours.

source(file.path(Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters"), "_common.R"))

with_clutch <- function(lines) {
  lines <- gsub("doParallel::registerDoParallel", "register_clutch", lines, fixed = TRUE)
  lines <- gsub("parallel::makeCluster", "clutch::make_cluster", lines, fixed = TRUE)
  gsub("doParallelSNOW", "clutch", lines, fixed = TRUE)
}

register_clutch <- function(cl = clutch::make_cluster(cores), cores) clutch::registerDoClutch(cl)

folder <- sources_of("doRNG")
if (!is.null(folder)) {
  suppressPackageStartupMessages({
    library(testthat)
    library(doRNG)
  })
  tests <- file.path(folder, "tests", "testthat")
  run_testthat("doRNG", "doParallel", copy_tests(tests), new.env(parent = globalenv()))
  run_testthat("doRNG", "clutch", copy_tests(tests, with_clutch), new.env(parent = globalenv()))
}
