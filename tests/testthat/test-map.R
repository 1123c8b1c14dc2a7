# What cluster_map() and its variants take and return.

with_two <- function(code) {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  code(cl)
}
error_of <- function(expr) tryCatch({ expr; NULL }, clutch_error = identity)

test_that("an option that there is not is an error that suggests one", {
  with_two(function(cl) {
    e <- error_of(cluster_map(cl, 1:2, paste, .retires = 3))
    expect_s3_class(e, "clutch_argument")
    expect_match(conditionMessage(e), "`.retires`: did you mean `.retries`?", fixed = TRUE)
    expect_match(conditionMessage(error_of(cluster_map_dbl(cl, 1:2, sum, .retry = 1))), "did you mean `.retries`", fixed = TRUE)
    expect_match(conditionMessage(error_of(cluster_walk(cl, 1:2, sum, .wholly.other = 1))), "no option `.wholly.other`", fixed = TRUE)
    expect_s3_class(error_of(cluster_map2(cl, 1:2, 1:2, sum, .seeed = 1)), "clutch_argument")
    expect_identical(cluster_map(cl, 1:2, function(x, .retires) .retires, .more = list(.retires = 3)), list(3, 3))
  })
})

test_that("arguments whose names are taken go into `.more`", {
  with_two(function(cl) {
    expect_identical(cluster_map(cl, 1:2, function(x, cl) cl, .more = list(cl = 3)), list(3, 3))
    expect_identical(cluster_map_dbl(cl, 1:2, function(x, cl) cl, .more = list(cl = 3)), c(3, 3))
    expect_identical(cluster_map2(cl, 1:2, 1:2, function(x, y, more) more, more = 3), list(3, 3))
    cluster_walk(cl, 1:2, function(x, .f, .x) stopifnot(.f == 3), .more = list(.f = 3))
    e <- error_of(cluster_map(cl, 1:2, function(x, c) c, c = 3)) # R takes it for `cl`
    expect_s3_class(e, "clutch_argument")
    expect_match(conditionMessage(e), "more = list", fixed = TRUE)
  })
})

test_that("`.f` is a function, its name, a formula or what to extract", {
  skip_if_not_installed("rlang")
  with_two(function(cl) {
    k <- 10
    expect_identical(cluster_map_dbl(cl, 1:2, ~ .x + k), c(11, 12))
    expect_identical(cluster_map2(cl, 1:2, 3:4, ~ .x * .y), list(3L, 8L))
    expect_identical(cluster_map_dbl(cl, c(4, 9), "sqrt"), c(2, 3))
    people <- list(list(name = "A", tel = list(1, 2)), list(name = "B"))
    expect_identical(cluster_map_chr(cl, people, "name"), c("A", "B"))
    expect_identical(cluster_map(cl, people, 1), list("A", "B"))
    expect_identical(cluster_map(cl, people, list("tel", 2)), list(2, NULL))
    expect_identical(cluster_map_dbl(cl, people, list("tel", 2), .default = NA), c(2, NA))
    expect_identical(cluster_map_int(cl, people, list("tel", length), .default = 0L), c(2L, 0L))
    expect_identical(cluster_map_dbl(cl, list(c(a = 1, b = 2)), "b"), 2)
    for (bad in list(NULL, TRUE, list(NULL), list(NA), quote(x), c("a", NA)))
      expect_s3_class(error_of(cluster_map(cl, 1:2, bad)), "clutch_argument")
    name <- function(x) "the function"
    expect_identical(cluster_map_chr(cl, people, "name"), rep("the function", 2))
  })
})

test_that("rows are bound, those of nothing to nothing", {
  with_two(function(cl) {
    expect_identical(cluster_map_dfr(cl, integer(), function(i) data.frame(a = i)), data.frame())
    expect_identical(cluster_map_dfr(cl, 1:3, function(i) NULL), data.frame())
    expect_identical(cluster_map_dfr(cl, 1:2, function(i) data.frame()), data.frame())
    expect_identical(cluster_map_dfr(cl, 1:2, function(i) data.frame(a = i, b = letters[i])), data.frame(a = 1:2, b = c("a", "b")))
    expect_identical(cluster_map_dfr(cl, 1:3, function(i) if (i != 2) list(a = i)), data.frame(a = c(1L, 3L)))
    expect_identical(cluster_map_dfr(cl, 1:2, function(i) if (i == 1) list(a = 1, b = 2) else list(b = 4, a = 3)),
                     data.frame(a = c(1, 3), b = c(2, 4)))
    e <- error_of(cluster_map_dfr(cl, 1:3, function(i) if (i == 3) list(a = 1, z = 2) else if (i == 2) list(a = 1)))
    expect_s3_class(e, "clutch_value")
    expect_match(conditionMessage(e), "element 3 has columns a, z, and element 2 has a", fixed = TRUE)
    expect_identical(e$element, 3L)
    expect_match(conditionMessage(error_of(cluster_map_dfr(cl, 1:2, function(i) i))), "element 1: cluster_map_dfr")
  })
})

test_that("names, retries and seeds of no use", {
  with_two(function(cl) {
    e <- new.env()
    e$a <- 1
    e$.hidden <- 2
    expect_identical(cluster_map(cl, e, function(x) x), list(a = 1))
    expect_s3_class(error_of(cluster_map(cl, 1, identity, .retries = NULL)), "clutch_argument")
    expect_s3_class(error_of(cluster_map(cl, 1, identity, .retries = c(1, 2))), "clutch_argument")
    expect_s3_class(error_of(cluster_map(cl, 1, identity, .seed = 1e10)), "clutch_argument")
    bad <- error_of(cluster_map_dfr(cl, 1:2, function(i) list(a = 1:2, b = 1:3)))
    expect_s3_class(bad, "clutch_value")
    expect_identical(bad$element, 1L)
  })
})
