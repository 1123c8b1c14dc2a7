# cluster_map(), cluster_submit() and kin, on nodes of every strategy.

of_each_strategy <- function(code) {
  for (s in c("fork_server", "parallel", "sequential")) {
    cl <- make_cluster(2, s)
    tryCatch(code(cl), finally = stop_cluster(cl))
  }
}
task_error_of <- function(expr) tryCatch(expr, clutch_task_error = identity)

test_that("a map is as lapply(), in order, with names, constants and any vector", {
  of_each_strategy(function(cl) {
    expect_identical(cluster_map(cl, 1:50, function(x) x^2), lapply(1:50, function(x) x^2))
    expect_identical(
      cluster_map(cl, c(a = 1, b = 2), function(x, p, q) x^p + q, p = 3, .more = list(q = 1)),
      list(a = 2, b = 9)
    )
    for (x in list(list(1, "a", NULL, mean), c("x", "y"), c(TRUE, NA), factor(c("u", "v")),
                   as.Date(c("2020-01-01", "2020-01-02")), iris[1:3],
                   expression(a + b, c), quote(f(x)), 1:2 + 1i))
      expect_identical(cluster_map(cl, x, function(x) list(x)), lapply(x, function(x) list(x)))
    expect_identical(cluster_map(cl, list(), identity), list())
    expect_identical(cluster_map(cl, integer(), identity), list())
    expect_identical(cluster_map(cl, 1:3, "sqrt"), lapply(1:3, sqrt))
    expect_identical(cluster_map(cl, 1:4, function(x) x, .chunk = 1), as.list(1:4))
    expect_identical(unlist(cluster_map(cl, 1:2000, function(x) x, .chunk = 7)), 1:2000)
  })
})

test_that("typed maps, two vectors, data frames and walks", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_identical(cluster_map_dbl(cl, c(a = 1L, b = 2L), function(x) x / 2), c(a = 0.5, b = 1))
  expect_identical(cluster_map_int(cl, 1:3, function(x) x), 1:3)
  expect_identical(cluster_map_chr(cl, 1:2, function(x) letters[[x]]), c("a", "b"))
  expect_identical(cluster_map_lgl(cl, 1:2, function(x) x > 1), c(FALSE, TRUE))
  expect_identical(cluster_map_dfr(cl, 1:2, function(i) data.frame(i = i, sq = i^2)),
                   data.frame(i = 1:2, sq = c(1, 4)))
  expect_identical(cluster_map2(cl, 1:3, c(x = "a", y = "b", z = "c"),
                                function(a, b, sep) paste(a, b, sep = sep), sep = "-"),
                   list("1-a", "2-b", "3-c"))
  expect_identical(cluster_map2(cl, c(u = 1, v = 2), 10, `+`), list(u = 11, v = 12))
  expect_error(cluster_map2(cl, 1:3, 1:2, `+`), class = "clutch_argument")
  expect_identical(cluster_walk(cl, 1:3, function(x) x), 1:3)
  expect_error(cluster_map_dbl(cl, 1:3, function(x) "a"), "element 1.*character",
               class = "clutch_value")
  expect_error(cluster_map_int(cl, 1:3, function(x) 1:2), class = "clutch_value")
})

test_that("arguments of no use are errors", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (bad in list(list(.timeout = 0), list(.timeout = "a"), list(.retries = -1), list(.chunk = 0),
                   list(.globals = 1), list(.seed = "a"),
                   list(.relay = "loud"), list(.on_error = "ignore"), list(.max_memory = 0),
                   list(.packages = NA)))
    expect_error(do.call(cluster_map, c(list(cl, 1:2, identity), bad)), class = "clutch_argument")
  expect_error(cluster_map(cl, 1:2, TRUE), class = "clutch_argument")
  expect_error(cluster_map(list(), 1:2, identity), class = "clutch_argument")
})

test_that("the function and its constants travel once a node, not with each element", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  big <- runif(1e6) # 8 MB
  pick <- local(function(i, b) b[[i]], globalenv())
  out <- cluster_map_dbl(cl, 1:500, pick, b = big)
  expect_identical(out, big[1:500])
  t <- cl[[1L]]$info$tasks
  job <- clutch:::job_new(t, pick, 1:500, list(b = big), list(),
                          clutch:::task_options(list(seed = FALSE)))
  clutch:::job_start(t, job)
  while (clutch:::turn(t, job, 1) != "done") NULL
  s <- .Call(clutch:::ffi_job_state, job)
  expect_identical(s$left, 0)
  expect_lt(s$bytes_out, 3 * 8e6) # twice it, and the rest
  .Call(clutch:::ffi_job_end, job, 0)
})

test_that("variables of the workspace are found and sent, and put back afterwards", {
  of_each_strategy(function(cl) {
    on.exit(rm(list = c("clutch_test_y", "clutch_test_f", "clutch_test_g"), envir = globalenv()))
    assign("clutch_test_y", 10, globalenv())
    assign("clutch_test_f", local(function(x) clutch_test_g(x) + clutch_test_y, globalenv()),
           globalenv())
    assign("clutch_test_g", local(function(x) 2 * x, globalenv()), globalenv())
    f <- get("clutch_test_f", globalenv())
    expect_identical(cluster_map_dbl(cl, 1:3, f), 10 + 2 * 1:3)
    expect_identical(unlist(parallel::clusterCall(cl, exists, "clutch_test_y")), c(FALSE, FALSE))
    # what a node has under this name comes back
    parallel::clusterCall(cl, function() assign("clutch_test_y", -1, globalenv()))
    expect_identical(cluster_map_dbl(cl, 1:3, f), 10 + 2 * 1:3)
    expect_identical(
      unlist(parallel::clusterCall(cl, function() get("clutch_test_y", globalenv()))), c(-1, -1)
    )
    expect_identical(
      cluster_map_dbl(cl, 1:3, f, .globals = list(clutch_test_y = 1, clutch_test_g = identity)),
      1 + 1:3
    )
    z <- 5 # a local variable travels with the function
    expect_identical(cluster_map_dbl(cl, 1:2, function(x) x + z), c(6, 7))
    e <- task_error_of(cluster_map(cl, 1:2, f, .globals = FALSE))
    expect_match(conditionMessage(e), "clutch_test_g.*\\.globals = \"clutch_test_g\"")
  })
})

test_that("what is large is said, with the names of the largest objects", {
  cl <- make_cluster(1)
  old <- options(clutch.max_size = 1e5)
  on.exit({
    options(old)
    stop_cluster(cl)
  })
  dragged <- runif(1e5)
  expect_warning(cluster_map(cl, 1, function(x) length(dragged)),
                 "dragged.*environment of the function", class = "clutch_large")
  expect_warning(cluster_map(cl, 1, identity), NA)
})

test_that("random numbers depend on the seed alone, not on nodes, chunks or retries, and the session's are left as one draw leaves them", {
  draws <- list()
  for (n in c(1, 2, 7)) {
    cl <- make_cluster(n)
    for (chunk in list(NULL, 1, 3)) {
      draws <- c(draws,
                 list(cluster_map_dbl(cl, 1:20, function(x) rnorm(1), .seed = 42, .chunk = chunk)))
    }
    if (n == 2) draws <- c(draws, list(cluster_map_dbl(cl, 1:20, function(i) {
      x <- rnorm(1)
      if (i %% 7 == 0 && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9L)
      x
    }, .seed = 42, .retries = 1)))
    set.seed(7)
    a <- cluster_map_dbl(cl, 1:5, function(x) runif(1))
    set.seed(7)
    expect_identical(cluster_map_dbl(cl, 1:5, function(x) runif(1)), a)
    expect_false(identical(cluster_map_dbl(cl, 1:5, function(x) runif(1)), a))
    expect_identical(anyDuplicated(a), 0L)
    stop_cluster(cl)
  }
  for (d in draws) expect_identical(d, draws[[1L]])
  # parallel's streams, from the same seed
  old <- RNGkind()
  RNGkind("L'Ecuyer-CMRG", "Inversion", "Rejection")
  set.seed(42)
  s <- get(".Random.seed", globalenv())
  expect <- vapply(1:20, function(i) {
    assign(".Random.seed", s, globalenv())
    s <<- parallel::nextRNGStream(s)
    rnorm(1)
  }, 1)
  RNGkind(old[[1L]], old[[2L]], old[[3L]])
  expect_identical(draws[[1L]], expect)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (seed in list(TRUE, 3)) {
    set.seed(1)
    cluster_map(cl, 1:3, identity, .seed = seed)
    after <- runif(1)
    set.seed(1)
    runif(1)
    expect_identical(runif(1), after)
  }
  set.seed(1)
  cluster_map(cl, 1:3, identity, .seed = FALSE)
  after <- runif(1)
  set.seed(1)
  expect_identical(runif(1), after)
  # the nodes' own stream is theirs again afterwards
  parallel::clusterSetRNGStream(cl, 5)
  a <- parallel::clusterCall(cl, runif, 2)
  parallel::clusterSetRNGStream(cl, 5)
  b <- parallel::clusterCall(cl, runif, 1)
  cluster_map(cl, 1:3, rnorm)
  expect_identical(list(c(unlist(b), unlist(parallel::clusterCall(cl, runif, 1)))), a)
})

test_that("streams are those of parallel, any number of them ahead", {
  s <- c(10407L, 1L, -2L, 3L, 4L, 5L, 6L)
  at <- s
  for (i in 1:5) at <- parallel::nextRNGStream(at)
  expect_identical(.Call(clutch:::ffi_stream_jump, s[-1L], 5), at[-1L])
  far <- .Call(clutch:::ffi_stream_jump, .Call(clutch:::ffi_stream_jump, s[-1L], 999999), 1)
  expect_identical(.Call(clutch:::ffi_stream_jump, s[-1L], 1e6), far)
  expect_identical(.Call(clutch:::ffi_stream_jump, s[-1L], 0), s[-1L])
})

test_that("output and conditions come in the order of the elements, or as they come, or not at all", {
  of_each_strategy(function(cl) {
    f <- function(x) {
      if (x == 1) Sys.sleep(0.2)
      cat("out", x, "\n")
      message("msg ", x)
      if (x == 2) warning("warn ", x)
      signalCondition(structure(class = c("my_condition", "condition"),
                                list(message = "hi", call = NULL, x = x)))
      print(x)
      x
    }
    seen <- list()
    note <- function(what) function(c) {
      seen[[length(seen) + 1L]] <<- paste(what, trimws(conditionMessage(c)))
      for (r in c("muffleMessage", "muffleWarning")) {
        if (!is.null(findRestart(r, c))) invokeRestart(r)
      }
    }
    out <- capture.output(withCallingHandlers(r <- cluster_map(cl, 1:3, f), message = note("m"),
                                              warning = note("w"), my_condition = note("c")))
    expect_identical(r, list(1L, 2L, 3L))
    expect_identical(unlist(seen),
                     c("m msg 1", "c hi", "m msg 2", "w warn 2", "c hi", "m msg 3", "c hi"))
    expect_identical(out, c("out 1 ", "[1] 1", "out 2 ", "[1] 2", "out 3 ", "[1] 3"))
    out <- capture.output(cluster_walk(cl, 1:2, function(x) cat("live", x, "\n"), .relay = "live"))
    expect_setequal(out, c("live 1 ", "live 2 "))
    expect_identical(capture.output(cluster_walk(cl, 1:2, function(x) cat("no\n"), .relay = FALSE)),
                     character())
    # an ordinary call is none of it
    expect_silent(parallel::clusterCall(cl, function() cat("to the cluster's own output\n")))
  })
})

test_that("results of all sizes come, each to its own element, whatever way they take", {
  f <- function(i) switch(i %% 6 + 1, NULL, i, rep(i, 300), as.character(i), list(i, "a", i / 2), {
    message("m")
    c(a = i)
  })
  want <- lapply(1:3000, function(i) suppressMessages(f(i)))
  for (strategy in c("fork_server", "parallel")) for (chunk in list(NULL, 1, 7)) {
    cl <- make_cluster(2, strategy)
    expect_identical(suppressMessages(cluster_map(cl, 1:3000, f, .chunk = chunk)), want,
                     label = strategy)
    stop_cluster(cl)
  }
})

test_that("R code that runs while a result is read may take others", {
  # what others have loaded may be in use
  some <- setdiff(c("stats4", "splines", "grid"), loadedNamespaces())
  if (!length(some)) skip("all namespaces are loaded already")
  package <- some[[1L]]
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  slow <- cluster_submit(cl, Sys.sleep(60))
  ran <- 0
  setHook(packageEvent(package, "onLoad"), function(...) {
    fill <- function() lapply(1:2000, function(k) rep(as.raw(255), 1000 + 20 * k))
    around <- fill() # what grows has to move
    Sys.sleep(0.3) # the ring is full
    resolved(slow)
    fill() # what was given back is somebody else's
    ran <<- ran + 1
  })
  on.exit(setHook(packageEvent(package, "onLoad"), NULL, "replace"), add = TRUE)
  for (k in 1:5) {
    if (package %in% loadedNamespaces()) unloadNamespace(package)
    r <- cluster_map(cl, 1:200, function(i) {
      list(if (i == 1) asNamespace(package), paste(strrep("x", 3000), i))
    }, .chunk = 100)
    expect_identical(vapply(r, `[[`, "", 2L), paste(strrep("x", 3000), 1:200))
  }
  expect_identical(ran, 5)
})

test_that("a session that has no room for the shared memory works without it", {
  linux_only()
  skip_if_not(nzchar(Sys.which("prlimit")))
  s <- start_script(fixture = "address-space")
  expect_done(s)
})

test_that("a quick result is there while the node is at a slow task", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  invisible(cluster_map(cl, 1:20000, identity))
  seen <- integer()
  withCallingHandlers(cluster_map(cl, 1:5001, function(i) {
    if (i == 4999) message("before")
    if (i == 5000) Sys.sleep(2)
    i
  }),
                      message = function(m) {
                        seen[["at"]] <<- clutch:::clock()
                        invokeRestart("muffleMessage")
                      })
  end <- clutch:::clock()
  expect_gt(end - seen[["at"]], 1) # it was relayed while the next one slept
  # and no task is late because the quick ones before it were not told of
  r <- cluster_map(cl, 1:20001, function(i) {
    if (i == 20000) Sys.sleep(0.6)
    i
  }, .timeout = 1)
  expect_identical(unlist(r), 1:20001)
})

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

test_that("random numbers follow their stream also where a task keeps, sets or removes .Random.seed", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  plain <- cluster_map(cl, 1:60, function(i) runif(2), .seed = 7)
  odd <- cluster_map(cl, 1:60, function(i) {
    x <- runif(2)
    if (i %% 4 == 1) assign("kept", .Random.seed, globalenv())
    if (i %% 4 == 2) set.seed(1, kind = "Mersenne-Twister")
    if (i %% 4 == 3) rm(.Random.seed, envir = globalenv())
    x
  }, .seed = 7)
  expect_identical(odd, plain)
  kept <- cluster_map(cl, 1:40, function(i) .Random.seed, .seed = 7)
  expect_identical(length(unique(kept)), 40L) # none was written over while somebody had it
})

test_that("an error is of class clutch_task_error and has element, node, call, stack and the original condition", {
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

test_that("a node that dies is replaced and prepared, its element follows the guarantee, the cause is named", {
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

test_that("new nodes have their cluster's environment, whoever the new fork server was started for", {
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

test_that("time and memory have limits, of one element", {
  linux_only()
  of_each_strategy(function(cl) {
    for (f in list(function(i) if (i == 2) repeat {} else i,
                   function(i) if (i == 2) Sys.sleep(100) else i)) {
      expect_warning(r <- cluster_map(cl, 1:4, f, .timeout = 0.3, .on_error = "continue"))
      expect_s3_class(r[[2L]], "clutch_task_timeout")
      expect_identical(r[-2L], list(1L, 3L, 4L))
    }
    p <- pids(cl)
    old <- options(clutch.task_grace = 0.3)
    on.exit(options(old))
    if (!system_can("memory")) return() # else nobody ends what follows
    expect_warning(r <- cluster_map(cl, 1:3, function(i) {
      if (i == 1) {
        big <- numeric(1.2e7)
        for (k in 1:100) {
          big[[1L]] <- k
          big <- c(big, big[1:6e6])
        }
      }
      i
    }, .max_memory = 300e6, .on_error = "continue"))
    expect_s3_class(r[[1L]], c("clutch_task_memory", "clutch_task_died"))
    expect_identical(r[-1L], list(2L, 3L))
    expect_false(identical(pids(cl), p))
    expect_true(works(cl))
  })
})

test_that("where memory is limited, garbage of one element is not the next one's", {
  linux_only()
  needs("memory")
  of_each_strategy(function(cl) {
    expect_warning(r <- cluster_map(cl[1L], 1:4, function(i, leave) {
      pages <- as.numeric(strsplit(readLines("/proc/self/statm"), " ")[[1L]])
      if (leave[[i]]) lapply(1:40, function(k) numeric(1e6)) # 320 MB in one go, then nobody's
      if (i == 3) stop("that leaves it, too")
      (pages[[2L]] - pages[[3L]]) * 4096
    }, leave = c(TRUE, FALSE, TRUE, FALSE), .max_memory = 550e6, .on_error = "continue", .chunk = 2,
    .globals = FALSE))
    for (i in c(1L, 2L, 4L)) expect_lt(r[[i]], 250e6)
  })
})

test_that("memory is limited also while the session does other things", {
  linux_only()
  needs("memory")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  eat <- function() {
    x <- list()
    repeat {
      x <- c(x, list(numeric(1e6) + 1))
      Sys.sleep(0.001)
    }
  }
  t <- cluster_submit(cl, eat(), .globals = list(eat = eat), .max_memory = 150e6)
  other <- cluster_submit(cl, {
    Sys.sleep(0.1)
    "fine"
  })
  p <- pids(cl)
  expect_true(eventually(!all(alive(p)))) # nobody asks for the task
  e <- tryCatch(collect(t), clutch_task_memory = identity)
  expect_match(conditionMessage(e), "max_memory", fixed = TRUE)
  expect_identical(collect(other), "fine")
  # without a limit there is none any more
  expect_identical(cluster_map_dbl(cl, 1:2, function(i) {
    x <- numeric(3e7) + 1
    Sys.sleep(0.1)
    x[[1]]
  }), c(1, 1))
})

test_that("a node that does not react when time is up is killed and replaced", {
  linux_only()
  old <- options(clutch.task_grace = 0.3)
  on.exit(options(old))
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  p <- pids(cl)
  # deaf to interrupts: they are suspended
  expect_warning(r <- cluster_map(cl, 1:3,
                                  function(i) if (i == 1) suspendInterrupts(repeat {}) else i,
                                  .timeout = 0.3, .on_error = "continue"))
  expect_s3_class(r[[1L]], "clutch_task_timeout")
  expect_identical(r[-1L], list(2L, 3L))
  expect_identical(sum(pids(cl) != p), 1L)
})

test_that("a part of a cluster works alone", {
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  p <- pids(cl)
  expect_identical(unique(unlist(cluster_map(cl[2L], 1:20, function(i) Sys.getpid()))), p[[2L]])
  got <- unlist(cluster_map(cl[c(1L, 3L)], 1:40, function(i) {
    Sys.sleep(0.005)
    Sys.getpid()
  }))
  expect_setequal(got, p[c(1L, 3L)])
})

test_that("tasks are submitted, waited for, cancelled, raced", {
  of_each_strategy(function(cl) {
    a <- 20
    f <- function(k) {
      g <- function(z) z * k
      cluster_submit(cl, g(4) + a)
    }
    t <- f(3)
    expect_s3_class(t, "clutch_task")
    expect_identical(collect(t), 32)
    expect_identical(collect(t), 32) # again
    expect_true(resolved(t))
    slow <- cluster_submit(cl, Sys.sleep(60), .label = "the slow one")
    expect_false(resolved(slow))
    expect_error(collect(slow, timeout = 0.1), class = "clutch_timeout")
    r <- collect_any(list(slow, cluster_submit(cl, "quick")))
    expect_identical(r[c("index", "value")], list(index = 2L, value = "quick"))
    expect_true(cancel(slow))
    expect_error(collect(slow), class = "clutch_task_cancelled")
    expect_false(cancel(slow))
    expect_identical(collect_all(lapply(1:20, function(i) cluster_submit(cl, i^2))),
                     lapply(1:20, function(i) i^2))
    expect_error(collect(cluster_submit(cl, stop("oops"))), "oops", class = "clutch_task_error")
    expect_message(collect(cluster_submit(cl, message("said"))), "said")
    expect_output(print(cluster_submit(cl, 1 + 1)), "clutch task '1 \\+ 1'")
    set.seed(3)
    x <- collect(cluster_submit(cl, runif(1)))
    set.seed(3)
    expect_identical(collect(cluster_submit(cl, runif(1))), x)
    expect_true(works(cl))
  })
})

test_that("resolved() and collect() are those of other packages for what is no task", {
  # in a session of its own, with packages of these names and nothing else in them
  s <- start_script(fixture = "masked-generics")
  expect_done(s)
  expect_true(ends(s))
})

test_that("tasks that are submitted one after the other are all begun while nodes are idle, also when the session computes", {
  of_each_strategy(function(cl) {
    marks <- tempfile(c("a", "b"))
    t <- lapply(marks, function(mark) cluster_submit(cl, {
      file.create(mark)
      Sys.sleep(60)
    }))
    expect_true(eventually(all(file.exists(marks)))) # nothing of the cluster's is called meanwhile
    lapply(t, cancel)
    unlink(marks)
  })
})

test_that("a task to which nothing refers is cancelled, and nothing is left of it", {
  linux_only()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  mark <- tempfile()
  invisible(gc())
  before <- .Call(clutch:::ffi_live_handles)
  for (i in 1:4) cluster_submit(cl, {
    Sys.sleep(60)
    file.create(mark)
  })
  invisible(gc())
  expect_true(eventually(all(cluster_status(cl)$state == "idle")))
  expect_false(file.exists(mark))
  invisible(gc())
  expect_lte(.Call(clutch:::ffi_live_handles) - before, 1) # the scheduler
})

test_that("tasks become promises where package promises is installed", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  got <- NULL
  promises::then(promises::as.promise(cluster_submit(cl, 6 * 7)), function(v) got <<- v)
  expect_true(eventually({
    later::run_now(0.01)
    identical(got, 42)
  }))
})

test_that("calls of package parallel and tasks do not disturb each other", {
  of_each_strategy(function(cl) {
    t <- lapply(1:6, function(i) cluster_submit(cl, {
      Sys.sleep(0.02)
      i
    }))
    expect_identical(parallel::parSapply(cl, 1:10, function(i) i), 1:10)
    expect_identical(collect_all(t), as.list(1:6))
    expect_identical(unlist(cluster_map(cl, 1:10, identity)), 1:10)
    expect_identical(parallel::clusterCall(cl, function() 1), list(1, 1))
  })
})

test_that("the trace has each task, its summary the idle share, and it can be drawn", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_identical(nrow(cluster_trace(cl)), 0L)
  cluster_map(cl, c(0.05, 0.01, 0.02), Sys.sleep)
  x <- cluster_trace(cl)
  expect_s3_class(x, c("clutch_trace", "data.frame"))
  expect_identical(sort(x$element), c(1, 2, 3))
  expect_true(all(x$ok) && all(x$ended >= x$began) &&
              all(x$ended[x$element == 1] - x$began[x$element == 1] >= 0.045))
  s <- summary(x)
  expect_true(s$idle >= 0 && s$idle <= 1 && s$tasks == 3L && s$failed == 0L)
  expect_output(print(s), "3 tasks, 0 failed")
  file <- tempfile(fileext = ".pdf")
  grDevices::pdf(file)
  plot(x)
  grDevices::dev.off()
  expect_gt(file.size(file), 1000)
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

test_that("Ctrl-C in a map gives control back, and the cluster is in step", {
  linux_only()
  s <- start_script(fixture = "interrupts-of-maps")
  expect_done(s)
})

test_that("a node knows its share of the cores, and so do libraries with threads", {
  old <- Sys.getenv("MKL_NUM_THREADS", NA)
  Sys.setenv(MKL_NUM_THREADS = "7")
  on.exit(if (is.na(old)) Sys.unsetenv("MKL_NUM_THREADS") else Sys.setenv(MKL_NUM_THREADS = old))
  cores <- available_cores()
  for (s in c("fork_server", "spawn", "parallel")) for (n in 1:2) {
    cl <- make_cluster(n, s)
    got <- cluster_map(cl, seq_len(n), function(i) {
      list(clutch::available_cores(),
           Sys.getenv(c("R_DATATABLE_NUM_THREADS", "MKL_NUM_THREADS"), names = FALSE))
    })
    for (g in got) {
      expect_identical(g, list(max(1L, cores %/% n), c(as.character(max(1L, cores %/% n)), "7")),
                       label = s)
    }
    # a cluster within a node
    inner <- collect(cluster_submit(cl[1L], {
      x <- clutch::make_cluster(1)
      on.exit(clutch::stop_cluster(x))
      clutch::cluster_map_dbl(x, 1:3, sqrt)
    }))
    expect_identical(inner, sqrt(1:3))
    stop_cluster(cl)
  }
})

test_that("a cluster, its scheduler and its tasks are collected together, in any order", {
  linux_only()
  invisible(gc())
  before <- .Call(clutch:::ffi_live_handles)
  p <- integer()
  for (k in 1:6) local({
    cl <- make_cluster(2)
    p <<- c(p, pids(cl))
    tasks <- lapply(1:5, function(i) cluster_submit(cl, Sys.sleep(100)))
    NULL
  })
  for (k in 1:3) invisible(gc())
  expect_identical(.Call(clutch:::ffi_live_handles), before)
  expect_true(eventually(!any(alive(p))))
})

test_that("a progress bar is shown when asked for", {
  old <- options(cli.dynamic = TRUE)
  cl <- make_cluster(2)
  on.exit({
    options(old)
    stop_cluster(cl)
  })
  shown <- capture.output(r <- cluster_map(cl, 1:30, function(i) {
    Sys.sleep(0.02)
    i
  }, .progress = TRUE), type = "message")
  expect_identical(unlist(r), 1:30)
  expect_match(paste(shown, collapse = ""), "[0-9]+/30")
})

test_that("package progressr gets the signals of tasks and of the map", {
  skip_if_not_installed("progressr")
  old <- options(progressr.enable = TRUE)
  cl <- make_cluster(2)
  on.exit({
    options(old)
    stop_cluster(cl)
  })
  seen <- 0
  withCallingHandlers(progressr::with_progress(handlers = progressr::handler_void(), {
    p <- progressr::progressor(6)
    cluster_map(cl, 1:6, function(i, p) {
      p()
      i
    }, p = p)
  }), progression = function(c) if (identical(c$type, "update")) seen <<- seen + 1)
  expect_gte(seen, 6)
})

test_that("a successor that is killed while it starts is followed by another one", {
  s <- start_script(fixture = "killed-while-replaced")
  expect_done(s, 60)
})
