# Clusters of this machine that grow and shrink with their work.

# A node of its own each time: no other may have been idle for long enough to take two.
pids_of <- function(cl, n, seconds = 0.3) {
  wait <- function(i, s) {
    Sys.sleep(s)
    Sys.getpid()
  }
  cluster_map_int(cl, seq_len(n), wait, seconds, .chunk = 1)
}
nodes_now <- function(cl) nrow(cluster_status(cl))
# The session is at work and calls nothing of this package's.
compute_until <- function(done, limit = 60) {
  end <- Sys.time() + limit
  x <- 0
  while (Sys.time() < end && !done()) for (k in 1:20000) x <- x + sqrt(k)
  done()
}
new_folder <- function() {
  dir <- tempfile()
  dir.create(dir)
  dir
}
files_in <- function(folder) length(list.files(folder))
# Each task leaves a file that has the name of its node, and ends when all of `n` have come.
meet <- function(folder, n) {
  file.create(file.path(folder, Sys.getpid()))
  end <- Sys.time() + 60
  while (length(list.files(folder)) < n && Sys.time() < end) Sys.sleep(0.01)
  Sys.getpid()
}

test_that("it starts with the least, grows while tasks wait, and shrinks to the least", {
  cl <- make_cluster(c(2, 5), idle = 1)
  on.exit(stop_cluster(cl))
  expect_identical(length(cl), 2L)
  expect_output(print(cl), "cluster with 2 of at most 5 nodes")
  # no more than there are tasks
  expect_length(unique(pids_of(cl, 2)), 2L)
  expect_identical(nodes_now(cl), 2L)
  expect_identical(length(unique(pids_of(cl, 20))), 5L)
  expect_identical(cluster_status(cl)$node, 1:5)
  expect_output(print(cl), "cluster with 5 nodes")
  expect_identical(cluster_free(cl), 5L)
  expect_identical(length(cl), 2L)
  pids <- cluster_status(cl)$pid
  # while the session does something else
  expect_true(compute_until(function() !any(alive(pids[3:5]))))
  expect_identical(cluster_status(cl)$pid, pids[1:2])
  expect_output(print(cl), "cluster with 2 of at most 5 nodes")
  # a second time
  expect_identical(length(unique(pids_of(cl, 20))), 5L)
  stop_cluster(cl)
  expect_true(cluster_is_stopped(cl))
  expect_error(cluster_map(cl, 1:3, identity), class = "clutch_stopped")
})

test_that("with `idle = Inf` those that have come stay", {
  cl <- make_cluster(c(1, 3), idle = Inf)
  on.exit(stop_cluster(cl))
  expect_length(unique(pids_of(cl, 9)), 3L)
  pids <- cluster_status(cl)$pid
  expect_false(eventually(nodes_now(cl) < 3L, 1))
  expect_identical(cluster_status(cl)$pid, pids)
})

test_that("it grows while the session computes", {
  cl <- make_cluster(c(1, 4))
  on.exit(stop_cluster(cl))
  folder <- new_folder()
  tasks <- lapply(1:4, function(i) cluster_submit_call(cl, meet, list(folder, 4)))
  expect_true(compute_until(function() files_in(folder) == 4L))
  pids <- unlist(collect_all(tasks))
  expect_length(unique(pids), 4L)
  expect_setequal(cluster_status(cl)$pid, pids)
})

test_that("new nodes have what the others have", {
  exported <- 2
  big <- runif(1e6)
  cl <- make_cluster(c(1, 3), packages = "tools", preload = loaded <- 7, idle = 60)
  on.exit(stop_cluster(cl))
  cluster_setup(cl, at_setup <- 3)
  cluster_export(cl, c("exported", "big"), environment())
  seen <- function(i) {
    Sys.sleep(0.3)
    list(Sys.getpid(), get("exported"), get("at_setup"), get("loaded"), sum(get("big")),
         "package:tools" %in% search())
  }
  environment(seen) <- globalenv()
  got <- cluster_map(cl, 1:9, seen, .chunk = 1, .globals = FALSE)
  expect_length(unique(vapply(got, function(x) x[[1L]], 1L)), 3L)
  expect_identical(unique(lapply(got, `[`, -1L)), list(list(2, 3, 7, sum(big), TRUE)))
  # those that are there get what comes later, and those that come then
  exported <- 4
  cluster_export(cl, "exported", environment())
  got <- cluster_map(cl, 1:9, seen, .chunk = 1, .globals = FALSE)
  expect_identical(unique(vapply(got, function(x) x[[2L]], 1)), 4)
})

test_that("what cluster_setup() says and fails on a new node is a warning", {
  flag <- tempfile()
  cl <- make_cluster(c(1, 2))
  on.exit(stop_cluster(cl))
  cluster_export(cl, "flag", environment())
  cluster_setup(cl, if (file.exists(flag)) stop("not here") else file.create(flag))
  expect_warning(pids <- pids_of(cl, 8), "a node has come, but .* not here", class = "clutch_setup")
  expect_length(unique(pids), 2L)
})

test_that("nodes that are killed while it grows, or later, are made again where needed", {
  cl <- make_cluster(c(2, 4), idle = 60)
  on.exit(stop_cluster(cl))
  first <- cluster_status(cl)$pid
  kill_later <- function(i, first, folder) {
    Sys.sleep(0.2)
    once <- file.path(folder, i)
    is_later <- !Sys.getpid() %in% first
    if (is_later && length(list.files(folder)) < 3L && file.create(once)) {
      tools::pskill(Sys.getpid(), tools::SIGKILL)
      Sys.sleep(60)
    }
    i
  }
  folder <- new_folder()
  got <- cluster_map_int(cl, 1:40, kill_later, first, folder, .chunk = 1, .retries = 3)
  expect_identical(got, 1:40)
  expect_identical(cluster_status(cl)$pid[1:2], first)
  # without retries it is the usual error, and the cluster goes on
  die <- function(i) {
    Sys.sleep(0.2)
    if (i == 9) tools::pskill(Sys.getpid(), tools::SIGKILL)
    i
  }
  expect_error(cluster_map_int(cl, 1:20, die, .chunk = 1), class = "clutch_task_died")
  expect_identical(cluster_map_int(cl, 1:20, function(i) i), 1:20)
  # the fork server is lost, and with it all nodes
  server <- server_pid(cl)
  tools::pskill(server, tools::SIGKILL)
  expect_true(eventually(!alive(server)))
  # after deaths that come soon after a start it waits before it makes more
  expect_length(unique(pids_of(cl, 60)), 4L)
})

test_that("Ctrl-C while it grows leaves a cluster that works", {
  for (k in 1:3) {
    cl <- make_cluster(c(1, 6))
    later(0.15 * k, "kill -INT %d", Sys.getpid())
    got <- tryCatch(pids_of(cl, 60), interrupt = function(e) "int")
    expect_identical(got, "int")
    expect_length(unique(pids_of(cl, 24)), 6L)
    later(0.1 * k, "kill -INT %d", Sys.getpid())
    tryCatch({
      tasks <- lapply(1:20, function(i) cluster_submit(cl, Sys.sleep(30)))
      stop_cluster(cl)
      Sys.sleep(5)
    }, interrupt = function(e) NULL)
    stop_cluster(cl)
  }
})

test_that("another cluster of the session does not keep it from growing", {
  cl <- make_cluster(c(1, 3))
  on.exit(stop_cluster(cl))
  expect_length(pids_of(cl, 3, 0), 3L)
  other <- make_cluster(1, env = c(CLUTCH_TEST_OTHER = "1"))
  on.exit(stop_cluster(other), add = TRUE)
  expect_length(unique(pids_of(cl, 12)), 3L)
  env <- cluster_map_chr(cl, 1:12, function(i) {
    Sys.sleep(0.1)
    Sys.getenv("CLUTCH_TEST_OTHER", "none")
  }, .chunk = 1)
  expect_identical(unique(env), "none")
})

test_that("functions of parallel, other packages and parts of the cluster have the first nodes", {
  cl <- make_cluster(c(2, 4), idle = 60)
  on.exit(stop_cluster(cl))
  expect_length(unique(pids_of(cl, 16)), 4L)
  first <- cluster_status(cl)$pid[1:2]
  expect_identical(unlist(parallel::clusterCall(cl, Sys.getpid)), first)
  expect_true(all(unlist(parallel::parLapply(cl, 1:10, function(i) Sys.getpid())) %in% first))
  expect_identical(unlist(parallel::clusterApplyLB(cl, 1:20, function(i) i)), 1:20)
  expect_identical(parallel::parSapply(cl, 1:3, function(i) i), 1:3)
  expect_identical(unique(pids_of(cl[2], 3, 0)), first[[2L]])
  parallel::setDefaultCluster(cl)
  on.exit(parallel::setDefaultCluster(NULL), add = TRUE, after = FALSE)
  expect_length(unique(pids_of(NULL, 16)), 4L)
})

test_that("with Inf it has as many nodes as there are cores", {
  expect_match(launch_plan(c(1, Inf))[[1L]], sprintf("^(1 to )?%d nodes", available_cores()))
  expect_match(launch_plan(c(900, Inf))[[1L]], "^900 nodes")
})

test_that("new R processes as nodes come, too", {
  cl <- make_cluster(c(1, 2), strategy = "spawn")
  on.exit(stop_cluster(cl))
  expect_length(unique(pids_of(cl, 6, 1)), 2L)
})

test_that("it does not grow where what tasks take leaves no memory for more", {
  needs("proc")
  old <- options(clutch.memory = 400e6)
  on.exit(options(old))
  cl <- make_cluster(c(1, 4), idle = 60)
  on.exit(stop_cluster(cl), add = TRUE)
  take <- function(i) {
    x <- rep(as.numeric(i), 3e7) # x[] <- i takes half as much again, for numbers of elements
    Sys.sleep(0.5)
    x[[2L]]
  }
  # until one has ended nobody knows what they take
  expect_identical(collect(cluster_submit_call(cl, take, list(7))), 7)
  tasks <- lapply(1:6, function(i) cluster_submit_call(cl, take, list(i)))
  expect_identical(unlist(collect_all(tasks)), as.numeric(1:6))
  # four would be there without a bound. What tasks take is estimated, so there may be one too many
  expect_lte(nodes_now(cl), 2L)
})

test_that("where memory is short, nodes without work end sooner", {
  needs("proc")
  outside_checks_only()
  old <- options(clutch.memory = 300e6)
  on.exit(options(old))
  cl <- make_cluster(c(1, 4), idle = 3600)
  on.exit(stop_cluster(cl), add = TRUE)
  expect_length(unique(pids_of(cl, 16)), 4L)
  flag <- tempfile()
  hold <- function(flag) {
    x <- rep(1, 3e7)
    while (!file.exists(flag)) Sys.sleep(0.01)
    length(x)
  }
  task <- cluster_submit_call(cl, hold, list(flag))
  expect_true(compute_until(function() nodes_now(cl) <= 2L)) # the first, and that of the task
  file.create(flag)
  expect_identical(collect(task), 30000000L)
})

test_that("the session's own cluster grows to as many nodes as there are cores", {
  outside_checks_only()
  old <- options(clutch.budget = 6)
  on.exit({
    end_own_cluster()
    options(old)
  })
  end_own_cluster()
  expect_length(clutch:::own_nodes_for(1L, cores = 6L), 4L)
  expect_output(print(clutch:::the$own$cl), "4 of at most 6 nodes")
  expect_length(unique(pids_of(NULL, 24)), 6L)
  expect_identical(nodes_now(NULL), 6L)
  # who made it grow is gone, and it is made again
  stop_cluster()
  expect_identical(cluster_map_dbl(NULL, 1:3, sqrt), sqrt(1:3))
  folder <- new_folder()
  tasks <- lapply(1:6, function(i) cluster_submit_call(NULL, meet, list(folder, 6)))
  expect_true(compute_until(function() files_in(folder) == 6L))
  expect_length(unique(unlist(collect_all(tasks))), 6L)
})

test_that("a polite session does the same work", {
  old <- options(clutch.polite = TRUE)
  on.exit(options(old))
  cl <- make_cluster(c(1, 3))
  on.exit(stop_cluster(cl), add = TRUE)
  expect_identical(cluster_map_int(cl, 1:200, function(i) i), 1:200)
  tasks <- lapply(1:5, function(i) cluster_submit_call(cl, identity, list(i)))
  expect_identical(unlist(collect_all(tasks)), 1:5)
  nice <- function() unique(cluster_map_int(cl, 1:12, function(i) tools::psnice()))
  mine <- tools::psnice()
  if (!is.na(mine)) {
    expect_identical(nice(), 19L)
    expect_identical(tools::psnice(), mine)
  }
  options(clutch.polite = NULL)
  # only root may raise it
  if (Sys.info()[["effective_user"]] == "root" && !is.na(mine)) expect_identical(nice(), 0L)
  expect_length(unique(pids_of(cl, 12)), 3L)
  options(clutch.polite = "yes")
  expect_error(cluster_map(cl, 1:3, identity), "clutch.polite", class = "clutch_argument")
})

test_that("nodes of a session that was polite have the priority again that they had", {
  may_raise <- !is.na(tools::psnice()) && Sys.info()[["effective_user"]] == "root"
  skip_if_not(may_raise, "only root may raise it")
  cl <- make_cluster(2, renice = 5)
  old <- options(clutch.polite = TRUE)
  on.exit({
    options(old)
    stop_cluster(cl)
  })
  nice <- function() unique(cluster_map_int(cl, 1:4, function(i) tools::psnice()))
  expect_identical(nice(), 19L)
  options(clutch.polite = FALSE)
  expect_identical(nice(), 5L)
})

# Linux shares cores among sessions of processes first.
test_that("the session of a polite session's nodes has the lowest priority, and only as long", {
  skip_if_not(file.exists("/proc/self/autogroup"), "no autogroups")
  nice_of <- function(pid) sub(".* nice ", "", readLines(sprintf("/proc/%d/autogroup", pid)))
  mine <- nice_of(Sys.getpid())
  old <- options(clutch.polite = TRUE)
  on.exit(options(old))
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  cluster_walk(cl, 1:2, identity)
  skip_if_not(nice_of(pids(cl)[[1L]]) != "0" || Sys.info()[["effective_user"]] == "root",
              "the system does not let it")
  expect_identical(vapply(pids(cl), nice_of, ""), c("19", "19"))
  # those that come later, where all that had it have ended
  tools::pskill(pids(cl), tools::SIGKILL)
  expect_true(eventually(all(startsWith(cluster_status(cl)$state, "dead"))))
  options(clutch.polite = FALSE)
  cluster_walk(cl, 1:2, identity)
  expect_identical(vapply(pids(cl), nice_of, ""), c("0", "0"))
  expect_identical(nice_of(Sys.getpid()), mine)
})

test_that("arguments are checked, and the plan tells the size", {
  expect_error(make_cluster(c(5, 2)), "the least and the most", class = "clutch_argument")
  expect_error(make_cluster(c(0, 2)), class = "clutch_argument")
  expect_error(make_cluster(c(1.5, 2)), class = "clutch_argument")
  expect_error(make_cluster(c(NA, 2)), class = "clutch_argument")
  expect_error(make_cluster(c(1, 3, 5)), class = "clutch_argument")
  expect_error(make_cluster(2, idle = 5), "`idle` is for a cluster that grows",
               class = "clutch_argument")
  expect_error(make_cluster(c(1, 2), idle = -1), class = "clutch_argument")
  expect_error(make_cluster(c(1, 2), strategy = "parallel"), "is of strategy",
               class = "clutch_argument")
  expect_match(launch_plan(2:16)[[1L]], "^2 to 16 nodes on this machine")
  expect_match(launch_plan(c(3, 3))[[1L]], "^3 nodes on this machine")
  cl <- make_cluster(c(2, 2))
  on.exit(stop_cluster(cl))
  expect_output(print(cl), "cluster with 2 nodes")
})

test_that("events tell of nodes that come and go", {
  log <- tempfile()
  old <- options(clutch.log = log)
  on.exit(options(old))
  cl <- make_cluster(c(1, 3), idle = 0.5)
  pids_of(cl, 9)
  expect_true(eventually(nodes_now(cl) == 1L))
  cluster_map(cl, 1:2, identity)
  stop_cluster(cl)
  lines <- readLines(log)
  expect_length(grep("a node has come", lines), 2L)
  expect_length(grep("there was nothing to do for it", lines), 2L)
})

test_that("nothing stays when the session is killed while it grows", {
  for (seconds in c(0, 0.1, 0.3)) {
    s <- start_script(c(
      "cl <- make_cluster(c(1, 8))",
      "cat(sprintf('session=%s\\n', tempdir()))",
      "tasks <- lapply(1:50, function(i) cluster_submit(cl, Sys.sleep(100)))",
      "cat('READY\\n')",
      "repeat sqrt(1:1e5)"
    ))
    expect_true(said(s, "^READY"))
    Sys.sleep(seconds)
    tools::pskill(s$pid, tools::SIGKILL)
    expect_true(ends(s))
    expect_identical(left_in(s), character())
  }
})

test_that("where its first nodes are stopped one by one, those that came later end with the last", {
  cl <- make_cluster(c(2, 4), idle = 1000)
  on.exit(stop_cluster(cl))
  pids_of(cl, 16)
  pids <- cluster_status(cl)$pid
  expect_length(pids, 4L)
  stop_cluster(cl[1])
  expect_true(all(alive(pids[-1])))
  stop_cluster(cl[2])
  expect_false(any(alive(pids)))
})
