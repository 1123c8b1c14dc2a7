# Nodes behind a real ssh: a daemon of our own, on a free port of the loopback, with its own keys.

outside_checks_only()

# list(config, stop()), or NULL where there is no sshd.
own_sshd <- function() {
  sshd <- Sys.which("sshd")
  if (!nzchar(sshd) && file.exists("/usr/sbin/sshd")) sshd <- "/usr/sbin/sshd"
  if (!nzchar(sshd) || !nzchar(Sys.which("ssh")) || !nzchar(Sys.which("ssh-keygen"))) return(NULL)
  dir <- tempfile("ssh-")
  dir.create(dir, mode = "0700")
  f <- function(name) file.path(dir, name)
  for (k in c("host", "user")) {
    system2("ssh-keygen", c("-q", "-t", "ed25519", "-N", "''", "-f", f(k)))
  }
  file.copy(f("user.pub"), f("keys"))
  Sys.chmod(f("keys"), "0600")
  if (Sys.info()[["effective_user"]] == "root") dir.create("/run/sshd", showWarnings = FALSE)
  pid <- NA_integer_
  for (k in 1:5) { # somebody else may take the port that was free
    port <- dead_port()
    writeLines(c(sprintf("Port %d", port), "ListenAddress 127.0.0.1", paste("HostKey", f("host")),
                 paste("AuthorizedKeysFile", f("keys")),
                 "StrictModes no", "UsePAM no", "PasswordAuthentication no",
                 paste("PidFile", f("pid"))), f("sshd_config"))
    system2(sshd, c("-f", f("sshd_config"), "-E", f("log")))
    # the file is there before its text is
    written <- function() {
      if (file.exists(f("pid"))) as.integer(readLines(f("pid"), warn = FALSE)) else integer()
    }
    if (eventually(length(written()) == 1L && socket_probe("127.0.0.1", port)[[1L]], 5)) {
      pid <- written()
      break
    }
  }
  if (is.na(pid)) return(NULL)
  writeLines(c("Host far*", "HostName 127.0.0.1", sprintf("Port %d", port),
               paste("IdentityFile", f("user")), "IdentitiesOnly yes",
               "StrictHostKeyChecking no", "UserKnownHostsFile /dev/null", "LogLevel ERROR",
               "BatchMode yes",
               paste("User", Sys.info()[["effective_user"]])), f("config"))
  ok <- suppressWarnings(system2("ssh", c("-F", f("config"), "far1", "true"), stdout = FALSE,
                                 stderr = FALSE, timeout = 20)) == 0L
  stop <- function() {
    tools::pskill(pid)
    unlink(dir, recursive = TRUE)
  }
  if (!ok) {
    stop()
    return(NULL)
  }
  list(config = f("config"), stop = stop)
}

test_that("nodes behind ssh arrive, compute, and end with the cluster", {
  linux_only()
  s <- own_sshd()
  if (is.null(s)) skip("no sshd can be run here")
  on.exit(s$stop())
  ssh <- paste("ssh -F", s$config)
  cl <- make_cluster(c("far1", "far2", "localhost"), master = "127.0.0.1", rshcmd = ssh)
  expect_identical(vapply(cl, function(nd) nd$host, ""), c("far1", "far2", "localhost"))
  expect_identical(parallel::parSapply(cl, 1:6, function(i) i^2), (1:6)^2)
  p <- unlist(parallel::clusterCall(cl, Sys.getpid))
  expect_true(all(alive(p)))
  # the secret came on standard input: neither command line nor environment has it
  for (file in c("cmdline", "environ")) {
    bytes <- readBin(file.path("/proc", p[[1L]], file), "raw", 1e6)
    expect_false(any(grepl("[0-9a-f]{64}", strsplit(rawToChar(bytes[bytes != 0]), "\n")[[1L]])))
  }
  expect_true(nzchar(unlist(parallel::clusterCall(cl[1L], Sys.getenv, "SSH_CONNECTION"))))
  stop_cluster(cl)
  expect_true(eventually(!any(alive(p))))
})

test_that("a killed node behind ssh is an error at once, and a killed session takes it along", {
  linux_only()
  s <- own_sshd()
  if (is.null(s)) skip("no sshd can be run here")
  on.exit(s$stop())
  ssh <- paste("ssh -F", s$config)
  cl <- make_cluster("far1", master = "127.0.0.1", rshcmd = ssh)
  p <- unlist(parallel::clusterCall(cl, Sys.getpid))
  its_folder <- unlist(parallel::clusterCall(cl, tempdir)) # nobody removes that of a killed R
  on.exit(unlink(its_folder, recursive = TRUE), add = TRUE)
  tools::pskill(p, 9L)
  expect_error(parallel::clusterCall(cl, Sys.sleep, 20), class = "clutch_node_died")
  stop_cluster(cl)
  script <- start_script(c(sprintf("cl <- make_cluster('far1', master = '127.0.0.1', rshcmd = %s)",
                                   deparse1(ssh)),
                           "pid <- unlist(parallel::clusterCall(cl, Sys.getpid))",
                           "cat('node=', pid, '\\n', sep = '')",
                           "cat('ready\\n')", "Sys.sleep(100)"))
  expect_true(said(script, "^ready"))
  node <- as.integer(value_of(script, "node"))
  expect_true(alive(node))
  tools::pskill(script$pid, 9L)
  expect_true(eventually(!alive(node)))
})

test_that("a host that ssh does not reach is an error that says so", {
  linux_only()
  s <- own_sshd()
  if (is.null(s)) skip("no sshd can be run here")
  on.exit(s$stop())
  e <- tryCatch(
    make_cluster("nosuchalias.invalid", master = "127.0.0.1", rshcmd = paste("ssh -F", s$config),
                 setup_timeout = 30), error = identity
  )
  expect_s3_class(e, "clutch_start")
  expect_match(conditionMessage(e), "node 1 on nosuchalias.invalid.*exit status 255")
})

# ---- maps and tasks on nodes of another host ----

# What an attempt leaves, that is processes and temporary folders on the other host, is known by
# what nodes say of themselves.
far_cluster <- function(s, hosts = c("far1", "far2")) {
  make_cluster(hosts, master = "127.0.0.1", rshcmd = paste("ssh -F", s$config))
}
traces_of <- function(cl) parallel::clusterCall(cl, function() c(Sys.getpid(), tempdir()))
nothing_left_of <- function(traces) {
  eventually(!any(alive(as.integer(vapply(traces, `[[`, "", 1L)))) && !any(file.exists(vapply(
    traces, `[[`, "", 2L
  ))))
}

test_that("maps and tasks behind ssh: values, random numbers, output, errors, replacements", {
  linux_only()
  s <- own_sshd()
  if (is.null(s)) skip("no sshd can be run here")
  on.exit(s$stop())
  cl <- far_cluster(s)
  cluster_setup(cl, ready <- 17)
  left <- traces_of(cl)
  expect_identical(cluster_map_dbl(cl, 1:2000, function(i, p) i^p + ready, p = 2, .globals = FALSE),
                   (1:2000)^2 + 17)
  near <- make_cluster(2)
  draw <- function(i) rnorm(2)
  expect_identical(cluster_map(cl, 1:50, draw, .seed = 42),
                   cluster_map(near, 1:50, draw, .seed = 42))
  stop_cluster(near)
  seen <- character()
  out <- capture.output(withCallingHandlers(r <- cluster_map(cl, 1:4, function(i) {
    if (i == 1) Sys.sleep(0.3)
    cat("out", i, "\n")
    message("msg ", i)
    i
  }, .chunk = 1), message = function(m) {
    seen <<- c(seen, conditionMessage(m))
    invokeRestart("muffleMessage")
  }))
  expect_identical(r, as.list(1:4))
  expect_identical(out, sprintf("out %d ", 1:4))
  expect_identical(seen, sprintf("msg %d\n", 1:4))
  e <- tryCatch(cluster_map(cl, 1:3, function(i) if (i == 2) stop("oops") else i),
                clutch_task_error = identity)
  expect_identical(e$element, 2)
  expect_match(conditionMessage(e), "oops")
  expect_identical(collect_all(lapply(1:6, function(i) cluster_submit(cl, i^2))), as.list((1:6)^2))

  # a node that dies is started again over there, and prepared; its element is tried again
  r <- cluster_map(cl, 1:6, function(i) {
    if (i == 2 && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9L)
    c(i, clutch::task_attempt(), ready, nzchar(Sys.getenv("SSH_CONNECTION")))
  }, .retries = 1, .globals = FALSE)
  expect_identical(vapply(r, `[[`, 1, 1L), as.numeric(1:6))
  expect_identical(r[[2L]][[2L]], 2)
  # what was with a node on another host counts as begun when that dies
  expect_true(all(vapply(r, `[[`, 1, 2L) <= 2))
  expect_true(all(vapply(r, function(x) x[[3L]] == 17 && x[[4L]] == 1, NA)))
  killed <- left
  # nobody removes that of a killed R
  on.exit(unlink(vapply(killed, `[[`, "", 2L), recursive = TRUE), add = TRUE)
  # the successor may take longer than the map has waited for it
  expect_true(eventually({
    cluster_walk(cl, 1:2, identity)
    identical(cluster_status(cl)$state, c("idle", "idle"))
  }))
  left <- traces_of(cl)
  expect_length(setdiff(lapply(left, `[[`, 1L), lapply(killed, `[[`, 1L)), 1L)
  e <- tryCatch(cluster_map(cl, 1:2, function(i) if (i == 2) quit("no", 3) else i),
                clutch_task_died = identity)
  expect_identical(e$status, 3L)
  cluster_walk(cl, 1:2, identity)
  left <- c(left, traces_of(cl))
  stop_cluster(cl)
  expect_true(nothing_left_of(left))
})

test_that("a task behind ssh that is late or cancelled costs its node, which ends there", {
  linux_only()
  needs("follow_peer")
  s <- own_sshd()
  if (is.null(s)) skip("no sshd can be run here")
  old <- options(clutch.task_grace = 0.3, clutch.cancel_grace = 0.3)
  on.exit({
    options(old)
    s$stop()
  })
  cl <- far_cluster(s)
  before <- traces_of(cl)
  expect_warning(r <- cluster_map(cl, 1:6, function(i) {
    if (i == 2) repeat {}
    i
  }, .timeout = 1, .on_error = "continue", .chunk = 1))
  expect_s3_class(r[[2L]], "clutch_task_timeout")
  fine <- vapply(r[-2L], is.integer, NA)
  expect_true(all(fine))
  # where ssh takes long, the node comes with this only, and a warning says so
  after <- suppressWarnings(traces_of(cl), "clutch_node_replaced")
  replaced <- before[!vapply(before, `[[`, "", 1L) %in% vapply(after, `[[`, "", 1L)]
  expect_length(replaced, 1L)
  expect_true(nothing_left_of(replaced))
  # cancelled, then maps: they do with the other node until the grace is over and there is a new one
  t <- cluster_submit(cl, repeat {})
  expect_false(resolved(t))
  expect_true(cancel(t))
  expect_error(collect(t), class = "clutch_task_cancelled")
  expect_identical(cluster_map(cl, 1:6, identity), as.list(1:6))
  expect_true(eventually({
    cluster_walk(cl, 1:2, identity)
    identical(cluster_status(cl)$state, c("idle", "idle"))
  }))
  stop_cluster(cl)
  expect_true(nothing_left_of(c(before, after)))
  # cancelled, then a call: the node is replaced by that; what waited there is done by the new one
  one <- far_cluster(s, "far1")
  before <- traces_of(one)
  t <- cluster_submit(one, repeat {})
  behind <- cluster_submit(one, 1)
  cancel(t)
  expect_warning(expect_true(works(one)), class = "clutch_node_replaced")
  expect_identical(collect(behind), 1)
  expect_identical(cluster_map(one, 1:3, identity), as.list(1:3))
  # stopped in the middle of a task
  t <- cluster_submit(one, repeat {})
  after <- cluster_status(one)$pid
  stop_cluster(one)
  expect_true(nothing_left_of(before))
  expect_true(eventually(!any(alive(after))))
})

test_that("Ctrl-C in a map behind ssh leaves a working cluster, a killed session leaves nothing", {
  linux_only()
  needs("follow_peer")
  s <- own_sshd()
  if (is.null(s)) skip("no sshd can be run here")
  on.exit(s$stop())
  script <- start_script(fixture = c("interrupt-in", "ssh-interrupts"),
                         rshcmd = paste("ssh -F", s$config))
  expect_done(script)
  p <- as.integer(strsplit(trimws(value_of(script, "pids")), " ")[[1L]])
  expect_true(eventually(sum(alive(p)) == 2L)) # those that were replaced have ended
  tools::pskill(script$pid, 9L)
  expect_true(eventually(!any(alive(p))))
  expect_true(ends(script))
})
