# What a node costs that can be counted: page faults, huge pages, cells of R's heap. See also
# bench/faults.R.

faults <- function(pids) {
  vapply(pids, function(pid) {
    line <- sub(".*\\) ", "", readLines(file.path("/proc", pid, "stat"), warn = FALSE))
    as.numeric(strsplit(line, " ")[[1L]][[8L]])
  }, 1)
}
memory_mb <- function(pid, what) {
  lines <- readLines(file.path("/proc", pid, "smaps_rollup"))
  sum(as.numeric(gsub("[^0-9]", "", grep(paste0("^", what), lines, value = TRUE)))) / 1024
}

# Without Linux's own means these numbers are others.
counts_here <- function() {
  outside_checks_only()
  linux_only()
  needs("proc")
  needs("memfd")
}

test_that("a node's first answer, first map and next 1,000 calls take few page faults", {
  counts_here()
  fork_server_stop() # that of tests before may have grown, and its nodes copy more
  cl <- make_cluster(4)
  on.exit(stop_cluster(cl))
  pids <- cluster_status(cl)$pid
  parallel::clusterCall(cl, Sys.getpid)
  first <- faults(pids)
  expect_lte(stats::median(first), 100)
  f <- utils::removeSource(function(i) i) # which brings this whole file along, ...
  environment(f) <- globalenv() # ... and its environment this frame
  cluster_map(cl, 1:100, f)
  mapped <- faults(pids)
  expect_lte(stats::median(mapped - first), 150)
  for (i in 1:1000) parallel::clusterCall(cl, Sys.getpid)
  # not one for each call; some come with time, however few calls there are: 20 to 90
  expect_lte(stats::median(faults(pids) - mapped), 150)
})

test_that("the fork server and the session take few page faults for each node", {
  counts_here()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  line <- sub(".*\\) ", "", readLines(file.path("/proc", cluster_status(cl)$pid, "stat")))
  server <- as.integer(strsplit(line, " ")[[1L]][[2L]]) # the node's parent
  ours <- c(server, Sys.getpid())
  for_nodes <- function(n) {
    before <- faults(ours)
    more <- make_cluster(n)
    parallel::clusterCall(more, Sys.getpid)
    stop_cluster(more)
    sum(faults(ours) - before)
  }
  for_nodes(32)
  each <- vapply(1:3, function(i) (for_nodes(32) - for_nodes(16)) / 16, 1)
  expect_lte(stats::median(each), 16) # 7 to 13, as others use the machine
})

test_that("a node's heap has as much room as that of any R, and grows by pages of 4 kB", {
  counts_here()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  room <- function() {
    cells <- gc(full = FALSE)["Ncells", c("used", "gc trigger")]
    unname(cells[[2L]] - cells[[1L]])
  }
  environment(room) <- globalenv()
  expect_gte(parallel::clusterCall(cl, room)[[1L]], 230000)
  enabled <- "/sys/kernel/mm/transparent_hugepage/enabled"
  skip_if(file.exists(enabled) && grepl("[always]", readLines(enabled), fixed = TRUE),
          "the system gives huge pages to all")
  grow <- function() {
    x <- lapply(1:500000, function(i) c(i, i))
    assign("kept", x, envir = globalenv())
    NULL
  }
  environment(grow) <- globalenv()
  parallel::clusterCall(cl, grow)
  expect_gt(memory_mb(cluster_status(cl)$pid, "Private_Dirty"), 20)
  expect_equal(memory_mb(cluster_status(cl)$pid, "AnonHugePages"), 0)
})

# Vectors of 1.6 MB are larger than what glibc takes from its heap at first. In a session of its
# own: what a fork server has freed depends on how it was started.
test_that("a node keeps the memory of vectors that come again and again", {
  counts_here()
  work <- function() {
    for (i in 1:20) {
      x <- lapply(1:10, function(k) numeric(200000))
      rm(x)
      gc()
    }
  }
  s <- start_script(c(
    "faults <-", deparse(faults), "work <-", deparse(work),
    "cl <- make_cluster(1)",
    "for (i in 1:2) parallel::clusterCall(cl, work)",
    "before <- faults(cluster_status(cl)$pid)",
    "parallel::clusterCall(cl, work)",
    "cat('faults=', faults(cluster_status(cl)$pid) - before, '\n', sep = '')",
    "cat('done\n')"
  ))
  expect_done(s)
  expect_lte(as.numeric(value_of(s, "faults")), 10000) # 77,000 where it does not
})
