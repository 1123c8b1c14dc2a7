# Base R's workers as nodes, when they do not read, or answer by halves.

outside_checks_only()

big <- function(n = 6e6) numeric(n) # 48 MB: more than both sockets hold

# Interrupts this process while `expr` is evaluated; TRUE when it ended by that.
interrupted <- function(expr, after = 0.5) {
  tryCatch({
    later(after, "kill -INT %d", Sys.getpid()) # also where it comes before `expr` has begun
    expr
    FALSE
  }, interrupt = function(e) TRUE)
}

test_that("sending to a worker that does not read can be interrupted, and goes on later", {
  linux_only()
  cl <- make_cluster(2, node = "psock")
  tools::pskill(pids(cl)[[1L]], tools::SIGSTOP)
  expect_true(interrupted(parallel::clusterCall(cl, length, big())))
  expect_true(interrupted(parallel::clusterCall(cl, identity, 1))) # waits for the rest of the first
  tools::pskill(pids(cl)[[1L]], tools::SIGCONT)
  for (i in 1:3) expect_true(works(cl))
  expect_identical(parallel::clusterApplyLB(cl, 1:6, function(i) i * 2), as.list(1:6 * 2))
  stop_cluster(cl)
})

test_that("half an answer can be waited for, given up, and is not taken for the next one", {
  linux_only()
  cl <- make_cluster(2, node = "psock")
  half <- function() {
    parallel:::sendCall(cl[[1L]], function() numeric(6e6), list())
    expect_true(eventually(length(.Call(clutch:::ffi_psock_ready, list(cl[[1L]]$con), 0)) == 1L))
    tools::pskill(pids(cl)[[1L]], tools::SIGSTOP)
  }
  half()
  expect_true(interrupted(parallel:::recvResult(cl[[1L]])))
  later(0.5, "kill -CONT %d", pids(cl)[[1L]])
  expect_true(works(cl))
  half()
  expect_true(interrupted(parallel:::recvOneResult(cl)))
  later(0.5, "kill -CONT %d", pids(cl)[[1L]])
  expect_identical(parallel::clusterApplyLB(cl, 1:6, function(i) i * 2), as.list(1:6 * 2))
  half() # and one that is waited for comes whole
  later(0.5, "kill -CONT %d", pids(cl)[[1L]])
  expect_identical(parallel:::recvResult(cl[[1L]]), numeric(6e6))
  expect_true(works(cl))
  stop_cluster(cl)
})

test_that("a time limit in the middle of an answer does not lose its node", {
  linux_only()
  cl <- make_cluster(1, node = "psock")
  worker <- pids(cl)
  parallel:::sendCall(cl[[1L]], function() numeric(6e6), list())
  expect_true(eventually(length(.Call(clutch:::ffi_psock_ready, list(cl[[1L]]$con), 0)) == 1L))
  tools::pskill(worker, tools::SIGSTOP)
  limited <- function() {
    setTimeLimit(elapsed = 0.3, transient = TRUE)
    on.exit(setTimeLimit())
    parallel:::recvResult(cl[[1L]])
  }
  expect_error(limited(), "time limit")
  tools::pskill(worker, tools::SIGCONT)
  expect_true(works(cl))
  expect_identical(pids(cl), worker)
  stop_cluster(cl)
})

test_that("a worker that is still sending what is not wanted any more can be sent to", {
  linux_only()
  cl <- make_cluster(1, node = "psock")
  gate <- tempfile()
  on.exit(unlink(gate))
  expect_true(interrupted(parallel::clusterCall(cl, function(gate) {
    while (!file.exists(gate)) Sys.sleep(0.1)
    numeric(6e6)
  }, gate)))
  later(0.5, "touch %s", shQuote(gate))
  expect_identical(parallel::clusterCall(cl, length, big()), list(6000000L))
  stop_cluster(cl)
})

test_that("a cluster is stopped whatever its workers do", {
  linux_only()
  cl <- make_cluster(2, node = "psock")
  p <- pids(cl)
  tools::pskill(p[[1L]], tools::SIGSTOP)
  x <- big()
  # by then it is serialized, and sent in part
  expect_true(interrupted(parallel::clusterCall(cl, length, x), 3))
  stop_cluster(cl)
  expect_true(eventually(!any(alive(p))))
})

test_that("silence in the middle of an answer, or of a message, is the end after `timeout`", {
  linux_only()
  cl <- make_cluster(1, node = "psock", timeout = 3)
  parallel:::sendCall(cl[[1L]], function() numeric(6e6), list())
  expect_true(eventually(length(.Call(clutch:::ffi_psock_ready, list(cl[[1L]]$con), 0)) == 1L))
  tools::pskill(pids(cl), tools::SIGSTOP)
  expect_s3_class(node_died(parallel:::recvResult(cl[[1L]])), "clutch_node_died")
  stop_cluster(cl)
  cl <- make_cluster(1, node = "psock", timeout = 3)
  tools::pskill(pids(cl), tools::SIGSTOP)
  expect_s3_class(node_died(parallel::clusterCall(cl, length, big())), "clutch_node_died")
  stop_cluster(cl)
})

test_that("peers who send half an answer do not delay the start", {
  linux_only()
  port <- dead_port()
  s <- start_script(fixture = "silent-peers", port = port)
  on.exit(tools::pskill(s$pid, 9L))
  expect_true(said(s, "^ready"))
  cl <- make_cluster(2, node = "psock", port = port, setup_timeout = 30)
  expect_true(said(s, "^first")) # they were there
  expect_true(works(cl))
  stop_cluster(cl)
  tools::pskill(s$pid, 9L)
  expect_true(ends(s))
})
