# Package future on our clusters: plan(cluster, workers = cl).

outside_checks_only()

with_plan <- function(n, code) {
  skip_if_not_installed("future")
  cl <- make_cluster(n)
  on.exit({
    future::plan("sequential")
    clutch:::close_signals()
    stop_cluster(cl)
  })
  future::plan(future::cluster, workers = cl)
  code(cl)
}

test_that("futures have their values, errors, conditions and globals", {
  with_plan(2, function(cl) {
    expect_identical(unname(future::nbrOfWorkers()), 2L)
    expect_true(future::value(future::future(Sys.getpid())) %in% pids(cl))
    several <- lapply(1:6, function(i) future::future(i * 10))
    expect_identical(future::value(several), as.list(1:6 * 10))
    expect_error(future::value(future::future(stop("bad"))), "bad")
    expect_message(expect_warning(v <- future::value(future::future({
      message("hello")
      warning("well")
      3
    })), "well"), "hello")
    expect_identical(v, 3)
    # what is to be signalled at once
    f <- future::future({
      signalCondition(structure(class = c("immediateCondition", "condition"),
                                list(message = "now", call = NULL)))
      7
    })
    expect_identical(future::value(f), 7)
    x <- 4
    g <- function(a) a + x
    expect_identical(future::value(future::future(g(2))), 6)
  })
})

test_that("resolved() does not wait", {
  with_plan(2, function(cl) {
    go <- tempfile()
    on.exit(unlink(go))
    waiting <- future::future({
      while (!file.exists(go)) Sys.sleep(0.01)
      42
    })
    quick <- future::future(1)
    expect_false(future::resolved(waiting)) # without a warning, too
    expect_true(eventually(future::resolved(quick)))
    expect_false(future::resolved(waiting))
    parallel::clusterCall(cl[2], identity, 1) # the first node's answer may be read meanwhile
    file.create(go)
    expect_true(eventually(future::resolved(waiting)))
    expect_identical(future::value(waiting), 42)
    for (con in clutch:::the$signals[c("ready", "idle")]) close(con) # as closeAllConnections() does
    f <- future::future(3)
    expect_true(eventually(future::resolved(f)))
    expect_identical(future::value(f), 3)
  })
})

test_that("a node that has died is an error of its future, and replaced for those that follow", {
  with_plan(2, function(cl) {
    cluster_setup(cl, options(clutch.test.setup = "set up"))
    f <- future::future(tools::pskill(Sys.getpid(), 9L))
    expect_error(future::value(f), class = "FutureError")
    several <- lapply(1:4, function(i) future::future({
      Sys.sleep(0.05)
      c(i, Sys.getpid())
    }))
    values <- future::value(several)
    expect_identical(vapply(values, `[`, 1, 1L), as.numeric(1:4))
    expect_true(all(alive(pids(cl))))
    expect_true(all(vapply(values, `[`, 1, 2L) %in% pids(cl)))
    expect_identical(parallel::clusterEvalQ(cl, getOption("clutch.test.setup")),
                     list("set up", "set up"))
  })
})

test_that("parallelly knows our nodes", {
  skip_if_not_installed("parallelly")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  loadNamespace("parallelly")
  expect_identical(parallelly::isLocalhostNode(cl), c(TRUE, TRUE))
  expect_identical(parallelly::isNodeAlive(cl), c(TRUE, TRUE))
  expect_true(parallelly::killNode(cl[[2]]))
  expect_true(eventually(identical(parallelly::isNodeAlive(cl), c(TRUE, FALSE))))
  clone <- clutch:::clone_node # older versions have no cloneNode()
  if ("cloneNode" %in% getNamespaceExports("parallelly")) clone <- parallelly::cloneNode
  clone(cl[[2]])
  expect_identical(parallelly::isNodeAlive(cl), c(TRUE, TRUE))
  expect_true(works(cl))
  other <- clone(cl[[2]])
  expect_false(.Call(clutch:::ffi_node_info, other$handle)$pid %in% pids(cl))
  expect_true(works(structure(list(other), class = class(cl))))
  clutch:::stop_nodes(list(other))
  expect_true(works(cl))
  ps <- make_cluster(1, node = "psock")
  expect_error(parallelly::as.cluster(ps), class = "clutch_argument")
  stop_cluster(ps)
})

test_that("resolved(), value(), cancel() take tasks and futures, whichever package came last", {
  skip_if_not_installed("future")
  skip_if_not_installed("promises")
  orders <- list(c("future", "clutch"), c("clutch", "future"), c("promises", "clutch", "future"))
  for (order in orders) {
    s <- start_script(fixture = "tasks-and-futures", order = order)
    expect_done(s)
    expect_true(ends(s))
  }
})

test_that("cancel() is future's for futures, also when ours hides it, and takes lists of tasks", {
  for (last in c("clutch", "future")) {
    s <- start_script(fixture = "future-with-cancel", last = last)
    expect_done(s)
    expect_true(ends(s))
  }
})
