# foreach loops by registerDoClutch(). foreach's own tests: tests/adapters/foreach.R.

outside_checks_only()
skip_if_not_installed("foreach")
`%dopar%` <- foreach::`%dopar%`
`%do%` <- foreach::`%do%`
`%:%` <- foreach::`%:%`
foreach <- foreach::foreach

# The registration ends with the test.
local_backend <- function(n = 2L, env = parent.frame()) {
  cl <- make_cluster(n)
  registerDoClutch(cl)
  withr_defer({
    foreach::registerDoSEQ()
    stop_cluster(cl)
  }, env)
  cl
}
withr_defer <- function(expr, env) {
  code <- substitute(expr)
  here <- parent.frame()
  do.call(on.exit, list(bquote(eval(.(code), .(here))), add = TRUE), envir = env)
}

# Yields 1, 2, ...; `read()` tells how many it has yielded. Ends after `n`.
counting <- function(n = Inf, pause = 0) {
  i <- 0
  structure(class = c("abstractiter", "iter"), list(
    nextElem = function() {
      if (i >= n) stop("StopIteration", call. = FALSE)
      Sys.sleep(pause)
      i <<- i + 1
      i
    },
    read = function() i
  ))
}

test_that("a loop gives what %do% gives", {
  cl <- local_backend()
  expect_identical(foreach::getDoParName(), "clutch")
  expect_identical(foreach::getDoParWorkers(), 2L)
  expect_identical(foreach::getDoParVersion(), as.character(utils::packageVersion("clutch")))
  expect_identical(foreach(i = 1:5) %dopar% i^2, foreach(i = 1:5) %do% i^2)
  expect_identical(foreach(i = 1:5, .combine = c) %dopar% i, 1:5)
  expect_identical(foreach(i = 1:5, j = 5:1, .combine = "+") %dopar% (i * j), 35L)
  expect_identical(foreach(1:3, .combine = c) %dopar% 7, c(7, 7, 7))
  expect_identical(foreach(1:2) %dopar% NULL, list(NULL, NULL))
  expect_identical(foreach(i = integer()) %dopar% i, list())
  expect_identical(foreach(i = integer(), .combine = c) %dopar% i, NULL)
  expect_identical(foreach(i = 1:4, .combine = c, .init = 0L, .final = rev) %dopar% i, 4:0)
  expect_identical(
    foreach(i = 1:300, .combine = function(...) sum(...), .multicombine = TRUE,
            .maxcombine = 7) %dopar% i,
    45150L
  )
  expect_identical(sort(foreach(i = 1:9, .combine = c, .inorder = FALSE) %dopar% i), 1:9)
  nested <- foreach(i = 1:3) %:% foreach(j = 1:2, .combine = c)
  expect_identical(nested %dopar% (10 * i + j), list(c(11, 12), c(21, 22), c(31, 32)))
  odd <- foreach(i = 1:3, .combine = c) %:% foreach::when(i != 2)
  expect_identical(odd %dopar% i, c(1L, 3L))
})

test_that("variables of all frames around the loop are there, and helpers see the iteration's", {
  cl <- local_backend()
  outer <- function(a, ..., unused_and_missing) {
    deeper <- function(x) x + a + b # `b` of this frame, and not of the inner one
    b <- 1
    inner <- function() {
      b <- 1000
      helper <- function(x) deeper(x) + i
      foreach(i = 1:2, .combine = c) %dopar% helper(sum(...))
    }
    inner()
  }
  expect_identical(outer(10, 100, 200), c(312, 313))
  flag <- NULL
  expect_identical(foreach(i = 1:2, .combine = c) %dopar% is.null(flag), c(TRUE, TRUE))
  expect_identical(foreach(df = list(data.frame(y = 1)), .combine = c) %dopar% df$y, 1)
  f <- function(y) foreach(d = list(list(y = 3)), .combine = c) %dopar% d$y # `y` is missing
  expect_identical(f(), 3)
})

test_that("functions of the workspace see each other and the iteration's variables", {
  cl <- local_backend()
  eval(quote({
    clutch_test_g <- function() clutch_test_i + clutch_test_a
    clutch_test_f <- function() clutch_test_g()
    clutch_test_a <- 100
  }), globalenv())
  on.exit(rm(list = ls(globalenv(), pattern = "^clutch_test_"), envir = globalenv()), add = TRUE)
  loop <- quote(foreach(clutch_test_i = 1:2, .combine = c) %dopar% clutch_test_f())
  env <- new.env(parent = globalenv())
  env$foreach <- foreach
  env$`%dopar%` <- `%dopar%`
  expect_identical(eval(loop, env), c(101, 102))
  by_name <- function() {
    foreach(i = 1, .export = "clutch_test_a") %dopar% get(paste0("clutch_", "test_a"))
  }
  expect_identical(by_name(), list(100))
  expect_error(foreach(i = 1, .export = "clutch_not_there") %dopar% i,
               "no variable 'clutch_not_there'", class = "clutch_argument")
  without <- function() foreach(i = 1, .noexport = "clutch_test_a") %dopar% exists("clutch_test_a")
  expect_identical(without(), list(FALSE))
})

test_that("an iteration does not see what another one has assigned", {
  cl <- local_backend(1L)
  a <- 0
  expect_identical(foreach(i = 1:4, .combine = c) %dopar% {
    a <- a + 1
    a
  }, rep(1, 4))
})

test_that("an error is foreach's and a task's, and what comes after it is not begun", {
  cl <- local_backend(1L)
  folder <- tempfile()
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE), add = TRUE)
  e <- tryCatch(
    foreach(i = 1:200, .options.clutch = list(chunk = 1)) %dopar% {
      file.create(file.path(folder, i))
      if (i == 2) stop("second")
      Sys.sleep(0.05)
    },
    error = identity
  )
  expect_s3_class(e, c("clutch_task_error", "clutch_error", "simpleError", "error", "condition"),
                  exact = TRUE)
  expect_identical(conditionMessage(e), "task 2 failed - \"second\"")
  expect_identical(e$element, 2)
  expect_identical(conditionMessage(e$parent), "second")
  expect_lt(length(list.files(folder)), 200L)
  expect_identical(foreach(i = 1:3, .errorhandling = "remove") %dopar%
                     if (i == 2) stop() else i, list(1L, 3L))
  passed <- foreach(i = 1:3, .errorhandling = "pass") %dopar% if (i == 2) stop("two") else i
  expect_s3_class(passed[[2L]], "simpleError")
  expect_identical(conditionMessage(passed[[2L]]), "two")
  # an error of an inner loop may be handled there
  nested <- foreach(i = 1:2, .errorhandling = "stop") %:% foreach(j = 1:2, .errorhandling = "pass")
  expect_identical(lengths(nested %dopar% if (j == 2) stop("two") else j), c(2L, 2L))
  nested <- foreach(i = 1:2) %:% foreach(j = 1:2, .errorhandling = "stop")
  expect_error(nested %dopar% if (j == 2) stop("two") else j, "failed - \"two\"",
               class = "clutch_task_error")
  # a value that is an error counts as one, as with foreach's other backends
  expect_error(foreach(i = 1:2) %dopar% simpleError("a value"), "task 1 failed - \"a value\"")
  expect_error(foreach(i = 1:3, .combine = function(a, b) stop("combine")) %dopar% i, "^combine$")
})

test_that("deaths and time limits are errors of their iterations", {
  cl <- local_backend()
  x <- foreach(i = 1:3, .errorhandling = "pass") %dopar%
    if (i == 2) tools::pskill(Sys.getpid(), 9) else i
  expect_s3_class(x[[2L]], "clutch_task_died")
  expect_identical(x[c(1, 3)], list(1L, 3L))
  expect_identical(foreach(i = 1:3, .combine = c, .options.clutch = list(retries = 1)) %dopar% {
    if (i == 2 && clutch::task_attempt() == 1) tools::pskill(Sys.getpid(), 9)
    i
  }, 1:3)
  expect_error(foreach(i = 1:2, .options.clutch = list(timeout = 0.2)) %dopar% Sys.sleep(60 * i),
               "failed - ", class = "clutch_task_timeout")
})

test_that("an iterator is read as far as it is needed", {
  cl <- local_backend()
  it <- counting()
  expect_error(foreach(i = it) %dopar% if (i == 7) stop("seven") else i,
               "task 7 failed - \"seven\"")
  expect_lt(it$read(), 2e5)
  # one that is slow: the first iterations are done before the last is read
  it <- counting(12, 0.05)
  done <- tempfile()
  on.exit(unlink(done), add = TRUE)
  seen <- foreach(i = it, there = local({
    i <- 0
    structure(class = c("abstractiter", "iter"), list(nextElem = function() file.exists(done)))
  }), .combine = c) %dopar% {
    if (i == 1) file.create(done)
    there
  }
  expect_length(seen, 12L)
  expect_false(seen[[1L]])
  expect_true(seen[[12L]])
  expect_error(foreach(i = counting(Inf), j = list(1, 2)) %dopar% i, NA)
  broken <- structure(class = c("abstractiter", "iter"),
                      list(nextElem = function() stop("no third")))
  expect_error(foreach(i = broken) %dopar% i, "no third")
})

test_that("random numbers follow the seed, however the iterations were read", {
  cl <- local_backend()
  draw <- function(it, ...) {
    foreach(i = it, .combine = c, .options.clutch = list(seed = 7, ...)) %dopar% stats::rnorm(1)
  }
  once <- draw(1:12)
  expect_identical(draw(counting(12, 0.05)), once)
  expect_identical(draw(1:12, chunk = 5), once)
  expect_identical(once, cluster_map_dbl(cl, 1:12, function(i) stats::rnorm(1), .seed = 7))
  set.seed(1)
  before <- .Random.seed
  foreach(i = 1:2) %dopar% stats::runif(1)
  expect_identical(.Random.seed, before) # as with other backends: nobody's results change
  old <- options(clutch.seed = TRUE)
  on.exit(options(old), add = TRUE)
  follow <- function() {
    set.seed(1)
    foreach(i = 1:2) %dopar% stats::runif(1)
  }
  expect_identical(follow(), follow())
})

test_that("output and conditions are relayed, and an inner loop does not warn", {
  cl <- local_backend()
  expect_output(foreach(i = 1:3) %dopar% cat("at", i, ""), "at 1 at 2 at 3")
  expect_warning(foreach(i = 1) %dopar% warning("careful"), "careful")
  old <- options(warn = 2)
  on.exit(options(old), add = TRUE)
  inner <- foreach(i = 1:2, .packages = "foreach", .combine = c) %dopar% {
    foreach(j = 1:2, .combine = c) %dopar% (10 * i + j)
  }
  expect_identical(inner, c(11, 12, 21, 22))
})

test_that("packages and what doParallel knows", {
  cl <- local_backend()
  expect_identical(foreach(1:2, .packages = "splines", .combine = c) %dopar%
                     ("package:splines" %in% search()), c(TRUE, TRUE))
  expect_error(foreach(1:2, .packages = "notThere") %dopar% 1, class = "clutch_package")
  local_function <- function() "local"
  at_two <- foreach(1:2, .export = "local_function",
                    .options.snow = list(attachExportEnv = TRUE)) %dopar%
    c(search()[[2L]], exists("local_function", where = 2))
  expect_identical(at_two, rep(list(c("exportEnv", "TRUE")), 2))
  expect_identical(foreach(1) %dopar% ("exportEnv" %in% search()), list(FALSE))
})

test_that("what is of no use is said", {
  cl <- local_backend()
  expect_error(registerDoClutch("2"), class = "clutch_argument")
  expect_error(foreach(i = 1, .options.clutch = list(retry = 2)) %dopar% i, "no element `retry`",
               class = "clutch_argument")
  expect_error(foreach(i = 1, .options.clutch = list(2)) %dopar% i, class = "clutch_argument")
  expect_error(foreach(i = 1, .options.clutch = list(timeout = 0)) %dopar% i,
               "`.options.clutch$timeout`", fixed = TRUE, class = "clutch_argument")
  expect_error(clutch:::need_package("notThere", "this()"), "install.packages(\"notThere\")",
               fixed = TRUE, class = "clutch_package")
  stopped <- make_cluster(1)
  stop_cluster(stopped)
  registerDoClutch(stopped)
  expect_error(foreach(i = 1) %dopar% i, class = "clutch_stopped")
})

test_that("without a cluster the session's own is used", {
  on.exit(foreach::registerDoSEQ())
  registerDoClutch()
  expect_identical(foreach::getDoParWorkers(), available_cores())
  expect_identical(foreach(i = 1:3, .combine = c) %dopar% i, 1:3)
})

test_that("doRNG's numbers are those that it has everywhere", {
  skip_if_not_installed("doRNG")
  cl <- local_backend()
  # CRAN's checks want to know of each package that is named with `::`
  `%dorng%` <- getExportedValue("doRNG", "%dorng%")
  numbers <- function() {
    set.seed(3)
    list(foreach(i = 1:3, .combine = c) %dorng% stats::runif(1),
         foreach(i = 1:3, .combine = c) %dorng% stats::runif(1))
  }
  ours <- numbers()
  foreach::registerDoSEQ()
  expect_identical(ours, numbers())
})

end_own_cluster()

test_that("a number of nodes is a cluster of so many, which ends with its registration", {
  registerDoClutch(2)
  withr_defer(foreach::registerDoSEQ(), environment())
  expect_identical(foreach::getDoParWorkers(), 2L)
  of_first <- unlist(foreach(i = 1:20) %dopar% Sys.getpid())
  expect_false(Sys.getpid() %in% of_first)
  registerDoClutch(3)
  expect_identical(foreach::getDoParWorkers(), 3L)
  expect_true(eventually(!any(alive(unique(of_first)))))
  of_second <- unlist(foreach(i = 1:30) %dopar% Sys.getpid())
  foreach::registerDoSEQ()
  gc()
  expect_true(eventually(!any(alive(unique(of_second)))))
  for (bad in list(0, 1.5, "2", c(1, 2), NA)) {
    expect_error(registerDoClutch(bad), "a cluster made by make_cluster\\(\\), or a whole number",
                 class = "clutch_argument")
  }
})
