# Rscript tools/check-links.R FOLDER
#
# Reads all pages (.html) and styles (.css) in FOLDER and checks that
# - each link to another page or place of the folder leads to it;
# - nothing is loaded that is not in the folder (links to other hosts are fine, and not followed);
# - each picture has a text.
# Prints what is wrong; the last line is "N passed, N failed". 'Rscript tools/check-links.R' alone
# checks the checker, on pages with one fault of each kind.

decode <- function(x) vapply(x, utils::URLdecode, "", USE.NAMES = FALSE)

# As a browser finds it: without query, from the folder of the page
target <- function(page, link) {
  path <- decode(sub("[?#].*$", "", link))
  if (!nzchar(path)) return(page)
  parts <- strsplit(file.path(dirname(page), path), "/", fixed = TRUE)[[1L]]
  kept <- character()
  for (part in parts[!parts %in% c("", ".")]) {
    kept <- if (part != "..") c(kept, part) else if (length(kept)) utils::head(kept, -1L) else part
  }
  paste(kept, collapse = "/")
}

is_elsewhere <- function(link) grepl("^([a-zA-Z][a-zA-Z0-9+.-]*:|//)", link)
is_data <- function(link) grepl("^data:", link)

read_page <- function(folder, page) {
  html <- xml2::read_html(file.path(folder, page), encoding = "UTF-8")
  all <- function(path) xml2::xml_find_all(html, path)
  of <- function(path) xml2::xml_text(all(path))
  loaded <- c(
    of("//script/@src"), of("//img/@src"), of("//iframe/@src"), of("//source/@src"),
    of("//embed/@src"), of("//object/@data"), of("//audio/@src"), of("//video/@src"),
    of("//link[not(@rel) or not(contains('canonical alternate prev next', @rel))]/@href"),
    links_of_css(c(of("//style"), of("//@style"))),
    trimws(sub("\\s.*", "", trimws(unlist(strsplit(of("//@srcset"), ",", fixed = TRUE)))))
  )
  list(
    page = page,
    ids = c(of("//@id"), of("//a/@name")),
    links = of("//a/@href"),
    loaded = loaded,
    textless = c(
      of("//img[not(normalize-space(@alt))]/@src"),
      rep("a picture in the page (svg)", length(all(paste0(
        "//svg[not(@aria-hidden='true') and not(normalize-space(@aria-label)) ",
        "and not(normalize-space(title))]"
      ))))
    )
  )
}

links_of_css <- function(text) {
  text <- paste(text, collapse = "\n")
  found <- regmatches(text, gregexpr("(url\\(\\s*|@import\\s+)(\"[^\"]*\"|'[^']*'|[^\"')]+)", text))
  found <- sub("^(url\\(|@import)\\s*", "", unlist(found))
  found <- gsub("^[\"']|[\"']$", "", trimws(found))
  found[!startsWith(found, "url(") & nzchar(found)]
}

check <- function(folder) {
  files <- list.files(folder, recursive = TRUE, all.files = TRUE)
  pages <- lapply(grep("\\.html$", files, value = TRUE), function(f) read_page(folder, f))
  names(pages) <- vapply(pages, `[[`, "", "page")
  bad <- character()
  passed <- 0L
  note <- function(good, ...) {
    if (good) passed <<- passed + 1L else bad <<- c(bad, paste0(...))
  }
  # A folder stands for its page
  place <- function(file) if (file %in% files) file else sub("^/", "", paste0(file, "/index.html"))
  there <- function(file) place(file) %in% files

  check_loaded <- function(page, link) {
    if (is_data(link)) return()
    if (is_elsewhere(link)) return(note(FALSE, page, ": loads from elsewhere: ", link))
    note(there(target(page, link)), page, ": loads what is not there: ", link)
  }
  check_link <- function(page, link) {
    if (is_elsewhere(link)) {
      # A page of this machine is nobody else's
      return(note(!grepl("^file:", link), page, ": link to a file of this machine: ", link))
    }
    to <- target(page, link)
    if (!there(to)) return(note(FALSE, page, ": dead link: ", link))
    id <- if (grepl("#.", link)) decode(sub("^[^#]*#", "", link)) else ""
    of <- place(to)
    good <- !nzchar(id) || !of %in% names(pages) || id %in% c(pages[[of]]$ids, "top")
    note(good, page, ": no such place in the page: ", link)
  }

  for (p in pages) {
    for (link in unique(p$loaded)) check_loaded(p$page, link)
    for (link in unique(p$links)) check_link(p$page, link)
    note(!anyDuplicated(p$ids), p$page, ": the same id twice: ", toString(p$ids[duplicated(p$ids)]))
    note(!length(p$textless), p$page, ": picture without a text: ", toString(p$textless))
  }
  for (css in grep("\\.css$", files, value = TRUE)) {
    text <- readLines(file.path(folder, css), warn = FALSE, encoding = "UTF-8")
    text <- gsub("/\\*.*?\\*/", "", paste(text, collapse = "\n"), perl = TRUE)
    for (link in unique(links_of_css(text))) check_loaded(css, link)
  }
  list(pages = length(pages), passed = passed, bad = bad)
}

# One fault of each kind, and much that is right
self_test <- function() {
  folder <- tempfile("pages")
  dir.create(file.path(folder, "a b"), recursive = TRUE)
  on.exit(unlink(folder, recursive = TRUE))
  write <- function(file, ...) writeLines(c(...), file.path(folder, file))
  write("p.png", "")
  write("s.css", "/* url(gone.png) */ a { background: url('p.png') }",
        "b { background: url(data:x,y) }")
  write("bad.css", "@import 'https://example.org/x.css';", "a { background: url(\"none.png\") }")
  write("index.html", "<p id=here><a href='#here'>1</a>",
        "<a href='a%20b/?q=1#there'>2</a>",
        "<a href='https://example.org/x'>3</a> <img src=p.png alt=Picture>",
        "<svg aria-label='Picture'></svg> <link rel=stylesheet href=s.css>")
  write("a b/index.html", "<p id=there><a href='../index.html#here'>1</a> <a href='..'>2</a>")
  write("bad.html", "<a href='#gone'>1</a>",
        "<a href='index.html#gone'>2</a> <a href='gone.html'>3</a>",
        "<a href='../index.html'>4</a> <a href='file:///etc/motd'>5</a> <img src=p.png>",
        "<img src=none.png alt=x> <script src='//example.org/x.js'></script><svg><g/></svg>",
        "<p id=twice><p id=twice><p style='background: url(https://example.org/y.png)'>")
  bad <- sort(check(folder)$bad)
  wanted <- sort(c(
    "bad.css: loads from elsewhere: https://example.org/x.css",
    "bad.css: loads what is not there: none.png",
    "bad.html: dead link: ../index.html",
    "bad.html: dead link: gone.html",
    "bad.html: link to a file of this machine: file:///etc/motd",
    "bad.html: loads from elsewhere: //example.org/x.js",
    "bad.html: loads from elsewhere: https://example.org/y.png",
    "bad.html: loads what is not there: none.png",
    "bad.html: no such place in the page: #gone",
    "bad.html: no such place in the page: index.html#gone",
    "bad.html: picture without a text: p.png, a picture in the page (svg)",
    "bad.html: the same id twice: twice"
  ))
  wrong <- c(
    if (length(x <- setdiff(bad, wanted))) paste("not wrong:", x),
    if (length(x <- setdiff(wanted, bad))) paste("not found:", x)
  )
  list(pages = 3L, passed = length(intersect(bad, wanted)), bad = wrong)
}

folder <- commandArgs(TRUE)
if (!requireNamespace("xml2", quietly = TRUE)) {
  cat("the R package xml2 is not here\n0 passed, 0 failed, 1 skipped\n")
  quit("no")
}
result <- if (length(folder)) check(folder[[1L]]) else self_test()
if (!result$pages) result$bad <- c(result$bad, "there are no pages")
if (length(result$bad)) cat(paste0(result$bad, "\n"), sep = "")
cat(sprintf("%d pages: %d passed, %d failed\n", result$pages, result$passed, length(result$bad)))
quit("no", status = if (length(result$bad)) 1L else 0L)
