# The programs of inst/examples/programs: what they compute on nodes is what lapply() computes.

program <- function(name) {
  e <- new.env(parent = globalenv())
  sys.source(system.file("examples", "programs", paste0(name, ".R"), package = "clutch"), e)
  e
}
expect_same_as_lapply <- function(run, ...) {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  on_nodes <- run(function(x, f) cluster_map(cl, x, f), ...)
  expect_equal(on_nodes, run(lapply, ...))
  on_nodes
}

test_that("bootstrap", {
  skip_if_not_installed("survival")
  x <- expect_same_as_lapply(program("bootstrap")$bootstrap, 40)
  expect_identical(dim(x), c(3L, 3L))
  expect_true(all(x[, "2.5%"] < x[, "97.5%"]))
})

test_that("forest", {
  skip_if_not_installed("rpart")
  x <- expect_same_as_lapply(program("forest")$tune_forest, 2)
  expect_identical(nrow(x), 15L)
  expect_false(is.unsorted(x$error))
})

test_that("chains", {
  x <- expect_same_as_lapply(program("chains")$sample_posterior, 3, 4000)
  expect_true(all(x[, "R"] < 1.2))
})

test_that("tiles", {
  x <- expect_same_as_lapply(program("tiles")$mandelbrot, 10)
  expect_identical(dim(x), c(160L, 160L))
  # the picture is its own mirror image, but for the row of points on the axis, which is there once
  expect_identical(x[, 2:80], x[, 160:82])
  expect_identical(x[117, 81], 100L) # the origin is within the set
})

test_that("pages: those that hang once come the second time, those that are not there are NA", {
  skip_if_not_installed("httpuv")
  skip_if_not_installed("promises")
  p <- program("pages")
  server <- p$start_server()
  on.exit(server$stop())
  cl <- make_cluster(4)
  on.exit(stop_cluster(cl), add = TRUE)
  numbers <- c(1:12, 43)
  texts <- cluster_map_chr(cl, paste0(server$url, "/", numbers), p$fetch, .chunk = 1)
  expect_identical(texts, ifelse(numbers == 7, NA, paste("page", numbers)))
})
