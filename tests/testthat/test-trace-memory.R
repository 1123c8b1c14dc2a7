# Memory of nodes over time, in traces and as a limit.

test_that("a trace has the memory of nodes over time, and a summary its largest", {
  skip_if_not(clutch:::system_can("memory"))
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  cluster_map(cl, 1:2, function(i) {
    kept <<- numeric(2e6 * i) + 1
    Sys.sleep(0.3)
  }, .globals = FALSE)
  x <- cluster_trace(cl)
  m <- attr(x, "memory")
  expect_named(m, c("time", "node", "memory"))
  expect_setequal(m$node, 1:2)
  expect_false(is.unsorted(m$time))
  expect_true(all(m$memory >= 0))
  s <- summary(x)$memory
  expect_identical(s$node, c(1, 2))
  expect_true(all(s$most >= s$first & s$most >= s$last))
  expect_gt(max(s$most), 30) # 32 MB
  expect_lt(max(s$most), 400)
  # asked again, only what is new is added
  more <- attr(cluster_trace(cl), "memory")
  expect_gte(nrow(more), nrow(m) + 2L)
})

test_that("what nodes only read of shared memory is not their own", {
  skip_if_not(clutch:::system_can("memory"))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  x <- share(numeric(3e7) + 1) # 240 MB
  # some 200 MB, which take long to weigh: so they are estimated for a while
  fill <- function(i) kept <<- lapply(1:2e6, function(k) k + 0.5)
  cluster_walk(cl, 1, fill)
  before <- attr(cluster_trace(cl), "memory")
  expect_identical(cluster_map_dbl(cl, 1:3, function(i) sum(x)), rep(3e7, 3))
  memory <- attr(cluster_trace(cl), "memory")
  now <- cluster_status(cl)$memory
  expect_lt(max(memory$memory), max(before$memory) + 60)
  expect_lt(abs(memory$memory[[nrow(memory)]] - now), 2)
})

test_that("nothing is sampled where nothing is remembered", {
  old <- options(clutch.trace = 0)
  on.exit(options(old))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  cluster_map(cl, 1:3, Sys.sleep, .more = list(), .globals = FALSE)
  expect_identical(nrow(attr(cluster_trace(cl), "memory")), 0L)
})

test_that("a node that takes another's place is measured anew", {
  skip_if_not(clutch:::system_can("memory"))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  cluster_map(cl, 1, function(i) {
    kept <<- numeric(8e6) + 1
    Sys.sleep(0.1)
  }, .globals = FALSE)
  before <- attr(cluster_trace(cl), "memory")
  suppressWarnings(cluster_map(cl, 1, function(i) quit("no"), .on_error = "continue"))
  cluster_map(cl, 1:2, identity)
  after <- attr(cluster_trace(cl), "memory")
  expect_gt(max(before$memory), 60)
  expect_lt(after$memory[[nrow(after)]], 40)
})

sampled <- function(...) data.frame(time = c(0, 0, 1, 1), node = c(1, 2, 1, 2), memory = c(...))

test_that("what nodes have together is that of a time", {
  expect_identical(clutch:::most_together(sampled(10, 20, 5, 40)), 45)
  expect_identical(clutch:::most_together(sampled(100, 1, 1, 100)), 101) # of node 1 the last counts
  expect_identical(clutch:::most_together(sampled(1, 2, 3, 4)[0, ]), 0)
  expect_identical(clutch:::memory_of_nodes(sampled(10, 20, 5, 40)),
                   data.frame(node = c(1, 2), first = c(10, 20), most = c(10, 40), last = c(5, 40)))
})

test_that("memory is told as a limit with what was measured, and how many nodes fit", {
  limit <- function(...) clutch:::limit_of_memory(...)
  none <- data.frame(time = 0, node = 1, host = "h", kind = "signal", how = "killed")
  died <- data.frame(time = 0, node = 2, host = "h", kind = "memory", how = "too much")
  expect_null(limit(NULL, NULL, NULL))
  expect_null(limit(none, sampled(10, 20, 5, 40), 1000))
  expect_null(limit(none, sampled(10, 20, 5, 40), NA))
  much <- limit(none, sampled(10, 20, 300, 600), 1000)
  expect_identical(much$what, "memory")
  expect_match(much$measured, paste("node 2 had up to 600 MB of its own, and all together up to",
                                    "900 MB of the 1000 MB of this machine"))
  expect_match(much$advice, "Use 1 node, for more")
  both <- limit(died, sampled(10, 20, 300, 390), 1000)
  expect_match(both$measured, "1 node has ended for want of it, the last one on node 2")
  expect_match(both$measured, "up to 390 MB")
  expect_match(both$advice, "raise `.max_memory`")
  expect_match(limit(died, NULL, NULL)$advice, "Use fewer nodes")
})

test_that("the memory of a machine is the least of its own and its control groups'", {
  root <- tempfile()
  on.exit(unlink(root, recursive = TRUE))
  write <- function(path, text) {
    dir.create(dirname(file.path(root, path)), recursive = TRUE, showWarnings = FALSE)
    writeLines(text, file.path(root, path))
  }
  expect_identical(clutch:::machine_memory(root), NA_real_)
  write("proc/meminfo", c("MemTotal:        2097152 kB", "MemFree: 10 kB"))
  expect_identical(clutch:::machine_memory(root), 2048)
  write("proc/self/cgroup", "0::/a")
  write("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
  write("sys/fs/cgroup/a/memory.max", "max")
  expect_identical(clutch:::machine_memory(root), 2048)
  write("sys/fs/cgroup/a/memory.max", "536870912")
  expect_identical(clutch:::machine_memory(root), 512)
})
