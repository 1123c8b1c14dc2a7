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

processes_left <- function(hosts) {
  as.character(unlist(lapply(hosts$names, function(name) processes_on(hosts, name))))
}

# On a busy machine a host may come late, and is started from the session instead.
expect_logins <- function(hosts, here, there) {
  found <- logins(hosts)
  expect_gte(found[["here"]], here)
  expect_lte(found[["here"]], here + 2L)
  expect_identical(sum(found), here + there)
}

# where many R end at the same time, some leave their temporary folders
is_empty <- function(hosts) eventually(!length(processes_left(hosts)))

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
  expect_true(is_empty(hosts))
  # with one host less it is no tree
  works_on(hosts, names[1:7], ssh)
  expect_logins(hosts, 10L, 5L)
  expect_true(is_empty(hosts))
  # hosts that cannot log in to each other
  own <- file.path(hosts$folder, "ssh-from-here")
  writeLines(c("#!/bin/sh", sprintf("[ \"$(hostname)\" = '%s' ] || exit 255",
                                    Sys.info()[["nodename"]]),
               sprintf("exec ssh -F %s \"$@\"", hosts$config)), own)
  Sys.chmod(own, "0755")
  works_on(hosts, names, own)
  expect_logins(hosts, 18L, 5L)
  expect_true(is_empty(hosts))
})

test_that("52 hosts are started as a tree, and a killed session leaves no process there", {
  long_test()
  hosts <- hosts_or_skip()
  on.exit(stop_hosts(hosts))
  names <- more_names(hosts, 52L)
  s <- start_script(c(
    sprintf("cl <- make_cluster(hosts(%s, 1, ssh = c('ssh', '-F', '%s')), setup_timeout = 240)",
            deparse1(names), hosts$config),
    "n <- length(unique(unlist(parallel::clusterCall(cl, Sys.getpid))))",
    "cat('ready', n > 12, length(cl), '\\n')", "cluster_map(cl, 1:52, function(i) Sys.sleep(600))"
  ))
  expect_true(said(s, "^ready TRUE 52", 250))
  expect_logins(hosts, 8L, 44L)
  tools::pskill(s$pid, 9L)
  eventually(!length(processes_left(hosts)), 60)
  expect_identical(processes_left(hosts), character())
})
