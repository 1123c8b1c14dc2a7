# Clusters over TCP, on loopback addresses only.

outside_checks_only()

over_tcp <- function(n, strategy = "parallel", ...) make_cluster(n, strategy = strategy, ...)

# What test-parallel.R asks of every cluster.
for (tcp_strategy in c("parallel", "sequential")) local({
  s <- tcp_strategy
  source(test_path("test-parallel.R"),
         local = list2env(list(new_cluster = function(n) over_tcp(n, s)), parent = environment()))
})

test_that("a cluster over TCP starts, computes, prints and stops, and leaves nothing", {
  linux_only()
  stop_cluster(over_tcp(1))
  invisible(gc())
  before <- open_fds()
  handles <- .Call(clutch:::ffi_live_handles)
  for (s in c("parallel", "sequential")) {
    cl <- over_tcp(3, s)
    expect_s3_class(cl, c("clutch_cluster", "cluster"), exact = TRUE)
    expect_identical(parallel::parSapply(cl, 1:10, function(i) i^2), (1:10)^2)
    p <- pids(cl)
    expect_identical(unlist(parallel::clusterCall(cl, Sys.getpid)), p)
    expect_output(print(cl), sprintf("strategy \"%s\"", s))
    expect_output(print(cl[[2L]]), paste("pid", p[[2L]]))
    expect_identical(cluster_status(cl)$state, rep("idle", 3))
    if (system_can("proc")) expect_false(anyNA(cluster_status(cl)$memory))
    tmp <- unlist(parallel::clusterCall(cl, tempdir))
    expect_identical(anyDuplicated(c(tmp, tempdir())), 0L)
    x <- 10
    cluster_export(cl, "x", environment())
    expect_identical(parallel::clusterEvalQ(cl, x), list(10, 10, 10))
    rnd <- unlist(parallel::clusterCall(cl, stats::runif, 1))
    expect_identical(anyDuplicated(rnd), 0L)
    stop_cluster(cl)
    expect_false(any(alive(p)))
    expect_false(any(dir.exists(dirname(tmp))))
    expect_identical(cluster_status(cl)$state, rep("stopped", 3))
    expect_error(parallel::clusterCall(cl, identity, 1), class = "clutch_stopped")
    rm(cl)
  }
  invisible(gc())
  expect_identical(left_by_nodes(), character())
  expect_identical(open_fds(), before)
  expect_identical(.Call(clutch:::ffi_live_handles), handles)
})

test_that("nodes over IPv6, and over both families", {
  if (!has_ipv6()) skip("no IPv6 here")
  for (hosts in list(c("::1", "::1"), c("::1", "127.0.0.1"))) {
    cl <- make_cluster(hosts, "parallel")
    expect_identical(vapply(cl, function(nd) nd$host, ""), hosts)
    expect_identical(parallel::parSapply(cl, 1:4, function(i) i^2), (1:4)^2)
    stop_cluster(cl)
  }
  cl <- make_cluster(1, "sequential", master = "::1")
  expect_true(works(cl))
  stop_cluster(cl)
  # one listener for nodes that know this machine by different addresses
  cl <- make_cluster(list(list(host = "localhost", master = "::1"),
                          list(host = "localhost", master = "127.0.0.1")), "parallel")
  expect_true(works(cl))
  stop_cluster(cl)
})

test_that("nobody can read the secret from a node, nor connect once the cluster is up", {
  linux_only()
  cl <- over_tcp(1)
  on.exit(stop_cluster(cl))
  p <- pids(cl)
  for (file in c("environ", "cmdline")) {
    bytes <- readBin(file.path("/proc", p, file), "raw", 1e6)
    expect_false(any(grepl("[0-9a-f]{64}", strsplit(rawToChar(bytes[bytes != 0]), "\n")[[1L]])))
  }
  expect_identical(parallel::clusterCall(cl, Sys.getenv, "CLUTCH_SECRET", NA), list(NA_character_))
  expect_false(any(grepl("SECRET", names(unlist(parallel::clusterCall(cl, Sys.getenv))))))
  port <- cl[[1L]]$info$port
  expect_true(port > 0)
  expect_error(suppressWarnings(socketConnection("127.0.0.1", port, timeout = 2)))
})

test_that("options reach the nodes", {
  out <- tempfile("clutch-out-")
  Sys.setenv(CLUTCH_TEST_VAR = "of the session")
  on.exit({
    Sys.unsetenv("CLUTCH_TEST_VAR")
    unlink(out)
  })
  cl <- over_tcp(2, packages = c("splines", "stats4"), env = c(A = "b c"), outfile = out,
                 renice = 3L, rscript_args = "--verbose=0")
  got <- parallel::clusterCall(cl, function() {
    cat("printed on a node\n")
    list(search(), Sys.getenv("A"), tools::psnice(), getwd(), commandArgs(),
         Sys.getenv("CLUTCH_TEST_VAR"), Sys.getenv("TMPDIR", NA))
  })[[1L]]
  expect_true(all(c("package:splines", "package:stats4") %in% got[[1L]]))
  expect_identical(got[[2L]], "b c")
  expect_gte(got[[3L]], 3L)
  expect_identical(got[[4L]], getwd())
  expect_true("--verbose=0" %in% got[[5L]])
  expect_identical(got[[6L]], "of the session")
  expect_identical(got[[7L]], Sys.getenv("TMPDIR", NA))
  stop_cluster(cl)
  text <- readLines(out)
  expect_identical(sum(text == "printed on a node"), 2L)
  expect_identical(sum(grepl("^starting worker pid=", text)), 2L)
  cl <- over_tcp(1, methods = FALSE)
  expect_false("package:methods" %in% parallel::clusterCall(cl, search)[[1L]])
  stop_cluster(cl)
})

test_that("hosts: all loopback addresses are this machine, others are reached by rshcmd", {
  fake <- tempfile("fake-ssh-", fileext = ".sh")
  log <- tempfile()
  on.exit(unlink(c(fake, log)))
  writeLines(c("#!/bin/sh", sprintf("echo \"$@\" | sed 's/ .sh. .-c. .*//' >> %s", shQuote(log)),
               "while [ \"$1\" != far.example ]; do shift; done; shift", "exec sh -c \"$*\""), fake)
  Sys.chmod(fake, "0755")
  cl <- make_cluster(c("localhost", "127.0.0.2", "far.example"), master = "127.0.0.1",
                     rshcmd = paste(fake, "-q"), user = "somebody",
                     env = c(A = "there"))
  expect_identical(cl[[1L]]$info$strategy, "parallel")
  expect_identical(vapply(cl, function(nd) nd$host, ""), c("localhost", "127.0.0.2", "far.example"))
  expect_identical(trimws(readLines(log)), "-q -l somebody far.example")
  expect_identical(parallel::clusterCall(cl, Sys.getenv, "A"), as.list(rep("there", 3)))
  p <- unlist(parallel::clusterCall(cl, Sys.getpid))
  expect_identical(pids(cl), p)
  stop_cluster(cl)
  expect_true(eventually(!any(alive(p))))
  cl <- make_cluster(list(list(host = "127.0.0.3", renice = 7L), "localhost"), "parallel")
  expect_identical(parallel::clusterCall(cl, tools::psnice)[[1L]] >= 7L, TRUE)
  stop_cluster(cl)
  e <- tryCatch(make_cluster("far.example", master = "127.0.0.1", rshcmd = "/bin/false"),
                clutch_start = identity)
  expect_match(conditionMessage(e), "node 1 on far.example.*exit status 1")
  expect_error(make_cluster("far.example", master = "127.0.0.1", rshcmd = "no-such-program"),
               "not found", class = "clutch_start")
})

test_that("a range of ports, a busy one, and arguments of no use", {
  taken <- serverSocket(busy <- 20000L + Sys.getpid() %% 20000L)
  on.exit(close(taken))
  expect_error(over_tcp(1, port = busy), "in use", class = "clutch_start")
  cl <- over_tcp(1, port = busy + 0:20)
  expect_true(cl[[1L]]$info$port %in% (busy + 1:20))
  stop_cluster(cl)
  for (bad in list(list(port = -1), list(port = 70000), list(timeout = 0), list(master = 1),
                   list(node = "x"), list(secret = "short"),
                   list(backlog = "x"), list(user = "-x")))
    expect_error(do.call(over_tcp, c(1, bad)), class = "clutch_argument")
})

test_that("nodes that do not arrive are named, with reason and output, and nothing is left", {
  linux_only()
  invisible(gc())
  before <- open_fds()
  e <- tryCatch(over_tcp(2, rscript_args = c("-e", "cat('last words\\n');quit(status=3)")),
                clutch_start = identity)
  expect_s3_class(e, "clutch_start")
  # whichever was first
  why <- "node [12] on localhost: it ended with exit status 3; it printed last:\n  last words"
  expect_match(conditionMessage(e), why)
  expect_match(conditionMessage(e), "nothing was left running")
  # one of them never gets there
  late <- tempfile(fileext = ".sh")
  mark <- tempfile()
  writeLines(
    c("#!/bin/sh", "echo going to sleep", sprintf("echo $$ > %s", shQuote(mark)), "sleep 100"), late
  )
  Sys.chmod(late, "0755")
  on.exit(unlink(c(late, mark)))
  e <- tryCatch(
    make_cluster(list("localhost", list(host = "127.0.0.1", rscript = late)), "parallel",
                 setup_timeout = 3), clutch_start = identity
  )
  expect_match(conditionMessage(e), "1 of 2 nodes did not arrive within 3 seconds")
  expect_match(conditionMessage(e),
               "node 2 on 127.0.0.1: it has not connected; it printed last:\n  going to sleep")
  expect_identical(e$nodes, 2L)
  expect_true(eventually(!alive(as.integer(readLines(mark)))))
  e <- tryCatch(over_tcp(2, packages = "no.such.package"), clutch_package = identity)
  expect_identical(e$package, "no.such.package")
  expect_error(over_tcp(1, outfile = "/no/such/folder/out"), "no/such/folder",
               class = "clutch_start")
  expect_error(over_tcp(1, rscript = "/no/such/program"), class = "clutch_error")
  expect_identical(left_by_nodes(), character())
  expect_lte(open_fds(), before) # what was of no use before may have been closed meanwhile
})

test_that("a node that dies, quits or is interrupted is as with other strategies", {
  linux_only()
  cl <- over_tcp(3)
  on.exit(stop_cluster(cl))
  p <- pids(cl)
  e <- tryCatch(
    parallel::clusterApply(cl, 1:3, function(i) {
      if (i == 2) tools::pskill(Sys.getpid(), 9L) else i
    }), clutch_node_died = identity
  )
  expect_identical(e[c("node", "pid", "host", "signal")],
                   list(node = 2L, pid = p[[2L]], host = "localhost", signal = 9L))
  expect_match(cluster_status(cl)$state[[2L]], "^dead: killed by signal 9")
  ok <- cl[-2L]
  expect_identical(parallel::clusterCall(ok, identity, 1), list(1, 1))
  # a call that is given up: the nodes are told by a signal, and no old answer is taken for a new
  # one
  for (k in 1:3) {
    expect_error({
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      parallel::clusterCall(ok, function(k) {
        Sys.sleep(60)
        k
      }, k)
    })
    setTimeLimit()
    expect_identical(parallel::clusterCall(ok, identity, k + 100), list(k + 100, k + 100))
  }
  expect_identical(pids(cl), p)
  e <- tryCatch(parallel::clusterCall(ok[1L], function() quit(status = 3)),
                clutch_node_died = identity)
  expect_identical(e$status, 3L)
})

test_that("a node that does not give up is replaced by one that connects anew", {
  old <- options(clutch.cancel_grace = 0.3)
  on.exit(options(old))
  cl <- over_tcp(2)
  p <- pids(cl)
  try(silent = TRUE, {
    setTimeLimit(elapsed = 1, transient = TRUE)
    parallel::clusterCall(cl[2L], function() suspendInterrupts({
      end <- Sys.time() + 60
      while (Sys.time() < end) NULL
    }))
  })
  setTimeLimit()
  expect_warning(r <- parallel::clusterCall(cl, identity, 5), class = "clutch_node_replaced")
  expect_identical(r, list(5, 5))
  expect_identical(pids(cl) == p, c(TRUE, FALSE))
  stop_cluster(cl)
  expect_identical(left_by_nodes(), character())
})

test_that("a busy node is killed when it is stopped, a cluster that is garbage is stopped", {
  linux_only()
  cl <- over_tcp(2)
  p <- pids(cl)
  parallel:::sendCall(cl[[1L]], function() Sys.sleep(100), list())
  stop_cluster(cl)
  expect_false(any(alive(p)))
  p <- pids(over_tcp(2))
  invisible(gc())
  invisible(gc())
  expect_true(eventually(!any(alive(p))))
  stop_cluster(over_tcp(1)) # the next use of the package reaps them
  expect_true(eventually({
    stop_cluster(cl)
    length(left_by_nodes()) == 0L
  }))
})

test_that("a session that is killed takes its nodes with it, in the middle of a computation, too", {
  linux_only()
  s <- start_script(fixture = "session-tcp")
  expect_true(said(s, "^ready"))
  p <- as.integer(strsplit(value_of(s, "pids"), " ")[[1L]])
  tmp <- strsplit(value_of(s, "tmp"), " ")[[1L]]
  expect_true(all(alive(p)))
  tools::pskill(s$pid, 9L)
  expect_true(eventually(!any(alive(p))))
  expect_true(eventually(!any(dir.exists(file.path(tmp, "x"))) && !length(list.files(tmp))))
})

# The command of node `rank`, as manual = TRUE prints it, for a known port and secret.
by_hand <- function(port, secret, rank, lib = dirname(find.package("clutch"))) {
  node <- list(rscript = file.path(R.home("bin"), "Rscript"), master = "127.0.0.1", same = TRUE)
  command <- clutch:::node_command(node, port, rank, list(methods = TRUE, setup_timeout = 60), lib)
  pidfile <- tempfile()
  system(sprintf("CLUTCH_SECRET=%s %s > /dev/null 2>&1 & echo $! > %s", secret,
                 clutch:::command_line(command), pidfile))
  as.integer(readLines(pidfile))
}
free_port <- function() {
  m <- .Call(clutch:::ffi_acceptor_open, "127.0.0.1", 0L, NA_integer_, NULL)
  .Call(clutch:::ffi_acceptor_close, m$handle)
  m$port
}

test_that("nodes that were started before the master listens are taken", {
  linux_only()
  port <- free_port()
  secret <- paste(rep("0123456789abcdef", 4), collapse = "")
  p <- c(by_hand(port, secret, 1L), by_hand(port, secret, 2L))
  for (pid in p) # its own code is running: it has tried, or is about to
    expect_true(eventually(any(grepl("clutch\\.so", readLines(file.path("/proc", pid, "maps"))))))
  text <- utils::capture.output(cl <- make_cluster(2, manual = TRUE, port = port, secret = secret))
  expect_identical(sum(grepl("^Manually start worker on localhost with", text)), 2L)
  expect_true(any(grepl(paste0("CLUTCH_SECRET=", secret), text, fixed = TRUE)))
  expect_identical(sort(pids(cl)), sort(p))
  expect_identical(parallel::clusterCall(cl, identity, 1), list(1, 1))
  stop_cluster(cl)
  expect_true(eventually(!any(alive(p))))
})

test_that("manual nodes that nobody starts are named", {
  text <- utils::capture.output(e <- tryCatch(
    make_cluster(2, "parallel", manual = TRUE, setup_timeout = 0.5), clutch_start = identity
  ))
  expect_length(grep("^Manually", text), 2L)
  expect_match(conditionMessage(e), "2 of 2 nodes did not arrive within 0.5 seconds")
  expect_identical(e$nodes, 1:2)
})

test_that("connections of others to the port do not keep the nodes out", {
  linux_only()
  port <- free_port()
  s <- start_script(fixture = "hostile-peers", port = port)
  expect_true(said(s, "^ready"))
  for (k in 1:2) {
    cl <- over_tcp(2, port = port)
    expect_identical(parallel::clusterCall(cl, identity, 1), list(1, 1))
    stop_cluster(cl)
  }
  expect_true(said(s, "^done"))
  tools::pskill(s$pid, 9L)
})

test_that("a session that was stopped for longer than its nodes wait gets them all", {
  linux_only()
  port <- free_port()
  s <- start_script(fixture = "one-place", port = port)
  expect_true(said(s, "^started"))
  tools::pskill(s$pid, 19L)
  # a node has come, waited in vain, and gone: its connection is half closed, in the queue of who is
  # stopped
  given_up <- function() {
    lines <- strsplit(trimws(readLines("/proc/net/tcp")), " +")
    local <- sprintf("0100007F:%04X", port)
    any(vapply(lines, function(f) f[2L] == local && f[4L] == "08", NA))
  }
  was_there <- eventually(given_up() || said(s, "^ready", 0.01), 20)
  tools::pskill(s$pid, 18L)
  expect_true(was_there)
  expect_true(said(s, "^ready"))
  expect_identical(value_of(s, "answers"), "7 7")
})

# Files beside a node's own temporary folder, which it does not remove itself.
many_files <- function(cl, n) {
  unlist(parallel::clusterCall(cl, function(n) {
    folder <- dirname(tempdir())
    stopifnot(startsWith(basename(folder), "clutch-node-"))
    file.create(file.path(folder, seq_len(n)))
    folder
  }, n))
}

test_that("a node's large temporary folder is removed by a process that nobody waits for", {
  linux_only()
  # in place of rm: it waits until it may
  bin <- tempfile("bin-")
  dir.create(bin)
  go <- file.path(bin, "go")
  writeLines(c("#!/bin/sh", sprintf("while [ ! -e %s ]; do sleep .01; done", shQuote(go)),
               'exec /bin/rm "$@"'), file.path(bin, "rm"))
  Sys.chmod(file.path(bin, "rm"), "0755")
  path <- Sys.getenv("PATH")
  Sys.setenv(PATH = paste(bin, path, sep = ":"))
  on.exit({
    Sys.setenv(PATH = path)
    file.create(go)
    eventually(!length(left_by_nodes()))
    unlink(bin, recursive = TRUE)
  })
  # stopped
  cl <- over_tcp(1)
  folder <- many_files(cl, 1000)
  stop_cluster(cl)
  expect_false(dir.exists(folder))
  expect_identical(left_by_nodes(), paste0(basename(folder), "-gone"))
  file.create(go)
  expect_true(eventually(!length(left_by_nodes())))
  unlink(go)
  # died
  cl <- over_tcp(2)
  folder <- many_files(cl[1L], 1e4)
  tools::pskill(pids(cl)[[1L]], 9L)
  expect_s3_class(node_died(parallel::clusterCall(cl[1L], identity, 1)), "clutch_node_died")
  expect_identical(parallel::clusterCall(cl[2L], identity, 1), list(1))
  expect_false(dir.exists(folder))
  expect_gt(length(list.files(paste0(folder, "-gone"))), 9e3) # some were removed at once
  stop_cluster(cl)
  expect_identical(left_by_nodes(), paste0(basename(folder), "-gone"))
  file.create(go)
  expect_true(eventually(!length(left_by_nodes()), 60))
})

test_that("it is removed also when the session ends at once", {
  linux_only()
  s <- start_script(c("many_files <- ", deparse(many_files),
                      "cl <- make_cluster(2, strategy = 'parallel')",
                      "many_files(cl, 5000)",
                      "stop_cluster(cl)",
                      "cat('done\n')"))
  expect_true(said(s, "^done", 60))
  expect_true(eventually(!length(list.files(s$tmp)) && !length(processes_of(s)), 60))
})

test_that("a start that is interrupted leaves nothing", {
  linux_only()
  stop_cluster(make_cluster(1, "parallel")) # what earlier tests have left to be closed is closed
  invisible(gc())
  before <- open_fds()
  slow <- tempfile(fileext = ".sh")
  on.exit(unlink(slow))
  writeLines(c("#!/bin/sh", "exec sleep 100"), slow)
  Sys.chmod(slow, "0755")
  for (node in c("clutch", "psock")) {
    expect_error({
      setTimeLimit(elapsed = 0.5, transient = TRUE)
      make_cluster(list("localhost", list(host = "localhost", rscript = slow)), "parallel",
                   node = node)
    }, "time limit")
    setTimeLimit()
  }
  invisible(gc())
  expect_identical(left_by_nodes(), character())
  expect_identical(open_fds(), before)
})

test_that("many nodes and a backlog of 1, or as many", {
  long_test()
  linux_only()
  # each is a start of R; 'make chaos' has 64
  n <- if (as.integer(Sys.getenv("CLUTCH_EVENTS", "300")) >= 10000L) 64 else 16
  for (backlog in c(1, n)) {
    cl <- over_tcp(n, backlog = backlog)
    expect_identical(unlist(parallel::clusterCall(cl, Sys.getpid)), pids(cl))
    p <- pids(cl)
    stop_cluster(cl)
    expect_false(any(alive(p)))
  }
  expect_identical(left_by_nodes(), character())
})
