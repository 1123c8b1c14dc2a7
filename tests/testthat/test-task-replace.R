# Nodes that die during maps and tasks, and those that take their place.

test_that("what was done before a node died is not lost, and not done twice", {
  linux_only()
  for (strategy in c("fork_server", "parallel")) {
    cl <- make_cluster(2, strategy)
    for (k in 1:5) {
      die <- sample(2000:19000, 1L)
      dir <- tempfile()
      dir.create(dir)
      r <- suppressWarnings(cluster_map(cl, 1:20000, function(i, die, dir) {
        if (i == die) tools::pskill(Sys.getpid(), 9L)
        if (abs(i - die) < 50) cat("x", file = file.path(dir, i), append = TRUE)
        i
      }, die = die, dir = dir, .on_error = "continue"))
      expect_identical(which(vapply(r, inherits, NA, "clutch_task_died")), die, label = strategy)
      expect_identical(unlist(r[-die]), (1:20000)[-die])
      near <- setdiff(die + -49:49, die)
      expect_true(all(file.size(file.path(dir, near)) == 1))
      unlink(dir, recursive = TRUE)
    }
    stop_cluster(cl)
  }
})

test_that("a node that dies is replaced and prepared, its element's rule kept, the cause named", {
  linux_only()
  of_each_strategy(function(cl) {
    cluster_setup(cl, ready <- 17)
    p <- pids(cl)
    e <- task_error_of(cluster_map(cl, 1:6,
                                   function(i) if (i == 2) tools::pskill(Sys.getpid(), 9L) else i))
    expect_s3_class(e, "clutch_task_died")
    expect_identical(e$signal, 9L)
    expect_true(e$pid %in% p)
    expect_match(conditionMessage(e), "killed by signal 9")
    e <- task_error_of(cluster_map(cl, 1:6, function(i) if (i == 2) quit("no", 3) else i))
    expect_identical(e$status, 3L)
    expect_identical(cluster_map_dbl(cl, 1:6, function(i) {
      if (i == 2 && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 11L)
      ready + clutch::task_attempt()
    }, .retries = 1, .globals = FALSE), 17 + c(1, 2, 1, 1, 1, 1))
    # one that kills every node it meets fails alone
    expect_warning(r <- cluster_map(cl, 1:6,
                                    function(i) if (i == 4) tools::pskill(Sys.getpid(), 9L) else i,
                                    .retries = 2, .on_error = "continue"))
    expect_identical(r[-4L], as.list(c(1L, 2L, 3L, 5L, 6L)))
    expect_identical(r[[4L]]$attempt, 3L)
    expect_identical(cluster_status(cl)$state, c("idle", "idle"))
    expect_true(works(cl))
  })
})

test_that("a cluster whose fork server was killed gets new nodes from a new one", {
  linux_only()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  cluster_setup(cl, was_set_up <- TRUE)
  old <- server_pid(cl)
  dies <- function(i, server) {
    if (i == 2 && clutch::task_attempt() == 1L) tools::pskill(server, 9L)
    Sys.sleep(0.05)
    was_set_up && i < 9
  }
  r <- suppressMessages(cluster_map(cl, 1:6, dies, server = old, .retries = 1, .globals = FALSE))
  expect_true(all(unlist(r)))
  expect_false(server_pid(cl) == old)
  e <- suppressMessages(tryCatch(cluster_map(cl, 1:4, dies, server = server_pid(cl)),
                                 clutch_task_died = identity))
  expect_match(conditionMessage(e), "its fork server \\(pid [0-9]+\\) was killed by signal 9")
  # in calls it stays dead, until a map
  p <- pids(cl)
  tools::pskill(server_pid(cl), 9L)
  expect_true(eventually(!any(alive(p))))
  expect_error(suppressMessages(parallel::clusterCall(cl, identity, 1)), class = "clutch_node_died")
  expect_identical(suppressMessages(cluster_map_dbl(cl, 1:3, sqrt)), sqrt(1:3))
  expect_identical(parallel::clusterCall(cl, identity, 1), list(1, 1))
  # one that was asked to end stays ended
  fork_server_stop(all = TRUE)
  expect_error(cluster_map(cl, 1:3, sqrt), class = "clutch_stopped")
})

test_that("new nodes have their cluster's environment, whoever the fork server was started for", {
  linux_only()
  old <- Sys.getenv("FOO", NA)
  on.exit(if (is.na(old)) Sys.unsetenv("FOO") else Sys.setenv(FOO = old))
  Sys.setenv(FOO = "first")
  fork_server_stop(all = TRUE)
  a <- make_cluster(1)
  on.exit(stop_cluster(a), add = TRUE)
  Sys.setenv(FOO = "second", FOO_TOO = "only now")
  on.exit(Sys.unsetenv("FOO_TOO"), add = TRUE)
  p <- pids(a)
  tools::pskill(server_pid(a), 9L)
  expect_true(eventually(!any(alive(p))))
  b <- suppressMessages(make_cluster(1))
  on.exit(stop_cluster(b), add = TRUE)
  env <- function(cl) unlist(cluster_map(cl, c("FOO", "FOO_TOO"), Sys.getenv))
  expect_identical(env(b), c("second", "only now"))
  expect_identical(env(a), c("first", ""))
  expect_identical(server_pid(a), server_pid(b))
})

test_that("an element is started at most 1 + retries times, whatever dies", {
  linux_only()
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  for (k in 0:2) {
    dir <- tempfile("starts-")
    dir.create(dir)
    r <- suppressWarnings(cluster_map(cl, 1:60, function(i, dir) {
      cat("x", file = file.path(dir, i), append = TRUE)
      if (i %% 5 == 0) tools::pskill(Sys.getpid(), 9L)
      i
    }, dir = dir, .retries = k, .on_error = "continue"))
    failed <- vapply(r, inherits, NA, "clutch_task_died")
    expect_identical(which(failed), seq(5L, 60L, 5L))
    expect_identical(unlist(r[!failed]), setdiff(1:60, seq(5L, 60L, 5L)))
    expect_identical(as.integer(file.size(file.path(dir, 1:60))), ifelse(failed, k + 1L, 1L))
    unlink(dir, recursive = TRUE)
  }
})

test_that("a successor that is killed while it starts is followed by another one", {
  s <- start_script(fixture = "killed-while-replaced")
  expect_done(s, 60)
})

test_that("a node that was half set up when somebody interrupted is set up before it gets work", {
  linux_only()
  for (strategy in c("fork_server", "parallel")) {
    cl <- make_cluster(2, strategy)
    first <- tempfile()
    began <- tempfile()
    eval(bquote(cluster_setup(cl, {
      if (file.exists(.(first))) {
        file.create(.(began))
        while (file.exists(.(first))) Sys.sleep(0.01)
      }
      is_ready <- TRUE
    })))
    is_ready <- function(i) {
      Sys.sleep(0.05)
      exists("is_ready", globalenv())
    }
    file.create(first)
    tools::pskill(pids(cl)[[1L]], 9L)
    expect_true(eventually(cluster_status(cl)$state[[1L]] != "idle"))
    wait <- sprintf("(while [ ! -e '%s' ]; do sleep 0.05; done; kill -INT %d) > /dev/null 2>&1 &",
                    began, Sys.getpid())
    system(wait)
    seen <- tryCatch(cluster_map(cl, 1:4, is_ready), interrupt = function(c) "interrupted")
    expect_identical(seen, "interrupted")
    unlink(first)
    expect_true(all(unlist(cluster_map(cl, 1:8, is_ready, .chunk = 1))))
    unlink(began)
    stop_cluster(cl)
  }
})
