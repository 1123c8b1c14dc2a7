# Maps whose results are combined as they come: `.reduce`.

test_that("the value is that of Reduce() over lapply(), to the last bit", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  x <- seq(0.1, 40, by = 0.1)
  third <- function(x) x / 3
  # floating-point sums depend on the order
  expected <- Reduce(`+`, lapply(x, third))
  for (where in list(cl, NULL, "here")) {
    expect_identical(cluster_map(where, x, third, .reduce = `+`), expected)
    expect_identical(cluster_map(where, letters, toupper, .reduce = paste0, .init = "x"),
                     Reduce(paste0, lapply(letters, toupper), "x"))
    expect_identical(cluster_map(where, 1:3, identity, .reduce = list),
                     Reduce(list, lapply(1:3, identity)))
    expect_identical(cluster_map(where, 1:3, function(i) NULL, .reduce = list),
                     Reduce(list, lapply(1:3, function(i) NULL)))
    expect_identical(cluster_map(where, 1:3, sqrt, .reduce = list, .init = NULL),
                     Reduce(list, lapply(1:3, sqrt), NULL))
    expect_identical(cluster_map(where, c(a = 4), sqrt, .reduce = `+`), 2)
    expect_identical(cluster_map(where, list(), sqrt, .reduce = `+`), list())
    expect_identical(cluster_map(where, list(), sqrt, .reduce = `+`, .init = 3), 3)
    expect_identical(cluster_map2(where, 1:3, 4:6, `*`, .reduce = "+"), 32L)
    expect_identical(cluster_pmap(where, list(1:3, 4:6), `*`, .reduce = `-`), 4L - 10L - 18L)
    expect_identical(cluster_imap(where, 5:6, `*`, .reduce = `+`), 17L)
  }
})

test_that("random numbers of elements are those of any map, and .reduce has the session's", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  noisy <- function(a, b) a + b + rnorm(1)
  of <- function(where) {
    set.seed(5)
    list(cluster_map(where, 1:9, function(i) rnorm(1), .reduce = noisy), runif(1))
  }
  expect_identical(of(cl), of("here"))
})

test_that("errors are those of a map, and of the function that combines", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  for (where in list(cl, "here")) {
    e <- expect_error(cluster_map(where, list(1, "a", 9), sqrt, .reduce = `+`),
                      class = "clutch_task_error")
    expect_identical(as.integer(e$element), 2L)
    expect_warning(
      value <- cluster_map(where, list(4, "a", 9), sqrt, .reduce = `+`, .on_error = "continue"),
      class = "clutch_failed"
    )
    expect_identical(value, 5)
    value <- suppressWarnings(
      cluster_map(where, list("a"), sqrt, .reduce = `+`, .init = 1, .on_error = "continue")
    )
    expect_identical(value, 1)
    expect_error(cluster_map(where, 1:9, sqrt, .reduce = function(a, b) stop("no sum")), "no sum")
    expect_identical(cluster_map_dbl(where, 1:2, identity), c(1, 2)) # it can be used at once
    expect_error(cluster_map_dbl(where, 1:2, sqrt, .reduce = `+`), class = "clutch_argument")
    expect_error(cluster_walk(where, 1:2, sqrt, .reduce = `+`), class = "clutch_argument")
    expect_error(cluster_map(where, 1:2, sqrt, .reduce = 3), class = "clutch_argument")
    expect_error(cluster_map(where, 1:2, sqrt, .init = 3), "`.init`", class = "clutch_argument")
  }
  expect_error(cluster_map(cl, 1:2, sqrt, .reduce = `+`, .detach = TRUE, .journal = tempfile()),
               "collect()", class = "clutch_argument")
})

test_that("an element whose node dies has its turn when it is done again", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  die_once <- function(i) {
    if (i == 2 && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9L)
    i
  }
  old <- options(clutch.reduce_ahead = 0)
  on.exit(options(old), add = TRUE)
  expect_identical(cluster_map(cl, 1:30, die_once, .reduce = c, .retries = 1), 1:30)
})

test_that("output appears in order, and each result is combined once", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  calls <- 0
  count <- function(a, b) {
    calls <<- calls + 1
    c(a, b)
  }
  say <- function(i) {
    cat("element", i, "\n")
    i
  }
  out <- capture.output(value <- cluster_map(cl, 1:8, say, .reduce = count))
  expect_identical(value, 1:8)
  expect_identical(calls, 7)
  expect_identical(out, sprintf("element %d ", 1:8))
})

test_that("what waits for its turn is bounded: no further elements begin", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  folder <- tempfile("begun")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE), add = TRUE)
  old <- options(clutch.reduce_ahead = 1e6)
  on.exit(options(old), add = TRUE)
  one <- function(i, folder) {
    file.create(file.path(folder, i))
    if (i > 1) return(numeric(1e4))
    # until nothing has begun for half a second
    repeat {
      n <- length(list.files(folder))
      Sys.sleep(0.5)
      if (n > 2 && length(list.files(folder)) == n) return(n)
    }
  }
  value <- cluster_map(cl, 1:400, one, folder = folder, .reduce = function(a, b) a)
  expect_lt(value, 100)
  expect_length(list.files(folder), 400)
})

test_that("a journal has each result, and those it has are combined in their places", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  path <- tempfile(fileext = ".journal")
  on.exit(unlink(path), add = TRUE)
  draw <- function(i) {
    if (i == 3) message("three")
    rnorm(2) + i
  }
  all <- cluster_map(cl, 1:12, draw, .seed = 4, .relay = "none")
  run <- function(n) cluster_map(cl, seq_len(n), draw, .seed = 4, .journal = path, .reduce = rbind)
  said <- character()
  with_said <- function(code) {
    withCallingHandlers(code, message = function(m) {
      said <<- c(said, conditionMessage(m))
      invokeRestart("muffleMessage")
    })
  }
  expect_identical(with_said(run(5)), Reduce(rbind, all[1:5]))
  expect_identical(with_said(run(12)), Reduce(rbind, all))
  expect_match(said, "5 of 12 elements were done before", all = FALSE)
  expect_identical(sum(said == "three\n"), 2L) # what it has said is repeated
  # the same results serve a map that does not combine
  expect_identical(
    suppressMessages(cluster_map(cl, 1:12, draw, .seed = 4, .journal = path)), all
  )
})
