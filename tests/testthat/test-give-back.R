# Memory that an idle node gives back to the system.

grow <- function(i) {
  x <- lapply(1:1500000, function(k) c(k, i))
  length(x)
}
environment(grow) <- globalenv()

test_that("a node that has had much memory gives it back when it is idle, and says so", {
  needs("memory")
  # R itself frees pages in every second full collection only
  for (strategy in c("fork_server", "fork_server, collected once", "parallel")) {
    cl <- make_cluster(1, sub(",.*", "", strategy))
    if (grepl("once", strategy)) parallel::clusterCall(cl, gc)
    expect_identical(cluster_status(cl)$gave_back, 0)
    cluster_map(cl, 1, grow)
    had <- cluster_status(cl)$memory
    expect_gt(had, 100)
    expect_true(eventually(cluster_status(cl)$gave_back > 50), info = strategy)
    expect_lt(cluster_status(cl)$memory, had - 50)
    gave <- cluster_status(cl)$gave_back
    expect_identical(cluster_map_dbl(cl, 1:2, function(i) i), c(1, 2)) # it goes on
    stop_cluster(cl)
    expect_gt(gave, 0)
  }
})

test_that("what the user keeps on a node stays, and is not looked at again and again", {
  needs("memory")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  keep <- function() {
    assign("kept", lapply(1:800000, function(k) c(k, 1)), envir = globalenv())
    NULL
  }
  environment(keep) <- globalenv()
  parallel::clusterCall(cl, keep)
  Sys.sleep(2) # it looks after a second
  used <- cluster_status(cl)$cpu
  Sys.sleep(1.5)
  expect_equal(cluster_status(cl)$cpu, used, tolerance = 0.02)
  there <- function() length(kept)
  environment(there) <- globalenv()
  expect_identical(parallel::clusterCall(cl, there), list(800000L))
})

test_that("a node with little to give back collects nothing", {
  needs("memory")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  work <- function() {
    end <- proc.time()[[3L]] + 0.1
    while (proc.time()[[3L]] < end) NULL
    gc.time()
  }
  environment(work) <- globalenv()
  parallel::clusterCall(cl, work)
  before <- parallel::clusterCall(cl, gc.time)
  Sys.sleep(1.3) # it looks after a second
  expect_identical(parallel::clusterCall(cl, gc.time), before)
  expect_identical(cluster_status(cl)$gave_back, 0)
})
