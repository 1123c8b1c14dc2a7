# Actors that live in a node of their cluster: cluster_actor(exclusive = FALSE).

two <- make_cluster(2)

shared <- function(cl, ...) cluster_actor(cl, counting, ..., exclusive = FALSE)
pids_of <- function(cl) cluster_status(cl)$pid
# Files that a node has open. What it has read of values is let go when R collects garbage.
node_fds <- function(cl) {
  parallel::clusterEvalQ(cl, {
    gc()
    NULL
  })
  vapply(pids_of(cl), open_fds, 1L)
}

# ---- calls ----

test_that("an actor lives in the node that has the fewest, which goes on with tasks and calls", {
  before <- pids_of(two)
  a <- shared(two, list(start = 10))
  b <- shared(two)
  c <- shared(two)
  lives_in <- c(actor_call(a, "pid"), actor_call(b, "pid"), actor_call(c, "pid"))
  expect_setequal(lives_in[1:2], before)
  expect_true(lives_in[[3L]] %in% before)
  expect_identical(pids_of(two), before)
  expect_identical(actor_call(a, "add", 5), 15)
  values <- cluster_map_dbl(two, 1:100, function(i) actor_call(a, "add", 1))
  expect_setequal(values, 16:115)
  expect_identical(unlist(parallel::clusterCall(two, Sys.getpid)), before)
  is <- cluster_actors(two)
  expect_identical(is$pid, lives_in)
  expect_identical(is$state, rep("up", 3))
  expect_output(print(a), "<clutch actor counting: process [0-9]+, 102 calls done, 0 wait>")
  for (x in list(a, b, c)) expect_true(actor_stop(x))
  expect_false(actor_stop(a))
  expect_s3_class(failure(actor_call(a, "get")), "clutch_actor_stopped")
  expect_identical(nrow(cluster_actors(two)), 0L)
  expect_identical(pids_of(two), before)
})

test_that("three actors of one node, tasks and calls at the same time give what is right", {
  one <- make_cluster(1)
  on.exit(stop_cluster(one))
  a <- shared(one)
  b <- shared(one)
  c <- shared(one)
  tasks <- lapply(1:20, function(i) cluster_submit(one, {
    Sys.sleep(0.005)
    actor_call(a, "add", 1)
    actor_cast(b, "add", 1)
    actor_call(c, "ask", a, "add", 1)
    i^2
  }))
  for (i in 1:50) actor_call(b, "add", 1)
  expect_identical(unlist(collect_all(tasks)), (1:20)^2)
  expect_identical(actor_call(a, "get"), 40)
  expect_identical(actor_call(b, "get"), 70)
  expect_identical(cluster_map_dbl(one, 1:10, function(i) i / 2), (1:10) / 2)
  expect_length(unique(cluster_actors(one)$pid), 1L)
})

test_that("a task of the node that calls its actor finds what came before done, in order", {
  one <- make_cluster(1)
  on.exit(stop_cluster(one))
  a <- cluster_actor(one, function() {
    seen <- character()
    list(put = function(x) seen <<- c(seen, x), all = function() seen)
  }, exclusive = FALSE)
  go <- tempfile()
  task <- cluster_submit(one, {
    while (!file.exists(go)) Sys.sleep(0.01)
    actor_cast(a, "put", "task 1")
    actor_cast(a, "put", "task 2")
    actor_call(a, "all")
  })
  for (i in 1:3) actor_cast(a, "put", paste("session", i))
  file.create(go)
  seen <- collect(task)
  expect_identical(seen[1:3], paste("session", 1:3))
  expect_identical(seen[4:5], paste("task", 1:2))
  expect_identical(actor_call(a, "all"), seen)
})

test_that("two nodes call actors of each other, and in circles that is an error", {
  a <- shared(two, .label = "first")
  b <- shared(two, .label = "second")
  c <- shared(two, .label = "third")
  values <- cluster_map_int(two, 1:200, function(i) {
    actor_call(a, "add", 1)
    actor_call(b, "add", 1)
    actor_call(c, "ask", b, "ask", a, "get")
    i
  })
  expect_identical(values, 1:200)
  expect_identical(c(actor_call(a, "get"), actor_call(b, "get")), c(200, 200))
  expect_identical(actor_call(a, "ask", b, "ask", c, "get"), 0)
  e <- failure(actor_call(a, "ask", b, "ask", a, "get"))
  expect_match(conditionMessage(e), "none of them can go on")
  e <- failure(actor_call(a, "ask", c, "ask", a, "get"))
  expect_match(conditionMessage(e), "none of them can go on")
  expect_match(conditionMessage(failure(actor_call(a, "ask", a, "get"))), "cannot call itself")
  for (x in list(a, b, c)) actor_stop(x)
})

test_that("parts of a run that meet serve the actors of their node meanwhile", {
  a <- shared(two)
  sums <- cluster_run(two, function(rank) {
    if (rank == 2L) Sys.sleep(0.2)
    actor_call(a, "add", rank)
    node_barrier()
    actor_call(a, "get")
  })
  expect_identical(sums, list(3, 3))
  actor_stop(a)
})

test_that("large values, errors, messages and casts are as those of other actors", {
  a <- cluster_actor(two, function() {
    x <- NULL
    list(set = function(v) x <<- v, get = function() x, fail = function() stop("as asked"),
         speak = function() {
           message("one")
           warning("two")
           cat("not shown\n")
           invisible("said")
         })
  }, exclusive = FALSE, .label = "tally")
  x <- as.double(seq_len(1e6))
  actor_cast(a, "set", x)
  expect_identical(actor_call(a, "get"), x)
  sums <- cluster_map_dbl(two, 1:4, function(i) sum(actor_call(a, "get")))
  expect_identical(unique(sums), sum(x))
  e <- failure(actor_call(a, "fail"))
  expect_s3_class(e, "clutch_actor_error")
  expect_match(conditionMessage(e), "actor tally, method fail: as asked", fixed = TRUE)
  expect_s3_class(failure(actor_call(a, "nothing")), "clutch_argument")
  out <- capture.output(said <- capture.output(type = "message", suppressWarnings(
    value <- cluster_map(two, 1:4, function(i) {
      cat("task", i, "\n")
      actor_call(a, "speak")
    })
  )))
  expect_identical(value, rep(list("said"), 4))
  expect_identical(out, paste("task", 1:4, ""))
  expect_identical(said, rep("one", 4))
  actor_stop(a)
})

# ---- tasks do not notice it ----

test_that("tasks have their random numbers, options and workspace, and the actor has its own", {
  offset <- 40
  helper <- function(x) x + offset
  assign("tally_of_workspace", 5, globalenv())
  on.exit(rm("tally_of_workspace", envir = globalenv()))
  f <- function() {
    list(draw = function(n) stats::runif(n), helper = function(x) helper(x),
         global = function() tally_of_workspace,
         bump = function() tally_of_workspace <<- tally_of_workspace + 1,
         change = function() {
           options(digits = 3, made.by.actor = TRUE)
           Sys.setenv(MADE_BY_ACTOR = "1")
           sink(tempfile())
           setwd(tempdir())
         })
  }
  environment(f) <- globalenv()
  assign("helper", helper, globalenv())
  on.exit(rm("helper", envir = globalenv()), add = TRUE)
  set.seed(1)
  a <- cluster_actor(two, f, exclusive = FALSE)
  set.seed(1)
  same <- cluster_actor(two, f)
  work <- function(i) {
    for (k in seq_len(i %% 3)) stats::runif(1)
    stats::runif(2)
  }
  expected <- cluster_map(two, 1:20, work, .seed = 7)
  got <- cluster_map(two, 1:20, function(i) {
    drawn <- actor_call(a, "draw", 1)
    value <- work(i)
    actor_call(a, "draw", 1)
    value
  }, .seed = 7)
  expect_identical(got, expected)
  drawn <- vapply(1:41, function(i) actor_call(same, "draw", 1), 1)
  expect_identical(actor_call(a, "draw", 1), drawn[[41L]])
  expect_identical(actor_call(a, "helper", 2), 42)
  expect_identical(actor_call(a, "bump"), 6)
  expect_identical(actor_call(a, "global"), 6)
  seen <- cluster_map(two, 1:4, function(i) {
    actor_call(a, "change")
    list(getOption("digits"), getOption("made.by.actor"), Sys.getenv("MADE_BY_ACTOR"),
         sink.number() <= 1L, exists("tally_of_workspace"), ls(globalenv()))
  }, .globals = c("a"))
  other <- cluster_map(two, 1:4, function(i) {
    list(getOption("digits"), getOption("made.by.actor"), Sys.getenv("MADE_BY_ACTOR"),
         sink.number() <= 1L, exists("tally_of_workspace"), ls(globalenv()))
  }, .globals = c("a"))
  expect_identical(seen, other)
  expect_identical(unlist(parallel::clusterEvalQ(two, ls(globalenv()))), character())
  actor_stop(a)
  actor_stop(same)
})

test_that("where its turn cannot begin the task goes on as before, and so does the node", {
  own <- make_cluster(1)
  on.exit(stop_cluster(own))
  a <- shared(own)
  task <- cluster_submit(own, {
    repeat if (inherits(try(sink(tempfile()), silent = TRUE), "try-error")) break
    actor_call(a, "get")
  })
  expect_match(conditionMessage(failure(collect(task, timeout = 30))), "sink stack is full")
  # the node puts the sinks back when it has told of the task's end
  get <- function() tryCatch(actor_call(a, "get", .timeout = 30), clutch_actor_error = identity)
  expect_true(eventually(identical(get(), 0)))
  expect_identical(collect(cluster_submit(own, actor_call(a, "add", 1)), timeout = 30), 1)
})

test_that("the workspace, classes of R6 and packages come along, and no task has them", {
  skip_if_not_installed("R6")
  f <- eval(quote(function() {
    generator <- R6::R6Class("tally", list(n = 0, add = function(k) {
      self$n <- twice(self$n + k)
      self$n
    }))
    made <- generator$new()
    list(add = function(k) made$add(k), file = function() file_ext("a.txt"))
  }), globalenv())
  assign("twice", function(x) 2 * x, globalenv())
  on.exit(rm("twice", envir = globalenv()))
  a <- cluster_actor(two, f, exclusive = FALSE, .packages = "tools")
  expect_identical(actor_call(a, "add", 1), 2)
  expect_identical(actor_call(a, "add", 1), 6)
  expect_identical(actor_call(a, "file"), "txt")
  looks <- eval(quote(function(i) {
    c(exists(paste0("tw", "ice")), "package:tools" %in% search())
  }), globalenv())
  expect_false(any(unlist(cluster_map(two, 1:4, looks))))
  actor_stop(a)
})

# ---- waiting ----

test_that("while a task runs a call waits, may be given up, and is done between two tasks", {
  one <- make_cluster(1)
  on.exit(stop_cluster(one))
  a <- shared(one)
  go <- tempfile()
  first <- cluster_submit(one, while (!file.exists(go)) Sys.sleep(0.01))
  second <- cluster_submit(one, actor_call(a, "get"))
  until(cluster_status(one)$state == "busy")
  expect_s3_class(failure(actor_call(a, "add", 100, .timeout = 0.2)), "clutch_timeout")
  actor_cast(a, "add", 1)
  expect_identical(known(a)$done, 0)
  file.create(go)
  expect_identical(collect(second), 1)
  expect_s3_class(failure(actor_call(a, "sleep", 60, .timeout = 0.2)), "clutch_timeout")
  expect_identical(actor_call(a, "get", .timeout = 20), 1)
})

test_that("a task that is cancelled in its own call of an actor leaves that as it is", {
  one <- make_cluster(1)
  on.exit(stop_cluster(one))
  a <- shared(one, list(start = 3))
  pid <- pids_of(one)
  task <- cluster_submit(one, actor_call(a, "sleep", 60))
  until(is_at_work(a))
  cancel(task)
  expect_identical(actor_call(a, "get", .timeout = 20), 3)
  late <- failure(cluster_map(one, 1, function(i) actor_call(a, "sleep", 60), .timeout = 0.3))
  expect_s3_class(late, "clutch_task_timeout")
  expect_identical(actor_call(a, "get", .timeout = 20), 3)
  expect_identical(pids_of(one), pid)
})

test_that("neither does an interrupt of a task end another's call, nor that of a call a task", {
  one <- make_cluster(1)
  on.exit(stop_cluster(one))
  busy <- cluster_actor(one, counting) # in a process of its own
  a <- shared(one)
  pid <- pids_of(one)
  # the task waits for another actor, and the call of the session is done meanwhile
  task <- cluster_submit(one, actor_call(busy, "sleep", 60))
  until(is_at_work(busy))
  other <- make_cluster(1)
  on.exit(stop_cluster(other), add = TRUE)
  call <- cluster_submit(other, actor_call(a, "sleep", 2.5))
  until(is_at_work(a))
  cancel(task) # longer ago than nodes may take to react, when the call ends
  expect_identical(collect(call), "slept")
  expect_identical(actor_call(a, "pid"), pid)
  # a call that is given up in the same place
  task <- cluster_submit(one, actor_call(busy, "sleep", 1))
  until(is_at_work(busy))
  call <- cluster_submit(other, actor_call(a, "sleep", 60))
  until(is_at_work(a))
  cancel(call)
  expect_identical(collect(task), "slept")
  expect_identical(actor_call(a, "pid"), pid)
  # signals that come at any moment, while tasks sleep, too
  tasks <- lapply(1:30, function(i) cluster_submit(one, {
    Sys.sleep(0.01)
    i
  }))
  for (i in 1:60) {
    failure(actor_call(a, "sleep", 0.002, .timeout = 0.001 * (i %% 8)))
  }
  expect_identical(collect_all(tasks), as.list(1:30))
  expect_identical(actor_call(a, "pid"), pid)
  actor_stop(busy)
})

# ---- deaths and ends ----

test_that("the death of the node is that of its actors, with its cause", {
  own <- make_cluster(2)
  on.exit(stop_cluster(own))
  a <- shared(own, .label = "tally")
  pid <- actor_call(a, "pid")
  task <- cluster_submit(own, actor_call(a, "sleep", 60))
  until(is_at_work(a))
  tools::pskill(pid, tools::SIGKILL)
  e <- failure(collect(task))
  expect_true(inherits(e, "clutch_task_died") || inherits(e$parent, "clutch_actor_died"))
  e <- failure(actor_call(a, "get"))
  expect_s3_class(e, "clutch_actor_died")
  expect_match(conditionMessage(e), "actor tally (pid", fixed = TRUE)
  expect_match(conditionMessage(e), "SIGKILL")
  expect_false(e$begun)
  expect_identical(e$pid, pid)
  expect_identical(cluster_actors(own)$state, "ended")
  b <- shared(own)
  e <- failure(actor_call(b, "die"))
  expect_true(e$begun)
  expect_match(e$how, "SIGKILL")
})

test_that("the journal of an actor that has ended is free, although its node is at work", {
  own <- make_cluster(1)
  on.exit(stop_cluster(own))
  file <- tempfile()
  for (k in 1:2) {
    a <- cluster_actor(own, counting, exclusive = FALSE, .journal = file)
    expect_identical(actor_call(a, "add", 1), k + 0)
    actor_stop(a)
  }
  expect_identical(list.files(dirname(file), basename(file)), basename(file))
})

test_that("an actor begins again in a node of the cluster, and calls that wait are done there", {
  own <- make_cluster(2)
  on.exit(stop_cluster(own))
  file <- tempfile()
  a <- cluster_actor(own, counting, restart = "always", restarts = 2, period = 600,
                     exclusive = FALSE, .journal = file)
  pid <- actor_call(a, "pid")
  actor_call(a, "add", 3)
  other <- make_cluster(1)
  on.exit(stop_cluster(other), add = TRUE)
  queued <- cluster_submit(other, {
    actor_cast(a, "sleep", 60)
    actor_call(a, "add", 1)
  })
  until(known(a)$queue == 1)
  tools::pskill(pid, tools::SIGKILL)
  expect_identical(actor_call(a, "get") >= 3, TRUE)
  expect_identical(collect(queued), 4)
  expect_false(actor_call(a, "pid") == pid)
  expect_true(actor_call(a, "pid") %in% pids_of(own))
  expect_identical(cluster_actors(own)$restarts, 1)
  expect_true(failure(actor_call(a, "die"))$begun)
  expect_identical(actor_call(a, "get"), 4)
  expect_true(failure(actor_call(a, "die"))$begun)
  expect_s3_class(failure(actor_call(a, "get")), "clutch_actor_died")
  expect_identical(cluster_map_int(own, 1:4, identity), 1:4)
})

test_that("an actor that was begun again and is stopped does not keep its node", {
  own <- make_cluster(2)
  on.exit(stop_cluster(own))
  a <- shared(own, restart = "always")
  record <- clutch:::the$actors[[a$name]]
  tools::pskill(actor_call(a, "pid"), tools::SIGKILL)
  until(identical(failure(actor_call(a, "add", 1)), 1))
  expect_identical(record$node, actor_call(a, "pid"))
  expect_true(actor_stop(a))
  expect_null(record$node)
  expect_identical(cluster_actors(own)$state, "ended")
  expect_s3_class(failure(actor_call(a, "get")), "clutch_actor_stopped")
})

test_that("calls that are under way while nodes of actors are replaced end as without actors", {
  own <- make_cluster(2)
  on.exit(stop_cluster(own))
  cluster_setup(own, Sys.sleep(0.7))
  shared(own)
  a <- shared(own, restart = "always")
  kill <- function(...) system(sprintf("(%s) >/dev/null 2>&1 &", sprintf(...)))
  # an answer that has come counts, although the node was replaced before it was taken
  pid <- pids_of(own)
  expect_identical(actor_call(a, "pid"), pid[[2L]])
  wait <- function(p) {
    if (Sys.getpid() == p) Sys.sleep(3)
    Sys.getpid()
  }
  environment(wait) <- globalenv()
  kill("sleep 1; kill -9 %d", pid[[2L]])
  expect_identical(unlist(parallel::clusterCall(own, wait, pid[[1L]])), pid)
  until(identical(failure(actor_call(a, "get")), 0))
  # a node dies while another one's successor is set up, and has one itself
  pid <- pids_of(own)
  expect_identical(actor_call(a, "pid"), pid[[2L]])
  kill("sleep 0.3; kill -9 %d; sleep 0.4; kill -9 %d", pid[[2L]], pid[[1L]])
  e <- failure(parallel::clusterCall(own[1], Sys.sleep, 60))
  expect_s3_class(e, "clutch_node_died")
  expect_identical(e$pid, pid[[1L]])
  expect_match(conditionMessage(e), "SIGKILL")
  until(identical(failure(actor_call(a, "get")), 0))
  expect_identical(unlist(parallel::clusterCall(own, Sys.getpid)), pids_of(own))
})

test_that("an actor begins again also where tasks that wait for it are at work in all nodes", {
  own <- make_cluster(2)
  on.exit(stop_cluster(own))
  a <- shared(own, restart = "always")
  pid <- actor_call(a, "pid")
  at_work <- cluster_submit(own, actor_call(a, "sleep", 60))
  until(is_at_work(a))
  waiting <- lapply(1:6, function(i) cluster_submit(own, actor_call(a, "add", 1)))
  tools::pskill(pid, tools::SIGKILL)
  until(!alive(pid))
  values <- lapply(waiting, function(x) failure(collect(x, timeout = 60)))
  expect_false(any(vapply(values, inherits, NA, "clutch_timeout")))
  expect_identical(actor_call(a, "get"), as.double(sum(vapply(values, is.numeric, NA))))
  failure(collect(at_work))
})

test_that("an error of the function is that of cluster_actor(), and the node is unharmed", {
  pid <- pids_of(two)
  for (i in 1:3) {
    e <- failure(cluster_actor(two, function() stop("cannot be made"), exclusive = FALSE))
    expect_match(conditionMessage(e), "cannot be made")
    expect_s3_class(e, "clutch_task_error")
  }
  e <- failure(cluster_actor(two, function() 1, exclusive = FALSE))
  expect_match(conditionMessage(e), "has to return its methods")
  expect_identical(pids_of(two), pid)
  expect_identical(cluster_map_int(two, 1:4, identity), 1:4)
})

test_that("where its object was garbage its node is told, but not by a child of the session", {
  own <- make_cluster(1)
  on.exit(stop_cluster(own))
  b <- cluster_actor(own, counting)
  drop_one <- function() {
    a <- shared(own)
    clutch:::the$actors[[a$name]]
  }
  record <- drop_one()
  gc()
  expect_false(is.null(record$node))
  in_child <- parallel::mclapply(1:2, function(i) failure(actor_call(b, "sleep", 0.3)),
                                 mc.cores = 2L)
  expect_identical(in_child, list("slept", "slept"))
  actor_stop(b)
  until(is.null(record$node))
  record <- drop_one()
  rm(b)
  gc()
  until({ # also where there is no actor any more
    cluster_map(own, 1, function(i) Sys.sleep(0.1))
    is.null(record$node)
  })
  expect_null(clutch:::the$actors_left)
})

test_that("a journal is free when its actor was stopped", {
  file <- tempfile()
  on.exit(unlink(c(file, paste0(file, ".lock"))))
  for (exclusive in c(FALSE, TRUE, FALSE)) {
    a <- cluster_actor(two, counting, exclusive = exclusive, .journal = file)
    before <- actor_call(a, "get")
    actor_call(a, "add", 1)
    expect_true(file.exists(paste0(file, ".lock")))
    expect_true(actor_stop(a))
    expect_false(file.exists(paste0(file, ".lock")))
  }
  expect_identical(before, 2)
})

test_that("an actor that has ended leaves nothing in its node", {
  linux_only()
  use <- function(ends) {
    a <- cluster_actor(two, function() {
      x <- runif(1e5)
      list(get = function() x, twice = function(v) 2 * v)
    }, exclusive = FALSE)
    actor_call(a, "get")
    actor_call(a, "twice", runif(1e6))
    parallel::clusterEvalQ(two, NULL)
    ends(a)
  }
  for (i in 1:2) use(actor_stop)
  gc()
  before <- node_fds(two)
  for (i in 1:5) use(actor_stop)
  for (i in 1:5) {
    use(function(a) NULL)
    gc()
  }
  gc()
  until(all(node_fds(two) <= before))
  folder <- unlist(parallel::clusterCall(two, tempdir))
  until(!any(file.exists(file.path(folder, "actors"))))
})

test_that("a journal is free when its actor was stopped, or could not be made", {
  file <- tempfile()
  failing <- function() stop("cannot be made")
  expect_error(cluster_actor(two, failing, exclusive = FALSE, .journal = file), "cannot be made")
  for (k in 1:2) {
    a <- shared(two, .journal = file)
    expect_identical(actor_call(a, "add", 1), as.double(k))
    actor_stop(a)
    until(!file.exists(paste0(file, ".lock")))
  }
  own <- make_cluster(1)
  on.exit(stop_cluster(own))
  parallel::clusterEvalQ(own, {
    close <- clutch:::close_actor_journal
    utils::assignInNamespace("close_actor_journal", function(log) {
      Sys.sleep(0.3)
      close(log)
    }, "clutch")
    NULL
  })
  actor_stop(shared(own, .journal = file))
  expect_false(file.exists(paste0(file, ".lock")))
})

test_that("code of the node that closes all connections closes no journal", {
  own <- make_cluster(1)
  on.exit(stop_cluster(own))
  file <- tempfile()
  a <- shared(own, .journal = file)
  b <- cluster_actor(own, function() list(cut = closeAllConnections), exclusive = FALSE,
                     .journal = tempfile())
  actor_call(a, "add", 1)
  other <- tempfile()
  cluster_map(own, 1, function(i) {
    closeAllConnections()
    con <- base::file(other, "wb") # it has the number of one of them
    actor_call(a, "add", 2)
    close(con)
    actor_call(b, "cut")
    actor_call(a, "add", 4)
  })
  expect_identical(file.size(other), 0)
  expect_identical(cluster_actors(own)$state, c("up", "up"))
  actor_stop(a)
  actor_stop(b)
  a <- shared(own, .journal = file)
  expect_identical(actor_call(a, "get"), 7)
})

test_that("an actor whose journal can no longer be written ends, and its node goes on", {
  own <- make_cluster(1)
  on.exit(stop_cluster(own))
  folder <- tempfile()
  dir.create(folder)
  a <- cluster_actor(own, function() {
    list(cut = function() {
      closeAllConnections()
      unlink(folder, recursive = TRUE)
    })
  }, exclusive = FALSE, .journal = file.path(folder, "j"))
  expect_s3_class(failure(actor_call(a, "cut")), "clutch_actor_died")
  expect_identical(collect(cluster_submit(own, 1 + 1), timeout = 60), 2)
})

test_that("actors end with their cluster", {
  own <- make_cluster(1)
  a <- shared(own)
  pid <- actor_call(a, "pid")
  stop_cluster(own)
  until(!alive(pid))
  expect_error(actor_call(a, "get"), class = "clutch_error")
})

# ---- which nodes ----

test_that("nodes that are ended or made anew on purpose keep an actor, or are refused", {
  grows <- make_cluster(c(1, 3), idle = 0.2)
  on.exit(stop_cluster(grows))
  cluster_map(grows, 1:6, function(i) Sys.sleep(0.3), .chunk = 1)
  a <- shared(grows)
  b <- shared(grows)
  first <- pids_of(grows)[[1L]]
  expect_identical(c(actor_call(a, "pid"), actor_call(b, "pid")), c(first, first))
  until(sum(alive(pids_of(grows))) == 1L)
  expect_identical(actor_call(a, "add", 1), 1)
  fresh <- cluster_map(grows, 1:3, function(i) actor_call(a, "add", 1), .fresh = TRUE)
  expect_identical(actor_call(a, "get"), 4)
  expect_error(cluster_actor(NULL, counting, exclusive = FALSE), class = "clutch_argument")
  expect_error(cluster_actor(grows, counting, exclusive = FALSE, .max_memory = 1e9),
               class = "clutch_argument")
  expect_error(cluster_actor(grows, counting, exclusive = NA), class = "clutch_argument")
})

test_that("nodes that end when nobody needs them stay while they have an actor", {
  old <- options(clutch.idle_seconds = 0.3)
  on.exit(options(old))
  idle <- function() {
    cl <- make_cluster(1)
    cluster_map(cl, 1, identity)
    clutch:::ends_when_idle(cl)
  }
  has <- idle()
  a <- shared(has)
  pid <- pids_of(has)
  others <- idle()
  other <- pids_of(others)
  until(!alive(other))
  expect_identical(actor_call(a, "pid"), pid)
  actor_stop(a)
  until(!alive(pid))
  stop_cluster(has)
  stop_cluster(others)
})

test_that("so they do no more when the actor alone has ended, or its object was garbage", {
  old <- options(clutch.idle_seconds = 0.3)
  on.exit(options(old))
  end_alone <- function(a) failure(actor_call(a, "cut"))
  for (ends in list(end_alone, function(a) NULL)) {
    idle <- make_cluster(1)
    cluster_map(idle, 1, identity)
    clutch:::ends_when_idle(idle)
    pid <- pids_of(idle)
    folder <- tempfile()
    dir.create(folder)
    a <- cluster_actor(idle, function() {
      list(cut = function() {
        closeAllConnections() # and there is no journal any more
        unlink(folder, recursive = TRUE)
      })
    }, exclusive = FALSE, .journal = file.path(folder, "j"))
    ends(a)
    rm(a)
    gc()
    # what actors have left is seen to in functions that wait
    cluster_map(two, 1, function(i) Sys.sleep(0.3))
    until(!alive(pid))
    stop_cluster(idle)
  }
})

test_that("a node that is a new R, or has connected, takes actors, too", {
  outside_checks_only()
  for (strategy in c("spawn", "parallel")) {
    own <- make_cluster(1, strategy = strategy)
    a <- shared(own)
    expect_identical(actor_call(a, "add", 2), 2)
    expect_identical(actor_call(a, "pid"), pids_of(own))
    expect_identical(cluster_map_dbl(own, 1:3, function(i) actor_call(a, "add", 1)), c(3, 4, 5))
    expect_true(actor_stop(a))
    stop_cluster(own)
  }
})

test_that("a node that ends when it hears nothing from its session stays for its actors", {
  outside_checks_only()
  own <- make_cluster(1, strategy = "parallel", timeout = 0.5)
  on.exit(stop_cluster(own))
  a <- shared(own)
  pid <- pids_of(own)
  Sys.sleep(1.5)
  expect_identical(actor_call(a, "pid"), pid)
  actor_stop(a)
  until(!alive(pid))
})

stop_cluster(two)
