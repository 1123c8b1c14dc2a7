# Maps with cl = "here": no nodes.

test_that("values, names and types are those of a cluster", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  x <- c(a = 1, b = 2, c = 3)
  for (where in list(cl, "here")) {
    expect_identical(cluster_map(where, x, function(i, k) i * k, k = 2),
                     list(a = 2, b = 4, c = 6))
    expect_identical(cluster_map_dbl(where, x, sqrt), sqrt(x))
    expect_identical(cluster_map2_int(where, 1:3, 4:6, `+`), c(5L, 7L, 9L))
    expect_identical(cluster_pmap(where, list(a = 1:2, b = 3:4), function(b, a) a - b),
                     list(-2L, -2L))
    expect_identical(cluster_imap(where, c(x = 1), function(v, n) paste(n, v)), list(x = "x 1"))
    expect_identical(cluster_map_dfr(where, 1:2, function(i) data.frame(i = i)),
                     data.frame(i = 1:2))
    expect_identical(cluster_map(where, list(1, NULL, quote(y)), identity),
                     list(1, NULL, quote(y)))
    expect_identical(cluster_map(where, list(), sqrt), list())
    expect_identical(cluster_map(where, list(list(a = 1)), "a"), list(1))
    expect_identical(cluster_walk(where, 1, identity), 1)
  }
})

test_that("random numbers are those of a cluster, and the session's go on as after one", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  draw <- function(i) c(rnorm(1), runif(1), sample(10, 1))
  of <- function(where, ...) {
    set.seed(3)
    list(cluster_map(where, 1:5, draw, ...), runif(2), RNGkind())
  }
  expect_identical(of("here"), of(cl))
  expect_identical(of("here", .seed = 7), of(cl, .seed = 7))
  set.seed(3)
  expected <- lapply(1:2, draw)
  set.seed(3)
  expect_identical(cluster_map("here", 1:2, draw, .seed = FALSE), expected)
})

test_that("an error is that of its element, with the frames of the function", {
  f <- function(i) {
    inner <- i
    if (i == 2) stop("two") else i
  }
  seen <- NULL
  e <- tryCatch(withCallingHandlers(cluster_map("here", 1:3, f), error = function(e) {
    frames <- sys.frames()
    seen <<- c(seen, unlist(lapply(frames, function(g) get0("inner", g, inherits = FALSE))))
  }), error = identity)
  expect_s3_class(e, "clutch_task_error")
  expect_identical(e$element, 2L)
  expect_match(conditionMessage(e), "element 2 failed in 'f(1)'|element 2 failed in .*: two")
  expect_true(2L %in% seen)
  expect_identical(conditionMessage(e$parent), "two")
  expect_warning(v <- cluster_map("here", 1:3, f, .on_error = "continue"), class = "clutch_failed")
  expect_s3_class(v[[2L]], "clutch_task_error")
  expect_identical(v[-2L], list(1L, 3L))
})

test_that("the function sees the session, and what it prints appears", {
  count <- 0
  expect_output(cluster_walk("here", 1:3, function(i) {
    count <<- count + i
    cat("element", i, "\n")
  }), "element 3")
  expect_identical(count, 6)
  expect_warning(cluster_map("here", 1, function(i) warning("careful")), "careful")
})

test_that("what needs nodes is an error", {
  path <- tempfile()
  expect_error(cluster_map("here", 1, sqrt, .journal = path), "here", class = "clutch_argument")
  expect_error(cluster_map("there", 1, sqrt), class = "clutch_argument")
  expect_error(cluster_map("here", 1, sqrt, .packages = "no.such.package"),
               class = "clutch_package")
  expect_false(file.exists(path))
})

test_that("a constant argument may be missing, as on a cluster", {
  map <- function(option) {
    cluster_map("here", 1:2, function(i, option, other) c(missing(option), missing(other)), option,
                other = quote(a + b))
  }
  expect_identical(map(), list(c(TRUE, FALSE), c(TRUE, FALSE)))
  expect_identical(map(quote(a)), list(c(FALSE, FALSE), c(FALSE, FALSE)))
})
