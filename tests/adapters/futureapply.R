# future.apply's own tests: with plan(multisession), and with plan(clutch) in its place.

tests <- Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters")
source(file.path(tests, "_common.R"))
source(file.path(tests, "_futures.R"))
run_testme("future.apply")
