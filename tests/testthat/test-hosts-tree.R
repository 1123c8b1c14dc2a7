# Many hosts are started as a tree: names of hosts, several of which are the same one.

outside_checks_only()

tree_from <- function(n) {
  shared <- clutch:::the
  old <- shared$tree_from
  shared$tree_from <- n
  old
}

# `n` names for these hosts, which ssh knows.
more_names <- function(hosts, n) {
  names <- sprintf("host-%02d", seq_len(n))
  addresses <- rep(hosts$addresses, length.out = n)
  lines <- rbind(paste("Host", names), paste("  HostName", addresses))
  cat("", lines, file = hosts$config, sep = "\n", append = TRUE)
  names
}

works_on <- function(hosts, names, ssh) {
  cl <- make_cluster(hosts(names, 1, ssh = ssh))
  on.exit(stop_cluster(cl))
  where <- vapply(parallel::clusterCall(cl, Sys.info), `[[`, "", "nodename")
  expect_identical(where, rep(hosts$names, length.out = length(names)))
  expect_identical(cluster_map_dbl(cl, 1:100, function(i) i), as.numeric(1:100))
  expect_identical(cluster_hosts(cl)$state, rep("up", length(names)))
}

expect_logins <- function(hosts, here, there) {
  expect_identical(logins(hosts), c(here = here, there = there))
}

test_that("of eight hosts three are started here, and these start the others", {
  hosts <- hosts_or_skip(c("alpha", "beta"))
  on.exit(stop_hosts(hosts))
  old <- tree_from(8L)
  on.exit(tree_from(old), add = TRUE)
  names <- more_names(hosts, 8L)
  ssh <- c("ssh", "-F", hosts$config)
  plan <- capture.output(launch_plan(hosts(names, 1, ssh = ssh)))
  expect_match(plan, "as a tree: 3 of them are started here", fixed = TRUE, all = FALSE)
  works_on(hosts, names, ssh)
  expect_logins(hosts, 3L, 5L)
  expect_hosts_empty(hosts)
  # with one host less it is no tree
  works_on(hosts, names[1:7], ssh)
  expect_logins(hosts, 10L, 5L)
  expect_hosts_empty(hosts)
  # hosts that cannot log in to each other
  own <- file.path(hosts$folder, "ssh-from-here")
  writeLines(c("#!/bin/sh", sprintf("[ \"$(hostname)\" = '%s' ] || exit 255",
                                    Sys.info()[["nodename"]]),
               sprintf("exec ssh -F %s \"$@\"", hosts$config)), own)
  Sys.chmod(own, "0755")
  works_on(hosts, names, own)
  expect_logins(hosts, 18L, 5L)
  expect_hosts_empty(hosts)
})

# All is given up when a host of the second level has been logged in to. On alpha the profile of the
# R there does not end. On beta it ends when nothing listens any more: that R would go on to look
# for the session until `setup_timeout`.
test_that("a tree whose start fails leaves nothing", {
  needs("follow_parent")
  hosts <- hosts_or_skip(c("alpha", "beta"))
  on.exit(stop_hosts(hosts))
  old <- tree_from(8L)
  on.exit(tree_from(old), add = TRUE)
  names <- c(more_names(hosts, 7L), "failing")
  wait <- file.path(hosts$folder, "wait")
  logs <- paste0(hosts$folder, "/", hosts$names, ".log", collapse = " ")
  until <- sprintf("until grep -q 'Accepted.* from %s[.]1[0-9] ' %s; do", hosts$net, logs)
  writeLines(c("#!/bin/sh", until, "  sleep 0.1", "done"), wait)
  Sys.chmod(wait, "0755")
  cat("Host failing", paste("  ProxyCommand", wait), file = hosts$config, sep = "\n", append = TRUE)
  profile <- file.path(hosts$folder, "profile")
  first <- sprintf("if (!startsWith(Sys.getenv('SSH_CONNECTION'), '%s '))", hosts$here)
  writeLines(paste(first, "Sys.sleep(if (Sys.info()[['nodename']] == 'alpha') 1000 else 2)"),
             profile)
  x <- hosts(names[c(8, 1:7)], 1, ssh = c("ssh", "-F", hosts$config),
             env = c(R_PROFILE_USER = profile))
  e <- tryCatch(make_cluster(x, setup_timeout = 120), clutch_start = identity)
  expect_identical(e$hosts, "failing")
  expect_gt(logins(hosts)[["there"]], 0L)
  expect_hosts_empty(hosts, seconds = 60)
})

test_that("many hosts are started as a tree, and a killed session leaves nothing there", {
  long_test()
  hosts <- hosts_or_skip()
  on.exit(stop_hosts(hosts))
  # as many as make a tree of themselves take a minute of processor time: in 'make chaos'
  is_chaos <- as.integer(Sys.getenv("CLUTCH_EVENTS", "300")) >= 10000L
  n <- if (is_chaos) 52L else 16L
  names <- more_names(hosts, n)
  s <- start_script(c(
    if (!is_chaos) c("shared <- clutch:::the", "shared$tree_from <- 16L"),
    sprintf("cl <- make_cluster(hosts(%s, 1, ssh = c('ssh', '-F', '%s')), setup_timeout = 240)",
            deparse1(names), hosts$config),
    "n <- length(unique(unlist(parallel::clusterCall(cl, Sys.getpid))))",
    sprintf("cat('ready', n >= %d, length(cl), '\\n')", n %/% length(hosts$names)),
    sprintf("cluster_map(cl, 1:%d, function(i) Sys.sleep(600))", n)
  ))
  expect_true(said(s, paste("^ready TRUE", n), 250))
  first <- ceiling(sqrt(n))
  expect_logins(hosts, as.integer(first), as.integer(n - first))
  tools::pskill(s$pid, 9L)
  expect_hosts_empty(hosts, seconds = 60)
})
