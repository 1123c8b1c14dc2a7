# cluster_debug() of elements that have failed on other hosts.

outside_checks_only()

test_that("frames on another host are seen by way of the node", {
  there <- hosts_or_skip("alpha")
  on.exit(stop_hosts(there))
  old <- options(clutch.frozen = 4)
  on.exit(options(old), add = TRUE)
  cl <- make_cluster(hosts("alpha", 2, ssh = c("ssh", "-F", there$config)))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  f <- function(x) {
    n <- nchar(x)
    g(n)
  }
  g <- function(y) stop("on ", Sys.info()[["nodename"]])
  e <- tryCatch(cluster_map(cl, "abcd", f), clutch_task_error = identity)
  expect_match(conditionMessage(e), "alpha")
  expect_match(cluster_debug(e)[[2L]], "g\\(n\\)")
  expect_identical(cluster_debug(e, expr = quote(y)), 4L)
  expect_identical(cluster_debug(e, 1, quote(x)), "abcd")
  expect_error(cluster_debug(e, 1, quote(stop("far"))), "far")
  expect_output(cluster_debug(e, 1, quote(print("far, too"))), "far, too")
  expect_error(cluster_replay(e), Sys.info()[["nodename"]], fixed = TRUE)
  expect_identical(cluster_map_int(cl, 1:4, function(i) i), 1:4)
})
