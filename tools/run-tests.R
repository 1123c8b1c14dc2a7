# Rscript tools/run-tests.R COUNTS-FILE [FILTER]
#
# The testthat suite on the installed package (R_LIBS says where). Writes "passed failed skipped",
# counting expectations, as testthat does; an error counts as a failure.

args <- commandArgs(TRUE)
counts <- normalizePath(args[1L], mustWork = FALSE)
filter <- if (length(args) > 1L && nzchar(args[2L])) args[2L]
Sys.setenv(NOT_CRAN = "true") # the long tests and the snapshots, too
options(warn = 1)

library(testthat)
library(clutch)
cat("clutch", format(packageVersion("clutch")), "of", dirname(find.package("clutch")), "on",
    R.version.string, "with testthat", format(packageVersion("testthat")), "\n")

started <- proc.time()[["elapsed"]]
results <- test_dir("tests/testthat", package = "clutch", load_package = "installed", filter = filter,
                    reporter = if (interactive()) "progress" else "summary",
                    stop_on_failure = FALSE, stop_on_warning = FALSE)
found <- as.data.frame(results)
if (!nrow(found)) stop("no test was run", call. = FALSE)

failed <- sum(found$failed) + sum(found$error)
skipped <- sum(found$skipped)
passed <- sum(found$nb) - sum(found$failed) - skipped - sum(found$warning) - sum(found$error)
writeLines(paste(max(0, passed), failed, skipped), counts)

by_file <- sort(tapply(found$real, found$file, sum), decreasing = TRUE)
slow <- utils::head(by_file[by_file > 1], 8L)
cat(sprintf("\n%.0f s", proc.time()[["elapsed"]] - started),
    if (length(slow)) c("; longest:", paste0(names(slow), sprintf(" %.1f", slow), collapse = ", ")), "\n", sep = "")
if (sum(found$warning)) cat(sum(found$warning), "unexpected warnings, see above\n")
quit("no", status = if (failed) 1L else 0L)
