# Records: the plan of a cluster, the cluster, its hosts.

test_that("a plan does not change, and a record gets no field that it does not have", {
  cl <- make_cluster(1, strategy = "spawn")
  on.exit(stop_cluster(cl))
  info <- cl[[1L]]$info
  expect_error(info$plan$outfile <- "other", "locked")
  expect_error(info$plan$other <- 1, "locked")
  expect_error(info$plan <- NULL, "locked")
  expect_error(clutch:::set_cluster(info, other = 1), "locked|cannot add")
  expect_null(info$remote) # no other hosts
  clutch:::set_cluster(info, name = "a", dashboard = NULL)
  expect_identical(info$name, "a")
})

test_that("a plan has the fields that its launcher says, and no others", {
  hosts <- list(list(host = "a"))
  request <- list(strategy = "fork_server", hosts = hosts, outfile = "", env = NULL)
  plan <- clutch:::new_plan(request, launcher = "hosts", launch = list(1), libraries = NULL)
  expect_identical(plan$launch, list(1))
  expect_identical(plan$launcher, "hosts")
  expect_error(clutch:::new_plan(request, launcher = "hosts", lunch = 1), "no such field")
  info <- clutch:::new_record(plan)
  clutch:::set_host(info, 2L, list(number = 1L))
  expect_length(info$remote$servers, 2L)
  expect_error(clutch:::set_remote(info, other = 1), "locked|cannot add")
})

test_that("a node that is cloned has a cluster of its own, with the same plan", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  info <- cl[[1L]]$info
  expect_length(cluster_map(cl, 1:2, identity), 2L)
  apart <- clutch:::cluster_apart(info, 1L, "handle")
  expect_identical(apart$handles[[1L]], "handle")
  expect_null(apart$tasks)
  expect_identical(apart$plan, info$plan)
  expect_false(is.null(info$tasks))
})

test_that("the cluster goes on when a node that is cloned is stopped", {
  linux_only()
  cl <- make_cluster(c(1, 2), idle = 1000)
  on.exit(stop_cluster(cl))
  wait <- function(i) {
    Sys.sleep(0.3)
    Sys.getpid()
  }
  cluster_map(cl, 1:8, wait, .chunk = 1)
  pids <- cluster_status(cl)$pid
  expect_length(pids, 2L)
  clone <- structure(list(clutch:::clone_node(cl[[1L]])), class = class(cl))
  pid <- parallel::clusterCall(clone, Sys.getpid)[[1L]]
  expect_null(stop_cluster(clone))
  expect_false(alive(pid))
  expect_true(all(alive(pids)))
  expect_identical(cluster_map(cl, 1:2, identity), list(1L, 2L))
})
