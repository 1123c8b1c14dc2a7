# A system that cannot fork, as Windows: what is the default there, what works, and which errors the
# rest are. Elsewhere option `clutch.lacks` has this session believe that it is on such a system.
# These are all tests that run on Windows: see tests/testthat.R.

without_fork <- function(code) {
  end_own_cluster()
  old <- options(clutch.lacks = "fork")
  on.exit({
    end_own_cluster()
    options(old)
  })
  code
}

strategy_of <- function(cl) clutch:::info_of(cl)$strategy

test_that("nodes connect to the session by default, and no fork server is started", {
  without_fork({
    servers <- length(clutch:::the$servers)
    cl <- make_cluster(2)
    on.exit(stop_cluster(cl))
    expect_identical(strategy_of(cl), "parallel")
    expect_output(print(cl), "strategy \"parallel\"")
    expect_match(launch_plan(2), "strategy \"parallel\"", fixed = TRUE, all = FALSE)
    expect_length(clutch:::the$servers, servers)
    again <- make_cluster(1, "sequential")
    expect_identical(strategy_of(again), "sequential")
    stop_cluster(again)
  })
})

test_that("maps, tasks and the functions of parallel work", {
  without_fork({
    cl <- make_cluster(2)
    on.exit(stop_cluster(cl))
    y <- 10
    expect_identical(cluster_map_dbl(cl, 1:3, function(i) i + y), c(11, 12, 13))
    expect_identical(unlist(parallel::parLapply(cl, 1:5, function(i) i^2)), (1:5)^2)
    expect_identical(collect(cluster_submit(cl, sum(1:10) + y)), 65)
    expect_error(cluster_map(cl, 1:2, function(i) stop("no")), class = "clutch_task_error")
    seeds <- cluster_map_dbl(cl, 1:3, function(i) rnorm(1), .seed = 42)
    expect_identical(cluster_map_dbl("here", 1:3, function(i) rnorm(1), .seed = 42), seeds)
    big <- as.double(1:1e6)
    expect_identical(cluster_map_dbl(cl, 1:2, function(i) sum(big) + i), sum(big) + 1:2)
    expect_output(cluster_map(cl, 1, function(i) cat("said on the node\n"), .relay = TRUE),
                  "said on the node")
    path <- tempfile(fileext = ".journal")
    expect_identical(cluster_map_dbl(cl, 1:3, function(i) i * 2, .journal = path), c(2, 4, 6))
    expect_identical(nrow(journal_read(path)), 3L)
  })
})

test_that("a node that has died is replaced, and its task is repeated", {
  without_fork({
    cl <- make_cluster(2)
    on.exit(stop_cluster(cl))
    dies <- function(i) if (i == 2 && task_attempt() == 1) quit("no") else i
    expect_identical(cluster_map_int(cl, 1:3, dies, .retries = 1), 1:3)
    expect_identical(cluster_map_int(cl, 1:3, identity), 1:3)
  })
})

test_that("base R's workers work", {
  without_fork({
    cl <- make_cluster(2, node = "psock")
    on.exit(stop_cluster(cl))
    expect_identical(unlist(parallel::clusterApply(cl, 1:3, sqrt)), sqrt(1:3))
  })
})

test_that("the session's own cluster has all of its nodes at once, and ends when it is idle", {
  without_fork({
    old <- options(clutch.idle_seconds = 0.2)
    on.exit(options(old))
    expect_identical(cluster_map_dbl(NULL, 1:3, sqrt), sqrt(1:3))
    expect_identical(nrow(cluster_status()), available_cores())
    expect_true(eventually(all(cluster_status()$state == "stopped")))
    expect_identical(cluster_map_dbl(NULL, 1:3, sqrt), sqrt(1:3))
  })
})

test_that("mclapply() has nodes of its own", {
  without_fork({
    expect_identical(clutch::mclapply(1:4, function(i) i^2, mc.cores = 2), as.list((1:4)^2))
    expect_identical(strategy_of(clutch:::the$pool$cl), "parallel")
  })
})

test_that("what needs a fork is an error of a class of its own, before anything is started", {
  without_fork({
    unsupported <- function(code) expect_error(code, class = "clutch_unsupported")
    invisible(gc())
    handles <- .Call(clutch:::ffi_live_handles)
    unsupported(make_cluster(2, "fork_server"))
    unsupported(make_cluster(2, strategy = "spawn"))
    unsupported(launch_plan(2, "fork_server"))
    unsupported(make_cluster(c(1, 3)))
    unsupported(make_cluster(c(1, Inf)))
    unsupported(make_cluster(hosts("alpha")))
    unsupported(make_cluster("alpha"))
    unsupported(make_cluster(c("localhost", "alpha")))
    unsupported(cluster_map(NULL, 1:2, sqrt, .journal = tempfile(), .detach = TRUE))
    unsupported(clutch:::launch_workers(quote(1), 1L, NULL, NULL))
    invisible(gc())
    expect_lte(.Call(clutch:::ffi_live_handles), handles)
    if (requireNamespace("testthat", quietly = TRUE)) unsupported(cluster_test(tempdir()))
    cl <- make_cluster(1)
    on.exit(stop_cluster(cl))
    unsupported(clutch:::observer_of(cl))
    if (.Platform$OS.type == "windows") {
      unsupported(cluster_lock())
      unsupported(cluster_counter())
    }
  })
})

test_that("nodes on other hosts are base R's, or are started by hand", {
  without_fork({
    expect_match(launch_plan("alpha", node = "psock"), "alpha", all = FALSE)
    expect_match(launch_plan("alpha", manual = TRUE, tls = FALSE), "alpha", all = FALSE)
  })
})
