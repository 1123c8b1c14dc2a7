# cluster_report(): one file, which needs nothing else and tells no secrets.

read_report <- function(...) {
  file <- tempfile(fileext = ".html")
  on.exit(unlink(file))
  expect_identical(cluster_report(..., file = file, open = FALSE), file)
  paste(readLines(file, encoding = "UTF-8", warn = FALSE), collapse = "\n")
}

test_that("the report has all its parts, is one page of HTML, and loads nothing", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  cluster_walk(cl, c(0.05, 0.01, 0.02, 0.01), Sys.sleep)
  suppressWarnings(cluster_map(cl, 1:3, function(i) if (i == 2) stop("<b>odd</b> & \"bad\""),
                               .on_error = "continue"))
  suppressWarnings(cluster_map(cl, 1:2, function(i) if (i == 1) quit("no"), .on_error = "continue"))
  text <- read_report(cl)
  expect_match(text, "^<!DOCTYPE html>")
  for (title in c("Session", "What limits", "Nodes", "Who did what when", "Tasks that ended",
                  "The last jobs", "Slowest tasks", "Errors", "Deaths of nodes",
                  "Last warnings of the session", "Options", "Versions"))
    expect_match(text, sprintf("<h2>%s</h2>", title), fixed = TRUE)
  expect_match(text, "cluster_walk(Sys.sleep)", fixed = TRUE)
  expect_match(text, "&lt;b&gt;odd&lt;/b&gt; &amp; &quot;bad&quot;", fixed = TRUE)
  expect_match(text, "simpleError", fixed = TRUE)
  expect_match(text, "clutch_task_died", fixed = TRUE)
  expect_false(grepl("<b>odd", text, fixed = TRUE))
  expect_false(grepl("<script|src=|href=|@import|url\\(|https?://[^ <]*[\"')]", text))
  skip_if_not_installed("xml2")
  page <- xml2::read_html(text)
  expect_length(xml2::xml_find_all(page, "//svg"), if (clutch:::system_can("memory")) 3 else 2)
  expect_identical(xml2::xml_text(xml2::xml_find_all(page, "//section/h2"))[1], "Session")
  cells <- xml2::xml_text(xml2::xml_find_all(page, "//section[h2='Nodes']//tbody/tr/td[3]"))
  expect_identical(cells, as.character(cluster_status(cl)$pid))
})

test_that("numbers are written in full, with four digits", {
  expect_identical(clutch:::format_number(c(3, 12345, 8.4e-05, 0.00167341, 12345.678, NA)),
                   c("3", "12,345", "0.000084", "0.001673", "12,350", ""))
  old <- options(OutDec = ",", warn = 2)
  on.exit(options(old))
  expect_identical(clutch:::format_number(c(12345, 0.5)), c("12,345", "0.5"))
  expect_identical(clutch:::plural_of(12345L, "sample", "samples"), "12,345 samples")
  expect_identical(clutch:::rate_text(12345, 1), "12,000/s")
})

test_that("text of invalid bytes is shown as far as it can be", {
  text <- clutch:::html_table(data.frame(says = c("caf\xe9", NA), n = 1:2))
  expect_match(paste(text, collapse = ""), "<td class=\"s\">caf(.|&lt;e9&gt;)</td>")
})

test_that("strings of code, environment variables and the user's home are not in it", {
  old <- Sys.getenv("HOME")
  Sys.setenv(CLUTCH_TEST_TOKEN = "s3cret-of-env", HOME = "/home/somebody-known")
  on.exit(Sys.setenv(HOME = old))
  on.exit(Sys.unsetenv("CLUTCH_TEST_TOKEN"), add = TRUE)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  collect(cluster_submit(cl, nchar("s3cret \"of code")))
  collect(cluster_submit(cl, nchar("s3cret of a very long text that does not fit into a label")))
  try(cluster_map(cl, 1, function(i) stop("no file /home/somebody-known/x")), silent = TRUE)
  text <- read_report(cl)
  expect_false(grepl("s3cret", text, fixed = TRUE))
  expect_false(grepl("somebody-known", text, fixed = TRUE))
  expect_match(text, "no file ~/x", fixed = TRUE)
})

test_that("clusters that have done nothing, or were stopped, have a report, too", {
  cl <- make_cluster(1)
  expect_match(read_report(cl), "No task has ended yet", fixed = TRUE)
  stop_cluster(cl)
  expect_match(read_report(cl), "stopped", fixed = TRUE)
  expect_error(cluster_report(1), class = "clutch_argument")
  expect_error(cluster_report(open = NA), class = "clutch_argument")
  expect_error(cluster_trace(cl[0]), "without nodes", class = "clutch_argument")
  expect_error(cluster_report(cl, NA_character_), class = "clutch_argument")
})

test_that("a hundred thousand tasks make a file of moderate size", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  cluster_map(cl, 1:1e5, identity)
  expect_lt(nchar(read_report(cl)), 1e6)
})

test_that("the memory of nodes over time, and the warnings of tasks by class, are in it", {
  skip_if_not(clutch:::system_can("memory"))
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  suppressWarnings(cluster_map(cl, 1:4, function(i) {
    x <- rnorm(1e6)
    Sys.sleep(0.05)
    warning(if (i > 1) "odd" else warningCondition("less odd", class = "rare"))
    length(x)
  }))
  text <- read_report(cl)
  expect_match(text, "<h2>Memory of nodes</h2>", fixed = TRUE)
  expect_match(text, "<polyline", fixed = TRUE)
  expect_false(grepl("NaN|\\bNA\\b", sub("<h2>Options.*", "", sub(".*<h2>Memory of", "", text))))
  skip_if_not_installed("xml2")
  page <- xml2::read_html(text)
  cells <- function(title) {
    xpath <- sprintf("//section[h2='%s']//tbody/tr", title)
    lapply(xml2::xml_find_all(page, xpath), function(r) xml2::xml_text(xml2::xml_children(r)))
  }
  of_class <- cells("Warnings of tasks")
  expect_setequal(vapply(of_class, `[[`, "", 1L), c("rare", "simpleWarning"))
  for (row in of_class) {
    expect_identical(row[2:3], if (row[[1L]] == "rare") c("1", "less odd") else c("3", "odd"))
  }
  expect_gte(length(cells("Memory of nodes")), 2L)
})
