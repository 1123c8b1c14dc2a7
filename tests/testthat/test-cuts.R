# Connections to other hosts that are cut, between network namespaces: packets are dropped, or a
# link is down. By real ssh, as in test-hosts.R.
#
# CLUTCH_SEED repeats the order of the cuts; CLUTCH_EVENTS from 10000 on ('make chaos') makes many
# and long ones.

outside_checks_only()

is_chaos <- as.integer(Sys.getenv("CLUTCH_EVENTS", "300")) >= 10000L
cuts_seed <- as.integer(Sys.getenv("CLUTCH_SEED", as.character(Sys.getpid() %% 10000L)))
cut_hosts <- NULL # made by the first test that needs them, ended by the last one
needs_hosts <- function() {
  if (is.null(cut_hosts)) cut_hosts <<- hosts_or_skip(c("alpha", "beta"))
}
ssh_command <- function() c("ssh", "-F", cut_hosts$config)
on_hosts <- function(...) hosts(c("alpha", "beta"), ..., ssh = ssh_command())
with_times <- function(heartbeat, reconnect, env = parent.frame()) {
  old <- options(clutch.heartbeat = heartbeat, clutch.reconnect = reconnect)
  do.call(on.exit, list(bquote(options(.(old))), add = TRUE), envir = env)
}

# So many cuts: how long each lasts is log-uniform between these bounds, in random order.
some_cuts <- function(n, from, to) {
  set.seed(cuts_seed)
  how <- c("link", "all", if (has_packet_filter()) "packets")
  data.frame(
    pause = stats::runif(n, 0.1, 0.5), host = sample(c("alpha", "beta"), n, TRUE),
    how = rep_len(how, n), seconds = sample(exp(seq(log(from), log(to), length.out = n))),
    stringsAsFactors = FALSE
  )
}

# Each evaluation is noted on its host, in a file of the process. While there are cuts it takes a
# moment, so that the map lasts as long as they do.
noted <- function(i, folder, done) {
  con <- file(file.path(folder, paste0(Sys.info()[["nodename"]], "-", Sys.getpid())), "ab")
  on.exit(close(con))
  writeBin(i, con)
  if (!file.exists(done)) Sys.sleep(0.001)
  2 * i
}

# Maps of so many elements until all cuts were made. How many maps.
maps_during <- function(cl, cuts, elements) {
  faults <- start_cuts(cut_hosts, cuts)
  on.exit(faults$stop())
  maps <- 0
  repeat {
    folder <- tempfile("noted-")
    dir.create(folder)
    r <- cluster_map_dbl(cl, seq_len(elements), noted, folder = folder, done = faults$done)
    files <- list.files(folder, full.names = TRUE)
    evaluated <- unlist(lapply(files, function(f) readBin(f, 1L, file.size(f) / 4)))
    unlink(folder, recursive = TRUE)
    seed <- paste("CLUTCH_SEED is", cuts_seed)
    expect_identical(r, 2 * as.numeric(seq_len(elements)), info = seed)
    expect_identical(sort(evaluated), seq_len(elements), info = seed) # once each: no node has died
    # a host may be cut off for longer than a map takes
    if (max(cuts$seconds) < 30) expect_identical(length(files), length(cl), info = seed)
    maps <- maps + 1
    if (file.exists(faults$done)) break
  }
  expect_true(faults$stop())
  expect_length(readLines(faults$log), nrow(cuts))
  maps
}

test_that("connections are cut while a map runs: each element is done once, and nothing is left", {
  needs_hosts()
  with_times(0.5, 200)
  stop_cluster(make_cluster(on_hosts())) # what the first cluster leaves open for good
  invisible(gc())
  before <- open_fds()
  cl <- make_cluster(on_hosts(each = 2))
  on.exit(stop_cluster(cl), add = TRUE)
  there <- pids(cl)
  maps_during(cl, some_cuts(20, 0.1, 2), 1e5)
  # two thirds of them concern one host, and those of more than half a second are noticed
  expect_gt(sum(cluster_hosts(cl)$cuts), 4)
  if (is_chaos) {
    maps_during(cl, some_cuts(300, 0.1, 10), 1e5)
    maps_during(cl, some_cuts(5, 60, 60), 1e5)
  }
  expect_true(eventually(identical(cluster_hosts(cl)$state, c("up", "up"))))
  expect_identical(pids(cl), there)
  expect_true(works(cl))
  stop_cluster(cl)
  expect_hosts_empty(cut_hosts)
  expect_true(eventually({
    gc()
    open_fds() <= before
  }))
})

test_that("what is not begun goes to others at once", {
  needs_hosts()
  with_times(0.5, 200)
  cl <- make_cluster(on_hosts(each = 2))
  on.exit({
    make_good(cut_hosts, "beta")
    stop_cluster(cl)
  }, add = TRUE)
  cut_off(cut_hosts, "beta")
  expect_true(eventually(cluster_hosts(cl)$state[[2L]] == "cut", 10))
  where <- cluster_map_chr(cl, 1:100, function(i) Sys.info()[["nodename"]])
  expect_identical(unique(where), "alpha")
  expect_identical(collect(cluster_submit(cl, Sys.info()[["nodename"]])), "alpha")
  make_good(cut_hosts, "beta")
  expect_true(eventually(cluster_hosts(cl)$state[[2L]] == "up", 20))
  where <- cluster_map_chr(cl, 1:100, function(i) {
    Sys.sleep(0.01)
    Sys.info()[["nodename"]]
  })
  expect_setequal(where, c("alpha", "beta"))
})

test_that("after clutch.reconnect a host that is cut off is lost: its elements follow .retries", {
  needs_hosts()
  with_times(0.5, 1.5)
  cl <- make_cluster(on_hosts(each = 2))
  on.exit({
    make_good(cut_hosts, "beta")
    stop_cluster(cl)
  }, add = TRUE)
  later(0.5, cut_commands(cut_hosts, "beta", "link")[[1L]])
  r <- cluster_map_chr(cl, 1:40, function(i) {
    Sys.sleep(0.1)
    Sys.info()[["nodename"]]
  }, .chunk = 1, .retries = 1)
  # where the cut comes before anything was done there, all is done by the other
  expect_true("alpha" %in% r && all(r %in% c("alpha", "beta")))
  expect_true(eventually("ended" %in% cluster_hosts(cl)$state, 10))
  expect_match(cluster_hosts(cl)$why[[2L]], "cut off for too long")
  expect_hosts_empty(cut_hosts, "beta", 10)
  expect_identical(cluster_map_int(cl, 1:4, function(i) i), 1:4)
})

# heartbeat, reconnect: options of that session
busy_to_cut <- function(heartbeat, reconnect) {
  busy_session(cut_hosts, sprintf("clutch.heartbeat = %g, clutch.reconnect = %g", heartbeat,
                                  reconnect))
}
POLL <- 5 # seconds that these tests may take to see it

test_that("a session is killed: all of it has ended on its hosts within 2 s", {
  needs_hosts()
  s <- busy_to_cut(10, 300)
  tools::pskill(s$pid, 9L)
  expect_hosts_empty(cut_hosts, seconds = 2 + POLL)
  expect_true(ends(s))
})

test_that("hosts are cut off and the session is killed: heartbeat + reconnect + 2 s", {
  needs_hosts()
  s <- busy_to_cut(1, 2)
  cut_off(cut_hosts, "alpha", "all")
  on.exit(make_good(cut_hosts, "alpha", "all"))
  tools::pskill(s$pid, 9L)
  expect_hosts_empty(cut_hosts, seconds = 1 + 2 + 2 + POLL)
  # elsewhere than on Linux ssh does not follow its parent: it ends when its connection does
  if (!system_can("follow_parent")) make_good(cut_hosts, "alpha", "all")
  expect_true(ends(s))
})

test_that("a host that was cut off, and is refused then, knows that the session has gone", {
  needs_hosts()
  s <- busy_to_cut(0.5, 300)
  cut_off(cut_hosts, "alpha", "all")
  Sys.sleep(1.5)
  tools::pskill(s$pid, 9L)
  Sys.sleep(0.5)
  expect_gt(length(processes_on(cut_hosts, "alpha")), 2L) # it may be the network
  make_good(cut_hosts, "alpha", "all")
  # it tries again after 5 s at the most, and has 2 s to end
  expect_hosts_empty(cut_hosts, seconds = 5 + 2 + POLL)
  expect_true(ends(s))
})

test_that("the hosts end", {
  if (is.null(cut_hosts)) skip("there were none")
  expect_true(stop_hosts(cut_hosts))
})
