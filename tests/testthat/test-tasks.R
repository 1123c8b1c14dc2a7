# cluster_map(), cluster_submit() and their variants, on nodes of every strategy.

test_that("calls of package parallel and tasks do not disturb each other", {
  of_each_strategy(function(cl) {
    t <- lapply(1:6, function(i) cluster_submit(cl, {
      Sys.sleep(0.02)
      i
    }))
    expect_identical(parallel::parSapply(cl, 1:10, function(i) i), 1:10)
    expect_identical(collect_all(t), as.list(1:6))
    expect_identical(unlist(cluster_map(cl, 1:10, identity)), 1:10)
    expect_identical(parallel::clusterCall(cl, function() 1), list(1, 1))
  })
})

test_that("a function that was sent does not keep alive the cluster that it can see", {
  linux_only()
  for (way in c("map", "call", "balanced")) {
    f <- function() {
      cl <- make_cluster(2)
      fun <- function(i) i
      switch(way,
        map = cluster_map(cl, 1:8, fun),
        call = parallel::clusterCall(cl, fun, 1),
        balanced = parallel::clusterApplyLB(cl, 1:8, fun)
      )
      pids(cl)
    }
    p <- f()
    for (k in 1:3) invisible(gc())
    expect_true(eventually(!any(alive(p))), label = way)
  }
})

test_that("a cluster, its scheduler and its tasks are collected together, in any order", {
  linux_only()
  for (k in 1:3) invisible(gc())
  before <- .Call(clutch:::ffi_live_handles)
  p <- integer()
  for (k in 1:6) local({
    cl <- make_cluster(2)
    p <<- c(p, pids(cl))
    tasks <- lapply(1:5, function(i) cluster_submit(cl, Sys.sleep(100)))
    NULL
  })
  for (k in 1:3) invisible(gc())
  expect_identical(.Call(clutch:::ffi_live_handles), before)
  expect_true(eventually(!any(alive(p))))
})

# To wake it takes time of a processor that the nodes could use.
test_that("of the quick tasks of a map the session hears many at a time", {
  linux_only()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  # 0.15 ms where nothing else is to do
  spend <- function(i) {
    x <- 0
    for (k in 1:6000) x <- x + k / 2
    i
  }
  environment(spend) <- globalenv() # else R may not compile it, see R_CheckJIT() in its sources
  cluster_map(cl, 1:100, spend)
  # of some rounds the best: on a busy machine elements take longer, and of slow ones each is told
  expect_true(eventually({
    before <- times_asleep("/proc/self")
    cluster_map(cl, 1:4000, spend)
    times_asleep("/proc/self") - before < 2000 # 4,000 if it is told of each
  }))
})
