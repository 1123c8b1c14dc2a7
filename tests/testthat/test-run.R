# Parts of a run, their messages, and what they do together.

run_on <- function(n, ...) {
  cl <- make_cluster(n)
  on.exit(stop_cluster(cl))
  cluster_run(cl, ...)
}

run_failure <- function(expr) tryCatch(expr, clutch_error = identity)

test_that("the trace tells how long parts have waited, and for what", {
  cl <- make_cluster(2)
  expect_null(attr(cluster_trace(cl), "waits"))
  cluster_run(cl, function(rank) {
    node_barrier()
    if (rank == 1) Sys.sleep(0.3)
    if (rank == 1) node_send(2, "late") else node_receive(1)
    if (rank == 2) Sys.sleep(0.3)
    node_barrier()
  })
  expect_error(cluster_run(cl, function(rank) stop("no")))
  waits <- attr(cluster_trace(cl), "waits")
  expect_identical(waits$rank, 1:2)
  expect_gt(waits$receive[[2L]], 0.25)
  expect_identical(waits$receive[[1L]], 0)
  expect_gt(waits$together[[1L]], 0.25)
  # a sender waits for room
  cluster_run(cl, function(rank) {
    if (rank == 2) Sys.sleep(1)
    for (k in 1:20000) if (rank == 1) node_send(2, k) else node_receive(1)
  })
  waits <- attr(cluster_trace(cl), "waits")
  expect_identical(nrow(waits), 4L)
  expect_gt(waits$send[[3L]], 0)
  stop_cluster(cl)
})

test_that("each node is a part, with a rank", {
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  here <- 100
  parts <- cluster_run(cl, function(rank, a, b = 0) {
    list(rank = rank, me = node_rank(), count = node_count(), pid = Sys.getpid(),
         sum = a + b + here)
  }, 1, b = 10)
  expect_identical(lapply(parts, `[[`, "rank"), list(1L, 2L, 3L))
  expect_identical(lapply(parts, `[[`, "me"), list(1L, 2L, 3L))
  expect_identical(lapply(parts, `[[`, "count"), list(3L, 3L, 3L))
  expect_identical(lapply(parts, `[[`, "pid"), parallel::clusterCall(cl, Sys.getpid))
  expect_identical(lapply(parts, `[[`, "sum"), list(111, 111, 111))
  expect_identical(cluster_run(cl[2:3], function(rank) node_count()), list(2L, 2L))
  expect_identical(cluster_run(cl, ~ .x * 2), list(2, 4, 6))
  expect_identical(cluster_run(cl, "sqrt")[[1L]], 1)
  expect_identical(run_on(1, function(rank) node_allreduce(rank)), list(1L))
})

test_that("what parts print and signal is seen, and each has its random numbers", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_output(cluster_run(cl, function(rank) cat("part", rank, "\n")), "part 1 \\npart 2 ")
  expect_warning(cluster_run(cl, function(rank) if (rank == 2) warning("of two")), "of two")
  a <- cluster_run(cl, function(rank) rnorm(2), .seed = 5)
  b <- cluster_run(cl, function(rank) rnorm(2), .seed = 5)
  expect_identical(a, b)
  expect_false(identical(a[[1L]], a[[2L]]))
  set.seed(3)
  a <- cluster_run(cl, function(rank) rnorm(1))
  set.seed(3)
  expect_identical(cluster_run(cl, function(rank) rnorm(1)), a)
})

test_that("objects of all kinds and sizes are sent", {
  objects <- list(1L, NULL, "text", c(a = 1, b = NA), list(1, "a", list(2)), mean, quote(a + b),
                  factor(c("x", "y")), data.frame(a = 1:3, b = letters[1:3]), raw(0),
                  as.numeric(1:30000), as.numeric(1:1e6), rep("many strings", 1e5),
                  list(runif(1e5), 1:1e6 + 0L, matrix(1, 500, 500)))
  back <- run_on(2, function(rank, objects) {
    if (rank == 1) {
      for (x in objects) node_send(2, x)
      node_receive(2)$value
    } else {
      got <- lapply(objects, function(x) node_receive(1)$value)
      node_send(1, identical(got, objects))
      got
    }
  }, objects)
  expect_true(back[[1L]])
  expect_identical(back[[2L]], objects)
})

test_that("messages keep their order and are chosen by sender and tag", {
  got <- run_on(3, function(rank) {
    if (rank > 1) {
      for (i in 1:500) node_send(1, i, tag = if (i %% 2) "odd" else "even")
      return(node_receive(1)$value)
    }
    while (is.null(node_probe(from = 3))) Sys.sleep(0.001)
    probe <- node_probe(from = 3)
    even <- vapply(1:250, function(i) node_receive(from = 3, tag = "even")$value, 1L)
    odd <- vapply(1:250, function(i) node_receive(from = 3, tag = "odd")$value, 1L)
    any <- lapply(1:500, function(i) node_receive())
    none <- node_receive(timeout = 0, otherwise = "none")
    late <- tryCatch(node_receive(2, timeout = 0.05), clutch_timeout = conditionMessage)
    node_send(2:3, "over")
    node_send(1, "to itself")
    list(probe = probe, even = even, odd = odd, any = any, none = none, late = late,
         self = node_receive(1)$value)
  })
  expect_identical(got[-1L], list("over", "over"))
  one <- got[[1L]]
  expect_identical(one$probe, list(from = 3L, tag = "odd"))
  expect_identical(one$even, seq(2L, 500L, 2L))
  expect_identical(one$odd, seq(1L, 499L, 2L))
  expect_identical(lapply(one$any, `[[`, "value"), as.list(1:500))
  expect_identical(one$any[[2L]], list(value = 2L, from = 2L, tag = "even"))
  expect_identical(one$none, "none")
  expect_match(one$late, "no message has come within 0.05 seconds")
  expect_identical(one$self, "to itself")
})

test_that("a sender does not wait for the receiver until very much is on its way", {
  needs("proc") # else large values go through the ring, which has 1 MB
  got <- run_on(2, function(rank) {
    for (i in 1:20) node_send(3 - rank, runif(1e5))
    for (i in 1:2000) node_send(3 - rank, i)
    sizes <- vapply(1:2020, function(i) length(node_receive()$value), 1L)
    node_barrier()
    if (rank == 1) for (i in 1:50000) node_send(2, i)
    if (rank == 1) return(sizes)
    Sys.sleep(0.2)
    list(sizes, vapply(1:50000, function(i) node_receive(1)$value, 1L))
  })
  expect_identical(got[[1L]], rep(c(100000L, 1L), c(20, 2000)))
  expect_identical(got[[2L]], list(got[[1L]], 1:50000))
})

# ---- collective operations ----

test_that("collective operations do what their names say", {
  got <- run_on(3, function(rank) {
    list(broadcast = node_broadcast(if (rank == 2) list("of", 2), from = 2),
         scatter = node_scatter(if (rank == 1) list("a", "b", 3)),
         vector = node_scatter(if (rank == 3) 11:13, from = 3),
         gather = node_gather(rank^2, to = 3),
         allgather = node_allgather(letters[rank]),
         all_to_all = node_all_to_all(10 * rank + 1:3),
         reduce = node_reduce(rank, to = 2),
         barrier = node_barrier())
  })
  expect_identical(lapply(got, `[[`, "broadcast"), rep(list(list("of", 2)), 3))
  expect_identical(lapply(got, `[[`, "scatter"), list("a", "b", 3))
  expect_identical(lapply(got, `[[`, "vector"), list(11L, 12L, 13L))
  expect_identical(lapply(got, `[[`, "gather"), list(NULL, NULL, list(1, 4, 9)))
  expect_identical(lapply(got, `[[`, "allgather"), rep(list(list("a", "b", "c")), 3))
  expect_identical(lapply(got, `[[`, "all_to_all"),
                   list(list(11, 21, 31), list(12, 22, 32), list(13, 23, 33)))
  expect_identical(lapply(got, `[[`, "reduce"), list(NULL, 6L, NULL))
})

test_that("reductions give what R's own operators give", {
  values <- list(
    double = list(c(1, NA, 3), c(0.1, 2, NaN), c(5, -1, 2)),
    integer = list(c(1L, NA, 3L), c(5L, 2L, 7L), c(-1L, 0L, 4L)),
    logical = list(c(TRUE, NA, FALSE), c(NA, NA, FALSE), c(TRUE, FALSE, NA)),
    matrix = lapply(1:3, function(i) matrix(i / 1:6, 2, dimnames = list(c("a", "b"), NULL))),
    empty = rep(list(numeric()), 3),
    large = lapply(1:3, function(i) i / seq_len(5e6)),
    frame = lapply(1:3, function(i) data.frame(x = i, y = i * 2)),
    complex = lapply(1:3, function(i) complex(real = i, imaginary = -i))
  )
  by <- list("+" = `+`, "*" = `*`, min = pmin, max = pmax, "&" = `&`, "|" = `|`)
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  for (kind in names(values)) {
    ops <- switch(kind, large = c("+", "max"), frame = , complex = c("+", "*"), names(by))
    for (op in ops) {
      expected <- Reduce(by[[op]], values[[kind]])
      got <- cluster_run(cl, function(rank, values, op) node_allreduce(values[[rank]], op),
                         values[[kind]], op)
      expect_equal(got, rep(list(expected), 3), tolerance = 0, info = paste(kind, op))
      expect_identical(vapply(got, typeof, ""), rep(typeof(expected), 3), info = paste(kind, op))
    }
  }
  expect_warning(over <- cluster_run(cl, function(rank) node_allreduce(.Machine$integer.max)),
                 "integer overflow")
  expect_identical(over, rep(list(NA_integer_), 3))
  paste_all <- function(commutative) {
    cluster_run(cl, function(rank) {
      list(node_reduce(letters[rank], paste0, 2, commutative),
           node_allreduce(letters[rank], function(a, b) paste0(a, b), commutative))
    })
  }
  for (commutative in c(FALSE, TRUE)) {
    expect_identical(paste_all(commutative),
                     list(list(NULL, "abc"), list("abc", "abc"), list(NULL, "abc")))
  }
})

test_that("sums are the same in each run", {
  cl <- make_cluster(4)
  on.exit(stop_cluster(cl))
  x <- lapply(1:4, function(i) rnorm(20000))
  sums <- function() cluster_run(cl, function(rank, x) node_allreduce(x[[rank]]), x)
  first <- sums()
  for (i in 1:5) expect_identical(sums(), first)
  expect_identical(first[[1L]], Reduce(`+`, x))
})

# ---- failures ----

# The error of a run in which rank 2 ends in some way while the others are at `what`.
ends <- function(cl, what, how) {
  run_failure(cluster_run(cl, function(rank, what, how) {
    if (rank == 2) how()
    what()
  }, what, how))
}

waiting <- list(
  receive = function() node_receive(2),
  any = function() node_receive(),
  barrier = function() node_barrier(),
  broadcast = function() node_broadcast(1, from = 2),
  scatter = function() node_scatter(list(1, 2, 3)),
  gather = function() node_gather(1),
  allgather = function() node_allgather(1),
  reduce = function() node_reduce(1),
  allreduce = function() node_allreduce(runif(1e5)),
  all_to_all = function() node_all_to_all(list(1, 2, 3))
)

test_that("a death is an error of all who wait, and the cluster goes on", {
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  for (what in names(waiting)) {
    e <- ends(cl, waiting[[what]], function() tools::pskill(Sys.getpid(), tools::SIGKILL))
    expect_s3_class(e, c("clutch_node_died", "clutch_run_error", "clutch_task_died"), exact = FALSE)
    expect_identical(e$rank, 2L, info = what)
    expect_null(e$errors[[2L]]$parent)
    for (rank in c(1L, 3L)) {
      why <- e$errors[[rank]]$parent
      expect_s3_class(why, "clutch_node_died")
      expect_identical(why$rank, 2L, info = what)
      expect_match(conditionMessage(why), "rank 2 .*died: killed by signal 9 \\(SIGKILL\\)")
    }
  }
  expect_identical(cluster_run(cl, function(rank) node_allreduce(rank)), list(6L, 6L, 6L))
})

test_that("an error is the run's, and others are told who has failed or ended", {
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  # on a busy machine others may need longer than a second, and would be interrupted
  utils::assignInNamespace("RUN_GRACE", 60, "clutch")
  on.exit(utils::assignInNamespace("RUN_GRACE", 1, "clutch"), add = TRUE)
  for (what in names(waiting)) {
    e <- ends(cl, waiting[[what]], function() stop("no good"))
    expect_s3_class(e, c("clutch_run_error", "clutch_task_error"), exact = FALSE)
    expect_identical(e$rank, 2L, info = what)
    expect_match(conditionMessage(e), "^rank 2 on node 2 failed.*no good")
    for (rank in c(1L, 3L)) {
      expect_s3_class(e$errors[[rank]]$parent, "clutch_node_ended")
      expect_match(conditionMessage(e$errors[[rank]]$parent), "rank 2 has failed", info = what)
    }
  }
  e <- run_failure(cluster_run(cl, function(rank) if (rank == 1) node_receive(2)))
  expect_match(conditionMessage(e$parent), "the part of rank 2 has ended")
  # rank 2 ends after rank 1 has sent, which is an error to a part that has ended
  e <- run_failure(cluster_run(cl, function(rank) {
    switch(rank, node_send(2, 1), node_receive(1), node_barrier())
  }))
  expect_identical(e$rank, 3L)
})

test_that("what a dead node has kept is lost by its death", {
  needs("proc") # else it is sent through the ring, and that waits for its reader
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  e <- run_failure(cluster_run(cl, function(rank) {
    if (rank == 2) {
      node_send(1, Sys.getpid())
      node_receive(1)
      node_send(1, runif(1e6))
      tools::pskill(Sys.getpid(), tools::SIGKILL)
    }
    if (rank == 3) node_receive(1)
    pid <- node_receive(2)$value
    node_send(2, "go on")
    while (tools::pskill(pid, 0L)) Sys.sleep(0.01) # it looks when that is gone
    node_receive(2)
  }))
  expect_identical(e$rank, 2L)
  for (rank in c(1L, 3L)) expect_s3_class(e$errors[[rank]]$parent, "clutch_node_died")
})

test_that("who sends to a follower of a dead node hears of the first, too", {
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  e <- run_failure(cluster_run(cl, function(rank) {
    if (rank == 2) tools::pskill(Sys.getpid(), tools::SIGKILL)
    if (rank == 1) node_receive(2)
    tryCatch(node_receive(1), clutch_run_stop = identity)
    node_send(1, "x")
  }))
  expect_identical(e$errors[[3L]]$parent$rank, 2L)
  expect_s3_class(e$errors[[3L]]$parent, "clutch_node_died")
})

test_that("what is told of a part's calls begins with the user's function", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  g <- function(x) stop("oops")
  e <- run_failure(cluster_run(cl, function(rank, a) g(rank), a = 1:3))
  expect_identical(e$calls, c("FUN(.x, a = a)", "g(rank)", "stop(\"oops\")"))
  e <- run_failure(cluster_run(cl, function(rank) Sys.sleep(60), .timeout = 0.1))
  expect_match(conditionMessage(e), "it was in Sys.sleep(60)", fixed = TRUE)
  expect_no_match(conditionMessage(e), "called by")
})

test_that("others are interrupted a second after a failure", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  took <- system.time(e <- run_failure(cluster_run(cl, function(rank) {
    if (rank == 2) stop("early")
    Sys.sleep(600)
  })))[["elapsed"]]
  expect_match(conditionMessage(e), "early")
  expect_s3_class(e$errors[[1L]], "clutch_task_cancelled")
  expect_lt(took, 60)
  expect_identical(cluster_run(cl, function(rank) rank), list(1L, 2L))
})

test_that("a deadlock is found, and says who waits for whom", {
  e <- run_failure(run_on(3, function(rank) node_receive(rank %% 3 + 1, tag = "next")))
  expect_s3_class(e$parent, "clutch_deadlock")
  expect_match(conditionMessage(e), "rank 1 waits for a message of rank 2 with tag \"next\"")
  expect_match(conditionMessage(e), "rank 3 waits for a message of rank 1")
  expect_identical(e$parent$waits$waits_for, c(2L, 3L, 1L))
  e <- run_failure(run_on(2, function(rank) if (rank == 1) node_barrier() else node_receive(1)))
  expect_match(conditionMessage(e), "rank 1 is in node_barrier\\(\\)\nrank 2 waits for a message")
  e <- run_failure(run_on(2, function(rank) for (i in 1:1e5) node_send(3 - rank, i)))
  expect_match(conditionMessage(e), "rank 2 waits for room to send to rank 1")
})

test_that("who has given up waiting, and computes, is in no deadlock", {
  gave_up <- tempfile()
  got <- run_on(2, function(rank) {
    if (rank == 1L) {
      while (!file.exists(gave_up)) Sys.sleep(0.01)
      return(node_receive(2))
    }
    e <- tryCatch({
      setTimeLimit(elapsed = 0.2, transient = TRUE)
      node_receive(1)
    }, error = conditionMessage)
    setTimeLimit()
    file.create(gave_up)
    Sys.sleep(1) # the other one looks for a deadlock meanwhile
    node_send(1, "late")
    e
  })
  expect_identical(got[[1L]]$value, "late")
  expect_match(got[[2L]], "time limit")
})

test_that("who has left a meeting before its end does not count as two at the next", {
  passed <- tempfile()
  left <- tempfile()
  e <- run_failure(run_on(2, function(rank) {
    if (rank == 1L) {
      while (!file.exists(left)) Sys.sleep(0.01)
      Sys.sleep(0.5)
      node_barrier()
      return(file.exists(passed))
    }
    tryCatch({
      setTimeLimit(elapsed = 0.2, transient = TRUE)
      node_barrier()
    }, error = identity)
    setTimeLimit()
    file.create(left)
    node_barrier()
    file.create(passed)
  }))
  expect_s3_class(e, "clutch_run_error")
  expect_match(conditionMessage(e), "the run has ended")
  expect_false(file.exists(passed))
})

test_that("who asks late still sees what those that have left a deadlock waited for", {
  e <- run_failure(run_on(3, function(rank) {
    ask_late <- function(e) {
      Sys.sleep(0.3) # others are interrupted a second after a failure
      clutch:::run_stops(1L, 0L)
    }
    tryCatch(node_receive(rank %% 3 + 1), clutch_deadlock = if (rank == 1) ask_late else stop)
  }))
  late <- e$errors[[1L]]$parent
  expect_s3_class(late, "clutch_deadlock")
  expect_identical(late$waits$waits_for, c(2L, 3L, 1L))
})

test_that("nodes that call different things are told who called what", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  cases <- list(
    list(function() node_barrier(), function() node_reduce(1:3 + 0.5),
         "1 calls node_barrier\\(\\), rank 2 calls node_reduce\\(to = 1\\) of 3 double by \\+"),
    list(function() node_allreduce(1), function() node_allreduce(1L), "1 double.*1 integer"),
    list(function() node_allreduce(1), function() node_allreduce(1:2 + 0), "of 1 double.*of 2"),
    list(function() node_allreduce(1), function() node_allreduce(1, "max"), "by \\+.*by max"),
    list(function() node_broadcast(1, 1), function() node_broadcast(1, 2),
         "from = 1\\).*from = 2\\)"),
    list(function() node_allreduce(matrix(0, 2, 3)), function() node_allreduce(matrix(0, 3, 2)),
         "do not call the same"),
    list(function() node_allreduce(Sys.Date(), "min"), function() node_allreduce(Sys.Date(), "max"),
         "by min.*by max"),
    list(function() node_allreduce("a", paste0),
         function() node_allreduce("a", paste0, commutative = TRUE),
         "by a function,.*by a function with commutative = TRUE")
  )
  for (case in cases) {
    e <- run_failure(cluster_run(cl, function(rank, case) case[[rank]](), case))
    expect_s3_class(e$parent, "clutch_mismatch")
    for (error in e$errors) expect_match(conditionMessage(error), case[[3L]])
  }
})

test_that("bad arguments are errors before anything starts", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_error(cluster_run(cl), class = "clutch_argument")
  expect_error(cluster_run(1, sqrt), class = "clutch_argument")
  expect_error(cluster_run(cl, "no such function"), class = "clutch_argument")
  expect_error(cluster_run(cl, sqrt, .timeouts = 5), "no option `.timeouts`.*`.timeout`",
               class = "clutch_argument")
  expect_error(cluster_run(cl, sqrt, c = 5), "begins like `cl`", class = "clutch_argument")
  is_missing <- cluster_run(cl, function(rank, i, j) c(missing(i), missing(j)), , 1) # nolint
  expect_identical(is_missing, list(c(TRUE, FALSE), c(TRUE, FALSE)))
  expect_error(cluster_run(cl, sqrt, .retries = 1), "depend", class = "clutch_argument")
  expect_error(cluster_run(cl, sqrt, .journal = "a"), "depend", class = "clutch_argument")
  expect_error(cluster_run(cl, function(rank) node_send(1.5, 1)), "`to` has to be ranks")
  expect_error(node_rank(), "only code that cluster_run", class = "clutch_no_run")
  expect_error(node_send(1, 2), class = "clutch_no_run")
  expect_error(node_barrier(), class = "clutch_no_run")
  expect_error(cluster_map(cl, 1, function(i) node_receive()), "no part of a run")
  expect_error(cluster_map(cl, 1, function(i) cluster_run(NULL, sqrt)), "within a task")
  bad <- list(quote(node_send(0, 1)), quote(node_send(3, 1)), quote(node_send("a", 1)),
              quote(node_send(1, 1, tag = 2)), quote(node_send(1, 1, strrep("x", 65))),
              quote(node_receive(5)), quote(node_receive(tag = NA)),
              quote(node_receive(timeout = -1)), quote(node_broadcast(1, from = 9)),
              quote(node_all_to_all(1)), quote(node_reduce(1, "%")))
  for (call in bad) {
    e <- run_failure(cluster_run(cl, function(rank, call) eval(call), call))
    expect_s3_class(e$parent, "clutch_argument")
  }
  e <- run_failure(cluster_run(cl, function(rank) parallel::mccollect(parallel::mcparallel(
    tryCatch(node_barrier(), error = conditionMessage)))))
  expect_match(unlist(e), "child process")
})

# ---- what is left ----

test_that("runs leave nothing in the session and on the nodes", {
  needs("proc")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  go <- function() {
    cluster_run(cl, function(rank) {
      node_send(3 - rank, runif(1e5))
      if (rank == 1) node_receive(2) # what rank 1 has sent is never received
      node_allreduce(runif(1e5))
    })
    run_failure(cluster_run(cl, function(rank) if (rank == 1) stop("x") else node_barrier()))
  }
  fds <- function(pid = "self") length(list.files(file.path("/proc", pid, "fd")))
  pids <- unlist(parallel::clusterCall(cl, Sys.getpid))
  for (i in 1:3) go()
  before <- c(fds(), vapply(pids, fds, 1L))
  for (i in 1:10) go()
  expect_true(eventually(all(c(fds(), vapply(pids, fds, 1L)) <= before)))
  maps <- unlist(lapply(file.path("/proc", pids, "maps"), readLines))
  expect_length(grep("memfd:clutch-data", maps), 0L)
})

test_that("an interrupt ends all parts", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  me <- Sys.getpid()
  ended <- tryCatch({
    cluster_run(cl, function(rank, me) {
      node_barrier()
      if (rank == 1) tools::pskill(me, tools::SIGINT)
      node_receive(timeout = 600)
    }, me)
    "went on"
  }, interrupt = function(e) "interrupted")
  expect_identical(ended, "interrupted")
  expect_identical(cluster_run(cl, function(rank) node_allreduce(rank)), list(3L, 3L))
})

test_that("new Rs are parts as well, and nodes of other machines are refused", {
  cl <- make_cluster(2, strategy = "parallel")
  on.exit(stop_cluster(cl))
  expect_identical(cluster_run(cl, function(rank) node_allreduce(runif(1e5) * 0 + rank)[[7L]]),
                   list(3, 3))
})

test_that("a run whose parts cannot be at work at the same time is an error", {
  cl <- make_cluster(3, resources = list(gpu = 2, cores = 6))
  on.exit(stop_cluster(cl))
  # without an end in time a run that was begun would wait for ever
  run <- function(..., cl. = cl) {
    f <- function(rank) {
      node_barrier()
      clutch::task_resources()
    }
    cluster_run(cl., f, .needs = list(...), .timeout = 20)
  }
  e <- tryCatch(run(gpu = 1), error = identity)
  expect_s3_class(e, c("clutch_resources", "clutch_error"), exact = FALSE)
  about <- list(resource = "gpu", asked = 3, there = 2L)
  expect_identical(e[c("resource", "asked", "there")], about)
  expect_error(run(cores = 3), class = "clutch_resources")
  expect_error(run(gpu = 0.7), class = "clutch_resources")
  expect_error(run(memory = "1e6 TB"), class = "clutch_argument")
  most <- .Call(clutch:::ffi_memory_limit)
  expect_error(run(memory = most / 2), class = "clutch_resources")
  expect_length(run(gpu = 0.5, cores = 2, memory = "1 MB"), 3L)
  expect_length(run(gpu = 1, cl. = cl[1:2]), 2L)
})
