# What is done to the processes from outside, at every step of their lives: killed, stopped,
# interrupted. After each the cluster is in step, or there is a clear error and nothing left.

outside_checks_only()

# ---- forks of a node ----

test_that("a process forked in a call takes nothing with it when it is ended", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  r <- parallel::clusterCall(cl, function() {
    file <- tempfile()
    writeLines("kept", file)
    child <- parallel::mcparallel(Sys.sleep(60))
    tools::pskill(child$pid, 15L) # as parallel itself does when a mclapply() is interrupted
    parallel::mccollect(child)
    readLines(file)
  })
  expect_identical(r, list("kept", "kept"))
})

test_that("a process forked in a call never answers in the node's place, nor takes its calls", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  p <- pids(cl)
  for (how in c("error", "value")) {
    r <- parallel::clusterCall(cl, function(how) {
      child <- parallel:::mcfork()
      if (inherits(child, "masterProcess")) if (how ==
                                                "error") stop(
                                                  "of the child"
                                                ) else return("of the child")
      while (!is.null(parallel:::selectChildren(child, 30)) &&
             !is.raw(parallel:::readChild(child))) {
        NULL
      }
      "of the node"
    }, how)
    expect_identical(r, list("of the node", "of the node"))
    for (k in 1:5) expect_identical(unlist(parallel::clusterCall(cl, Sys.getpid)), p)
  }
})

# ---- kill -9 ----

test_that("a node killed while a large call or its answer is on its way is an error that says so", {
  linux_only()
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  big <- raw(5e7)
  p <- pids(cl)
  tools::pskill(p[[1L]], 19L) # stopped: it reads nothing, half of the call is sent
  later(0.2, "kill -9 %d", p[[1L]])
  e <- node_died(parallel::clusterCall(cl, length, big))
  expect_s3_class(e, "clutch_node_died")
  expect_identical(e[c("node", "pid", "host", "signal")],
                   list(node = 1L, pid = p[[1L]], host = "localhost", signal = 9L))
  expect_match(conditionMessage(e), "SIGKILL")
  expect_true(works(cl[-1L]))
  for (delay in c(0, 0.02, 0.05)) { # at any time while 100 MB come back, or after
    one <- make_cluster(1)
    r <- node_died(parallel::clusterCall(one, function(d) {
      system(sprintf("(sleep %.2f; kill -9 %d) >/dev/null 2>&1 &", d, Sys.getpid()))
      raw(1e8)
    }, delay))
    if (is.list(r[[1L]]) || inherits(r, "condition")) expect_identical(r$signal, 9L)
    else expect_identical(length(r[[1L]]), 100000000L)
    stop_cluster(one)
  }
  expect_true(works(cl[-1L]))
})

test_that("a fork server killed while it starts nodes is replaced at once, with a message", {
  linux_only()
  stop_cluster(make_cluster(1))
  cl <- make_cluster(1)
  old <- server_pid(cl)
  stop_cluster(cl)
  tools::pskill(old, 19L)
  later(0.2, "kill -9 %d", old)
  expect_message(cl <- make_cluster(2), "fork server .* killed by signal 9 .SIGKILL.; a new one")
  expect_true(works(cl))
  expect_false(server_pid(cl) == old)
  stop_cluster(cl)
})

test_that("a fork server killed during calls and while the cluster stops", {
  linux_only()
  cl <- make_cluster(2)
  p <- pids(cl)
  server <- server_pid(cl)
  tmp <- dirname(parallel::clusterCall(cl[1L], tempdir)[[1L]])
  grandchild <- parallel::clusterCall(cl[1L], function() {
    system("sleep 300 >/dev/null 2>&1 & echo $!", intern = TRUE)
  })[[1L]]
  tools::pskill(p[[1L]], 19L)
  later(0.2, "kill -9 %d; kill -CONT %d", server, p[[1L]])
  old <- options(clutch.share_from = Inf) # 50 MB by the socket: a node that is stopped takes some
  on.exit(options(old))
  e <- node_died(parallel::clusterCall(cl, length, raw(5e7)))
  options(old)
  why <- "its fork server .pid [0-9]+. was killed by signal 9 .SIGKILL., and its nodes with it"
  expect_match(conditionMessage(e), why)
  expect_true(eventually(!any(alive(c(p, grandchild)))))
  expect_true(eventually(!dir.exists(tmp)))
  cl <- make_cluster(2, strategy = "spawn")
  p <- pids(cl)
  tmp <- dirname(parallel::clusterCall(cl[1L], tempdir)[[1L]])
  tools::pskill(server_pid(cl), 9L)
  e <- node_died(parallel::clusterCall(cl, Sys.sleep, 60))
  expect_match(conditionMessage(e), "its fork server .pid [0-9]+. was killed by signal 9")
  expect_true(eventually(!any(alive(p)) && !dir.exists(tmp)))
  suppressMessages(cl <- make_cluster(2))
  server <- server_pid(cl)
  p <- pids(cl)
  tools::pskill(server, 19L)
  later(0.2, "kill -9 %d", server)
  expect_null(stop_cluster(cl))
  expect_true(eventually(!any(alive(c(p, server)))))
  expect_message(stop_cluster(make_cluster(1)), "killed by signal 9")
})

test_that("a fork server killed at any time of its start leaves no process", {
  linux_only()
  s <- start_script(fixture = "fork-server-killed")
  expect_done(s)
  expect_identical(value_of(s, "works"), "TRUE")
  expect_identical(value_of(s, "children"), "0")
  expect_true(ends(s))
})

test_that("a master killed at any step takes all with it, and leaves no folder but its own", {
  linux_only()
  big <- 5e7
  steps <- list(
    starting = "cat('step\\n'); repeat { stop_cluster(make_cluster(8)); fork_server_stop() }",
    idle = "cl <- make_cluster(2); cat('step\\n'); Sys.sleep(60)",
    # a stopped node reads nothing: half of the call is sent
    sending = c("cl <- make_cluster(2)", "tools::pskill(cluster_status(cl)$pid[[1]], 19L)",
                "cat('step\\n')", "parallel::clusterCall(cl, length, raw(5e7))"),
    receiving = c("cl <- make_cluster(2)", "cat('step\\n')",
                  "repeat parallel::clusterCall(cl, function() raw(5e7))"),
    forking = c("cl <- make_cluster(2)", "kid <- parallel::mcparallel(Sys.sleep(60))",
                "cat('kid=', kid$pid, '\\n', sep = '')", "cat('step\\n')", "Sys.sleep(60)"),
    nested = c("cl <- make_cluster(2)",
               "parallel::clusterEvalQ(cl, { inner <- clutch::make_cluster(1); 1 })",
               "cat('step\\n')", "Sys.sleep(60)"),
    # the fork server is stopped: nodes have to end all the same, and it when it goes on
    stopping = c("cl <- make_cluster(2)",
                 "info <- .Call(clutch:::ffi_node_info, cl[[1]]$handle)",
                 "tools::pskill(info$server_pid, 19L)", "cat('step\\n')", "stop_cluster(cl)"))
  scripts <- lapply(steps, function(step) {
    start_script(c("cat('session=', tempdir(), '\\n', sep = '')", step))
  })
  for (name in names(scripts)) {
    s <- scripts[[name]]
    expect_true(said(s, "^step"), info = name)
    Sys.sleep(stats::runif(1, 0, 0.1))
    before <- processes_of(s)
    tools::pskill(s$pid, 9L)
    # that one is base R's, and does not follow: it must not keep the others
    if (name == "forking") {
      kid <- as.integer(value_of(s, "kid"))
      expect_true(eventually(identical(processes_of(s), kid)))
      tools::pskill(kid, 9L)
    }
    if (name == "stopping") for (p in before) tools::pskill(p, 18L)
    expect_true(ends(s), info = name)
    expect_true(eventually(length(left_in(s)) == 0L),
                info = paste(name, paste(left_in(s), collapse = " ")))
  }
})

# ---- SIGSTOP ----

test_that("a stopped fork server: calls go on, a start fails in time, later starts succeed", {
  linux_only()
  fork_server_stop(all = TRUE) # one with no other nodes
  cl <- make_cluster(2)
  server <- server_pid(cl)
  before <- pids(cl)
  tools::pskill(server, 19L)
  on.exit(tools::pskill(server, 18L))
  expect_true(works(cl))
  e <- tryCatch(make_cluster(2, setup_timeout = 0.5), clutch_start = identity)
  expect_s3_class(e, "clutch_start")
  expect_match(conditionMessage(e), "does not answer|setup_timeout")
  tools::pskill(server, 18L)
  later(0, "kill -STOP %d; sleep 0.3; kill -CONT %d", server, server)
  other <- make_cluster(2)
  expect_true(works(other) && works(cl))
  nodes <- pids(other)
  stop_cluster(other)
  expect_false(any(alive(nodes)))
  children <- as.integer(scan(sprintf("/proc/%d/task/%d/children", server, server), quiet = TRUE))
  expect_setequal(children, before) # nothing is left of the start that failed
  tools::pskill(server, 19L)
  expect_null(stop_cluster(cl)) # idle nodes do not need it
  expect_gte(fork_server_stop(), 1L)
  expect_true(eventually(!alive(server)))
  expect_true(eventually(!any(alive(before))))
})

test_that("a stopped node does not keep its cluster from stopping", {
  linux_only()
  cl <- make_cluster(2)
  p <- pids(cl)
  tools::pskill(p[[1L]], 19L)
  stop_cluster(cl)
  expect_false(any(alive(p)))
})

test_that("a master that was stopped for long finds what has come, and no deadline missed", {
  linux_only()
  s <- start_script(fixture = "deaf-node")
  expect_true(said(s, "^step"))
  f <- value_of(s, "file")
  tools::pskill(s$pid, 19L)
  file.create(f)
  # and its grace of 4 s is over while the master stands
  expect_true(eventually(file.exists(paste0(f, 2))))
  Sys.sleep(4.5)
  tools::pskill(s$pid, 18L)
  expect_true(said(s, "^same="))
  for (k in 1:5) { # and in the middle of calls
    tools::pskill(s$pid, 19L)
    Sys.sleep(0.02)
    tools::pskill(s$pid, 18L)
    Sys.sleep(0.01)
  }
  expect_done(s)
  expect_identical(value_of(s, "same"), "TRUE")
  expect_identical(value_of(s, "many"), "TRUE")
  expect_false(any(grepl("replaced", readLines(s$out))))
})

# ---- signals ----

test_that("a storm of signals changes no byte and stops nothing", {
  long_test()
  linux_only()
  dir <- tempfile("storm")
  dir.create(dir)
  file.copy(test_path("fixtures", "storm.c"), dir)
  old <- setwd(dir)
  on.exit(setwd(old))
  built <- system2(file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "storm.c"), stdout = FALSE,
                   stderr = FALSE)
  skip_if(built != 0L, "no compiler")
  s <- start_script(fixture = "signal-storm",
                    lib = file.path(dir, paste0("storm", .Platform$dynlib.ext)))
  expect_done(s)
  for (what in c("big", "many", "step")) expect_identical(value_of(s, what), "TRUE", info = what)
  expect_gt(as.integer(value_of(s, "hits")), 100L)
  expect_true(ends(s))
})

test_that("calls within calls are in step, however deep", {
  cl <- make_cluster(22)
  on.exit(stop_cluster(cl))
  registerS3method("[[", "clutch_test_nest", function(x, i) {
    level <- unclass(x)[[1L]]
    # the first is sent, then the second is found out by a call of its own
    if (i == 1L) return(level)
    if (level == 20L) return(0)
    sum(unlist(parallel::clusterApply(cl[level + 1:2],
                                      structure(list(level + 1L, 0), class = "clutch_test_nest"),
                                      identity)))
  })
  r <- parallel::clusterApply(cl[1:2], structure(list(1L, 0), class = "clutch_test_nest"), identity)
  expect_identical(sum(unlist(r)), sum(1:20) + 0)
})

# ---- Ctrl-C ----

test_that("Ctrl-C while 200 MB are sent or received gives control back; the next call is right", {
  long_test()
  linux_only()
  s <- start_script(fixture = c("interrupt-after", "interrupts-of-transfers"))
  expect_done(s)
  expect_identical(value_of(s, "bad"), "0")
  expect_identical(value_of(s, "hit"), "4")
  expect_lt(as.numeric(value_of(s, "worst")), 10)
})

test_that("Ctrl-C at random instants of all kinds of calls, starts and stops leaves all in step", {
  long_test()
  linux_only()
  s <- start_script(fixture = c("interrupt-after", "interrupts-of-all"))
  expect_done(s)
  expect_identical(value_of(s, "bad"), "")
  expect_gt(as.integer(value_of(s, "hit")), 10L)
  expect_identical(value_of(s, "left"), "0")
})

test_that("Ctrl-C at a terminal reaches the session and no node", {
  long_test()
  linux_only()
  skip_if(!nzchar(Sys.which("script")), "no program 'script'")
  file <- tempfile(fileext = ".R")
  writeLines(fixture_lines("ctrl-c-at-terminal"), file)
  out <- tempfile()
  term <- pipe(sprintf("R_LIBS=%s script -q -c %s /dev/null > %s 2>&1",
                       shQuote(paste(.libPaths(), collapse = ":")),
                       shQuote(paste(file.path(R.home("bin"), "Rscript"), "--vanilla", file)), out),
                       "w")
  on.exit(close(term))
  terminal <- list(out = out)
  skip_if(!said(terminal, "ready", 20), "no terminal can be had by 'script'")
  cat("\003", file = term)
  flush(term)
  expect_true(said(terminal, "result( (TRUE|FALSE)){5}")) # all of the line
  expect_match(grep("result", readLines(out, warn = FALSE), value = TRUE),
               "TRUE TRUE TRUE TRUE TRUE")
})
