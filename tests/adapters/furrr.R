# furrr's own tests: with plan(multisession), and with plan(clutch) in its place.

tests <- Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters")
source(file.path(tests, "_common.R"))
source(file.path(tests, "_futures.R"))
folder <- sources_of("furrr")
if (!is.null(folder)) {
  suppressPackageStartupMessages({
    library(testthat)
    library(furrr)
  })
  for (with in names(plans)) {
    scripts <- copy_tests(file.path(folder, "tests", "testthat"), with_plan(plans[[with]]))
    # it looks for connections that are left; older versions of testthat cannot be told to
    if (!"set_state_inspector" %in% getNamespaceExports("testthat")) {
      unlink(file.path(scripts, "helper-state.R"))
    }
    run_testthat("furrr", with, scripts, new.env(parent = asNamespace("furrr")))
    future::plan("sequential")
  }
}
