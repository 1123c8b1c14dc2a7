# Rscript tools/lint.R lintr      R files as .lintr says
# Rscript tools/lint.R spelling   what people read, by the dictionary; inst/WORDLIST has what else
#                                 is right
# Rscript tools/lint.R help       help pages and NAMESPACE are what 'make doc' makes of the comments
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

# lintr::lint() makes the linters of .lintr anew for each file, and spends about as long on its
# lists of lints as in the linters.
run_lintr <- function() {
  skip_without("lintr")
  files <- Sys.glob(c("R/*.R", "tools/*.R", "tests/testthat/*.R", "tests/testthat/fixtures/*.R"))
  linters <- eval(parse(text = read.dcf(".lintr")[, "linters"]), asNamespace("lintr"))
  linters[c("no_tab_linter", "trailing_blank_lines_linter")] <- NULL # tabs_and_blank_end()
  bad <- vapply(files, function(f) {
    lints <- lints_of(f, linters)
    for (l in lints) cat(sprintf("%s:%d: %s\n", f, l$line_number, l$message))
    more <- tabs_and_blank_end(f)
    for (n in more) cat(sprintf("%s:%d: a tab, or a blank line at the end\n", f, n))
    length(lints) + length(more) > 0L
  }, NA)
  report(files, files[bad])
}

# What `linters` say of a file, but for lines with the comment "# nolint". All of it is within one pair
# of braces: lintr goes through each expression of the top level by itself, at ten times the cost.
lints_of <- function(file, linters) {
  lines <- readLines(file, warn = FALSE)
  source <- lintr::get_source_expressions(file, c("{", lines, "}"))
  found <- list(if (inherits(source$error, "lint")) source$error)
  for (expression in source$expressions) {
    level <- if ("full_parsed_content" %in% names(expression)) "file" else "expression"
    for (l in linters) {
      # newer versions of lintr say for what a linter is
      if (is.null(attr(l, "linter_level")) || attr(l, "linter_level") %in% c(level, NA)) {
        found[[length(found) + 1L]] <- l(expression)
      }
    }
  }
  flat <- function(x) {
    if (inherits(x, "lint")) list(x) else unlist(lapply(x, flat), recursive = FALSE)
  }
  found <- lapply(flat(found), function(l) {
    l$line_number <- l$line_number - 1L
    l
  })
  is_meant <- function(l) isTRUE(grepl("# nolint", lines[l$line_number], fixed = TRUE))
  Filter(function(l) !is_meant(l), found)
}

# What no linter sees then, or at a quarter of the time of all: numbers of lines.
tabs_and_blank_end <- function(file) {
  lines <- readLines(file, warn = FALSE)
  n <- length(lines)
  size <- file.size(file)
  last <- readBin(file, "raw", size)[size]
  c(grep("^ *\t", lines), if (!nzchar(lines[[n]]) || last != charToRaw("\n")) n)
}

run_spelling <- function() {
  skip_without("spelling")
  pages <- c("*.md", "doc/*.md", "lab/*.md", "vignettes/*.Rmd", "man/*.Rd")
  files <- setdiff(Sys.glob(pages), "LICENSE.md")
  words <- readLines("inst/WORDLIST", encoding = "UTF-8")
  found <- spelling::spell_check_files(files, ignore = words, lang = "en_US")
  where <- lapply(found$found, function(at) sub(":.*", "", at))
  for (i in seq_along(found$word)) {
    cat(found$word[[i]], ": ", toString(found$found[[i]]), "\n", sep = "")
  }
  report(basename(files), unlist(where))
}

# Another version of roxygen2 would write other pages.
run_help <- function() {
  skip_without("roxygen2")
  version <- read.dcf("DESCRIPTION", "RoxygenNote")[[1L]]
  if (utils::packageVersion("roxygen2") != version) {
    cat("roxygen2 is not of version", version, "\n0 passed, 0 failed, 1 skipped\n")
    return(invisible())
  }
  there <- tempfile("help")
  dir.create(there)
  file.copy(c("DESCRIPTION", "NAMESPACE", "R", "man"), there, recursive = TRUE)
  said <- utils::capture.output(type = "message", utils::capture.output(
    roxygen2::roxygenise(there, load_code = "source")
  ))
  pages <- function(folder) list.files(file.path(folder, "man"), "[.]Rd$")
  files <- c("NAMESPACE", file.path("man", union(pages("."), pages(there))))
  same <- function(f) {
    all(file.exists(f, file.path(there, f))) &&
      identical(readLines(f, warn = FALSE), readLines(file.path(there, f), warn = FALSE))
  }
  bad <- files[!vapply(files, same, NA)]
  for (f in bad) cat(f, "is not what 'make doc' makes of the comments\n")
  if (length(bad)) writeLines(said)
  report(files, bad)
}

switch(commandArgs(TRUE)[[1L]],
  lintr = run_lintr(),
  spelling = run_spelling(),
  help = run_help(),
  stop("lintr, spelling or help?")
)
