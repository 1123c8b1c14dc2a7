# Runs whose parts are on several hosts: messages, what all do together, failures.

outside_checks_only()

on_two <- two_hosts_for_file()
run_cluster <- on_two$cluster
nothing_is_left <- on_two$nothing_is_left
failure_of <- function(expr) tryCatch(expr, clutch_error = identity)

test_that("parts on two hosts send messages of all kinds and sizes, in order", {
  cl <- run_cluster()
  objects <- list(1L, NULL, "text", c(a = 1, b = NA), list(1, "a", list(2)), mean, quote(a + b),
                  factor(c("x", "y")), raw(0), as.numeric(1:30000), as.numeric(1:1e6),
                  rep("many strings", 1e5), list(runif(1e5), 1:1e6 + 0L, matrix(1, 500, 500)))
  got <- cluster_run(cl, function(rank, objects) {
    if (rank == 1) {
      for (x in objects) node_send(2:4, x)
      return(lapply(2:4, function(i) node_receive(i)$value))
    }
    node_send(1, identical(lapply(objects, function(x) node_receive(1)$value), objects))
    Sys.info()[["nodename"]]
  }, objects)
  expect_identical(got, list(list(TRUE, TRUE, TRUE), "alpha", "beta", "beta"))
  got <- cluster_run(cl, function(rank) {
    if (rank > 1) {
      for (i in 1:500) node_send(1, i, tag = if (i %% 2) "odd" else "even")
      return(node_receive(1)$value)
    }
    while (is.null(node_probe(from = 3))) Sys.sleep(0.001)
    even <- vapply(1:250, function(i) node_receive(from = 3, tag = "even")$value, 1L)
    odd <- vapply(1:250, function(i) node_receive(from = 3, tag = "odd")$value, 1L)
    any <- lapply(1:1000, function(i) node_receive())
    none <- node_receive(timeout = 0.05, otherwise = "none")
    node_send(2:4, "over")
    list(even = even, odd = odd, any = any, none = none)
  })
  expect_identical(got[2:4], list("over", "over", "over"))
  expect_identical(got[[1L]]$even, seq(2L, 500L, 2L))
  expect_identical(got[[1L]]$odd, seq(1L, 499L, 2L))
  expect_identical(got[[1L]]$none, "none")
  for (i in c(2L, 4L)) {
    of <- Filter(function(x) x$from == i, got[[1L]]$any)
    expect_identical(vapply(of, `[[`, 1L, "value"), 1:500)
  }
  nothing_is_left(cl)
})

test_that("what all do together has the same result as on one host", {
  cl <- run_cluster()
  near <- make_cluster(4)
  together <- function(rank) {
    set.seed(rank)
    x <- round(rnorm(50000), 3) # sums of these are exact to a last digit or two
    node_barrier()
    list(
      sum = node_allreduce(x), most = node_allreduce(rank, "max"),
      integers = node_allreduce(c(rank, 10L)), to = node_reduce(x, to = 3),
      all = node_allreduce(rank < 4, "and"), matrix = node_allreduce(diag(rank, 2)),
      own = node_allreduce(as.character(rank), paste0),
      pairs = node_allreduce(rank, function(a, b) a + b, commutative = TRUE),
      broadcast = node_broadcast(if (rank == 4) list(1, "a"), from = 4),
      scatter = node_scatter(if (rank == 2) as.list(letters[1:4]), from = 2),
      gather = node_gather(rank * 1i, to = 4), allgather = node_allgather(letters[rank]),
      all_to_all = node_all_to_all(as.list(10 * rank + 1:4))
    )
  }
  expect_equal(cluster_run(cl, together), cluster_run(near, together), tolerance = 1e-12)
  expect_identical(cluster_run(cl, together), cluster_run(cl, together))
  expect_identical(cluster_run(cl[c(1, 4)], function(rank) node_allreduce(rank)), list(3L, 3L))
  expect_identical(cluster_run(cl[3:4], function(rank) node_allreduce(rank)), list(3L, 3L))
  overflow <- function(rank) node_allreduce(if (rank %% 2) .Machine$integer.max else 0L)
  said <- character()
  got <- withCallingHandlers(cluster_run(cl, overflow), warning = function(w) {
    said <<- c(said, conditionMessage(w))
    invokeRestart("muffleWarning")
  })
  expect_identical(unique(said), "NAs produced by integer overflow")
  expect_identical(got, rep(list(NA_integer_), 4))
  stop_cluster(near)
  nothing_is_left(cl)
})

test_that("a deadlock and different calls are found, and the run's end ends all", {
  cl <- run_cluster()
  e <- failure_of(cluster_run(cl, function(rank) node_receive(rank %% 4 + 1, tag = "x")))
  expect_s3_class(e, "clutch_run_error")
  for (x in e$errors) expect_s3_class(x$parent, "clutch_deadlock")
  expect_identical(e$errors[[3L]]$parent$waits$waits_for, c(2L, 3L, 4L, 1L))
  expect_identical(e$errors[[3L]]$parent$waits$tag, rep("x", 4))
  e <- failure_of(cluster_run(cl, function(rank) {
    if (rank < 3) node_reduce(1:3, to = 2) else node_allgather(1)
  }))
  for (x in e$errors) expect_s3_class(x$parent, "clutch_mismatch")
  expect_match(conditionMessage(e$errors[[4L]]$parent),
               "rank 1 calls node_reduce(to = 2) of 3 integer by +, rank 3 calls node_allgather()",
               fixed = TRUE)
  fails <- function(rank) if (rank == 3) stop("on beta") else node_receive(3)
  e <- failure_of(cluster_run(cl, fails))
  expect_identical(e$rank, 3L)
  expect_s3_class(e$errors[[1L]]$parent, "clutch_node_ended")
  e <- failure_of(cluster_run(cl, function(rank) if (rank > 1) node_receive(1), .timeout = 20))
  expect_s3_class(e$errors[[4L]]$parent, "clutch_node_ended")
  expect_identical(cluster_run(cl, ~ .x), list(1L, 2L, 3L, 4L))
  nothing_is_left(cl)
})

test_that("a part that dies is the error of all, by name and host", {
  cl <- run_cluster()
  e <- failure_of(cluster_run(cl, function(rank) {
    if (rank == 4) tools::pskill(Sys.getpid(), 9L) else node_receive(4)
  }))
  expect_s3_class(e, "clutch_node_died")
  expect_identical(e$rank, 4L)
  for (x in e$errors[1:3]) {
    expect_s3_class(x$parent, "clutch_node_died")
    expect_identical(x$parent$rank, 4L)
    expect_identical(x$parent$host, "beta")
    expect_match(x$parent$how, "SIGKILL")
  }
  expect_identical(cluster_run(cl, function(rank) node_allreduce(rank)), rep(list(10L), 4))
  nothing_is_left(cl)
})

test_that("a bridge that is killed ends the run, with an error that says so", {
  needs("memfd") # else it is not found by the memory of the run
  cl <- run_cluster()
  e <- failure_of(cluster_run(cl, function(rank) {
    node_barrier() # all have that memory, which is the bridge's
    is_part <- function(frame) all(vapply(c("path", "count"), exists, NA, frame, inherits = FALSE))
    bridge <- as.integer(sub("^/proc/([0-9]+)/.*", "\\1", Find(is_part, sys.frames())$path))
    if (rank == 4) tools::pskill(bridge, 9L)
    node_receive(rank %% 4 + 1)
  }))
  expect_s3_class(e, "clutch_run_error")
  expect_match(conditionMessage(e), "the process that passes messages on host beta has ended")
  expect_identical(cluster_run(cl, function(rank) node_allreduce(rank)), rep(list(10L), 4))
  nothing_is_left(cl)
})

test_that("a host that is lost is an error of the run", {
  old <- options(clutch.heartbeat = 1, clutch.reconnect = 3)
  on.exit(options(old))
  cl <- run_cluster()
  later(1, "nsenter -t %d -p -m sh -c 'kill -9 -1'", host_pid(on_two$there(), "beta"))
  e <- failure_of(cluster_run(cl, function(rank) node_receive(rank %% 4 + 1, timeout = 60)))
  expect_s3_class(e, "clutch_node_died")
  expect_identical(e$rank, 3L)
  expect_s3_class(e$errors[[2L]]$parent, "clutch_node_died")
  expect_identical(e$errors[[2L]]$parent$host, "beta")
  stop_cluster(cl)
  on_two$stop()
})

test_that("a run outlasts a cut, and an interrupt ends it", {
  old <- options(clutch.heartbeat = 1, clutch.reconnect = 60)
  on.exit(options(old))
  cl <- run_cluster()
  cut <- data.frame(host = "beta", how = "link", pause = 0.5, seconds = 2)
  faults <- start_cuts(on_two$there(), cut)
  got <- cluster_run(cl, function(rank) {
    end <- Sys.time() + 4
    n <- 0
    while (node_allreduce(as.integer(Sys.time() < end), "min")) {
      n <- n + 1
      stopifnot(node_allreduce(n) == 4 * n)
    }
    n
  })
  expect_true(faults$stop())
  expect_identical(length(unique(got)), 1L)
  expect_gt(got[[1L]], 10)
  later(1, "kill -INT %d", Sys.getpid())
  caught <- tryCatch(cluster_run(cl, function(rank) node_receive(rank %% 4 + 1, timeout = 60)),
                     interrupt = function(e) "interrupted")
  expect_identical(caught, "interrupted")
  expect_identical(cluster_run(cl, function(rank) node_allreduce(rank)), rep(list(10L), 4))
  nothing_is_left(cl)
})

test_that("nothing of the hosts is left", {
  expect_true(on_two$stop())
})
