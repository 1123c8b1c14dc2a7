# doParallel's own tests, which are RUnit's: with doParallel on base R's cluster, and with
# registerDoClutch().

source(file.path(Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters"), "_common.R"))

folder <- sources_of("doParallel")
if (!is.null(folder) && !requireNamespace("RUnit", quietly = TRUE)) {
  folder <- unavailable("doParallel", "RUnit is not installed")
}
if (!is.null(folder)) {
  library(RUnit)
  suppressPackageStartupMessages(library(doParallel))
  tests <- file.path(folder, "inst", "unitTests")

  base <- parallel::makeCluster(2)
  registerDoParallel(base)
  run_runit("doParallel", "doParallel", tests, "^options\\.R$")
  parallel::stopCluster(base)

  cl <- clutch::make_cluster(2)
  clutch::registerDoClutch(cl)
  run_runit("doParallel", "clutch", tests, "^options\\.R$")
  clutch::stop_cluster(cl)
}
