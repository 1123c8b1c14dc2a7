# What the scripts in this folder share. Each runs another package's own tests twice, with that
# package's default and with us, and prints a line for each: "suite (with): passed failed skipped".
#
# The tests come with the package's sources, which are fetched in the version that is installed.

# The folder with the sources of a package, in a temporary folder; NULL: they cannot be had.
sources_of <- function(package) {
  if (!requireNamespace(package, quietly = TRUE)) return(unavailable(package, "not installed"))
  folder <- tempfile("sources-")
  dir.create(folder)
  got <- tryCatch(
    suppressWarnings(utils::download.packages(package, folder, type = "source", quiet = TRUE)),
    error = function(e) NULL
  )
  if (is.null(got) || !nrow(got)) return(unavailable(package, "no sources"))
  utils::untar(got[1L, 2L], exdir = folder)
  # the tests run outside of the package's folder, where testthat would find it
  edition <- read.dcf(file.path(folder, package, "DESCRIPTION"), "Config/testthat/edition")
  if (!is.na(edition)) Sys.setenv(TESTTHAT_EDITION = edition)
  file.path(folder, package)
}

unavailable <- function(what, why) {
  cat(sprintf("%s: cannot be run: %s\n", what, why))
  NULL
}

# Copies test files; `change`: a function of their lines.
copy_tests <- function(from, change = identity) {
  to <- tempfile("tests-")
  dir.create(to)
  for (f in list.files(from, full.names = TRUE)) {
    if (dir.exists(f)) {
      file.copy(f, to, recursive = TRUE)
    } else {
      writeLines(change(readLines(f, warn = FALSE)), file.path(to, basename(f)))
    }
  }
  to
}

# Runs a folder of testthat's; `env` is what the tests see.
run_testthat <- function(suite, with, folder, env) {
  results <- testthat::test_dir(folder, reporter = "silent", env = env, stop_on_failure = FALSE,
                                load_package = "none", package = NULL)
  counts <- as.data.frame(results)
  bad <- counts[counts$failed > 0 | counts$error, ]
  for (k in seq_len(nrow(bad))) cat("  failed:", bad$file[[k]], "-", bad$test[[k]], "\n")
  if (nzchar(Sys.getenv("VERBOSE"))) print_failures(results)
  say_counts(suite, with, sum(counts$passed), sum(counts$failed) + sum(counts$error),
             sum(counts$skipped))
}

print_failures <- function(results) {
  for (r in results) {
    for (e in r$results) {
      if (inherits(e, c("expectation_failure", "expectation_error"))) print(e)
    }
  }
}

# Runs functions test*() and test_*() of RUnit files.
run_runit <- function(suite, with, folder, files = "\\.R$") {
  runit <- RUnit::defineTestSuite(suite, folder, testFileRegexp = files,
                                  testFuncRegexp = "^test.+")
  # no sink: there are tests that close all connections
  results <- RUnit::runTestSuite(runit, verbose = if (nzchar(Sys.getenv("VERBOSE"))) 1L else 0L)
  e <- RUnit::getErrors(results)
  failed_functions(results)
  say_counts(suite, with, e$nTestFunc - e$nErr - e$nFail - e$nDeactivated, e$nErr + e$nFail,
             e$nDeactivated)
}

failed_functions <- function(results) {
  for (file in results[[1L]]$sourceFileResults) {
    for (name in names(file)) {
      if (!file[[name]]$kind %in% c("success", "deactivated"))
        cat("  failed:", name, "-", trimws(file[[name]]$msg), "\n")
    }
  }
}

say_counts <- function(suite, with, passed, failed, skipped) {
  # on a line of its own: a test may have printed without an end of line
  cat(sprintf("\n%s (%s): %d %d %d\n", suite, with, passed, failed, skipped))
}
