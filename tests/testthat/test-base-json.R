# JSON: what comes out is read by jsonlite, and is what went in.

test_that("JSON keeps values, types and names", {
  skip_if_not_installed("jsonlite")
  back <- function(x) jsonlite::fromJSON(clutch:::to_json(x), simplifyVector = FALSE)
  expect_null(back(NULL))
  expect_identical(back(1L), 1L)
  expect_identical(back(c(a = 2.5)), 2.5)
  expect_identical(back(list(a = TRUE, b = "x", c = NA, d = NULL)),
                   list(a = TRUE, b = "x", c = NULL, d = NULL))
  expect_identical(back(I("x")), list("x"))
  expect_identical(back(character()), list())
  expect_identical(back(list(1L, list(k = "v"))), list(1L, list(k = "v")))
  expect_identical(back(c(1, NA, NaN, Inf, -Inf)), list(1L, NULL, NULL, NULL, NULL))
  expect_identical(back(factor(c("u", NA))), list("u", NULL))
  now <- 1790000000.123456
  expect_identical(back(now), now)
  # numbers that are not written by the C library are written as it does
  several <- c(0, -1, 1e14, -123456789012, 2^53, 1e300, 0.1, 1e9, 1790000000.5, 9899999999.999999,
               1999999999.9999998, 1e9 + 1e-6 * 0:999, 1e-9, -1790000000.25)
  expect_identical(strsplit(clutch:::json_values(several), ",")[[1L]], sprintf("%.16g", several))
  d <- data.frame(n = 1:2, s = c("a", NA), t = c(0.1, NA))
  expect_identical(back(d), list(n = list(1L, 2L), s = list("a", NULL), t = list(0.1, NULL)))
  expect_identical(back(d[0L, ]), list(n = list(), s = list(), t = list()))
})

test_that("JSON escapes what a string may hold", {
  skip_if_not_installed("jsonlite")
  texts <- c("quote \" and \\ back", "line\nline\r\ttab", "\u2028\u2029 \u00e4 \U1F600",
             "\001\037\177", "<script>alert(1)</script>", "", "\\u0041")
  back <- unlist(jsonlite::fromJSON(clutch:::to_json(texts)))
  expect_identical(back, texts)
  expect_false(grepl("<", clutch:::to_json(texts), fixed = TRUE))
  expect_false(grepl("\n", clutch:::to_json(texts), fixed = TRUE))
  latin <- "\xe4"
  Encoding(latin) <- "latin1"
  expect_identical(jsonlite::fromJSON(clutch:::to_json(latin)), "\u00e4")
  broken <- "a\xff"
  Encoding(broken) <- "UTF-8"
  expect_identical(jsonlite::fromJSON(clutch:::to_json(broken)), "a<ff>")
})

test_that("secrets are random, and compared as wholes", {
  a <- .Call(clutch:::ffi_secret_bytes, 16L)
  b <- .Call(clutch:::ffi_secret_bytes, 16L)
  expect_identical(length(a), 16L)
  expect_false(identical(a, b))
  same <- function(x, y) .Call(clutch:::ffi_same_secret, x, y)
  expect_true(same("abcd", "abcd"))
  expect_false(same("abcd", "abce"))
  expect_false(same("abcd", "abc"))
  expect_true(same("", ""))
})
