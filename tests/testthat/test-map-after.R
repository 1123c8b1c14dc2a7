# Tasks as arguments of tasks.

# A task that ends when the file is there.
waits_for <- function(cl, path, value) {
  force(value)
  cluster_submit(cl, {
    while (!file.exists(path)) Sys.sleep(0.01)
    value
  })
}

test_that("a task gets the values of others, wherever these stand", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  one <- cluster_submit(cl, 1)
  two <- cluster_submit(cl, one + 1)
  expect_s3_class(two, "clutch_task")
  expect_identical(collect(two), 2)
  expect_identical(collect(cluster_submit(cl, two + one)), 3) # both have ended
  # arguments, named or not, and the same task twice
  f <- function(a, b, c = 0) a * 100 + b * 10 + c
  x <- cluster_submit(cl, 4)
  expect_identical(collect(cluster_submit_call(cl, f, list(x, c = x, b = 5))), 454)
  expect_identical(collect(cluster_submit_call(cl, "sum", list(x, one, two, 1))), 8)
  # lists of tasks, also with other things in them
  tasks <- lapply(1:4, function(i) cluster_submit(cl, i^2))
  expect_identical(collect(cluster_submit(cl, do.call(sum, tasks))), 30)
  mixed <- list(a = cluster_submit(cl, NULL), b = 2, c = x)
  expect_identical(collect(cluster_submit(cl, mixed)), list(a = NULL, b = 2, c = 4))
  # in a function, beside local variables; NULL is a value
  inside <- function(k) {
    nothing <- cluster_submit(cl, NULL)
    some <- cluster_submit(cl, k)
    list(collect(cluster_submit(cl, is.null(nothing))), collect(cluster_submit(cl, some * k)))
  }
  expect_identical(inside(3), list(TRUE, 9))
  # named globals, and a helper that needs nothing of it
  expect_identical(collect(cluster_submit(cl, x + y, .globals = list(x = one, y = 5))), 6)
  expect_identical(collect(cluster_submit(cl, x * 2, .globals = "x")), 8)
})

test_that("it waits for them, and so do those that need it in turn", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  path <- tempfile("go")
  on.exit(unlink(path), add = TRUE)
  first <- waits_for(cl, path, 1)
  second <- cluster_submit(cl, first + 1)
  third <- cluster_submit_call(cl, function(a, b) c(a, b), list(second, first))
  expect_false(any(resolved(list(first, second, third), timeout = 0.1)))
  expect_match(format(third), "waiting for another task")
  expect_identical(collect(cluster_submit(cl, 7)), 7) # others do not wait
  file.create(path)
  expect_identical(collect(third), c(2, 1))
  # a long chain; nothing but the last is kept
  z <- cluster_submit(cl, 0)
  for (i in 1:200) z <- cluster_submit(cl, z + 1)
  expect_identical(collect(z), 200)
})

test_that("large values, classes, what was said and values of other clusters arrive", {
  cl <- make_cluster(2)
  other <- make_cluster(1)
  on.exit({
    stop_cluster(cl)
    stop_cluster(other)
  })
  x <- cluster_submit(cl, {
    message("made")
    as.numeric(seq_len(4e5))
  })
  twice <- cluster_submit(cl, x * 2)
  apart <- cluster_submit(other, sum(twice))
  expect_identical(collect(apart), sum(as.numeric(1:4e5)) * 2)
  expect_message(collect(x), "made")
  expect_identical(collect(twice)[[4e5]], 8e5)
  table <- cluster_submit(cl, data.frame(a = 1:3))
  expect_identical(collect(cluster_submit(cl, table[table$a > 1, , drop = FALSE])),
                   data.frame(a = 2:3, row.names = 2:3))
  f <- cluster_submit(cl, function(x) x + 1)
  expect_identical(collect(cluster_submit(cl, f(1))), 2)
})

test_that("a task goes on with values of a cluster for which nobody waits", {
  cl <- make_cluster(1)
  other <- make_cluster(1)
  on.exit({
    stop_cluster(cl)
    stop_cluster(other)
  })
  path <- tempfile("go")
  on.exit(unlink(path), add = TRUE)
  first <- waits_for(cl, path, 1)
  # its only node dies at the first attempt, and is replaced by who waits for the last
  second <- cluster_submit(cl, {
    if (clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9L)
    first + 1
  }, .retries = 1)
  third <- cluster_submit(other, second + 1)
  fourth <- cluster_submit(other, third + 1)
  file.create(path)
  expect_identical(collect(fourth, timeout = 60), 4)
})

test_that("the error of one is that of the other, and so is the end of it", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  path <- tempfile("go")
  on.exit(unlink(path), add = TRUE)
  bad <- cluster_submit(cl, stop("too bad"))
  after <- cluster_submit(cl, bad + 1)
  last <- cluster_submit(cl, after + 1)
  e <- expect_error(collect(last), "too bad", class = "clutch_task_error")
  expect_identical(conditionMessage(e), tryCatch(collect(bad), error = conditionMessage))
  expect_error(collect(cluster_submit(cl, bad + 1)), "too bad") # it has ended before
  first <- waits_for(cl, path, 1)
  second <- cluster_submit(cl, first)
  cancel(first)
  expect_error(collect(second), class = "clutch_task_cancelled")
  # to cancel the second does not touch the first
  first <- waits_for(cl, path, 1)
  second <- cluster_submit(cl, first)
  cancel(second)
  file.create(path)
  expect_identical(collect(first), 1)
  expect_error(collect(second), class = "clutch_task_cancelled")
  # the node of the first dies
  dying <- cluster_submit(cl, tools::pskill(Sys.getpid(), 9L))
  after <- cluster_submit(cl, dying)
  expect_error(collect(after), class = "clutch_task_died")
})

test_that("a chain that ends with its first may be longer than R's stack is deep", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  path <- tempfile("go")
  on.exit(unlink(path), add = TRUE)
  z <- cluster_submit(cl, {
    while (!file.exists(path)) Sys.sleep(0.01)
    stop("too bad")
  })
  for (i in 1:700) z <- cluster_submit(cl, z + 1)
  file.create(path)
  expect_error(collect(z), "too bad", class = "clutch_task_error")
})

test_that("tasks of several clusters may be needed in many ways", {
  cl <- make_cluster(1)
  other <- make_cluster(1)
  on.exit({
    stop_cluster(cl)
    stop_cluster(other)
  })
  path <- tempfile("go")
  on.exit(unlink(path), add = TRUE)
  a <- waits_for(other, path, 1)
  b <- cluster_submit(cl, a + 0)
  for (i in 1:40) { # by as many ways as the last value says
    z <- cluster_submit(cl, a + b)
    a <- b
    b <- z
  }
  expect_false(resolved(z))
  file.create(path)
  expect_identical(collect(z, timeout = 60), 267914296)
})

test_that("the node of a task may die: the next one gets the values again", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  x <- cluster_submit(cl, list(1, numeric(4e5)))
  again <- cluster_submit(cl, {
    if (clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9L)
    c(x[[1]], length(x[[2]]))
  }, .retries = 1)
  expect_identical(collect(again), c(1, 4e5))
})

test_that("values arrive while the session does something else", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  path <- tempfile("there")
  on.exit(unlink(path), add = TRUE)
  first <- cluster_submit(cl, {
    Sys.sleep(0.2)
    path
  })
  second <- cluster_submit(cl, file.create(first))
  deadline <- Sys.time() + 20
  # no function of the package is called
  while (!file.exists(path) && Sys.time() < deadline) NULL
  expect_true(file.exists(path))
  expect_true(collect(second))
})

test_that("nodes that connect get them, also from nodes with shared memory", {
  cl <- make_cluster(1, strategy = "parallel")
  other <- make_cluster(1)
  on.exit({
    stop_cluster(cl)
    stop_cluster(other)
  })
  x <- cluster_submit(cl, as.numeric(seq_len(4e5)))
  small <- cluster_submit(cl, length(x))
  expect_identical(collect(cluster_submit(cl, c(small, sum(x)))), c(4e5, sum(1:4e5 + 0)))
  y <- cluster_submit(other, as.numeric(seq_len(4e5)))
  expect_identical(collect(cluster_submit(cl, sum(x - y))), 0)
})

test_that("with a journal the values have to be there", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  path <- tempfile("go")
  journal <- tempfile(fileext = ".journal")
  on.exit(unlink(c(path, journal)), add = TRUE)
  x <- waits_for(cl, path, 20)
  expect_error(cluster_submit(cl, x + 1, .journal = journal), "collect()",
               class = "clutch_argument")
  expect_error(cluster_submit_call(cl, sqrt, list(x), .journal = journal),
               class = "clutch_argument")
  file.create(path)
  collect(x)
  expect_identical(collect(cluster_submit(cl, x + 1, .journal = journal)), 21)
  expect_identical(collect(cluster_submit_call(cl, sqrt, list(x), .journal = journal)), sqrt(20))
  expect_identical(nrow(journal_read(journal)), 2L)
})

test_that("an argument that the expression does not come to may be missing, or fail", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  f <- function(a, b) collect(cluster_submit(cl, if (a > 5) b else a))
  expect_identical(f(1), 1)
  expect_identical(f(1, stop("nobody asks for it")), 1)
  labelled <- function(a, b) collect(cluster_submit(cl, if (a > 5) b else a, .label = "a or b"))
  expect_identical(labelled(1), 1)
  expect_silent(expect_identical(labelled(1, stop("nobody asks for it")), 1))
})
