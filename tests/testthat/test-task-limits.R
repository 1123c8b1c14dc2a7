# Limits of time and memory, each for one task.

test_that("time and memory have limits, of one element", {
  linux_only()
  of_each_strategy(function(cl) {
    for (f in list(function(i) if (i == 2) repeat {} else i,
                   function(i) if (i == 2) Sys.sleep(100) else i)) {
      # a second more than the others need, where the machine lets them compute
      expect_warning(r <- cluster_map(cl, 1:4, f, .timeout = 1.5, .on_error = "continue"))
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
  t <- cluster_submit(cl, eat(), .globals = list(eat = eat), .max_memory = "150 MB")
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
                                  .timeout = 1.5, .on_error = "continue"))
  expect_s3_class(r[[1L]], "clutch_task_timeout")
  expect_identical(r[-1L], list(2L, 3L))
  expect_identical(sum(pids(cl) != p), 1L)
})

test_that("limits are in force while the session waits for another node that is replaced", {
  linux_only()
  needs("memory")
  dir <- tempfile()
  dir.create(dir)
  slow <- file.path(dir, "slow")
  ended <- file.path(dir, "ended")
  rscript <- file.path(dir, "Rscript")
  # waits for the end of the task of the other node; later for a while
  wait <- paste0("if [ -e '%1$s' ] && [ -e '%2$s' ]; then sleep 3; elif [ -e '%1$s' ]; then ",
                 "for k in $(seq 300); do [ -e '%2$s' ] && break; sleep 0.1; done; fi")
  writeLines(c("#!/bin/sh", sprintf(wait, slow, ended),
               sprintf("exec '%s' \"$@\"", file.path(R.home("bin"), "Rscript"))), rscript)
  Sys.chmod(rscript, "0755")
  cl <- make_cluster(2, strategy = "parallel", rscript = rscript)
  on.exit({
    stop_cluster(cl)
    unlink(dir, recursive = TRUE)
  })
  file.create(slow)
  # the time limit of a task, while a node is replaced that another one has killed
  late <- cluster_submit(cl[2L], tryCatch(Sys.sleep(60), finally = file.create(ended)),
                         .timeout = 1)
  expect_error(collect(cluster_submit(cl[1L], tools::pskill(Sys.getpid(), 9L))),
               class = "clutch_task_died")
  expect_true(file.exists(ended))
  expect_error(collect(late), class = "clutch_task_timeout")
  # the first node cannot begin the task, is killed and replaced, and the other gets the task
  stopped <- pids(cl)[[1L]]
  tools::pskill(stopped, 19L)
  expect_error(collect(cluster_submit(cl[1:2], {
    Sys.sleep(1)
    1
  }, .max_memory = 500), timeout = 30), class = "clutch_task_memory")
  tools::pskill(stopped, 18L) # where the task began at the other node: this one waits for nobody
  expect_identical(cluster_map(cl, 1:4, identity), as.list(1:4))
  expect_true(works(cl))
})

test_that("a task that is cancelled while its error is laid out spoils no later error", {
  skip_if_not_installed("purrr")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  fails <- function(text) try(purrr::map(1L, function(i) stop(text)), silent = TRUE)
  # a handler of the task's own comes before the node's, as in package future
  own_handler <- function(text) tryCatch(repeat fails(text), interrupt = function(e) "interrupted")
  for (first in list(function(text) repeat fails(text), own_handler)) {
    for (k in 1:60) {
      task <- cluster_submit_call(cl, first, list("first"))
      Sys.sleep(0.02 + (k %% 10) / 500)
      cancel(task)
      said <- collect(cluster_submit(cl, fails("second")))
      if (!grepl("second", said)) break
    }
    expect_match(said, "second")
  }
})
