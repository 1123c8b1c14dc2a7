# foreach's own tests: with doParallel on base R's cluster, and with registerDoClutch().

source(file.path(Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters"), "_common.R"))

folder <- sources_of("foreach")
if (!is.null(folder)) {
  library(foreach)
  library(iterators)
  suppressPackageStartupMessages(library(testthat))
  Sys.setenv(FOREACH_BACKEND = "PAR") # of test_localdopar.R
  tests <- copy_tests(file.path(folder, "tests", "testthat"))
  unlink(file.path(tests, "setup_cluster.R"))

  base <- parallel::makeCluster(2)
  doParallel::registerDoParallel(base)
  run_testthat("foreach", "doParallel", tests, new.env(parent = globalenv()))
  parallel::stopCluster(base)

  cl <- clutch::make_cluster(2)
  clutch::registerDoClutch(cl)
  run_testthat("foreach", "clutch", tests, new.env(parent = globalenv()))
  clutch::stop_cluster(cl)
}
