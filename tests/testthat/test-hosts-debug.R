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

test_that("a busy node on another host is seen by way of one that is idle", {
  there <- hosts_or_skip(c("alpha", "beta"))
  on.exit(stop_hosts(there))
  cl <- make_cluster(hosts(c("alpha", "beta"), 2, ssh = c("ssh", "-F", there$config)))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  file <- file.path(there$folder, "go-on")
  wait <- function(file) {
    n <- 0
    while (!file.exists(file)) n <- n + 1
    "seen"
  }
  environment(wait) <- globalenv()
  task <- cluster_submit_call(cl, wait, list(file))
  begun <- function(n) {
    expect_true(eventually(sum(lengths(cluster_stacks(cl)$stack) > 0L) == n))
  }
  begun(1L)
  labels <- cluster_debug(task)
  expect_match(labels[[1L]], "FUN")
  at <- which(grepl("FUN", labels))[[1L]]
  n <- cluster_debug(task, at, quote(n))
  expect_true(eventually(cluster_debug(task, at, quote(n)) > n))
  expect_identical(cluster_debug(task, at, quote(Sys.info()[["nodename"]])),
                   cluster_status(cl)$host[cluster_status(cl)$state == "busy"])
  others <- lapply(1:3, function(i) cluster_submit_call(cl, wait, list(file)))
  begun(4L)
  expect_error(cluster_debug(task), "all are busy", class = "clutch_gone")
  file.create(file)
  expect_identical(lapply(c(list(task), others), collect), rep(list("seen"), 4))
})

test_that("an element that was ended for its memory is seen by way of the next node", {
  there <- hosts_or_skip("alpha")
  on.exit(stop_hosts(there))
  old <- options(clutch.frozen = 4)
  on.exit(options(old), add = TRUE)
  cl <- make_cluster(hosts("alpha", 1, ssh = c("ssh", "-F", there$config)))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  take <- function(id) {
    taken <- list()
    for (i in 1:100) taken[[i]] <- rep(as.double(i), 1e6)
    length(taken)
  }
  environment(take) <- globalenv()
  e <- tryCatch(cluster_map(cl, 7, take, .max_memory = 200e6), error = identity)
  expect_s3_class(e, "clutch_task_memory")
  expect_identical(cluster_map_int(cl, 1:4, function(i) i), 1:4)
  expect_identical(cluster_debug(e, 1, quote(id)), 7)
  expect_gt(cluster_debug(e, 1, quote(length(taken))), 15)
  expect_identical(cluster_debug(e, 1, quote(Sys.info()[["nodename"]])), "alpha")
  copies <- function() length(grep("clutch: failed", processes_on(there, "alpha")))
  expect_identical(copies(), 1L)
  stop_cluster(cl)
  expect_true(eventually(copies() == 0L))
  expect_hosts_empty(there)
})
