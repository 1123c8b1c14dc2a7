# purrr's own tests of maps in parallel, in which mirai_daemons() takes the place of
# mirai::daemons().

source(file.path(Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters"), "_common.R"))

with_clutch <- function(lines) {
  gsub("mirai::daemons(1", "clutch::mirai_daemons(1", lines, fixed = TRUE)
}

folder <- sources_of("purrr")
if (!is.null(folder)) {
  suppressPackageStartupMessages({
    library(testthat)
    library(purrr)
  })
  Sys.setenv(NOT_CRAN = "true")
  tests <- file.path(folder, "tests", "testthat")
  one_file <- function(change = identity) {
    to <- copy_tests(tests, change)
    others <- setdiff(list.files(to, "^test-"), "test-parallel.R")
    unlink(file.path(to, others))
    to
  }
  # the tests use what purrr does not export
  env <- function() new.env(parent = asNamespace("purrr"))
  run_testthat("purrr parallel", "mirai", one_file(), env())
  run_testthat("purrr parallel", "clutch", one_file(with_clutch), env())
}
