# Rscript tools/site.R
#
# Makes the site of the package in docs/ with pkgdown, from a copy of what is read for it. The
# package has to be in the library. What the pages look like is in tools/site.
#
# The pages load nothing from other hosts: tools/site/head.html leaves out pkgdown's scripts, and
# tools/site/extra.js does what they are for (contents of a page, copy, search). The index of the
# search is a script, so that it is found when the pages are read from the disk, too.

stopifnot(file.exists("tools/site.R"))
root <- getwd()
if (!requireNamespace("pkgdown", quietly = TRUE) || !rmarkdown::pandoc_available("1.12.3")) {
  stop("'make site' needs the R package pkgdown, and pandoc", call. = FALSE)
}
# The network is not asked where this package and others have their pages, when others of this name
# came out, nor for the scripts that are left out. pkgdown before 2.1 has an option for some of it.
options(pkgdown.internet = FALSE)
asking <- list(
  downlit = "package_urls", pkgdown = c("cran_link", "pkg_timeline", "external_dependencies")
)
for (package in names(asking)) {
  for (name in intersect(asking[[package]], ls(asNamespace(package), all.names = TRUE))) {
    utils::assignInNamespace(name, function(...) NULL, package)
  }
}

build <- file.path(root, ".build", "site")
unlink(build, recursive = TRUE)
from <- file.path(build, "clutch")
to <- file.path(build, "docs")
dir.create(file.path(from, "pkgdown", "templates"), recursive = TRUE)

read <- function(file) readLines(file, encoding = "UTF-8")
write <- function(lines, ...) writeLines(enc2utf8(lines), file.path(...), useBytes = TRUE)
relink <- function(lines, links) {
  for (link in names(links)) {
    lines <- gsub(paste0("](", link), paste0("](", links[[link]]), lines, fixed = TRUE)
  }
  lines
}

copy <- function(files, folder, ...) {
  if (!all(file.copy(files, folder, ...))) stop("cannot copy to ", folder, call. = FALSE)
}

# ---- what pkgdown reads ----
parts <- c("DESCRIPTION", "NAMESPACE", "LICENSE", "LICENSE.md", "NEWS.md", "R", "man", "vignettes")
copy(parts, from, recursive = TRUE, copy.date = TRUE)
# pages in folders of their own become pages beside the others
pages <- c("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "doc/decisions.md")
for (page in pages) {
  lines <- relink(read(page), c(
    "doc/decisions.md" = "decisions.html",
    "bench/report/README.md" = "articles/measurements.html", "bench/report/" = "measurements/",
    "vignettes/" = "articles/", "NEWS.md" = "news/index.html"
  ))
  lines <- gsub("(\\]\\(articles/[a-z-]+)\\.Rmd", "\\1.html", lines)
  write(lines, from, basename(page))
}
# their numbers are for the order in browseVignettes(); here they stand by theme
for (page in list.files(file.path(from, "vignettes"), pattern = "\\.Rmd$", full.names = TRUE)) {
  without <- sub("^(title: \"|.*VignetteIndexEntry\\{)[0-9]+\\. ", "\\1", read(page))
  write(without, page)
}
copy("tools/site/_pkgdown.yml", from)
copy(Sys.glob("tools/site/extra.*"), file.path(from, "pkgdown"))
copy("tools/site/head.html", file.path(from, "pkgdown", "templates"))

# The report of the measurements, as one more article
report <- read("bench/report/README.md")
stopifnot(grepl("^# ", report[[1L]]), !any(grepl("`r ", report, fixed = TRUE)))
kept <- list.files(c("bench/report", "vignettes/report"), "\\.(png|csv)$", full.names = TRUE)
names(kept) <- ifelse(dirname(kept) == "bench/report", basename(kept), file.path("../..", kept))
places <- stats::setNames(paste0("../measurements/", basename(kept)), names(kept))
report <- relink(report[-1L], places)
write(c("---", "title: \"Measurements\"", "---", report), from, "vignettes", "measurements.Rmd")

# ---- pages ----
pkg <- pkgdown::as_pkgdown(from, override = list(destination = to))
pkgdown::init_site(pkg)
dir.create(file.path(to, "measurements"))
copy(kept, file.path(to, "measurements"))
pkgdown::build_home(pkg, preview = FALSE)
pkgdown::build_reference(pkg, lazy = FALSE, examples = FALSE, preview = FALSE)
pkgdown::build_articles(pkg, lazy = FALSE, preview = FALSE)
pkgdown::build_news(pkg, preview = FALSE)
pkgdown::build_search(pkg)

index <- read(file.path(to, "search.json"))
write(c("window.searchIndex =", index, ";"), to, "search.js")
unlink(file.path(to, c("search.json", "pkgdown.js")))

# ---- what pkgdown's pages lack ----
# Pictures with a caption have it as their text, since pandoc leaves that empty; sections of the
# reference's index have ids; a table's columns are as wide as what is in them; no picture is asked
# for where the package has no logo.
complete <- function(file) {
  html <- xml2::read_html(file, encoding = "UTF-8")
  all <- function(path) xml2::xml_find_all(html, path)
  xml2::xml_remove(all("//img[@class='logo' and @src='']"))
  for (picture in all("//div[@class='figure']//img[not(normalize-space(@alt))]")) {
    caption <- xml2::xml_find_first(picture, "following-sibling::p[@class='caption']")
    if (inherits(caption, "xml_missing")) next
    xml2::xml_set_attr(picture, "alt", gsub("\\s+", " ", xml2::xml_text(caption, trim = TRUE)))
    xml2::xml_set_attr(caption, "aria-hidden", "true")
  }
  # pandoc gives the columns of a wide table widths by the dashes in the source
  xml2::xml_remove(all("//main//table/colgroup"))
  for (section in all("//*[@id='']")) {
    heading <- xml2::xml_find_first(section, ".//h2")
    if (inherits(heading, "xml_missing")) {
      xml2::xml_set_attr(section, "id", NULL)
    } else {
      slug <- gsub("[^a-z0-9]+", "-", tolower(xml2::xml_text(heading, trim = TRUE)))
      xml2::xml_set_attr(section, "id", slug)
    }
  }
  xml2::write_html(html, file, format = FALSE)
}
pages <- list.files(to, pattern = "\\.html$", recursive = TRUE, full.names = TRUE)
for (page in pages) complete(page)

# ---- in place of the last one, once all is there ----
unlink(file.path(root, "docs"), recursive = TRUE)
if (!file.rename(to, file.path(root, "docs"))) stop("docs/ cannot be written")
