# Errors of tasks, and of clusters that are stopped.

test_that("a clutch_task_error has element, node, call, stack and the original condition", {
  of_each_strategy(function(cl) {
    f <- function(x) g(x)
    g <- function(x) {
      if (x ==
          3) stop(structure(class = c("my_error", "error", "condition"),
                            list(message = "three", call = sys.call()))) else x
    }
    e <- task_error_of(cluster_map(cl, 1:5, f))
    expect_s3_class(e, c("clutch_task_error", "clutch_error"))
    expect_identical(e$element, 3)
    expect_true(e$node %in% 1:2)
    expect_identical(e$attempt, 1L)
    expect_s3_class(e$parent, "my_error")
    expect_identical(e$node_call, quote(g(x)))
    expect_true(all(c("FUN(.x)", "g(x)") %in% e$calls))
    expect_match(conditionMessage(e), "element 3 on node [12] failed in 'g\\(x\\)': three")
    expect_warning(r <- cluster_map(cl, 1:5, f, .on_error = "continue"), "1 of 5 elements failed",
                   class = "clutch_failed")
    expect_identical(r[-3L], list(1L, 2L, 4L, 5L))
    expect_s3_class(r[[3L]], "clutch_task_error")
    expect_warning(d <- cluster_map_dbl(cl, 1:5, f, .on_error = "continue"))
    expect_identical(d, c(1, 2, NA, 4, 5))
    # the rest is cancelled, and the cluster in step
    t <- system.time(task_error_of(cluster_map(cl, 1:4,
                                               function(i) if (
                                                 i == 1
                                               ) stop("no") else Sys.sleep(30))))[[3L]]
    expect_lt(t, 15)
    expect_true(works(cl))
  })
})

test_that("an error that tells of an object without a name is told as it is", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  e <- task_error_of(cluster_map(cl, 1, function(i) stop("object '' not found")))
  expect_match(conditionMessage(e), "object '' not found$")
})

test_that("a node that had died before its cluster was stopped is not replaced afterwards", {
  for (strategy in c("fork_server", "parallel")) {
    cl <- make_cluster(2, strategy)
    task <- cluster_submit(cl, Sys.sleep(100))
    expect_true(eventually(any(cluster_status(cl)$state == "busy")))
    tools::pskill(pids(cl), 9L)
    expect_true(eventually(!any(alive(pids(cl)))))
    stop_cluster(cl)
    expect_true(cluster_is_stopped(cl))
    expect_error(collect(task), class = "clutch_task_error")
    expect_error(cluster_map(cl, 1:2, identity), class = "clutch_stopped")
    expect_true(cluster_is_stopped(cl))
    expect_false(any(cluster_status(cl)$state %in% c("idle", "busy", "starting")))
  }
})

test_that("of nodes that die together each is told of and replaced, whoever jumps out of one", {
  cl <- make_cluster(2)
  fails <- tempfile()
  on.exit({
    unlink(fails)
    stop_cluster(cl)
  })
  eval(bquote(cluster_setup(cl, if (file.exists(.(fails))) stop("a second time"))))
  tasks <- lapply(1:2, function(i) cluster_submit(cl, Sys.sleep(100)))
  expect_true(eventually(all(cluster_status(cl)$state == "busy")))
  old <- pids(cl)
  file.create(fails)
  tools::pskill(old, 9L)
  # the package's thread sees both while nobody asks
  number <- function() .Call(clutch:::ffi_tasks_open, clutch:::info_of(cl)$tasks$ptr)
  expect_true(eventually(number() == 0))
  warn <- options(warn = 2)
  on.exit(options(warn), add = TRUE)
  expect_error(collect(tasks[[1L]]), "a second time")
  options(warn)
  # each is replaced once
  expect_warning(cluster_map(cl, 1:2, identity), "a second time", class = "clutch_setup")
  now <- pids(cl)
  expect_true(all(alive(now)))
  for (k in 1:2) {
    e <- task_error_of(collect(tasks[[k]]))
    expect_s3_class(e, "clutch_task_died")
    expect_identical(e$signal, 9L)
    expect_true(e$pid %in% old)
  }
  expect_identical(pids(cl), now)
})

test_that("a stopped cluster is an error, and stopping with tasks under way leaves nothing", {
  linux_only()
  cl <- make_cluster(2)
  p <- pids(cl)
  t <- cluster_submit(cl, Sys.sleep(100))
  stop_cluster(cl)
  expect_true(eventually(!any(alive(p))))
  expect_error(collect(t), class = "clutch_task_error")
  expect_error(cluster_map(cl, 1:2, identity), class = "clutch_stopped")
  expect_error(cluster_submit(cl, 1), class = "clutch_stopped")
})
