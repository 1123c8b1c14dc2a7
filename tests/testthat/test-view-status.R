# What the session knows of its clusters: cluster_is_stopped(), cluster_free().

test_that("a cluster is stopped when nothing can be done with it any more", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_false(cluster_is_stopped(cl))
  expect_false(cluster_is_stopped(cl[1]))
  tools::pskill(cluster_status(cl)$pid, tools::SIGKILL)
  expect_true(eventually(all(startsWith(cluster_status(cl)$state, "dead"))))
  expect_false(cluster_is_stopped(cl)) # the next task replaces them
  expect_identical(collect(cluster_submit(cl, 1)), 1)
  expect_true(cluster_is_stopped(cl[integer()]))
  saved <- tempfile()
  on.exit(unlink(saved), add = TRUE)
  saveRDS(cl, saved)
  expect_true(cluster_is_stopped(readRDS(saved)))
  expect_identical(cluster_free(readRDS(saved)), 0L)
  expect_true(cluster_map(cl, 1, function(i, its) clutch::cluster_is_stopped(its), its = cl)[[1]])
  stop_cluster(cl)
  on.exit(unlink(saved))
  expect_true(cluster_is_stopped(cl))
  expect_identical(cluster_free(cl), 0L)
  for (bad in list(1, "cl", list())) {
    expect_error(cluster_is_stopped(bad), class = "clutch_argument")
    expect_error(cluster_free(bad), class = "clutch_argument")
  }
})

test_that("a forked child cannot use the cluster", {
  skip_on_os("windows")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  expect_true(parallel::mccollect(parallel::mcparallel(cluster_is_stopped(cl)))[[1]])
  expect_false(cluster_is_stopped(cl))
})

test_that("free nodes are those without a task or call", {
  of_each_strategy(function(cl) {
    expect_identical(cluster_free(cl), 2L)
    gate <- tempfile()
    slow <- lapply(1:2, function(i) cluster_submit(cl, while (!file.exists(gate)) Sys.sleep(0.01)))
    expect_identical(cluster_free(cl), 0L)
    cancel(slow[[1]])
    expect_true(eventually(cluster_free(cl) == 1L)) # nothing else reads what comes
    expect_identical(sum(cluster_free(cl[1]), cluster_free(cl[2])), 1L)
    file.create(gate)
    expect_true(eventually(cluster_free(cl) == 2L))
    expect_true(resolved(slow[[2]]))
    unlink(gate)
  })
})

test_that("a node that has died counts again when it was replaced", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  for (used in c(FALSE, TRUE)) {
    if (used) collect(cluster_submit(cl, 1))
    tools::pskill(cluster_status(cl)$pid[[1]], tools::SIGKILL)
    expect_true(eventually(startsWith(cluster_status(cl)$state[[1]], "dead")))
    expect_true(eventually(cluster_free(cl) == 2L))
  }
  expect_true(works(cl))
})
