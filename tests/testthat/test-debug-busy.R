# cluster_debug() of nodes that are busy: copies are made of them while they work.

# Process ids of copies whose parents are nodes of this cluster.
busy_copies <- function(cl) {
  out <- system2("ps", c("-eo", "pid=,ppid=,args="), stdout = TRUE)
  out <- out[grepl("clutch: copy of a busy node", out, fixed = TRUE)]
  ids <- lapply(strsplit(trimws(out), " +"), function(x) as.integer(x[1:2]))
  vapply(Filter(function(x) x[[2L]] %in% pids(cl), ids), `[[`, 1L, 1L)
}

# Busy until a file is there.
count_until <- function(file) {
  counted <- 0
  inner <- function(most) {
    repeat {
      counted <<- counted + 1
      if (counted %% 1000 == 0 && file.exists(most)) return("seen")
    }
  }
  inner(file)
}
environment(count_until) <- globalenv()

begun <- function(cl, n = 1L) {
  expect_true(eventually({
    s <- cluster_stacks(cl)
    sum(lengths(s$stack) > 1L) >= n
  }))
}

test_that("the frames of a running task are seen, and it goes on", {
  needs("proc")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  file <- tempfile()
  task <- cluster_submit_call(cl, count_until, list(file))
  begun(cl)
  # R may be compiling the function at first
  labels <- NULL
  at <- function() which(grepl("inner(file)", labels <<- cluster_debug(task), fixed = TRUE))
  expect_true(eventually(length(at()) == 1L), info = labels)
  see <- function(...) cluster_debug(task, ...)
  at <- at()
  expect_identical(see(at - 1L, quote(file)), file)
  first <- see(at, quote(counted))
  expect_true(eventually(see(at, quote(counted)) > first))
  # what is changed there is not changed on the node
  expect_identical(see(at, quote({
    file.create(tempfile())
    most <- "nowhere"
  })), "nowhere")
  expect_identical(see(at, quote(most)), file)
  expect_error(see(at, quote(stop("in the copy"))), "in the copy")
  expect_error(see(at + 50L), class = "clutch_argument")
  # by its node
  k <- which(cluster_status(cl)$state == "busy")
  expect_identical(cluster_debug(cl[k], at, quote(most)), file)
  expect_identical(cluster_debug(cl[[k]], at, quote(most)), file)
  expect_true(eventually(!length(busy_copies(cl))))
  file.create(file)
  expect_identical(collect(task), "seen")
  expect_error(see(), class = "clutch_argument") # it has ended, and not failed
  folder <- dirname(collect(cluster_submit(cl, tempdir())))
  expect_length(list.files(file.path(folder, "frozen")), 0L)
})

test_that("copies are made while a node waits, and also where failures leave copies", {
  needs("proc")
  old <- options(clutch.frozen = 2)
  on.exit(options(old))
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  wait <- function(a) {
    try(stop("handled"), silent = TRUE) # leaves a copy, which goes when the task has ended
    b <- a + 1
    Sys.sleep(600)
  }
  tasks <- lapply(1:2, function(i) cluster_submit(cl, wait(i)))
  begun(cl, 2L)
  for (k in 1:3) for (i in 1:2) {
    expect_identical(cluster_debug(tasks[[i]], expr = quote(time)), 600)
    labels <- cluster_debug(tasks[[i]])
    expect_identical(cluster_debug(tasks[[i]], length(labels) - 1L, quote(b)), i + 1)
  }
  expect_true(all(cancel(tasks)))
  # a task that fails after that has a copy of its own, as ever
  file <- tempfile()
  task <- cluster_submit(cl, {
    own <- 5
    while (!file.exists(file)) NULL
    stop("too late")
  })
  begun(cl)
  expect_identical(cluster_debug(task, 1, quote(file.exists(file))), FALSE)
  file.create(file)
  expect_error(collect(task), "too late")
  expect_true(cluster_debug(task, expr = quote(file.exists(file))))
  expect_identical(cluster_debug(task, expr = quote(own)), 5)
})

test_that("the node's work is the same with copies as without", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  draw <- function(seconds) {
    set.seed(7)
    end <- Sys.time() + seconds
    x <- 0
    n <- 0
    while (Sys.time() < end) n <- n + 1
    for (i in 1:1e4) x <- x + stats::rnorm(1) + sum(seq_len(i %% 100))
    list(x, .Random.seed)
  }
  environment(draw) <- globalenv()
  plain <- collect(cluster_submit_call(cl, draw, list(0)))
  task <- cluster_submit_call(cl, draw, list(1))
  begun(cl)
  seen <- 0
  while (!resolved(task)) {
    n <- tryCatch(cluster_debug(task, expr = quote(rnorm(3))), clutch_error = function(e) NULL)
    seen <- seen + !is.null(n)
  }
  expect_gt(seen, 0)
  expect_identical(collect(task), plain)
})

test_that("an evaluation in the copy is interrupted, and the node's work is not", {
  outside_checks_only()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  file <- tempfile()
  task <- cluster_submit_call(cl, count_until, list(file))
  begun(cl)
  for (k in 1:3) {
    later(0.5, "kill -INT %d", Sys.getpid())
    expect_error(cluster_debug(task, expr = quote(repeat NULL)), "the evaluation was interrupted")
  }
  file.create(file)
  expect_identical(collect(task), "seen")
})

test_that("what cannot be looked at is said", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  refused <- function(class, text, e) expect_error(cluster_debug(e), text, class = class)
  refused("clutch_argument", "node 1 is at nothing", cl[1])
  refused("clutch_argument", "one node", cl)
  refused("clutch_argument", "one node", cl[0])
  # a task that waits for others
  file <- tempfile()
  tasks <- lapply(1:5, function(i) cluster_submit_call(cl, count_until, list(file)))
  begun(cl, 2L)
  refused("clutch_argument", "waits for one", tasks[[5L]])
  file.create(file)
  expect_identical(collect(tasks[[5L]]), "seen")
  refused("clutch_argument", "has not failed", tasks[[5L]])
  # a node that dies meanwhile
  task <- cluster_submit_call(cl, count_until, list(tempfile()))
  begun(cl)
  k <- which(cluster_status(cl)$state == "busy")
  tools::pskill(pids(cl)[[k]], tools::SIGSTOP)
  later(0.5, "kill -KILL %d", pids(cl)[[k]])
  refused("clutch_gone", "no copy", task)
  expect_error(collect(task), class = "clutch_task_died")
  # one that never looks
  lib <- compiled("compute")
  task <- cluster_submit(cl, {
    dyn.load(lib)
    .C("compute", 8, 0)[[2L]]
  })
  Sys.sleep(1)
  refused("clutch_gone", "does not look for interrupts", task)
  # nobody wants the copy any more, neither of that task nor of the next
  file <- tempfile()
  tasks <- lapply(1:2, function(i) cluster_submit_call(cl, count_until, list(file)))
  expect_gt(collect(task), 0)
  begun(cl, 2L)
  expect_length(busy_copies(cl), 0L)
  file.create(file)
  expect_identical(lapply(tasks, collect), list("seen", "seen"))
  stop_cluster(cl)
  expect_error(cluster_debug(cl[1]), class = "clutch_error")
})
