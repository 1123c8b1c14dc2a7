# Rscript tools/lint.R lintr      R files as .lintr says
# Rscript tools/lint.R spelling   what people read, by the dictionary; inst/WORDLIST has what else
#                                 is right
#
# Prints what is wrong; the last line is "N passed, N failed, N skipped". A file passes or fails.

report <- function(files, bad) {
  cat(sprintf("%d passed, %d failed\n", length(setdiff(files, bad)), length(unique(bad))))
  quit("no", status = if (length(bad)) 1L else 0L)
}

skip_without <- function(package) {
  if (requireNamespace(package, quietly = TRUE)) return(invisible())
  cat("the R package", package, "is not here\n0 passed, 0 failed, 1 skipped\n")
  quit("no")
}

run_lintr <- function() {
  skip_without("lintr")
  files <- Sys.glob(c("R/*.R", "tools/*.R", "tests/testthat/*.R", "tests/testthat/fixtures/*.R"))
  lints <- unlist(lapply(files, lintr::lint), recursive = FALSE)
  at <- vapply(lints, function(l) sub(paste0(getwd(), "/"), "", l$filename, fixed = TRUE), "")
  for (i in seq_along(lints)) {
    l <- lints[[i]]
    cat(sprintf("%s:%d: %s (%s)\n", at[[i]], l$line_number, l$message, l$linter))
  }
  report(files, at)
}

run_spelling <- function() {
  skip_without("spelling")
  files <- setdiff(Sys.glob(c("*.md", "vignettes/*.Rmd", "man/*.Rd")), "LICENSE.md")
  words <- readLines("inst/WORDLIST", encoding = "UTF-8")
  found <- spelling::spell_check_files(files, ignore = words, lang = "en_US")
  where <- lapply(found$found, function(at) sub(":.*", "", at))
  for (i in seq_along(found$word)) {
    cat(found$word[[i]], ": ", toString(found$found[[i]]), "\n", sep = "")
  }
  report(basename(files), unlist(where))
}

switch(commandArgs(TRUE)[[1L]],
  lintr = run_lintr(),
  spelling = run_spelling(),
  stop("lintr or spelling?")
)
