# Packages that have functions for clusters or tasks of their own: on ours.

outside_checks_only()

test_that("all functions of package snow work on our clusters", {
  skip_if_not_installed("snow")
  for (node in c("clutch", "psock")) {
    cl <- if (node == "psock") make_cluster(2, node = "psock") else make_cluster(2)
    expect_identical(snow::clusterApply(cl, 1:5, function(i) i^2), as.list((1:5)^2))
    expect_identical(snow::clusterApplyLB(cl, 1:5, function(i, k) i + k, 1), as.list(1:5 + 1))
    expect_identical(snow::clusterCall(cl, function(a) a + 1, 2), list(3, 3))
    e <- list2env(list(clutch_test_y = 5))
    snow::clusterExport(cl, "clutch_test_y", e)
    expect_identical(snow::clusterEvalQ(cl, clutch_test_y), list(5, 5))
    expect_identical(snow::clusterMap(cl, function(a, b) a + b, 1:3, 4:6), list(5L, 7L, 9L))
    expect_identical(snow::parLapply(cl, 1:4, sqrt), lapply(1:4, sqrt))
    expect_identical(snow::parSapply(cl, 1:4, sqrt), sqrt(1:4))
    m <- matrix(1:12, 4)
    expect_identical(snow::parApply(cl, m, 1, sum), apply(m, 1, sum))
    expect_identical(snow::parRapply(cl, m, sum), apply(m, 1, sum))
    expect_identical(snow::parCapply(cl, m, sum), apply(m, 2, sum))
    expect_identical(snow::parMM(cl, m, t(m)), m %*% t(m))
    expect_s3_class(snow::snow.time(snow::clusterApply(cl, 1:5, identity)), "snowTimingData")
    expect_error(snow::clusterApply(cl, 1:2, function(i) stop("no ", i)),
                 "2 nodes produced errors; first error: .*no 1")
    snow::stopCluster(cl)
    expect_true(all(cluster_status(cl)$state == "stopped"))
  }
})

test_that("the answer of an interrupted call of snow or doSNOW is not taken for a later one", {
  skip_if_not_installed("snow")
  skip_if_not_installed("doSNOW")
  cl <- make_cluster(2)
  on.exit({
    foreach::registerDoSEQ()
    stop_cluster(cl)
  })
  old <- tempfile()
  slow <- function(i, old) { # the second of the answers comes after the call is over
    if (i == 2) while (!file.exists(old)) Sys.sleep(0.01)
    "old"
  }
  # the call ends with an error while an answer is awaited
  registerS3method("[[", "clutch_test_list", function(x, i) {
    if (i > 2) stop("no third") else unclass(x)[[i]]
  })
  x <- structure(list(1, 2, 3), class = "clutch_test_list")
  expect_error(snow::clusterApplyLB(cl, x, slow, old), "no third")
  file.create(old)
  expect_identical(snow::clusterApply(cl, 1:4, identity), as.list(1:4))
  unlink(old)
  doSNOW::registerDoSNOW(cl)
  `%dopar%` <- foreach::`%dopar%`
  it <- local({
    n <- 0
    structure(class = c("abstractiter", "iter"), list(nextElem = function() {
    n <<- n + 1
    if (n > 2) stop("no third")
    n
  })) })
  expect_error(foreach::foreach(i = it) %dopar% {
    if (i == 2) while (!file.exists(old)) Sys.sleep(0.01)
    "old"
  }, "no third")
  file.create(old)
  on.exit(unlink(old), add = TRUE)
  expect_identical(unlist(foreach::foreach(i = 1:4) %dopar% i), 1:4)
})

test_that("foreach loops run by doSNOW and doParallel", {
  skip_if_not_installed("foreach")
  skip_if_not_installed("doSNOW")
  skip_if_not_installed("doParallel")
  cl <- make_cluster(2)
  on.exit({
    foreach::registerDoSEQ()
    stop_cluster(cl)
  })
  `%dopar%` <- foreach::`%dopar%`
  for (register in list(doSNOW::registerDoSNOW, doParallel::registerDoParallel)) {
    register(cl)
    expect_identical(foreach::getDoParWorkers(), 2L)
    a <- 10
    expect_identical(foreach::foreach(i = 1:20, .combine = c) %dopar% (i + a), 1:20 + 10)
    expect_error(foreach::foreach(i = 1:3) %dopar% if (i == 2) stop("second") else i,
                 "task 2 failed - \"second\"")
    expect_identical(foreach::foreach(i = 1:3, .errorhandling = "remove", .combine = c) %dopar%
                     if (i == 2) stop() else i,
                     c(1L, 3L))
  }
  doSNOW::registerDoSNOW(cl)
  expect_identical(
    foreach::foreach(i = 1:7, .combine = c, .options.snow = list(preschedule = TRUE)) %dopar% i^2,
    (1:7)^2
  )
})

test_that("a cluster becomes a SnowParam of BiocParallel", {
  skip_if_not_installed("BiocParallel")
  for (node in c("clutch", "psock")) {
    cl <- if (node == "psock") make_cluster(2, node = "psock") else make_cluster(2)
    loadNamespace("BiocParallel")
    p <- methods::as(cl, "SnowParam")
    expect_true(BiocParallel::bpisup(p))
    expect_identical(BiocParallel::bpnworkers(p), 2L)
    expect_identical(BiocParallel::bplapply(1:5, function(i) i^2, BPPARAM = p), as.list((1:5)^2))
    expect_error(
      BiocParallel::bplapply(1:3, function(i) if (i == 2) stop("two") else i, BPPARAM = p), "two"
    )
    expect_identical(BiocParallel::bpvec(1:10, sqrt, BPPARAM = p), sqrt(1:10))
    expect_identical(parallel::clusterCall(cl, identity, 1), list(1, 1))
    stop_cluster(cl)
  }
})

test_that("a task returned within then() is chained", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  loadNamespace("promises")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  t <- cluster_submit(cl, 6)
  expect_true(promises::is.promising(t))
  got <- NULL
  promises::then(t, function(v) cluster_submit(cl, v + 1)) |> promises::then(function(v) got <<- v)
  expect_true(eventually({
    later::run_now(0.01)
    !is.null(got)
  }))
  expect_identical(got, 7)
  failed <- NULL
  promises::then(t, function(v) cluster_submit(cl, stop("in the chain"))) |>
    promises::catch(function(e) failed <<- e)
  expect_true(eventually({
    later::run_now(0.01)
    !is.null(failed)
  }))
  expect_s3_class(failed, "clutch_task_error")
})

test_that("generics of others know our tasks, and ours their objects, in any order of attaching", {
  skip_if_not_installed("dplyr")
  skip_if_not_installed("future")
  orders <- list(c("future", "dplyr", "clutch"), c("clutch", "dplyr", "future"),
                 c("dplyr", "clutch", "future"))
  for (packages in orders) {
    s <- start_script(fixture = "generics-of-others", packages = packages)
    expect_done(s)
    expect_true(ends(s))
  }
})
