# Run before cluster_test() forks: what testthat does in nearly every file has then been loaded and
# compiled once for all processes. What comes of these tests nobody reads.

local_edition(3)

test_that("what is equal passes", {
  expect_equal(c(a = 1), c(a = 1))
  expect_identical("a", "a")
  expect_true(TRUE)
  expect_length(1:3, 3)
  expect_match("text", "^t")
  expect_s3_class(data.frame(), "data.frame")
})

test_that("what differs fails", {
  expect_equal(list(a = 1, b = "text"), list(a = 2, b = "other"))
  expect_true(FALSE)
})

test_that("conditions are expected", {
  expect_error(stop("no"), "no")
  expect_error(rlang::abort("no", class = "known"), class = "known")
  expect_warning(warning("careful"), "careful")
  expect_message(message("hello"), "hello")
  expect_output(print(1), "1")
  expect_silent(1)
})

test_that("a snapshot is taken", {
  expect_snapshot(1 + 1)
  expect_snapshot(stop("no"), error = TRUE)
})

test_that("a warning is noted", {
  f <- function() warning("unexpected")
  f()
})

test_that("an error is noted", {
  f <- function() stop("unexpected")
  f()
})

test_that("a test is skipped", {
  skip("on purpose")
})
