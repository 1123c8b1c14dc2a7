# cluster_test(watch = TRUE): which test files run when something was saved.

definitions <- function(...) {
  file <- tempfile(fileext = ".R")
  on.exit(unlink(file))
  writeLines(c(...), file)
  definitions_of(file)
}

test_that("definitions are told by name, with what they use", {
  d <- definitions("f <- function(x) g(x)", "'g' = \\(x) x %+% 'text'", "y <- f(1)", "setup()")
  expect_identical(vapply(d, function(x) x$name, ""), c("f", "g", "y", NA))
  expect_identical(vapply(d, function(x) x$is_function, NA), c(TRUE, TRUE, FALSE, FALSE))
  expect_true(all(c("f", "g") %in% d[[1L]]$words))
  expect_true(all(c("%+%", "text") %in% d[[2L]]$words))
  expect_s3_class(definitions("f <- function("), "error")
})

test_that("what has changed is told by code, and is a patch where it is functions only", {
  before <- definitions("f <- function(x) x", "g <- function() 1", "y <- 2")
  change <- function(...) changes_of_file(before, definitions(...))
  same <- change("# a comment", "f <- function(x)", "  x", "y <- 2", "g <- function() 1")
  expect_identical(same$names, character())
  expect_identical(same$patch, list())
  one <- change("f <- function(x) x + 1", "g <- function() 1", "y <- 2", "new <- function() f(1)")
  expect_setequal(one$names, c("f", "new"))
  expect_length(one$patch, 2L)
  gone <- change("f <- function(x) x", "y <- 2")
  expect_identical(gone$names, "g")
  expect_null(gone$patch)
  expect_null(change("f <- function(x) x", "g <- function() 1", "y <- 3")$patch)
  expect_null(change("f <- function(x) x", "g <- function() 1", "y <- 2", "run()")$patch)
  hook <- change("f <- function(x) x", "g <- function() 1", "y <- 2", ".onLoad <- function(a, b) 1")
  expect_null(hook$patch)
})

test_that("users are found through functions, helpers and methods", {
  code <- definitions("low <- function() 1", "middle <- function() low()",
                      "high <- function() middle()", "other <- function() 2",
                      "table <- list(other)",
                      "area <- function(x) UseMethod('area')", "area.square <- function(x) low()",
                      "print.square <- function(x, ...) other()", "`%+%` <- function(a, b) a",
                      "`[.square` <- function(x, i) x")
  helpers <- definitions("check_high <- function() high()")
  root <- tempfile("pkg")
  dir.create(root)
  on.exit(unlink(root, recursive = TRUE))
  writeLines(c("S3method(area, square)", "S3method(dim, square, dim_of)"),
             file.path(root, "NAMESPACE"))
  methods <- methods_in(root, code)
  of <- function(name) users_of(name, code, helpers, methods)
  u <- of("low")
  expect_setequal(u$names, c("low", "middle", "high", "area", "area.square", "check_high"))
  expect_identical(c(u$is_all, u$at_load), c(FALSE, FALSE))
  expect_true(of("other")$at_load)
  expect_true(of("print.square")$is_all)
  expect_true(of("dim_of")$is_all)
  expect_true(of("[.square")$is_all)
  expect_true(of(".onLoad")$is_all)
  expect_false(of("%+%")$is_all)
  expect_true(users_of("low", c(code, definitions("run(low)")), helpers, methods)$is_all)
})

# A session that watches. The values are functions: saved(file, lines) writes, and waits until the
# watch has shown so many more runs; said() is what it has printed since then.
start_watch <- function(root, ...) {
  s <- start_script(c(
    sprintf("r <- cluster_test('%s', nodes = 2, reporter = 'location', watch = TRUE)", root),
    "cat('results=', nrow(as.data.frame(r)), '\\n', sep = '')", "cat('done\\n')"
  ))
  waits <- function() sum(grepl("Waits for a file", lines_of(s)))
  at <- 0
  list(script = s, begun = function() eventually(waits() > 0, 60), saved = function(file, lines) {
    at <<- length(lines_of(s))
    before <- waits()
    writeLines(lines, file.path(root, file))
    eventually(waits() > before, 60)
  }, said = function() {
    lines <- lines_of(s)
    grep("was saved|were saved|^Start test|fail", lines[seq_along(lines) > at], value = TRUE)
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
  expect_true(any(grepl("code.R:.*(unexpected|end of input)", lines_of(w$script))))
  expect_true(w$saved("R/code.R", c("add <- function(x, y) x - y", "value <- add(1, 2)")))
  expect_match(w$said()[[1L]], "1 of 3")
  expect_false(any(grepl("failure", w$said())))
  # what was computed as the package was loaded; a new test file
  expect_true(w$saved("R/code.R", c("add <- function(x, y) 1", "value <- add(1, 2)")))
  expect_true(w$saved("tests/testthat/test-d.R",
                      "test_that('fresh', { expect_equal(c(add(1, 2), value), c(1, 1)) })"))
  expect_match(w$said()[[1L]], "1 of 4")
  expect_false(any(grepl("fail", w$said())))
  tools::pskill(w$script$pid, 2)
  expect_done(w$script)
  expect_identical(value_of(w$script, "results"), "1")
  expect_true(ends(w$script))
})

test_that("an installed package cannot be watched", {
  skip_if_not_installed("pkgload")
  root <- new_package(list("test-a.R" = "test_that('a', { expect_true(TRUE) })"))
  expect_error(cluster_test(root, load = "installed", watch = TRUE), class = "clutch_argument")
  expect_error(cluster_test(root, watch = NA), class = "clutch_argument")
})
