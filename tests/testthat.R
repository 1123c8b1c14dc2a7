library(testthat)
library(clutch)
# Set by tools/check.R, where the other files have been run outside of the check
files <- Sys.getenv("CLUTCH_CHECK_TESTS")
test_check("clutch", filter = if (nzchar(files)) files)
