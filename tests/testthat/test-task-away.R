# Submitted tasks go on while the session is in code that does not look at R: a thread of the
# package drives them.

# A function that is in C for so many seconds, without looking at R, or until `n` files are in
# `folder`. Most of the time it leaves the processor to others: the session's thread sees no
# difference.
computing <- local({
  compute <- NULL
  function() {
    if (!is.null(compute)) return(compute)
    outside_checks_only() # it needs a compiler
    dir <- tempfile("compute")
    dir.create(dir)
    file.copy(test_path("fixtures", "compute.c"), dir)
    lib <- file.path(dir, paste0("compute", .Platform$dynlib.ext))
    system2(file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "-o", shQuote(lib),
            shQuote(file.path(dir, "compute.c"))), stdout = FALSE, stderr = FALSE)
    testthat::skip_if_not(file.exists(lib), "no compiler")
    library <- dyn.load(lib)
    away <- getNativeSymbolInfo("away", library)
    away_until <- getNativeSymbolInfo("away_until", library)
    compute <<- function(seconds, folder = NULL, n = 0L) {
      if (is.null(folder)) return(.C(away, as.double(seconds), 0))
      .C(away_until, as.double(seconds), 0, folder, as.integer(n))
    }
    compute
  }
})
now <- function() as.double(Sys.time())
new_folder <- function() {
  folder <- tempfile("ended-")
  dir.create(folder)
  folder
}

test_that("submitted tasks are done while the session computes in C", {
  compute <- computing()
  of_each_strategy(function(cl) {
    folder <- new_folder()
    t <- lapply(1:300, function(i) cluster_submit(cl, {
      Sys.sleep(0.01)
      ended <- as.double(Sys.time())
      file.create(file.path(folder, i))
      ended
    }))
    compute(60, folder, 300)
    back <- now()
    unlink(folder, recursive = TRUE)
    ends <- unlist(collect_all(t))
    expect_length(ends, 300L)
    expect_lt(max(ends), back)
    expect_true(works(cl))
  })
})

test_that("tasks that were waited for meanwhile keep their order beside maps", {
  compute <- computing()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  t <- lapply(1:100, function(i) cluster_submit(cl, {
    Sys.sleep(0.005)
    i
  }))
  # R is elsewhere in the middle of a map: in what relays its messages
  x <- withCallingHandlers(
    cluster_map_int(cl, 1:50, function(i) {
      if (i %% 10 == 0) message("now")
      i
    }, .relay = "live"),
    message = function(m) {
      compute(0.1)
      invokeRestart("muffleMessage")
    })
  expect_identical(x, 1:50)
  expect_identical(collect_all(t), as.list(1:100))
})

test_that("a node that dies meanwhile: a retry is done by another, then it is replaced", {
  linux_only()
  compute <- computing()
  of_each_strategy(function(cl) {
    before <- pids(cl)
    mark <- tempfile()
    folder <- new_folder()
    t <- lapply(1:100, function(i) cluster_submit(cl, {
      if (i == 30 && !file.exists(mark)) {
        file.create(mark)
        tools::pskill(Sys.getpid(), 9)
        Sys.sleep(10)
      }
      Sys.sleep(0.005)
      ended <- as.double(Sys.time())
      file.create(file.path(folder, i))
      ended
    }, .retries = 1))
    compute(60, folder, 100)
    back <- now()
    ends <- unlist(collect_all(t))
    expect_lt(max(ends), back)
    expect_identical(sum(pids(cl) != before), 1L)
    unlink(c(mark, folder), recursive = TRUE)
    lost <- cluster_submit(cl, tools::pskill(Sys.getpid(), 9))
    cluster_submit(cl, 1, .timeout = 5)
    compute(0.3)
    e <- tryCatch(collect(lost), clutch_task_died = identity)
    expect_match(conditionMessage(e), "SIGKILL")
    expect_true(works(cl))
  })
})

test_that("whoever finds a task done finds the dead node replaced, too", {
  linux_only()
  compute <- computing()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  calls <- list(
    collect = function(t) collect(t),
    collect_timeout = function(t) collect(t, timeout = 5),
    collect_any = function(t) collect_any(t)$value,
    collect_all = function(t) collect_all(t)[[1L]],
    resolved = function(t) if (eventually(resolved(t))) 2
  )
  for (name in names(calls)) {
    before <- pids(cl)
    t <- cluster_submit(cl, {
      if (task_attempt() == 1) tools::pskill(Sys.getpid(), 9)
      task_attempt()
    }, .retries = 1)
    compute(1) # the death is seen, and the task done by the other node
    expect_equal(calls[[name]](t), 2, info = name)
    expect_identical(sum(pids(cl) != before), 1L, info = name)
    expect_true(works(cl), info = name)
  }
})

test_that("time limits are in force meanwhile, and who has answered is not late", {
  compute <- computing()
  of_each_strategy(function(cl) {
    late <- cluster_submit(cl, Sys.sleep(60), .timeout = 0.2)
    folder <- new_folder()
    after <- lapply(1:20, function(i) cluster_submit(cl, {
      Sys.sleep(0.01)
      ended <- as.double(Sys.time())
      file.create(file.path(folder, i))
      ended
    }, .timeout = 3))
    compute(60, folder, 20)
    back <- now()
    unlink(folder, recursive = TRUE)
    compute(3.2)
    expect_lt(max(unlist(collect_all(after))), back)
    expect_error(collect(late), class = "clutch_task_timeout")
    expect_true(works(cl))
  })
})

# For calls of package parallel: waits until `is_so(x)`, half a minute at the most. Whether it is.
until <- function(x, is_so) {
  end <- Sys.time() + 30
  while (!is_so(x) && Sys.time() < end) Sys.sleep(0.01)
  is_so(x)
}
environment(until) <- globalenv()

test_that("submitted tasks and their limits go on while the session waits in package parallel", {
  other <- make_cluster(1)
  on.exit(stop_cluster(other))
  waits <- list(
    clusterCall = function(file) parallel::clusterCall(other, until, file, file.exists)[[1L]],
    clusterApplyLB = function(file) {
      parallel::clusterApplyLB(other, file, until, file.exists)[[1L]]
    }
  )
  of_each_strategy(function(cl) {
    for (name in names(waits)) {
      last <- tempfile()
      late <- lapply(1:2, function(i) cluster_submit(cl, Sys.sleep(60), .timeout = 0.2))
      t <- lapply(1:40, function(i) cluster_submit(cl, {
        if (i == 40) file.create(last)
        i
      }))
      expect_true(waits[[name]](last), info = name)
      expect_identical(collect_all(t), as.list(1:40), info = name)
      for (task in late) expect_error(collect(task), class = "clutch_task_timeout", info = name)
    }
    expect_true(works(cl))
  })
})

test_that("a node that is ended for its task: a call of package parallel replaces or names it", {
  old <- options(clutch.task_grace = 0.2)
  on.exit(options(old))
  deaf <- function(cl, ...) {
    begun <- tempfile()
    t <- cluster_submit(cl, {
      file.create(begun)
      suspendInterrupts(repeat NULL)
    }, ...)
    expect_true(eventually(file.exists(begun)))
    t
  }
  of_each_strategy(function(cl) {
    for (pause in c(0, 1)) { # it is ended while the call waits for it, and before
      t <- deaf(cl)
      behind <- list(cluster_submit(cl, 7), deaf(cl), cluster_submit(cl, 8))
      cancel(t)
      cancel(behind[[2L]])
      Sys.sleep(pause)
      expect_warning(r <- parallel::clusterCall(cl, identity, 5), class = "clutch_node_replaced")
      expect_identical(r, list(5, 5))
      expect_identical(collect_all(behind[c(1L, 3L)]), list(7, 8))
    }
    # the call was sent to the first node already
    t <- deaf(cl[2])
    behind <- cluster_submit(cl[2], 9)
    cancel(t)
    expect_warning(r <- parallel::clusterCall(cl, identity, 6), class = "clutch_node_replaced")
    expect_identical(r, list(6, 6))
    expect_identical(collect(behind), 9)
    # a call that waits behind the task
    t <- deaf(cl, .timeout = 0.5)
    e <- expect_error(parallel::clusterCall(cl, identity, 5), class = "clutch_node_died")
    expect_match(conditionMessage(e), "died during a call: it did not react when time was up")
    expect_error(collect(t), class = "clutch_task_timeout")
    expect_true(works(cl))
    stop_cluster(cl)
    expect_error(parallel::clusterCall(cl, identity, 5), class = "clutch_stopped")
  })
})

test_that("tasks are handed out while one call of package parallel follows the other", {
  other <- make_cluster(1)
  cl <- make_cluster(1)
  on.exit({
    stop_cluster(other)
    stop_cluster(cl)
  })
  round <- function(i) {
    last <- tempfile()
    on.exit(unlink(last))
    t <- lapply(1:100, function(i) cluster_submit(cl, {
      if (i == 100) file.create(last)
      i
    }))
    calls <- 0
    while (!file.exists(last) && calls < 1000) {
      parallel::clusterCall(other, Sys.sleep, 0.002)
      calls <- calls + 1
    }
    expect_identical(collect_all(t), as.list(1:100))
    calls
  }
  # more than one task a call, in one of some rounds at least: on a busy machine its node may stand
  expect_lt(min(vapply(1:5, round, 0)), 100)
})

test_that("limits of memory are in force while the session waits in package parallel", {
  linux_only()
  needs("memory")
  other <- make_cluster(1)
  on.exit(stop_cluster(other))
  is_gone <- function(pid) !file.exists(file.path("/proc", pid))
  environment(is_gone) <- globalenv()
  of_each_strategy(function(cl) {
    file <- tempfile()
    t <- cluster_submit(cl, {
      cat(Sys.getpid(), file = file)
      x <- list()
      repeat {
        x <- c(x, list(numeric(1e6) + 1))
        Sys.sleep(0.001)
      }
    }, .max_memory = 150e6)
    expect_true(eventually(file.exists(file) && length(readLines(file, warn = FALSE)) == 1L))
    pid <- readLines(file, warn = FALSE)
    expect_true(parallel::clusterCall(other, until, pid, is_gone)[[1L]])
    expect_error(collect(t), class = "clutch_task_memory")
    expect_true(works(cl))
  })
})

test_that("what comes meanwhile is read up to a bound; then nodes wait", {
  linux_only()
  compute <- computing()
  rss <- function() {
    status <- readLines("/proc/self/status")
    as.double(gsub("[^0-9]", "", grep("^VmRSS", status, value = TRUE))) / 1024
  }
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  t <- lapply(1:60, function(i) cluster_submit(cl, rep(i + 0, 2e6))) # 960 MB
  before <- rss()
  compute(3)
  expect_lt(rss() - before, 400)
  for (i in 1:60) {
    expect_identical(sum(collect(t[[i]])), i * 2e6)
    t[i] <- list(NULL)
  }
})

test_that("it costs nothing while there is nothing to do", {
  linux_only()
  s <- start_script(fixture = "idle-cost")
  expect_done(s)
  expect_true(ends(s))
})

test_that("one task after the other does not wake the thread", {
  linux_only()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  threads <- function() list.files("/proc/self/task")
  invisible(crossprod(diag(3))) # threads of the linear algebra have been started
  switches <- function(thread) times_asleep(file.path("/proc/self/task", thread))
  before <- threads()
  # the thread is there
  t <- lapply(1:20, function(i) cluster_submit(cl, Sys.sleep(0.01)))
  Sys.sleep(0.3)
  invisible(collect_all(t))
  fresh <- union(setdiff(threads(), before), before[-1L])
  count <- function() sum(vapply(fresh, switches, 1))
  # one round of many: on a busy machine an answer comes late, and the thread does its work
  woken_in_a_round <- function() {
    n <- count()
    for (i in 1:40) collect(cluster_submit(cl, i))
    count() - n
  }
  expect_true(eventually(woken_in_a_round() < 8, 60))
})

test_that("forks of the session while tasks are out neither hang nor disturb them", {
  linux_only()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  t <- lapply(1:300, function(i) cluster_submit(cl, {
    Sys.sleep(0.005)
    i
  }, .retries = 1))
  for (k in 1:5) {
    x <- parallel::mclapply(1:4, function(i) {
      refused <- tryCatch(collect(t[[1L]]), clutch_error = function(e) class(e)[[1L]])
      if (is.character(refused)) i else NULL
    }, mc.cores = 2)
    expect_identical(x, as.list(1:4))
    Sys.sleep(0.02)
  }
  expect_identical(collect_all(t), as.list(1:300))
})

test_that("a session that ends meanwhile leaves nothing", {
  linux_only()
  s <- start_script(fixture = "q-while-away")
  expect_done(s)
  expect_true(ends(s))
  expect_identical(left_in(s), character())
})

test_that("the package can be unloaded meanwhile", {
  linux_only()
  s <- start_script(fixture = "unload-while-away")
  expect_done(s)
  expect_true(ends(s))
})

test_that("Ctrl-C ends a wait while the thread has work", {
  linux_only()
  s <- start_script(fixture = c("interrupt-in", "interrupted-while-away"))
  expect_done(s)
  expect_true(ends(s))
})
