# source("tools/run-tests.R") with the arguments COUNTS-FILE [FILTER]
#
# The testthat suite on the installed package (R_LIBS says where). Writes "passed failed skipped",
# counting expectations, as testthat does; an error counts as a failure. While it runs,
# COUNTS-FILE.now names the test at hand, and COUNTS-FILE.failed what has failed so far (see
# tools/progress-reporter.R): when the suite is ended from outside, these tell which test hung and
# what had been found.
#
# CLUTCH_TEST_PART=1/3: about a third of the files, by the seconds that tools/test-seconds says they
# take; 2/3, 3/3: the others. All files that make network namespaces, or jobs of Slurm, are in the
# first, since they see each other's. COUNTS-FILE.seconds gets what each file took, in the form of
# tools/test-seconds.

args <- commandArgs(TRUE)
counts <- normalizePath(args[1L], mustWork = FALSE)
filter <- if (length(args) > 1L && nzchar(args[2L])) args[2L]
part <- as.integer(strsplit(Sys.getenv("CLUTCH_TEST_PART", "1/1"), "/", fixed = TRUE)[[1L]])
if (part[2L] > 1L) {
  names <- sub("^test-(.*)\\.R$", "\\1", list.files("tests/testthat", "^test-.*\\.R$"))
  names <- grep(if (is.null(filter)) "" else filter, names, value = TRUE)
  known <- utils::read.table("tools/test-seconds", col.names = c("file", "seconds"))
  seconds <- known$seconds[match(names, known$file)]
  seconds[is.na(seconds)] <- 5
  load <- numeric(part[2L])
  of_part <- character()
  with_network <- c("hosts", "host-report", "cuts", "ssh", "netns", "slurm", "resize", "link",
                    "launch-advice", "source", "travel")
  of_network <- grepl(sprintf("^(%s)", paste(with_network, collapse = "|")), names)
  # the longest first, each to the part that has least
  for (i in order(of_network, seconds, decreasing = TRUE)) {
    to <- if (of_network[[i]]) 1L else which.min(load)
    load[[to]] <- load[[to]] + seconds[[i]]
    if (to == part[1L]) of_part <- c(of_part, names[[i]])
  }
  filter <- sprintf("^(%s)$", paste(of_part, collapse = "|"))
}
Sys.setenv(NOT_CRAN = "true") # the long tests and the snapshots, too
options(warn = 1)

library(testthat)
library(clutch)
cat("clutch", format(packageVersion("clutch")), "of", dirname(find.package("clutch")), "on",
    R.version.string, "with testthat", format(packageVersion("testthat")), "\n")

# Tests start later's timer, and nanonext's threads, which would take signals. SIGINT for this
# process, where a test interrupts it, would then end it, with "stack smashing detected": R's
# handler, while R waits in select(), jumps to a place on the stack of R's own thread. (Seen without
# this package: Sys.sleep() with nanonext loaded, and SIGCHLD and SIGINT from outside.) See
# without_signals().
if (requireNamespace("later", quietly = TRUE)) {
  clutch:::without_signals(later::later(function() NULL))
  later::run_now()
}
uses_nanonext <- function(file) any(grepl("mirai|crew|nanonext", readLines(file)))
files <- list.files("tests/testthat", "^test-.*\\.R$", full.names = TRUE)
if (!is.null(filter)) files <- files[grepl(filter, sub("^test-(.*)\\.R$", "\\1", basename(files)))]
if (any(vapply(files, uses_nanonext, NA))) {
  clutch:::without_signals(requireNamespace("nanonext", quietly = TRUE))
}

progress <- source("tools/progress-reporter.R")$value(
  paste0(counts, ".now"),
  failed = paste0(counts, ".failed")
)
shown <- if (interactive()) {
  testthat::ProgressReporter$new()
} else {
  testthat::SummaryReporter$new(max_reports = Inf)
}
reporter <- testthat::MultiReporter$new(list(shown, progress))

started <- proc.time()[["elapsed"]]
results <- test_dir(
  "tests/testthat",
  package = "clutch", load_package = "installed", filter = filter, reporter = reporter,
  stop_on_failure = FALSE, stop_on_warning = FALSE
)
found <- as.data.frame(results)
if (!nrow(found)) stop("no test was run", call. = FALSE)

failed <- sum(found$failed) + sum(found$error)
skipped <- sum(found$skipped)
passed <- sum(found$nb) - sum(found$failed) - skipped - sum(found$warning) - sum(found$error)
writeLines(paste(max(0, passed), failed, skipped), counts)

by_file <- sort(tapply(found$real, found$file, sum), decreasing = TRUE)
writeLines(
  sprintf("%s %.0f", sub("^test-(.*)\\.R$", "\\1", names(by_file)), by_file),
  paste0(counts, ".seconds")
)
slow <- utils::head(by_file[by_file > 1], 8L)
longest <- paste0(names(slow), sprintf(" %.1f", slow), collapse = ", ")
cat(
  sprintf("\n%.0f s", proc.time()[["elapsed"]] - started),
  if (length(slow)) c("; longest:", longest), "\n",
  sep = ""
)
if (sum(found$warning)) cat(sum(found$warning), "unexpected warnings, see above\n")
quit("no", status = if (failed) 1L else 0L)
