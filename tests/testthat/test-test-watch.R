# cluster_test(watch = TRUE): which test files run when something was saved.

definitions <- function(..., encoding = "UTF-8") {
  file <- tempfile(fileext = ".R")
  on.exit(unlink(file))
  writeLines(iconv(c(...), "UTF-8", encoding), file, useBytes = TRUE)
  read_definitions(file)
}
code <- function(...) list("a.R" = definitions(...))

test_that("definitions are told by name, with what they use", {
  d <- definitions("f <- function(x) g(x)", "'g' = \\(x) x %+% 'text'", "y <- f(1)", "setup()",
                   "p <- q <- function() 1", "P <- setClass('Q')")
  expect_identical(lapply(d, function(x) x$names),
                   list("f", "g", "y", NA_character_, c("p", "q"), c("P", NA)))
  expect_identical(vapply(d, function(x) x$is_function, NA), rep(c(TRUE, FALSE), c(2L, 4L)))
  expect_true(all(c("f", "g") %in% d[[1L]]$words))
  expect_true(all(c("%+%", "text") %in% d[[2L]]$words))
  expect_true("pct" %in% words_of("test_that(\"5% is\", expect_equal(pct(5), \"5%\"))"))
  expect_s3_class(definitions("f <- function("), "error")
  expect_s3_class(suppressWarnings(read_definitions(tempfile())), "error")
  latin <- definitions("f <- function() '\u00e9t\u00e9' # \u00e9", encoding = "latin1")
  expect_identical(latin[[1L]]$names, "f")
})

test_that("what has changed is told by code, and is a patch where it is functions only", {
  before <- c("f <- function(x) x", "g <- function() 1", "y <- 2")
  change <- function(...) changes_of_code(code(before), code(...))
  same <- change("# a comment", "f <- function(x)", "  x", "y <- 2", "g <- function() 1")
  expect_length(same$names, 0L)
  expect_identical(same$patch, list())
  one <- change("f <- function(x) x + 1", "g <- function() 1", "y <- 2", "new <- function() f(1)")
  expect_setequal(one$names, c("f", "new"))
  expect_length(one$patch, 2L)
  gone <- change("f <- function(x) x", "y <- 2")
  expect_identical(gone$names, "g")
  expect_null(gone$patch)
  expect_identical(changes_of_code(code(before), list())$names, c("f", "g", "y"))
  for (new in list(c(before[1:2], "y <- 3"), c(before, "run()"), c(before[1:2], "y <- 2 + 1e-15"),
                   c(before, ".onLoad <- function(a, b) 1"), c(before, "f <- function() 2"))) {
    x <- changes_of_code(code(before), code(new))
    expect_true(length(x$names) > 0L)
    expect_null(x$patch)
  }
  # the order of what is no function, and the second of two that are equal
  expect_true(anyNA(changes_of_code(code("run(1)", "run(2)"), code("run(2)", "run(1)"))$names))
  expect_true(anyNA(changes_of_code(code("run(1)", "run(1)"), code("run(1)"))$names))
  twice <- list("a.R" = definitions("f <- function() 1"), "b.R" = definitions("f <- function() 2"))
  expect_null(changes_of_code(twice, c(code("f <- function() 3"), twice["b.R"]))$patch)
})

test_that("users are found through functions, helpers and methods", {
  lines <- c("low <- function() 1", "middle <- function() low()", "high <- function() middle()",
             "other <- function() 2", "table <- list(other)",
             "area <- function(x) UseMethod('area')", "area.square <- function(x) low()",
             "print.square <- function(x, ...) other()", "`%+%` <- function(a, b) a",
             "`[.square` <- function(x, i) x", "later.cls <- function(x) 1")
  helpers <- code("check_high <- function() high()", "made <- later.cls(1)")
  root <- tempfile("pkg")
  dir.create(root)
  on.exit(unlink(root, recursive = TRUE))
  writeLines(c("S3method(area, square)", "S3method(dim, square, dim_of)",
               "S3method(waldo::compare_proxy, sq)"), file.path(root, "NAMESPACE"))
  methods <- methods_in(root, code(lines))
  of <- function(name, more = NULL) users_of(name, code(lines, more), helpers, methods)
  u <- of("low")
  expect_setequal(u$names, c("low", "middle", "high", "area", "area.square", "check_high"))
  expect_identical(c(u$is_all, u$at_load), c(FALSE, FALSE))
  expect_true(of("other")$at_load)
  expect_true(of("later.cls")$at_load) # by a helper
  for (name in c("print.square", "dim_of", "[.square", ".onLoad")) expect_true(of(name)$is_all)
  expect_true(of("compare_proxy.sq")$at_load)
  expect_false(of("%+%")$is_all)
  expect_true(of("low", "run(low)")$is_all)
  hook <- ".onLoad <- function(...) the$t <- low()"
  expect_true(of("low", hook)$is_all && of("low", hook)$at_load)
  registers <- ".onLoad <- function(...) vctrs::s3_register('dplyr::filter', 'cls')"
  expect_true(of("later.cls", registers)$is_all)
  expect_identical(methods$said$class[methods$said$method == "dim_of"], "square")
})

# A session that watches. The values are functions: saved(file, lines) writes, and waits until the
# watch has shown so many more runs; said() is what it has printed since then.
start_watch <- function(root, ...) {
  more <- paste(sprintf(", %s = '%s'", names(list(...)), c(...)), collapse = "")
  s <- start_script(c(
    sprintf("r <- cluster_test('%s', nodes = 2, reporter = 'location', watch = TRUE%s)", root,
            more),
    "cat('results=', nrow(as.data.frame(r)), '\\n', sep = '')", "cat('done\\n')"
  ))
  waits <- function() if (file.exists(s$out)) sum(grepl("Waits for a file", lines_of(s))) else 0L
  at <- 0
  list(script = s, begun = function() eventually(waits() > 0, 60), saved = function(file, lines) {
    at <<- length(lines_of(s))
    before <- waits()
    writeLines(lines, file.path(root, file))
    eventually(waits() > before, 60)
  }, said = function() {
    lines <- lines_of(s)
    grep("was saved|were saved|^Start test|fail|error", lines[seq_along(lines) > at], value = TRUE)
  })
}

test_that("a saved file runs what depends on it, until an interrupt", {
  outside_checks_only()
  skip_if_not_installed("pkgload")
  root <- new_package(list(
    "test-a.R" = "test_that('sums', { expect_equal(add(1, 2), 3) })",
    "test-b.R" = "test_that('twice', { expect_equal(twice(2), 4) })",
    "test-c.R" = c("x <- structure(1, class = 'fixture')",
                   "test_that('shown', { expect_output(print(x), '^f$') })"),
    "helper.R" = "unused <- function() 1"
  ), code = c("add <- function(x, y) plus(x, y)", "plus <- function(x, y) x + y"))
  writeLines(c("export(add)", "S3method(print, fixture)"), file.path(root, "NAMESPACE"))
  writeLines(c("twice <- function(x) 2 * x", "print.fixture <- function(x, ...) cat('f\\n')"),
             file.path(root, "R", "more.R"))
  w <- start_watch(root)
  on.exit(tools::pskill(w$script$pid, 9), add = TRUE)
  expect_true(w$begun())
  add <- "add <- function(x, y) plus(x, y)"
  # a function that another one uses
  expect_true(w$saved("R/code.R", c(add, "plus <- function(x, y) x - y")))
  expect_match(w$said()[[1L]], "R/code.R was saved: 1 of 3 test files")
  expect_true(any(grepl("Start test: sums", w$said())))
  expect_true(any(grepl("failure", w$said())))
  # it stays broken in the runs that follow: the test file only
  expect_true(w$saved("tests/testthat/test-a.R",
                      "test_that('less', { expect_equal(add(1, 2), -1) })"))
  expect_match(w$said()[[1L]], "1 of 3")
  expect_false(any(grepl("fail", w$said())))
  # a comment; a method that R's own functions call
  expect_true(w$saved("R/code.R", c("# new", add, "plus <- function(x, y) x - y")))
  expect_match(w$said(), "0 of 3")
  # a function that a test calls itself
  more <- c("twice <- function(x) 3 * x", "print.fixture <- function(x, ...) cat('f\\n')")
  expect_true(w$saved("R/more.R", more))
  expect_match(w$said()[[1L]], "R/more.R was saved: 1 of 3")
  expect_true(any(grepl("failure", w$said())))
  more <- c("twice <- function(x) 2 * x", "print.fixture <- function(x, ...) cat('g\\n')")
  expect_true(w$saved("R/more.R", more))
  expect_match(w$said()[[1L]], "R/more.R was saved: 3 of 3")
  expect_true(any(grepl("failure", w$said())))
  # what cannot be parsed is told, and the next file mends it
  expect_true(w$saved("R/code.R", "add <- function("))
  expect_false(any(grepl("Start test", w$said())))
  expect_true(any(grepl("unexpected end of input", lines_of(w$script))))
  expect_true(w$saved("R/code.R", c("add <- function(x, y) x - y", "value <- add(1, 2)")))
  expect_match(w$said()[[1L]], "1 of 3")
  expect_false(any(grepl("failure", w$said())))
  # saved beside what cannot be parsed, it is tested with that
  more[[1L]] <- "twice <- function(x) 4 * x"
  writeLines(more, file.path(root, "R", "more.R"))
  expect_true(w$saved("R/code.R", "add <- function("))
  expect_true(w$saved("R/code.R", c("add <- function(x, y) x - y", "value <- add(1, 2)", "2 + 2")))
  expect_match(w$said()[[1L]], "[23] of 3")
  expect_true(any(grepl("failure", w$said())))
  # what the tests of a fixture name; an editor's file is none
  writeLines("x", file.path(root, "R", "code.R~"))
  expect_true(w$saved("tests/testthat/test-a.R",
                      "test_that('read', { expect_equal(readLines('fixture.txt'), 'x') })"))
  expect_true(any(grepl("error", w$said())))
  expect_true(w$saved("tests/testthat/fixture.txt", "x"))
  expect_match(w$said()[[1L]], "1 of 3")
  expect_false(any(grepl("fail|error", w$said())))
  # what was computed as the package was loaded; a new test file
  expect_true(w$saved("R/code.R", c("add <- function(x, y) 1", "value <- add(1, 2)")))
  expect_true(w$saved("tests/testthat/test-d.R",
                      "test_that('fresh', { expect_equal(c(add(1, 2), value), c(1, 1)) })"))
  expect_match(w$said()[[1L]], "1 of 4")
  expect_false(any(grepl("fail", w$said())))
  tools::pskill(w$script$pid, 2)
  expect_done(w$script)
  expect_identical(value_of(w$script, "results"), "1")
  expect_false(any(grepl("code.R~", lines_of(w$script), fixed = TRUE)))
  expect_true(ends(w$script))
})

test_that("files without a package are watched, and a file that goes is told", {
  outside_checks_only()
  root <- new_package(list("test-a.R" = "test_that('one', { expect_true(TRUE) })"))
  folder <- file.path(root, "tests", "testthat")
  w <- start_watch(folder, load = "none")
  on.exit(tools::pskill(w$script$pid, 9), add = TRUE)
  expect_true(w$begun())
  expect_true(w$saved("test-a.R", "test_that('one', { expect_true(FALSE) })"))
  expect_match(w$said()[[1L]], "test-a.R was saved: 1 of 1")
  expect_true(any(grepl("failure", w$said())))
  unlink(file.path(folder, "test-a.R"))
  expect_true(eventually(any(grepl("there are no test files", lines_of(w$script)))))
  writeLines("test_that('two', { expect_true(TRUE) })", file.path(folder, "test-b.R"))
  expect_true(eventually(any(grepl("test-b.R was saved: 1 of 1", lines_of(w$script)))))
  expect_true(eventually(any(grepl("Start test: two", lines_of(w$script)))))
  tools::pskill(w$script$pid, 2)
  expect_done(w$script)
})

test_that("an installed package cannot be watched", {
  skip_if_not_installed("pkgload")
  root <- new_package(list("test-a.R" = "test_that('a', { expect_true(TRUE) })"))
  expect_error(cluster_test(root, load = "installed", watch = TRUE), class = "clutch_argument")
  expect_error(cluster_test(root, watch = NA), class = "clutch_argument")
})
