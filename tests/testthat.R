library(testthat)
library(clutch)
# Set by tools/check.R: the files that are to run, where all have been run outside of the check, and
# the file that says how far they are
files <- Sys.getenv("CLUTCH_CHECK_TESTS")
progress <- Sys.getenv("CLUTCH_CHECK_PROGRESS")
reporter <- check_reporter()
if (nzchar(progress)) {
  own <- source(Sys.getenv("CLUTCH_PROGRESS_REPORTER"))$value(progress)
  reporter <- MultiReporter$new(list(CheckReporter$new(), own))
}
# most of the others are about forks and what Unix tells of processes
if (.Platform$OS.type == "windows") files <- "^no-fork$"
test_check("clutch", filter = if (nzchar(files)) files, reporter = reporter)
