# future.tests: what every backend of future is to do, with plan(multisession) and plan(clutch); also
# what is under development ("cancel").
#
# With future 1.80 and future.tests 1.0 two fail with each plan, sequential as well: cancel() of a
# future that is lazy and was not begun. One test wants it to be "canceled", another "created", and
# future leaves it alone, without asking a backend.

source(file.path(Sys.getenv("CLUTCH_ADAPTER_TESTS", "tests/adapters"), "_common.R"))

conform <- function(plan) {
  results <- tempfile()
  code <- sprintf(paste0("r <- future.tests::check(plan = \"%s\", exit_value = FALSE, ",
                         ".args = character()); saveRDS(r, \"%s\")"), plan, results)
  log <- system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(code)), stdout = TRUE,
                 stderr = TRUE, env = "R_FUTURE_TESTS_DEVEL=TRUE", timeout = 600)
  if (nzchar(Sys.getenv("VERBOSE"))) cat(log, sep = "\n")
  line <- grep("^Results:", log, value = TRUE)
  count <- function(what) as.integer(sub(sprintf(".*?([0-9]+) %s.*", what), "\\1", line, perl = TRUE))
  if (!length(line)) stop(paste(c("no results", log), collapse = "\n"))
  cat(sprintf("  %s: %s\n", plan, sub(".*Duration: *", "", grep("^Duration:", log, value = TRUE))))
  say_counts("future.tests", plan, count("ok"), count("error") + count("timeout"), count("skip"))
}

if (requireNamespace("future.tests", quietly = TRUE)) {
  for (plan in c("multisession", "clutch::clutch", "multisession,workers=2",
                 "clutch::clutch,workers=2", "multicore,workers=2")) conform(plan)
} else {
  unavailable("future.tests", "not installed")
}
