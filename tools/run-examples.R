# R -f tools/run-examples.R --args RESULT-FILE
#
# Runs the examples of all help pages, each page in an empty workspace, in one process: R takes long
# to start where valgrind runs it. A page passed where none of its examples has failed.
#
# RESULT-FILE gets "passed failed skipped". CLUTCH_EXAMPLES: a regular expression for the pages.

# The value says what went wrong; NULL: nothing.
run_page <- function(code) {
  tryCatch(
    {
      source(code, local = globalenv(), print.eval = TRUE)
      NULL
    },
    error = conditionMessage,
    finally = rm(list = setdiff(ls(globalenv(), all.names = TRUE), own), envir = globalenv())
  )
}

run_all <- function(result) {
  code <- tempfile(fileext = ".R")
  passed <- failed <- 0L
  pages <- list.files("man", "\\.Rd$", full.names = TRUE)
  for (page in grep(Sys.getenv("CLUTCH_EXAMPLES"), pages, value = TRUE)) {
    unlink(code)
    tools::Rd2ex(page, code, commentDontrun = TRUE, commentDonttest = TRUE)
    if (!file.exists(code)) next # it has none
    cat("==", basename(page), "\n")
    error <- run_page(code)
    if (!is.null(error)) cat("FAIL", basename(page), error, "\n")
    passed <- passed + is.null(error)
    failed <- failed + !is.null(error)
  }
  writeLines(paste(passed, failed, 0L), result)
  quit("no", status = if (failed) 1L else 0L)
}

library(clutch)
own <- c("own", "run_page", "run_all")
run_all(commandArgs(TRUE)[1L])
