# make_cluster() with a name of a host for each node, as base R takes it.

outside_checks_only()

hosts <- NULL
needs_hosts <- function() {
  if (is.null(hosts)) hosts <<- hosts_or_skip(c("alpha", "beta"))
}
# Connections that leave a host, but for those of ssh.
plain_connections <- function(name) {
  of_others <- "ss -Htn state established '( not sport = :22 )' dst 198.18.0.0/15"
  as.character(on_host(hosts, name, of_others))
}
names_of_nodes <- function(cl) {
  vapply(parallel::clusterCall(cl, Sys.info), `[[`, "", "nodename")
}

test_that("names of hosts are hosts(): a fork server on each, and the nodes in their order", {
  needs_hosts()
  before <- logins(hosts)[["here"]]
  cl <- make_cluster(c("alpha", "beta", "alpha"), rshcmd = hosts$ssh)
  on.exit(stop_cluster(cl))
  expect_identical(logins(hosts)[["here"]] - before, 2L)
  expect_identical(names_of_nodes(cl), c("alpha", "beta", "alpha"))
  expect_identical(vapply(cl, function(nd) nd$host, ""), c("alpha", "beta", "alpha"))
  expect_identical(cluster_hosts(cl)$nodes, c(2L, 1L))
  expect_identical(cluster_map_dbl(cl, 1:50, function(i) i^2), (1:50)^2)
  expect_interruptible(cl)
  # this package is found where it is here, and R, too
  expect_identical(unlist(unique(parallel::clusterCall(cl, R.home))), R.home())
  # a node that dies is replaced on its host, and no other one
  where <- cluster_map_chr(cl, 1:6, function(i) {
    if (i == 2L && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9L)
    Sys.info()[["nodename"]]
  }, .retries = 1, .chunk = 1)
  expect_true(all(where %in% hosts$names))
  expect_identical(names_of_nodes(cl), c("alpha", "beta", "alpha"))
  stop_cluster(cl)
  expect_hosts_empty(hosts)
})

test_that("hosts that do not come: the error has the numbers of their nodes", {
  needs_hosts()
  e <- tryCatch(make_cluster(c("nowhere", "alpha", "nowhere"), rshcmd = hosts$ssh),
                clutch_start = identity)
  expect_identical(e$hosts, "nowhere")
  expect_identical(e$nodes, c(1L, 3L))
  expect_warning(
    cl <- make_cluster(c("alpha", "nowhere", "beta", "alpha"), rshcmd = hosts$ssh, min_hosts = 2),
    class = "clutch_hosts_missing"
  )
  expect_identical(names_of_nodes(cl), c("alpha", "beta", "alpha"))
  expect_identical(vapply(cl, function(nd) nd$host, ""), c("alpha", "beta", "alpha"))
  stop_cluster(cl)
  e <- tryCatch(make_cluster("alpha", rshcmd = hosts$ssh, rscript = "/nowhere/Rscript"),
                clutch_start = identity)
  expect_match(conditionMessage(e), "is R there\\?.*with `homogeneous = FALSE`")
  expect_hosts_empty(hosts)
})

test_that("ssh carries the connections of other nodes, each its own", {
  needs_hosts()
  old <- options(clutch.task_grace = 0.3)
  on.exit(options(old))
  for (kind in c("clutch", "psock")) {
    cl <- make_cluster(c("alpha", "alpha", "beta"), "parallel", rshcmd = hosts$ssh, node = kind)
    on.exit(stop_cluster(cl), add = TRUE)
    expect_identical(names_of_nodes(cl), c("alpha", "alpha", "beta"), info = kind)
    # nothing but ssh has a connection that leaves its host
    for (name in hosts$names) expect_identical(plain_connections(name), character(), info = kind)
    # the end of one is not that of the other
    first <- parallel::clusterCall(cl[1L], Sys.getpid)[[1L]]
    on_host(hosts, "alpha", paste("kill -9", first))
    expect_error(parallel::clusterCall(cl[1L], Sys.getpid), class = "clutch_node_died")
    expect_identical(names_of_nodes(cl[2:3]), c("alpha", "beta"), info = kind)
    if (kind == "clutch") { # it has a successor, by a tunnel of its own
      expect_true(eventually({
        cluster_walk(cl, 1:6, identity)
        identical(cluster_status(cl)$state, rep("idle", 3L))
      }, 30))
      expect_identical(names_of_nodes(cl), c("alpha", "alpha", "beta"))
    }
    stop_cluster(cl)
  }
  # nobody has removed the folders of those that were killed
  unlink(file.path(hosts$folder, "alpha", "tmp", "*"), recursive = TRUE)
  expect_hosts_empty(hosts)
})

test_that("nodes here and elsewhere: what ssh carries ends with a session that is killed", {
  needs_hosts()
  needs("follow_peer")
  begun <- tempfile("begun-")
  dir.create(begun)
  on.exit(unlink(begun, recursive = TRUE))
  s <- start_script(c(
    sprintf("cl <- make_cluster(c('localhost', 'alpha', 'alpha'), rshcmd = '%s')", hosts$ssh),
    "cluster_map(cl, 1:3, function(i, folder) {",
    "  file.create(file.path(folder, paste0(Sys.info()[['nodename']], i)))", "  repeat NULL",
    sprintf("}, folder = '%s', .chunk = 1)", begun)
  ))
  expect_true(eventually(length(list.files(begun)) == 3L, 60),
              info = paste(lines_of(s), collapse = "\n"))
  expect_identical(sum(grepl("^alpha", list.files(begun))), 2L)
  tools::pskill(s$pid, 9L)
  # it takes 2 s; the rest is for looking
  expect_hosts_empty(hosts, seconds = 2 + 5)
  expect_true(ends(s))
})

test_that("a connection that ssh may not carry is an error that says so", {
  needs_hosts()
  config <- file.path(hosts$folder, "alpha.conf")
  writeLines(c(readLines(config), "AllowTcpForwarding no"), own <- sub("alpha", "strict", config))
  lines <- sub("^ListenAddress.*", "ListenAddress 127.0.0.1:2200", readLines(own))
  writeLines(lines, own)
  daemon <- "env -i PATH=$PATH $(PATH=$PATH:/usr/sbin command -v sshd) -f %s"
  on_host(hosts, "alpha", sprintf(daemon, own))
  key <- strsplit(readLines(file.path(hosts$folder, "alpha.key.pub")), " ")[[1L]][1:2]
  cat("[127.0.0.1]:2200", key, "\n", file = file.path(hosts$folder, "known"), append = TRUE)
  cat("Host strict\n  HostName 127.0.0.1\n  Port 2200\n  ProxyJump alpha\n  HostKeyAlias",
      hosts$addresses[["alpha"]], "\n", file = hosts$config, append = TRUE)
  e <- tryCatch(make_cluster("strict", rshcmd = hosts$ssh, node = "psock", setup_timeout = 30),
                clutch_start = identity)
  expect_match(conditionMessage(e), "port forwarding failed.*try:.*AllowTcpForwarding")
  expect_identical(length(grep("workRSOCK", processes_on(hosts, "alpha"))), 0L)
})

test_that("which names of hosts are hosts(), and with which arguments", {
  plan <- function(...) clutch::launch_plan(c("far", "near", "far"), ...)
  by_hosts <- function(...) grepl("^2 hosts by ssh", plan(...)[[1L]])
  expect_true(by_hosts())
  expect_true(by_hosts(strategy = "spawn"))
  expect_true(by_hosts(tls = TRUE, master = "here", port = 11000, homogeneous = FALSE))
  expect_false(by_hosts(strategy = "parallel"))
  expect_false(by_hosts(timeout = 60))
  expect_false(by_hosts(master = "localhost"))
  expect_false(by_hosts(tls = FALSE))
  expect_false(any(grepl("by ssh", launch_plan(c("far", "localhost")))))
  expect_false(any(grepl("by ssh", launch_plan(list("far", list(host = "far", renice = 1L))))))
  text <- paste(plan(rshcmd = "/usr/bin/ssh -q", user = "me", rscript = "/r/Rscript",
                     rscript_args = "--no-environ"), collapse = "\n")
  expect_match(text, "/usr/bin/ssh -q -l me -T -R .* near .*/r/Rscript .*--no-environ .*host_main")
})

test_that("without ssh what is not encrypted has to be allowed, and says what it means", {
  not_encrypted <- function(...) {
    expect_error(launch_plan("far", ...), "would not be encrypted", class = "clutch_argument")
  }
  not_encrypted("parallel", rshcmd = "rsh")
  not_encrypted(rshcmd = "rsh", node = "psock")
  not_encrypted(manual = TRUE)
  needs_hosts()
  for (kind in c("clutch", "psock")) {
    expect_message(
      cl <- make_cluster("alpha", rshcmd = hosts$ssh, master = hosts$here, node = kind,
                         tls = FALSE),
      "tls = FALSE: who is between"
    )
    on.exit(stop_cluster(cl))
    expect_identical(names_of_nodes(cl), "alpha")
    expect_match(plain_connections("alpha"), hosts$here, fixed = TRUE)
    stop_cluster(cl)
  }
  expect_hosts_empty(hosts)
})

test_that("the hosts end", {
  if (is.null(hosts)) skip("there were none")
  expect_true(stop_hosts(hosts))
})
