# Rscript tools/run-tests.R COUNTS-FILE [FILTER]
#
# The testthat suite on the installed package (R_LIBS says where). Writes "passed failed skipped",
# counting expectations, as testthat does; an error counts as a failure. While it runs,
# COUNTS-FILE.now names the test at hand, and COUNTS-FILE.failed what has failed so far: when the
# suite is ended from outside, these tell which test hung and what had been found.
#
# CLUTCH_TEST_PART=1/2: about half of the files, by their time; 2/2: the others. All files that make
# network namespaces are in the first, since they see each other's.

args <- commandArgs(TRUE)
counts <- normalizePath(args[1L], mustWork = FALSE)
filter <- if (length(args) > 1L && nzchar(args[2L])) args[2L]
part <- as.integer(strsplit(Sys.getenv("CLUTCH_TEST_PART", "1/1"), "/", fixed = TRUE)[[1L]])
if (part[2L] > 1L) {
  names <- sub("^test-(.*)\\.R$", "\\1", list.files("tests/testthat", "^test-.*\\.R$"))
  names <- grep(if (is.null(filter)) "" else filter, names, value = TRUE)
  # seconds of those that take long; parts that take about as long as each other
  long <- c("launch-tcp" = 80, chaos = 80, cuts = 75, "hosts-tree" = 30, slurm = 60, hosts = 50,
            submit = 50, "task-away" = 50, "hosts-promises" = 45, "adapt-mirai" = 45,
            reliability = 40, "own-cluster" = 37, "adapt-biocparallel" = 36, link = 35, start = 35,
            idle = 34, "parallel-psock" = 32, share = 50, "adapt-future" = 30, conditions = 30,
            ssh = 30, "share-use" = 35, "share-strings" = 30, "task-limits" = 27,
            "adapt-crew" = 26, budget = 25, "hosts-failures" = 25, scheduler = 20,
            "sockets-waits" = 19, netns = 18, terminal = 15, report = 13, "task-results" = 10)
  seconds <- ifelse(names %in% names(long), long[names], 5)
  load <- numeric(part[2L])
  of_part <- character()
  of_network <- grepl("^(hosts|host-report|cuts|ssh|netns|slurm|link|launch-advice)", names)
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

# Says nothing where a test has used up descriptors, or R's connections
note <- function(file, text, append) {
  tryCatch(
    suppressWarnings(cat(text, "\n", file = file, append = append, sep = "")),
    error = function(e) NULL
  )
}
progress <- R6::R6Class(inherit = testthat::Reporter, public = list(
  file = "",
  start_file = function(name) self$file <- name,
  start_test = function(context, test) {
    note(paste0(counts, ".now"), paste0(self$file, ": ", test), append = FALSE)
  },
  add_result = function(context, test, result) {
    if (!inherits(result, c("expectation_failure", "expectation_error"))) return(invisible())
    text <- utils::head(strsplit(conditionMessage(result), "\n", fixed = TRUE)[[1L]], 6L)
    text <- paste(c(paste0(self$file, ": ", test), text), collapse = "\n    ")
    note(paste0(counts, ".failed"), text, append = TRUE)
  }
))$new()
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
slow <- utils::head(by_file[by_file > 1], 8L)
longest <- paste0(names(slow), sprintf(" %.1f", slow), collapse = ", ")
cat(
  sprintf("\n%.0f s", proc.time()[["elapsed"]] - started),
  if (length(slow)) c("; longest:", longest), "\n",
  sep = ""
)
if (sum(found$warning)) cat(sum(found$warning), "unexpected warnings, see above\n")
quit("no", status = if (failed) 1L else 0L)
