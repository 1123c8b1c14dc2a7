# What others see of a cluster: its view, and observers.

ask <- function(o, ...) clutch:::ask_observer(o, "snapshot", ...)
observe <- function(cl) clutch:::observer_of(cl)
sockets_in <- function(folder) list.files(folder, "^[0-9]+-[0-9]+$")
# of the session with this process id
observer_of_session <- function(pid) {
  of_it <- function() Filter(function(o) o$session == pid, clutch:::find_observers())
  eventually(length(of_it()) > 0L)
  of_it()[[1L]]
}

test_that("an observer sees nodes, jobs and tasks as the session does", {
  of_each_strategy(function(cl) {
    o <- observe(cl)
    on.exit(close(o$socket))
    before <- ask(o)
    expect_identical(before$nodes$state, c("idle", "idle"))
    expect_equal(before$nodes$pid, cluster_status(cl)$pid)
    expect_identical(nrow(before$tasks), 0L)
    expect_identical(before$session$pid, as.numeric(Sys.getpid()))
    expect_identical(before$session$r, as.character(getRversion()))
    suppressWarnings(
      cluster_map(cl, 1:20, function(i) if (i == 7) stop("seven") else i, .on_error = "continue")
    )
    after <- ask(o)
    expect_equal(after$jobs[c("total", "done", "failed", "running", "queued")],
                 data.frame(total = 20, done = 19, failed = 1, running = 0, queued = 0))
    expect_false(is.na(after$jobs$ended))
    trace <- cluster_trace(cl)
    expect_identical(ask(o, tasks = 3)$tasks$element, utils::tail(after$tasks$element, 3))
    expect_identical(nrow(ask(o, tasks = 0)$tasks), 0L)
    seen <- after$tasks[order(after$tasks$element), ]
    trace <- trace[order(trace$element), ]
    expect_equal(seen$element, trace$element)
    expect_equal(seen$node, trace$node)
    expect_equal(seen$ok, trace$ok)
    expect_lt(max(abs((seen$ended - seen$began) - (trace$ended - trace$began))), 1e-5)
    expect_equal(sum(after$nodes$done), 19)
    expect_equal(sum(after$nodes$failed), 1)
    expect_true(abs(after$time - as.numeric(Sys.time())) < 60)
    expect_true(all(seen$ended <= after$time + 0.1 & seen$began > after$session$since - 0.1))
  })
})

test_that("it tells what has come since a snapshot", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  o <- observe(cl)
  cluster_map(cl, 1:20, identity)
  first <- ask(o)
  expect_identical(first$clusters$ended, 20)
  expect_identical(first$clusters$told, as.numeric(nrow(first$events)))
  nothing <- ask(o, since = first$clusters)
  expect_identical(nrow(nothing$tasks), 0L)
  expect_identical(nrow(nothing$events), 0L)
  tools::pskill(cluster_status(cl)$pid[[1L]], tools::SIGKILL)
  cluster_map(cl, 1:5, function(i) Sys.sleep(0.02))
  expect_true(eventually("replacement" %in% ask(o)$events$kind))
  all <- ask(o)
  new <- ask(o, since = first$clusters)
  expect_identical(new$tasks$element, utils::tail(all$tasks$element, -20))
  expect_identical(new$tasks$began, utils::tail(all$tasks$began, -20)) # the same in each snapshot
  expect_identical(new$events$text, utils::tail(all$events$text, -nrow(first$events)))
  expect_identical(nrow(ask(o, since = first$clusters, tasks = 3)$tasks), 3L)
  # a number that has not come is that of another cluster's
  wrong <- list(cluster = first$clusters$cluster, ended = 1e6, told = NA)
  expect_identical(nrow(ask(o, since = wrong)$tasks), 25L)
})

test_that("it sees which element each node is at, and since when", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  o <- observe(cl)
  gate <- tempfile()
  wait <- function(i, gate) while (!file.exists(gate)) Sys.sleep(0.01)
  tasks <- lapply(1:5, function(i) cluster_submit(cl, wait(i, gate)))
  expect_true(eventually(all(ask(o)$nodes$state == "busy")))
  seen <- ask(o)
  expect_setequal(seen$nodes$job, 1:2)
  expect_identical(seen$nodes$element, c(1, 1))
  expect_true(all(seen$nodes$since < seen$time))
  expect_identical(sum(seen$jobs$running), 2)
  expect_identical(sum(seen$jobs$queued), 3)
  # of tasks that take long also the call: asked now and then, told when R looks for interrupts
  expect_true(eventually(all(grepl("Sys.sleep|file.exists|wait", ask(o)$nodes$call))))
  file.create(gate)
  collect_all(tasks)
  unlink(gate)
  expect_identical(ask(o)$nodes$state, c("idle", "idle"))
})

test_that("of many nodes some are asked for their calls each time, and all in turn", {
  linux_only()
  outside_checks_only()
  nodes <- 40L
  cl <- make_cluster(nodes)
  on.exit(stop_cluster(cl))
  tasks <- lapply(seq_len(nodes), function(k) cluster_submit(cl[k], Sys.sleep(600)))
  o <- observe(cl)
  all_known <- function() all(grepl("Sys.sleep", ask(o)$nodes$call))
  expect_true(eventually(all_known()))
  questions <- function() clutch:::ask_observer(o, "stacks", wait = 0)$questions
  before <- questions()
  for (i in 1:10) ask(o, tasks = 0)
  asked <- questions() - before - 1
  # 32 in each look, and in the one that is a part of the first questions()
  expect_identical(sum(asked), 11 * 32)
  expect_gte(min(asked), 8)
  close(o$socket)
  for (task in tasks) cancel(task)
})

test_that("what is done, and not yet read by the session, is not taken for waiting", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  o <- observe(cl)
  cluster_map(cl, 1:4, identity)
  done <- cluster_submit(cl[2], 1)
  long <- cluster_submit(cl[1], Sys.sleep(60))
  # this session does nothing but ask meanwhile, and so reads no result
  expect_true(eventually(identical(ask(o)$nodes$state, c("busy", "idle"))))
  expect_true(eventually(sum(ask(o)$jobs$queued) == 0))
  expect_identical(sum(ask(o)$jobs$running), 1)
})

test_that("it answers while the session hangs or is stopped, also another process", {
  linux_only()
  s <- start_script(c(
    "cl <- make_cluster(2)",
    "task <- cluster_submit(cl, Sys.sleep(600))",
    "Sys.sleep(0.5)",
    "cat('pid=', Sys.getpid(), '\\n', sep = '')",
    "repeat sum(as.numeric(1:1e6))"
  ))
  on.exit(tools::pskill(s$pid, tools::SIGKILL))
  expect_true(said(s, "pid="))
  pid <- as.integer(value_of(s, "pid"))
  o <- observer_of_session(pid)
  seen <- ask(o)
  expect_identical(seen$session$pid, as.numeric(pid))
  expect_identical(sort(seen$nodes$state), c("busy", "idle"))
  tools::pskill(pid, tools::SIGSTOP)
  expect_true(eventually(ask(o)$session$state == "stopped"))
  expect_identical(sort(ask(o)$nodes$state), c("busy", "idle"))
  tools::pskill(pid, tools::SIGCONT)
})

test_that("another process sees the stacks of nodes whose session is stopped", {
  linux_only()
  s <- start_script(c(
    "cl <- make_cluster(2)",
    "slow <- function(s) Sys.sleep(s)",
    "task <- cluster_submit(cl, slow(600))",
    "cat('pid=', Sys.getpid(), '\\n', sep = '')",
    "repeat sum(as.numeric(1:1e6))"
  ))
  on.exit(tools::pskill(s$pid, tools::SIGKILL))
  expect_true(said(s, "pid="))
  pid <- as.integer(value_of(s, "pid"))
  close(observer_of_session(pid)$socket)
  is_slow <- function(x) any(grepl("slow(600)", unlist(x$stack), fixed = TRUE))
  expect_true(eventually(is_slow(cluster_stacks(session = pid))))
  tools::pskill(pid, tools::SIGSTOP)
  x <- cluster_stacks(session = pid)
  expect_s3_class(x, "clutch_stacks")
  expect_setequal(x$state, c("busy", "idle"))
  busy <- x[x$state == "busy", ]
  expect_true(is_slow(busy))
  expect_true(busy$current)
  expect_true(is.na(busy$note))
  expect_gt(busy$since, 0)
  expect_null(x$stack[x$state == "idle"][[1L]])
  expect_output(print(x), "slow(600)", fixed = TRUE)
  tools::pskill(pid, tools::SIGCONT)
  wrong <- function(...) expect_error(cluster_stacks(...), class = "clutch_argument")
  wrong(session = 1)
  wrong(session = NA)
  wrong(session = "a")
  wrong("cl", session = pid)
})

test_that("clusters without a fork server are seen by another process, and nothing is started", {
  linux_only()
  needs("proc")
  outside_checks_only()
  own_view_folder()
  s <- start_script(c(
    "cl <- make_cluster(2, strategy = 'parallel')",
    "slow <- function(s) Sys.sleep(s)",
    "task <- cluster_submit(cl, slow(600))",
    "cat('servers=', length(clutch:::the$servers), '\\n', sep = '')",
    "cat('pid=', Sys.getpid(), '\\n', sep = '')",
    "repeat sum(as.numeric(1:1e6))"
  ))
  on.exit(tools::pskill(s$pid, tools::SIGKILL), add = TRUE)
  expect_true(said(s, "pid="))
  pid <- as.integer(value_of(s, "pid"))
  expect_identical(value_of(s, "servers"), "0")
  expect_length(list.files(Sys.getenv("CLUTCH_VIEW_FOLDER")), 0L)
  found <- clutch:::find_clusters()
  expect_length(found, 1L)
  expect_identical(found[[1L]]$session, pid)
  o <- found[[1L]]
  expect_true(eventually(any(grepl("Sys.sleep", ask(o)$nodes$call))))
  seen <- ask(o)
  expect_identical(seen$clusters$strategy, "parallel")
  expect_identical(sort(seen$nodes$state), c("busy", "idle"))
  expect_identical(seen$nodes$element[seen$nodes$state == "busy"], 1)
  expect_true(all(seen$nodes$memory > 0))
  tools::pskill(pid, tools::SIGSTOP)
  x <- cluster_stacks(session = pid)
  expect_true(any(grepl("slow(600)", unlist(x$stack), fixed = TRUE)))
  expect_match(capture.output(cluster_top()), "^2 nodes: 1 busy, 1 idle", all = FALSE)
  # those who have named another folder do not look here
  folder <- Sys.getenv("CLUTCH_VIEW_FOLDER")
  Sys.setenv(CLUTCH_VIEW_FOLDER = tempdir())
  expect_length(clutch:::find_views(), 0L)
  Sys.setenv(CLUTCH_VIEW_FOLDER = folder)
  tools::pskill(pid, tools::SIGKILL)
  expect_true(ends(s))
  expect_length(clutch:::find_clusters(), 0L)
  expect_error(ask(o), class = "clutch_lost")
})

test_that("each cluster is found once, also by the session itself", {
  linux_only()
  needs("proc")
  cl <- make_cluster(1, strategy = "parallel")
  on.exit(stop_cluster(cl))
  number <- clutch:::info_of(cl)$shown_as
  times_found <- function(n = number) {
    found <- clutch:::find_clusters()
    on.exit(for (o in found) clutch:::close_observer(o))
    sum(vapply(found, function(o) o$session == Sys.getpid() && o$cluster == n, NA))
  }
  expect_identical(times_found(), 1L)
  # that a node was replaced is seen, though its memory may be another one by then
  mine <- Filter(function(o) o$session == Sys.getpid(), clutch:::find_views())[[1L]]
  mine$cluster <- number
  tools::pskill(cluster_status(cl)$pid, tools::SIGKILL)
  expect_true(eventually(cluster_status(cl)$state != "idle"))
  task <- cluster_submit(cl, Sys.sleep(600))
  expect_true(eventually(any(grepl("Sys.sleep", ask(mine)$nodes$call))))
  expect_equal(ask(mine)$nodes$pid, cluster_status(cl)$pid)
  # with a fork server both ways lead to it; its observer reads what nodes of the session write, too
  k <- make_cluster(1)
  on.exit(stop_cluster(k), add = TRUE)
  o <- observe(cl)
  expect_true(eventually(any(grepl("Sys.sleep", ask(o)$nodes$call))))
  close(o$socket)
  expect_identical(times_found(), 1L)
  expect_identical(times_found(clutch:::info_of(k)$shown_as), 1L)
  cancel(task)
  stop_cluster(cl)
  expect_identical(times_found(), 0L)
})

test_that("a node that was replaced is another process, and its death is counted", {
  of_each_strategy(function(cl) {
    o <- observe(cl)
    on.exit(close(o$socket))
    tools::pskill(cluster_status(cl)$pid[[1L]], tools::SIGKILL)
    cluster_map(cl, 1:4, function(i) Sys.sleep(0.05))
    expect_true(eventually(all(ask(o)$nodes$state == "idle")))
    expect_equal(ask(o)$nodes$pid, cluster_status(cl)$pid)
    expect_equal(ask(o)$nodes$deaths, c(1, 0))
    events <- ask(o)$events
    expect_identical(events$kind, c("start", "death", "replacement"))
    expect_identical(events$node, c(NA, 1L, 1L))
    # of a process that is no child of this one it may not be known
    expect_match(events$text[[2L]], "signal 9|how it ended is not known")
  })
})

test_that("an observer that is killed is missed by nobody; the next one is another", {
  linux_only()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  o <- list(server = server_pid(cl))
  children <- function() {
    of <- suppressWarnings(system2("pgrep", c("-P", o$server), stdout = TRUE))
    setdiff(as.integer(of), c(others, cluster_status(cl)$pid))
  }
  others <- integer()
  others <- children() # of other tests, which this session has not collected yet
  o <- observe(cl)
  ask(o)
  observer <- children()
  expect_length(observer, 1L)
  tools::pskill(observer, tools::SIGKILL)
  expect_error(ask(o))
  expect_identical(cluster_map_int(cl, 1:10, identity), 1:10)
  again <- observe(cl)
  expect_identical(ask(again)$nodes$state, c("idle", "idle"))
  close(again$socket)
  expect_true(eventually(length(children()) == 0L)) # it ends with its connection
})

test_that("a stopped cluster is seen to be stopped, and not shown any more", {
  cl <- make_cluster(2)
  o <- observe(cl)
  cluster_map(cl, 1:3, identity)
  number <- ask(o)$clusters$cluster
  stop_cluster(cl)
  expect_true(ask(o)$clusters$stopped)
  expect_identical(ask(o)$nodes$state, c("stopped", "stopped"))
  other <- make_cluster(1)
  on.exit(stop_cluster(other))
  fresh <- observe(other)
  fresh$cluster <- NULL
  expect_false(number %in% ask(fresh)$clusters$cluster)
})

test_that("the sockets of sessions that have ended go", {
  linux_only()
  folder <- tempfile("view")
  dir.create(folder, mode = "0700")
  on.exit(unlink(folder, recursive = TRUE))
  setting <- sprintf("Sys.setenv(CLUTCH_VIEW_FOLDER = '%s')", folder)
  lines <- c(setting, "cl <- make_cluster(1)", "cat('up=1\\n')", "Sys.sleep(60)")
  s <- start_script(lines)
  expect_true(said(s, "up="))
  expect_true(eventually(length(sockets_in(folder)) == 1L))
  tools::pskill(s$pid, tools::SIGKILL)
  expect_true(eventually(length(sockets_in(folder)) == 0L))
  # a fork server that was killed with its session leaves it to the next one
  file.create(file.path(folder, "999999-4194305"))
  s <- start_script(lines)
  on.exit(tools::pskill(s$pid, tools::SIGKILL), add = TRUE, after = FALSE)
  expect_true(said(s, "up="))
  expect_true(eventually({
    there <- sockets_in(folder)
    length(there) == 1L && there != "999999-4194305"
  }))
})

test_that("without a folder that only this user can read nobody observes, and all else works", {
  linux_only()
  folder <- tempfile("view")
  dir.create(folder)
  Sys.chmod(folder, "0777", use_umask = FALSE)
  on.exit(unlink(folder, recursive = TRUE))
  s <- start_script(c(
    sprintf("Sys.setenv(CLUTCH_VIEW_FOLDER = '%s')", folder),
    "cl <- make_cluster(1)",
    "cat('value=', cluster_map_int(cl, 1:3, identity), '\\n', sep = ' ')",
    "why <- tryCatch(clutch:::observer_of(cl), clutch_limit = conditionMessage)",
    "cat('why=', why, '\\ndone\\n', sep = '')"
  ))
  expect_done(s)
  expect_match(value_of(s, "value"), "1 2 3")
  expect_match(value_of(s, "why"), "only this user can read")
  expect_length(sockets_in(folder), 0L)
})

test_that("many who ask get observers up to a limit, and the cluster works on", {
  linux_only()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  o <- observe(cl)
  more <- lapply(1:40, function(i) clutch:::connect_observer(o$path))
  expect_identical(cluster_map_int(cl, 1:10, identity), 1:10)
  for (x in more) close(x$socket)
  expect_true(eventually(!is.null(tryCatch(ask(observe(cl)), error = function(e) NULL))))
  expect_identical(ask(o)$nodes$state, "idle")
})

test_that("views leave no descriptor and no memory behind", {
  linux_only()
  once <- function() {
    cl <- make_cluster(1)
    cluster_map(cl, 1:3, identity)
    close(observe(cl)$socket)
    stop_cluster(cl)
  }
  segments <- function() {
    gc()
    grep("memfd:clutch", readLines("/proc/self/maps"), value = TRUE)
  }
  once()
  had <- segments()
  before <- open_fds()
  for (i in 1:5) once()
  segments()
  expect_lte(length(segments()), length(had) + 1L)
  expect_lte(open_fds(), before)
})
