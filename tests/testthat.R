library(testthat)
library(clutch)
# Both set by tools/check.R: where the other files have been run outside of the check, and what tells
# how far the tests are
files <- Sys.getenv("CLUTCH_CHECK_TESTS")
progress <- Sys.getenv("CLUTCH_CHECK_PROGRESS")
reporter <- check_reporter()
if (nzchar(progress)) {
  own <- source(Sys.getenv("CLUTCH_PROGRESS_REPORTER"))$value(progress)
  reporter <- MultiReporter$new(list(CheckReporter$new(), own))
}
test_check("clutch", filter = if (nzchar(files)) files, reporter = reporter)
