# Each kind of event is caused, and told to who listens. (The line that the log makes of it:
# test-event-log.R.)

# Events while `code` is evaluated, as a list.
heard <- function(code) {
  events <- list()
  clutch:::listen("test", function(event) events[[length(events) + 1L]] <<- event)
  on.exit(clutch:::unlisten("test"))
  force(code)
  events
}
kinds_of <- function(events) vapply(events, function(e) e$kind, "")
of_kind <- function(events, kind) Filter(function(e) e$kind == kind, events)

test_that("start and stop of a cluster are told, once, with its number", {
  events <- heard({
    cl <- make_cluster(2)
    there <- pids(cl)
    stop_cluster(cl)
    stop_cluster(cl)
    stop_cluster(make_cluster(1))
  })
  expect_identical(kinds_of(events), c("start", "stop", "start", "stop"))
  start <- events[[1L]]
  expect_identical(start$pids, there)
  expect_identical(start$nodes, 2L)
  expect_identical(start$node, NA_integer_)
  expect_lt(abs(start$time - as.numeric(Sys.time())), 60)
  numbers <- vapply(events, function(e) e$cluster, 1L)
  expect_identical(numbers - numbers[[1L]], c(0L, 0L, 1L, 1L))
})

test_that("the death of a node, its replacement and the retry of its task are told", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  before <- pids(cl)
  die_once <- function(i) {
    if (i == 3 && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9)
    Sys.getpid()
  }
  events <- heard(at <- cluster_map(cl, 1:6, die_once, .retries = 1))
  expect_setequal(kinds_of(events), c("death", "replacement", "retry"))
  expect_length(events, 3L)
  death <- of_kind(events, "death")[[1L]]
  expect_true(death$pid %in% before)
  expect_identical(death$pid, before[[death$node]])
  expect_identical(death$cause, "signal")
  expect_identical(death$signal, 9L)
  expect_identical(death$element, 3)
  expect_match(death$text, "SIGKILL")
  replaced <- of_kind(events, "replacement")[[1L]]
  expect_identical(replaced$node, death$node)
  expect_identical(replaced$pid, pids(cl)[[death$node]])
  retry <- of_kind(events, "retry")[[1L]]
  expect_identical(retry[c("job", "element", "attempt")],
                   list(job = death$job, element = 3, attempt = 2))
  expect_match(retry$text, sprintf("node %d (pid %d) died while it was at it: killed", death$node,
                                   death$pid), fixed = TRUE)
  expect_identical(death$job, max(cluster_trace(cl)$job))
})

test_that("limits are told: of time, of memory, and the end of who does not react", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  events <- heard(task_error_of(cluster_map(cl, 1, function(i) Sys.sleep(60), .timeout = 0.2)))
  expect_identical(kinds_of(events), "limit")
  expect_identical(events[[1L]][c("limit", "element", "attempt")],
                   list(limit = "time", element = 1, attempt = 1))

  # a submitted task has no element
  task <- cluster_submit(cl, Sys.sleep(60), .timeout = 0.2)
  events <- heard(task_error_of(collect(task)))
  expect_identical(kinds_of(events), "limit")
  expect_true(is.na(events[[1L]]$element))

  needs("memory")
  events <- heard(task_error_of(
    cluster_map(cl, 1, function(i) sum(as.numeric(1:1e8) + 1), .max_memory = 2e8)
  ))
  expect_identical(kinds_of(events)[1:2], c("limit", "death"))
  expect_identical(events[[1L]]$limit, "memory")
  expect_identical(events[[2L]]$cause, "max_memory")

  deaf <- function(i) suspendInterrupts(repeat Sys.time())
  old <- options(clutch.task_grace = 0.2)
  on.exit(options(old), add = TRUE)
  other <- make_cluster(1)
  on.exit(stop_cluster(other), add = TRUE)
  events <- heard(task_error_of(cluster_map(other, 1, deaf, .timeout = 0.2)))
  expect_true(all(c("limit", "death") %in% kinds_of(events)))
  expect_identical(of_kind(events, "death")[[1L]]$cause, "no_reaction")
})

test_that("what happens while the session is elsewhere is told later, with its time", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  before <- pids(cl)
  retried <- tempfile()
  on.exit(unlink(retried), add = TRUE)
  die_once <- function(file) {
    if (clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9) else file.create(file)
  }
  task <- cluster_submit(cl, die_once(retried), .retries = 1)
  began <- as.numeric(Sys.time())
  expect_true(eventually(file.exists(retried)))
  over <- as.numeric(Sys.time())
  Sys.sleep(1)
  events <- heard(collect(task))
  death <- of_kind(events, "death")[[1L]]
  expect_true(death$pid %in% before)
  expect_gt(death$time, began)
  expect_lt(death$time, over)
  expect_lt(of_kind(events, "retry")[[1L]]$time, over)
})

test_that("the death of an idle node is told once, whoever finds it", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  kill_first <- function() {
    node <- pids(cl)[[1L]]
    tools::pskill(node, 9)
    expect_true(eventually(!alive(node)))
    node
  }
  node <- kill_first()
  events <- heard({
    for (k in 1:2) tryCatch(parallel::clusterCall(cl, Sys.getpid), clutch_node_died = identity)
    cluster_map(cl, 1:2, identity)
  })
  expect_identical(kinds_of(events), c("death", "replacement"))
  expect_identical(events[[1L]][c("pid", "cause", "signal")],
                   list(pid = node, cause = "signal", signal = 9L))
  node <- kill_first()
  events <- heard(cluster_map(cl, 1:2, identity))
  expect_identical(kinds_of(events), c("death", "replacement"))
  expect_identical(events[[1L]][c("pid", "cause")], list(pid = node, cause = "signal"))
})

test_that("the nodes of the session's own cluster that nobody needs end, which is a stop", {
  end_own_cluster()
  old <- options(clutch.idle_seconds = 0.3)
  on.exit(options(old))
  on.exit(end_own_cluster(), add = TRUE)
  cluster_map(NULL, 1:2, identity)
  there <- cluster_status()$pid
  expect_true(eventually(!any(alive(there))))
  events <- heard(cluster_map(NULL, 1:2, identity))
  expect_true("stop" %in% kinds_of(events))
  expect_false("death" %in% kinds_of(events))
})

test_that("what a listener raises breaks nothing, and who does not listen is not asked", {
  clutch:::listen("bad", function(event) stop("bad"))
  clutch:::listen("off", function(event) heard_off <<- TRUE, is_on = function() FALSE)
  heard_off <- FALSE
  on.exit({
    clutch:::unlisten("bad")
    clutch:::unlisten("off")
  })
  events <- heard(stop_cluster(make_cluster(1)))
  expect_identical(kinds_of(events), c("start", "stop"))
  expect_false(heard_off)
})

test_that("with nobody who listens nothing is evaluated", {
  listeners <- clutch:::the$listeners
  on.exit(assign("listeners", listeners, envir = clutch:::the))
  assign("listeners", list(), envir = clutch:::the)
  expect_null(clutch:::tell_event("start", list(), text = stop("text")))
})

test_that("the cut of a host, and that it is there again, are told: once each, for all its nodes", {
  hosts <- hosts_or_skip(c("alpha", "beta"))
  on.exit(expect_true(stop_hosts(hosts)))
  old <- options(clutch.heartbeat = 0.5, clutch.reconnect = 60)
  on.exit(options(old), add = TRUE)
  ssh <- c("ssh", "-F", hosts$config)
  cl <- make_cluster(hosts(c("alpha", "beta"), each = 2, ssh = ssh))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  cluster_map(cl, 1:4, identity)
  events <- heard({
    tasks <- lapply(1:4, function(i) cluster_submit(cl, Sys.sleep(4)))
    on_host(hosts, "bridge", "ip link set to-alpha down")
    collect(tasks[[1L]], timeout = 2, otherwise = NULL)
    on_host(hosts, "bridge", "ip link set to-alpha up")
    collect_all(tasks)
  })
  expect_identical(kinds_of(events), c("cut", "resume"))
  expect_identical(events[[1L]][c("host", "nodes")], list(host = "alpha", nodes = 2L))
  expect_identical(events[[2L]]$host, "alpha")
  expect_gt(events[[2L]]$time, events[[1L]]$time)
})
