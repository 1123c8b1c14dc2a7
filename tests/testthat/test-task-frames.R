# The calls of a failed element are among the session's when its error is raised.

calls_when_raised <- function(expr) {
  calls <- NULL
  tryCatch(withCallingHandlers(expr, clutch_task_error = function(e) calls <<- sys.calls()),
           error = identity)
  vapply(calls, function(call) deparse(call, nlines = 1L)[[1L]], "")
}

test_that("traceback() and handlers see the calls of an element, and of a task", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  f <- function(x) g(x, k = function(z) z)
  g <- function(y, ...) base::identity(h(y))
  h <- function(y) if (y == 2) stop("deep") else y
  calls <- calls_when_raised(cluster_map(cl, 1:2, f))
  expect_identical(calls[calls %in% c("FUN(.x)", "h(y)", "g(x, k = function(z) z)",
                                      "`base::identity`(h(y))")],
                   c("FUN(.x)", "g(x, k = function(z) z)", "`base::identity`(h(y))", "h(y)"))
  task <- cluster_submit(cl, h(2))
  expect_true("h(2)" %in% calls_when_raised(collect(task)))
})

test_that("calls that cannot be read, and deep recursion, are no problem", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  deep <- function(n) if (n == 0) stop("at the end") else deep(n - 1)
  calls <- calls_when_raised(cluster_map(cl, 500, deep))
  expect_gt(sum(calls == "deep(n - 1)"), 100)
  long <- function(...) stop("long")
  expect_error(cluster_map(cl, 1, function(i) do.call(long, as.list(1:200))), "long",
               class = "clutch_task_error")
  expect_error(cluster_map(cl, 1, function(i) (function(a, ...) stop(a))("anonymous", ...)),
               class = "clutch_task_error")
  expect_error(cluster_map(cl, 1, function(i, ...) lapply(i, function(j, ...) stop("in it"), ...)),
               "in it", class = "clutch_task_error")
  expect_error(cluster_map(cl, "x", `[[`, i = "nothing"), class = "clutch_task_error")
})
