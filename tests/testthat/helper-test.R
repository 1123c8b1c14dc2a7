# Packages with tests, made for test-test-run.R.

new_package <- function(files, code = "add <- function(x, y) x + y", envir = parent.frame()) {
  root <- tempfile("pkg")
  cache <- tempfile("cache")
  folder <- file.path(root, "tests", "testthat")
  dir.create(folder, recursive = TRUE)
  dir.create(file.path(root, "R"))
  about <- c("Package: clutchfixture", "Version: 0.1", "Title: Fixture", "Description: Fixture.",
             "License: MIT", "Encoding: UTF-8", "Config/testthat/edition: 3")
  writeLines(about, file.path(root, "DESCRIPTION"))
  writeLines("export(add)", file.path(root, "NAMESPACE"))
  writeLines(code, file.path(root, "R", "code.R"))
  for (name in names(files)) writeLines(files[[name]], file.path(folder, name))
  old <- Sys.getenv("R_USER_CACHE_DIR", NA)
  Sys.setenv(R_USER_CACHE_DIR = cache)
  clean <- bquote({
    fork_server_stop()
    unlink(.(c(root, cache)), recursive = TRUE)
    if (.(is.na(old))) Sys.unsetenv("R_USER_CACHE_DIR") else Sys.setenv(R_USER_CACHE_DIR = .(old))
  })
  do.call("on.exit", list(clean, add = TRUE), envir = envir)
  normalizePath(root)
}

# What came of a run, without times and places.
found_in <- function(results) {
  columns <- c("file", "test", "nb", "failed", "skipped", "error", "warning", "passed")
  as.data.frame(results)[columns]
}

tested <- function(root, ...) {
  cluster_test(root, ..., nodes = 2, reporter = "silent", stop_on_failure = FALSE)
}

# What is kept for the next call.
the_tests <- function() get("the", asNamespace("clutch"))$tests$info
