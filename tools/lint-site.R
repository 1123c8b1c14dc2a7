# Rscript tools/lint-site.R
#
# Checks tools/site/_pkgdown.yml without building the site: each exported function has a help page,
# and each help page (but internal ones) and each vignette is listed by topic, once. Nothing is
# listed that is not there. The tests that the pages of guarantees name are there. No vignette has
# more than 1,500 words.
# Prints what is wrong; the last line is "N passed, N failed".

listing <- "tools/site/_pkgdown.yml"

# The entries "- name" below "contents:" of a part of the file, such as "reference:"
listed <- function(lines, part) {
  from <- match(paste0(part, ":"), lines)
  to <- grep("^[a-z]", lines)
  to <- min(c(to[to > from], length(lines) + 1L)) - 1L
  entries <- grep("^      - ", lines[from:to], value = TRUE)
  trimws(sub("^ *- ", "", entries))
}

# The topics of the help pages: each with the names under which it is found
help_pages <- function() {
  files <- Sys.glob("man/*.Rd")
  pages <- lapply(files, function(f) {
    lines <- readLines(f, encoding = "UTF-8")
    of <- function(tag) {
      found <- grep(paste0("^\\\\", tag, "\\{"), lines, value = TRUE)
      sub("^[^{]*\\{(.*)\\}$", "\\1", found)
    }
    if ("internal" %in% of("keyword") && !identical(of("docType"), "package")) return(NULL)
    union(sub("\\.Rd$", "", basename(f)), of("alias"))
  })
  names(pages) <- sub("\\.Rd$", "", basename(files))
  Filter(length, pages)
}

lines <- readLines(listing, encoding = "UTF-8")
pages <- help_pages()
topics <- listed(lines, "reference")
of_topic <- lapply(topics, function(t) names(pages)[vapply(pages, function(p) t %in% p, NA)])
exported <- grep("^export\\(", readLines("NAMESPACE"), value = TRUE)
exported <- sub("^export\\(\"?([^\")]*)\"?\\)$", "\\1", exported)
vignettes <- sub("\\.Rmd$", "", basename(Sys.glob("vignettes/*.Rmd")))
articles <- setdiff(listed(lines, "articles"), "measurements") # which tools/site.R makes

# The pages of what is guaranteed name tests
of_guarantees <- paste0("vignettes/guarantees", c("", "-processes"), ".Rmd")
text <- paste(unlist(lapply(of_guarantees, readLines, encoding = "UTF-8")), collapse = "\n")
named <- unique(unlist(regmatches(text, gregexpr("test-[a-z-]+\\.[Rc]", text))))
tests <- basename(Sys.glob(c("tests/testthat/test-*.R", "tests/c/test-*.c")))

# Words outside of code, without what marks tables, lists and headings
words_in <- function(file) {
  lines <- readLines(file, encoding = "UTF-8")
  lines <- lines[-seq_len(which(lines == "---")[2L])]
  fence <- startsWith(lines, "```")
  lines <- lines[!fence & cumsum(fence) %% 2L == 0L]
  lines <- gsub("`r [^`]*`", "1", lines)
  words <- unlist(strsplit(lines, "[[:space:]|]+"))
  sum(grepl("[[:alnum:]]", words))
}
files <- Sys.glob("vignettes/*.Rmd")
long <- basename(files)[vapply(files, words_in, 0) > 1500]

twice <- function(x) unique(x[duplicated(x)])
complain <- function(text, names) if (length(names)) paste0(text, ": ", toString(names))
wrong <- c(
  complain("exported, and in no help page", setdiff(exported, unlist(pages))),
  complain("listed, and in no help page", topics[lengths(of_topic) == 0L]),
  complain("not in the reference", setdiff(names(pages), unlist(of_topic))),
  complain("more than once in the reference", twice(unlist(of_topic))),
  complain("no such vignette", setdiff(articles, vignettes)),
  complain("not among the articles", setdiff(vignettes, articles)),
  complain("more than once among the articles", twice(articles)),
  complain("the pages of guarantees name a test that is not there", setdiff(named, tests)),
  complain("more than 1,500 words", long)
)
if (length(wrong)) cat(paste0(listing, ": ", wrong), sep = "\n")
cat(sprintf("%d passed, %d failed\n", 9L - length(wrong), length(wrong)))
quit("no", status = if (length(wrong)) 1L else 0L)
