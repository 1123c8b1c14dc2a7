# cluster_stacks() with nodes on other hosts, which share no memory with the session.

outside_checks_only()

test_that("nodes on other hosts tell their calls by their fork servers", {
  there <- hosts_or_skip(c("alpha", "beta"))
  on.exit(stop_hosts(there))
  cl <- make_cluster(hosts(c("alpha", "beta"), 2, ssh = c("ssh", "-F", there$config)))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  expect_identical(cluster_stacks(cl)$stack, list(NULL, NULL, NULL, NULL))
  gate <- tempfile("gate")
  f <- function(gate) while (!file.exists(gate)) Sys.sleep(0.01)
  tasks <- lapply(1:3, function(k) cluster_submit(cl[k], f(gate)))
  x <- NULL
  expect_true(eventually({
    x <- cluster_stacks(cl, 2)
    identical(x$current, c(TRUE, TRUE, TRUE, NA))
  }))
  for (k in 1:3) expect_match(x$stack[[k]], "^f\\(gate\\)", all = FALSE)
  expect_identical(x$host, rep(c("alpha", "beta"), each = 2))
  expect_true(all(x$since[1:3] >= 0))
  file.create(gate)
  expect_identical(lapply(tasks, collect), list(NULL, NULL, NULL))
  unlink(gate)
  expect_identical(cluster_stacks(cl)$stack, list(NULL, NULL, NULL, NULL))
  # those of the task before do not count for the next one
  t <- cluster_submit(cl[1], suspendInterrupts({
    file.create(gate)
    end <- Sys.time() + 5
    while (Sys.time() < end) NULL
  }))
  expect_true(eventually({ # before it R may have looked for interrupts
    cluster_free(cl)
    file.exists(gate)
  }))
  x <- cluster_stacks(cl[1], 0.3)
  expect_match(x$stack[[1]], "^cluster_submit\\(")
  expect_match(x$note, "reported nothing")
  collect(t)
  e <- task_error_of(collect(cluster_submit(cl[3], f("/nowhere"), .timeout = 0.3)))
  expect_match(e$stack, "^f\\(", all = FALSE)
})

test_that("nodes of base R cannot be asked", {
  cl <- make_cluster(1, node = "psock")
  on.exit(stop_cluster(cl))
  parallel:::sendCall(cl[[1]], Sys.sleep, list(0.5))
  x <- cluster_stacks(cl)
  expect_identical(x$node, 1L)
  expect_null(x$stack[[1]])
  expect_identical(x$current, NA)
  parallel:::recvResult(cl[[1]])
})
