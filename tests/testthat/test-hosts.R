# Clusters over several hosts, by real ssh: one fork server a host.

outside_checks_only()

hosts_there <- NULL # made by the first test that needs them, ended by the last one
needs_hosts <- function() {
  if (is.null(hosts_there)) hosts_there <<- hosts_or_skip(c("alpha", "beta"))
}
on_hosts <- function(names = c("alpha", "beta"), each = 2, ...) {
  hosts(names, each, ssh = c("ssh", "-F", hosts_there$config), ...)
}
where <- function(cl) vapply(parallel::clusterCall(cl, Sys.info), `[[`, "", "nodename")

test_that("a cluster on two hosts: nodes, maps, tasks, random numbers, output, errors, its end", {
  needs_hosts()
  cl <- make_cluster(on_hosts(), packages = "stats4", env = c(CLUTCH_TEST_X = "x y"))
  expect_identical(where(cl), rep(c("alpha", "beta"), each = 2))
  expect_identical(cluster_status(cl)$host, rep(c("alpha", "beta"), each = 2))
  expect_identical(unlist(parallel::clusterCall(cl, Sys.getenv, "CLUTCH_TEST_X")), rep("x y", 4))
  attached <- parallel::clusterCall(cl, function() "package:stats4" %in% search())
  expect_identical(unlist(attached), rep(TRUE, 4))
  expect_identical(cluster_map_dbl(cl, 1:1000, function(i) i^2), (1:1000)^2)
  near <- make_cluster(2)
  draw <- function(i) rnorm(2)
  expect_identical(cluster_map(cl, 1:50, draw, .seed = 42),
                   cluster_map(near, 1:50, draw, .seed = 42))
  stop_cluster(near)
  expect_identical(collect(cluster_submit(cl, 6 * 7)), 42)
  out <- capture.output(r <- cluster_map(cl, 1:2, function(i) cat("out", i, "\n"), .chunk = 1))
  expect_identical(out, sprintf("out %d ", 1:2))
  e <- tryCatch(cluster_map(cl, 1:3, function(i) if (i == 2) stop("oops") else i),
                clutch_task_error = identity)
  expect_identical(e$element, 2)
  big <- runif(1e6)
  expect_identical(cluster_map_dbl(cl, 1:4, function(i) sum(big) + i), sum(big) + 1:4)
  status <- cluster_hosts(cl)
  expect_identical(status$host, c("alpha", "beta"))
  expect_identical(status$state, c("up", "up"))
  expect_identical(status$nodes, c(2L, 2L))
  expect_true(all(status$bytes_out > 1000 & status$bytes_in > 1000))
  stop_cluster(cl)
  expect_hosts_empty(hosts_there)
  expect_error(parallel::clusterCall(cl, identity, 1), class = "clutch_stopped")
})

test_that("an interrupt reaches nodes on other hosts, and they go on to be of use", {
  needs_hosts()
  cl <- make_cluster(on_hosts())
  on.exit(stop_cluster(cl))
  expect_interruptible(cl)
})

test_that("limits of time, and deaths: as on this host", {
  needs_hosts()
  cl <- make_cluster(on_hosts())
  on.exit(stop_cluster(cl))
  e <- tryCatch(cluster_map(cl, 1:2, function(i) Sys.sleep(60), .timeout = 0.5), error = identity)
  expect_s3_class(e, "clutch_task_timeout")
  expect_true(works(cl))
  e <- tryCatch(cluster_map(cl, 1, function(i) tools::pskill(Sys.getpid(), 9L), .retries = 0),
                error = identity)
  expect_s3_class(e, "clutch_task_died")
  expect_match(conditionMessage(e), "SIGKILL")
  # a node that has died is replaced on its host
  expect_identical(cluster_map_dbl(cl, 1:100, function(i) i), as.numeric(1:100))
  expect_identical(where(cl), rep(c("alpha", "beta"), each = 2))
})

test_that("a host that is lost in a map: its elements are done elsewhere", {
  needs_hosts()
  # a proxy that was killed looks like a connection that was cut
  old <- options(clutch.reconnect = 2)
  on.exit(options(old))
  cl <- make_cluster(on_hosts())
  on.exit(stop_cluster(cl), add = TRUE)
  for (p in sub("^ *([0-9]+).*", "\\1", processes_on(hosts_there, "beta"))) {
    on_host(hosts_there, "beta", sprintf("(sleep 1; kill -9 %s) > /dev/null 2>&1 &", p))
  }
  r <- cluster_map_chr(cl, 1:40, function(i) {
    Sys.sleep(0.1)
    Sys.info()[["nodename"]]
  }, .chunk = 1, .retries = 3)
  expect_length(r, 40L)
  expect_true("alpha" %in% r)
  unlink(list.files(file.path(hosts_there$folder, "beta", "tmp"), full.names = TRUE),
         recursive = TRUE) # what a killed fork server has left
})

# The proxy is the parent of the fork server, and so the first of all R processes there.
proxy_on <- function(name) {
  there <- grep("/exec/R ", processes_on(hosts_there, name), value = TRUE)
  min(as.integer(sub("^ *([0-9]+).*", "\\1", there)))
}

test_that("a proxy that is killed: its host is lost at once, and comes again", {
  needs_hosts()
  cl <- make_cluster(on_hosts()) # a cut would be waited for, for 300 s
  on.exit(stop_cluster(cl))
  on_host(hosts_there, "beta", sprintf("(sleep 1; kill -9 %d) > /dev/null 2>&1 &",
                                       proxy_on("beta")))
  r <- cluster_map_chr(cl, 1:80, function(i) {
    Sys.sleep(0.1)
    Sys.info()[["nodename"]]
  }, .chunk = 1, .retries = 1)
  expect_length(r, 80L)
  expect_identical(where(cl), rep(c("alpha", "beta"), each = 2))
  expect_identical(cluster_hosts(cl)$state, c("up", "up"))
  # a call that is waiting then
  on_host(hosts_there, "alpha", sprintf("(sleep 1; kill -9 %d) > /dev/null 2>&1 &",
                                        proxy_on("alpha")))
  took <- system.time(e <- node_died(parallel::clusterCall(cl, Sys.sleep, 60)))
  expect_s3_class(e, "clutch_node_died")
  expect_lt(took[["elapsed"]], 30)
  expect_match(cluster_hosts(cl)$why[[1L]], "has ended, with exit status 137")
  stop_cluster(cl)
  on.exit()
  expect_hosts_empty(hosts_there)
})

# Has the proxy of host "alpha" stand still, `after` seconds from now.
stand_still <- function(after, seconds) {
  proxy <- proxy_on("alpha")
  on_host(hosts_there, "alpha", sprintf(
    "(sleep %g; kill -STOP %d; sleep %g; kill -CONT %d) > /dev/null 2>&1 &",
    after, proxy, seconds, proxy
  ))
}

test_that("a connection that stands still ends no node whose interrupt or answer is on its way", {
  needs_hosts()
  cl <- make_cluster(on_hosts("alpha"))
  on.exit(stop_cluster(cl))
  expect_true(works(cl))
  node_pids <- pids(cl)
  # the interrupt is late; then the answer is, which takes most of the grace
  for (late in c(0, 0.7)) {
    stand_still(late + 0.2, 3)
    e <- tryCatch(cluster_map(cl, 1:2, function(i) {
      on.exit(Sys.sleep(late))
      Sys.sleep(60)
    }, .timeout = 0.5, .retries = 0), error = identity)
    expect_s3_class(e, "clutch_task_timeout")
    # the other one, which is cancelled, has as much time
    expect_identical(cluster_map_dbl(cl, 1:20, function(i) {
      Sys.sleep(0.1)
      i
    }, .chunk = 1), as.numeric(1:20))
    expect_identical(pids(cl), node_pids, label = late)
  }
  # and who does not react is still ended: the task has all that it needs before its time begins
  parallel::clusterCall(cl, function() is.function(tools::pskill))
  e <- tryCatch(cluster_map(cl, 1, function(i) tools::pskill(Sys.getpid(), tools::SIGSTOP),
                            .timeout = 3, .retries = 0), error = identity)
  expect_s3_class(e, "clutch_task_timeout")
  expect_true(works(cl))
  expect_length(setdiff(pids(cl), node_pids), 1L)
})

# Process ids on host "alpha": of the proxy, of the fork server, which is its child, and of nodes.
family_there <- function() {
  x <- utils::read.table(text = on_host(hosts_there, "alpha", "ps -e -o pid= -o ppid="))
  proxy <- proxy_on("alpha")
  server <- x[x[[2L]] == proxy, 1L]
  list(proxy = proxy, server = server, nodes = x[x[[2L]] %in% server, 1L])
}

test_that("whoever is killed there, the last one to end removes the temporary folders", {
  needs_hosts()
  send <- function(signal, pids) {
    on_host(hosts_there, "alpha", paste(c("kill", signal, pids), collapse = " "))
  }
  deeds <- list(
    "a fork server that does not end is killed" = function(p) {
      send("-STOP", p$server)
      send("-KILL", p$nodes)
    },
    "proxy" = function(p) send("-KILL", p$proxy),
    "fork server" = function(p) send("-KILL", p$server),
    # in this order: a fork server whose proxy was killed first may have killed the nodes
    "both" = function(p) send("-KILL", c(p$server, p$proxy))
  )
  for (what in names(deeds)) for (strategy in c("fork_server", "spawn")) {
    cl <- make_cluster(on_hosts("alpha"), strategy)
    cluster_map(cl, 1:2, function(i) tempfile()) # a node has its own folder then
    p <- family_there()
    expect_identical(lengths(p), c(proxy = 1L, server = 1L, nodes = 2L))
    expect_gt(length(files_on(hosts_there, "alpha")), 0L)
    deeds[[what]](p)
    stop_cluster(cl)
    expect_hosts_empty(hosts_there, "alpha")
  }
})

test_that("what tasks leave running in sessions of their own ends with their node", {
  needs("follow_parent") # as on this host
  needs_hosts()
  cl <- make_cluster(on_hosts("alpha"))
  cluster_map(cl, 1:2, function(i) system("setsid sleep 1000 > /dev/null 2>&1 &"))
  expect_true(any(grepl("sleep 1000", processes_on(hosts_there, "alpha"))))
  stop_cluster(cl)
  expect_hosts_empty(hosts_there)
})

test_that("a session that is killed leaves nothing on its hosts", {
  needs_hosts()
  s <- busy_session(hosts_there)
  tools::pskill(s$pid, 9L)
  expect_hosts_empty(hosts_there)
  expect_true(ends(s))
})

test_that("hosts that do not come: an error that names them, and nothing is left anywhere", {
  needs_hosts()
  fails <- function(..., setup_timeout = 30) {
    e <- tryCatch(make_cluster(..., setup_timeout = setup_timeout), clutch_start = identity)
    expect_s3_class(e, "clutch_start")
    expect_hosts_empty(hosts_there)
    e
  }
  e <- fails(on_hosts(c("alpha", "nowhere.invalid")))
  expect_identical(e$hosts, "nowhere.invalid")
  # R on the other host begins only when ssh, which brought its settings, has been killed
  fails(on_hosts(c("alpha", "nowhere.invalid"), setup = "sleep 2"), setup_timeout = 90)
  expect_match(conditionMessage(e), "1 of 2 hosts could not be started; nothing was left running")
  expect_match(conditionMessage(e), "nowhere.invalid: it ended with exit status 255; it printed")
  expect_match(conditionMessage(e), "try: is that the host's name")
  e <- fails(on_hosts("alpha", rscript = "/nowhere/Rscript"))
  expect_match(conditionMessage(e), "exit status 127.*/nowhere/Rscript.*try: is R there")
  e <- fails(on_hosts("alpha", env = c(R_LIBS = "/nowhere")))
  expect_match(conditionMessage(e), "no package called.*try: install package clutch there")
  e <- fails(on_hosts("alpha", setup = "echo no room >&2; false"))
  expect_match(conditionMessage(e), "it ended with exit status 1; it printed last:\n  no room")
})

test_that("min_hosts: goes on without some, and says which and why; with too few nothing is left", {
  needs_hosts()
  three <- on_hosts(c("alpha", "nowhere.invalid", "beta"))
  w <- NULL
  cl <- withCallingHandlers(make_cluster(three, min_hosts = 2), clutch_hosts_missing = function(e) {
    w <<- e
    tryInvokeRestart("muffleWarning")
  })
  expect_identical(w$hosts, "nowhere.invalid")
  expect_match(conditionMessage(w), "1 of 3 hosts did not come, and the cluster has 4 nodes on")
  expect_match(conditionMessage(w), "nowhere.invalid: it ended with exit status 255")
  expect_identical(where(cl), rep(c("alpha", "beta"), each = 2))
  expect_identical(cluster_status(cl)$host, where(cl))
  expect_identical(cluster_map_dbl(cl, 1:100, function(i) i), as.numeric(1:100))
  status <- cluster_hosts(cl)
  expect_identical(status$host, c("alpha", "nowhere.invalid", "beta"))
  expect_identical(status$nodes, c(2L, 0L, 2L))
  expect_identical(status$state, c("up", "ended", "up"))
  # a node is replaced on its own host
  r <- cluster_map_chr(cl, 1:20, function(i) {
    if (i == 3 && task_attempt() == 1) tools::pskill(Sys.getpid(), 9L)
    Sys.info()[["nodename"]]
  }, .retries = 1, .chunk = 1)
  expect_true(all(r %in% c("alpha", "beta")))
  expect_identical(where(cl), rep(c("alpha", "beta"), each = 2))
  stop_cluster(cl)
  expect_hosts_empty(hosts_there)
  e <- tryCatch(make_cluster(three, min_hosts = 3), clutch_start = identity)
  expect_identical(e$hosts, "nowhere.invalid")
  expect_hosts_empty(hosts_there)
  # where warnings are errors, one is, and nothing is left either
  old <- options(warn = 2)
  on.exit(options(old))
  expect_error(make_cluster(three, min_hosts = 2), "1 of 3 hosts did not come")
  expect_hosts_empty(hosts_there)
  expect_error(make_cluster(three, min_hosts = 4), "from 1 to 3", class = "clutch_argument")
  expect_error(make_cluster(2, min_hosts = 1), "`min_hosts` is for", class = "clutch_argument")
})

test_that("ssh carries the connection where a firewall hinders the dial back", {
  needs_hosts()
  no_dial_back(hosts_there, "alpha")
  for (tunnel in c(NA, TRUE)) {
    took <- system.time(cl <- make_cluster(on_hosts("alpha", 2, tunnel = tunnel)))[["elapsed"]]
    expect_lt(took, 10) # what does not answer is waited for at first for a second, and not for 5
    expect_identical(where(cl), c("alpha", "alpha"))
    expect_identical(cluster_map_dbl(cl, 1:10, function(i) i), as.numeric(1:10))
    stop_cluster(cl)
    expect_hosts_empty(hosts_there, "alpha")
  }
  e <- tryCatch(make_cluster(on_hosts("alpha", tunnel = FALSE), setup_timeout = 6),
                clutch_start = identity)
  expect_match(conditionMessage(e), "did not come within setup_timeout")
  expect_match(conditionMessage(e), "with `tunnel = TRUE` ssh carries the connection")
  expect_hosts_empty(hosts_there, "alpha")
})

test_that("two clusters through ssh to one host: the end of one is not that of the other", {
  needs_hosts()
  a <- make_cluster(on_hosts("alpha", 1, tunnel = TRUE))
  b <- make_cluster(on_hosts("alpha", 1, tunnel = TRUE))
  on.exit(stop_cluster(b))
  stop_cluster(a)
  expect_false(eventually(cluster_hosts(b)$state != "up", 2))
  expect_true(works(b))
})

test_that("the hosts end", {
  if (is.null(hosts_there)) skip("there were none")
  expect_true(stop_hosts(hosts_there))
})
