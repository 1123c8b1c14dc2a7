# Rscript tools/spelling.R
#
# Checks the words of the documents, vignettes and help pages with hunspell. Code is left out. Words that are right and in no
# dictionary are in inst/WORDLIST, one a line. Prints the others with their files. The last line is
# "N passed, N failed, N skipped", by files; the exit status is 1 when anything failed.

verdict <- function(passed, failed, skipped) {
  cat(sprintf("%d passed, %d failed, %d skipped\n", passed, failed, skipped))
  quit("no", status = if (failed > 0L) 1L else 0L)
}

files <- c(list.files(".", "[.]md$"), list.files("vignettes", "[.]Rmd$", full.names = TRUE),
           list.files("man", "[.]Rd$", full.names = TRUE))
has_dictionary <- function() {
  if (!nzchar(Sys.which("hunspell"))) return(FALSE)
  listed <- suppressWarnings(system2("hunspell", "-D", stdout = TRUE, stderr = TRUE, input = ""))
  any(grepl("en_GB", listed, fixed = TRUE))
}
if (!has_dictionary()) {
  cat("hunspell or its dictionary en_GB is missing (Debian: hunspell, hunspell-en-gb)\n")
  verdict(0L, 0L, length(files))
}
known <- readLines("inst/WORDLIST", encoding = "UTF-8")

# What is left of a page when its code has gone
words_of_markdown <- function(lines) {
  text <- paste(lines, collapse = "\n")
  for (code in c("(?s)^---.*?\n---\n", "(?s)```.*?```", "(?s)`[^`]*`", "(?s)\\]\\([^)]*\\)")) {
    text <- gsub(code, " ", text, perl = TRUE)
  }
  text
}

words_of_help <- function(file) {
  text <- tools::RdTextFilter(file, keepSpacing = FALSE, drop = c("\\code", "\\link", "\\examples", "\\usage", "\\pkg"))
  paste(text, collapse = "\n")
}

unknown_words <- function(file) {
  text <- if (endsWith(file, ".Rd")) words_of_help(file) else words_of_markdown(readLines(file, encoding = "UTF-8"))
  found <- system2("hunspell", c("-d", "en_GB", "-i", "UTF-8", "-l"), input = text, stdout = TRUE)
  setdiff(grep("[0-9]", unique(found), value = TRUE, invert = TRUE), known)
}

failed <- 0L
for (file in files) {
  words <- unknown_words(file)
  if (length(words)) cat(sprintf("FAIL %s: %s\n", file, paste(sort(words), collapse = ", ")))
  failed <- failed + (length(words) > 0L)
}
verdict(length(files) - failed, failed, 0L)
