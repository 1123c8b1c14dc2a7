# What a start on another host says when it fails: the host, what was run, what that printed, and
# what to try.

node <- list(host = "far", rshcmd = "ssh -p 7", master = "here")
ended <- function(code, by_signal = FALSE) list(state = "dead", by_signal = by_signal, code = code)
advice <- function(i, printed, port = NULL) clutch:::advice_for(node, i, printed, port)

test_that("what a command printed, and how it ended, lead to what can be tried", {
  unknown <- "ssh: Could not resolve hostname far: Name or service not known"
  expect_match(advice(ended(255L), unknown), "the host's name\\? `ssh -p 7 far true`")
  expect_match(advice(ended(255L), "me@far: Permission denied (publickey)."), "without a password")
  expect_match(advice(ended(255L), "Host key verification failed."), "accept the host's key")
  changed <- c("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @",
               "Host key verification failed.")
  expect_match(advice(ended(255L), changed), "ssh-keygen -R")
  expect_match(advice(ended(255L), "connect to host far port 22: Connection timed out"), "firewall")
  expect_match(advice(ended(255L), "anything"), "without a question")
  no_room <- "/r/tools.so: failed to map segment from shared object"
  expect_match(advice(ended(1L), no_room), "is there memory left")
  not_allowed <- advice(ended(1L), paste0(no_room, ": Operation not permitted"))
  expect_false(any(grepl("memory", not_allowed)))
  expect_match(advice(ended(127L), "sh: Rscript: not found"), "is R there")
  loader <- "R: error while loading shared libraries: libc.so.6: failed to map segment from shared"
  loader <- paste(loader, "object")
  expect_match(advice(ended(127L), loader), "is there memory left")
  no_package <- "there is no package called \u2018clutch\u2019"
  expect_match(advice(ended(1L), no_package), "install package")
  cannot <- "Fatal error: cannot open file '/lib/clutch/node/join.R': No such file or directory"
  expect_match(advice(ended(2L), cannot), "homogeneous")
  late <- "node 1 did not join the cluster at here, port 7: connection refused"
  expect_match(advice(ended(1L), late, 7L), "port 7 through .*Without `tls = FALSE`")
  expect_match(advice(list(state = "starting", pid = NA), NULL, 7L), "port 7")
})

test_that("nothing is advised where nothing is known", {
  expect_null(advice(ended(1L), "Error: oops"))
  expect_null(advice(ended(9L, TRUE), character()))
  expect_null(advice(list(state = "starting", pid = 12L), NULL))
})

# ---- with real daemons ----

hosts <- NULL # made by the first test that needs them, ended by the last one
needs_hosts <- function() {
  if (is.null(hosts)) {
    hosts <<- hosts_or_skip(c("alpha", "beta"), env = list(beta = c(R_LIBS = "/nowhere")))
  }
}

failed_start <- function(spec, ..., ssh = hosts$ssh, master = hosts$here, setup_timeout = 30) {
  began <- proc.time()[[3L]]
  e <- tryCatch(
    suppressMessages(make_cluster(spec, rshcmd = ssh, master = master, tls = FALSE,
                                  setup_timeout = setup_timeout, ...)),
    clutch_start = identity
  )
  expect_s3_class(e, "clutch_start")
  expect_lt(proc.time()[[3L]] - began, setup_timeout + 5)
  conditionMessage(e)
}

test_that("a host that is unknown, or refuses the key, or is unknown to the user", {
  needs_hosts()
  text <- failed_start("nowhere.invalid")
  expect_match(text, "node 1 on nowhere.invalid: it ended with exit status 255; it printed last:")
  expect_match(text, "ssh: Could not resolve hostname")
  expect_match(text, "what was run for nowhere.invalid: \"?'?ssh'?")
  expect_match(text, "try: is that the host's name\\? `ssh -F [^ ]+ nowhere.invalid true`")

  config <- file.path(hosts$folder, "other-key")
  key <- file.path(hosts$folder, "other.key")
  system2("ssh-keygen", c("-q", "-t", "ed25519", "-N", "''", "-f", key))
  lines <- readLines(hosts$config)
  writeLines(sub("user\\.key", "other.key", lines), config)
  text <- failed_start("alpha", ssh = paste("ssh -F", config))
  expect_match(text, "node 1 on alpha: it ended with exit status 255")
  expect_match(text, "Permission denied \\(publickey.*try: .*without a password")

  writeLines(sub("UserKnownHostsFile .*", "UserKnownHostsFile /dev/null", lines), config)
  text <- failed_start("alpha", ssh = paste("ssh -F", config))
  expect_match(text, "Host key verification failed.*try: log in once with")
  expect_identical(processes_on(hosts, "alpha"), character())
})

test_that("R or this package is not there", {
  needs_hosts()
  text <- failed_start("alpha", homogeneous = FALSE, rscript = "/nowhere/Rscript")
  expect_match(text, "exit status 127; it printed last:.*/nowhere/Rscript.*try: is R there")
  # the node on the other host looks for the session until setup_timeout is over
  text <- failed_start(c("alpha", "beta"), homogeneous = FALSE, setup_timeout = 10)
  expect_match(text, "1 of 2 nodes could not be started; nothing was left running")
  expect_match(text, "no package called.*what was run for beta.*try: install package clutch there")
  for (name in hosts$names) expect_true(eventually(!length(processes_on(hosts, name))))
  expect_true(eventually(!length(files_on(hosts, "alpha"))))
})

test_that("a firewall hinders the dial back: what is advised works", {
  needs_hosts()
  no_dial_back(hosts, "alpha")
  port <- dead_port()
  text <- failed_start("alpha", port = port, setup_timeout = 5)
  expect_match(text, "did not arrive within 5 seconds|did not join the cluster")
  expect_match(text, "Without `tls = FALSE` ssh carries the connection", fixed = TRUE)
  expect_true(eventually(!length(processes_on(hosts, "alpha"))))
  own <- sprintf("%s -R %d:localhost:%d", hosts$ssh, port, port)
  for (ssh in c(own, hosts$ssh)) { # by the user's own means, or as advised
    master <- if (ssh == own) "localhost" else hosts$here
    cl <- make_cluster("alpha", "parallel", master = master, port = port, rshcmd = ssh)
    on.exit(stop_cluster(cl))
    expect_identical(cluster_map_dbl(cl, 1:4, function(i) i^2), (1:4)^2)
    where <- parallel::clusterCall(cl, function() Sys.info()[["nodename"]])
    expect_identical(where, list("alpha"))
    stop_cluster(cl)
  }
})

test_that("the hosts end", {
  if (is.null(hosts)) skip("there were none")
  expect_true(stop_hosts(hosts))
})
