died <- function(expr) tryCatch(expr, clutch_node_died = identity)

test_that("a node that dies in a call is named, and the others stay in step", {
  cl <- make_cluster(3)
  p <- pids(cl)
  e <- died(parallel::clusterApply(cl, 1:3,
                                   function(i) if (i == 2) tools::pskill(Sys.getpid(), 9L) else i))
  expect_s3_class(e, c("clutch_node_died", "clutch_error", "error"))
  expect_identical(e[c("node", "pid", "host", "signal")],
                   list(node = 2L, pid = p[[2L]], host = "localhost", signal = 9L))
  expect_match(conditionMessage(e), "SIGKILL")
  expect_identical(parallel::clusterCall(cl[-2], identity, "ok"), list("ok", "ok"))
  expect_match(cluster_status(cl)$state[[2L]], "^dead: killed by signal 9")
  expect_error(parallel::clusterCall(cl, identity, 1), "is dead", class = "clutch_node_died")
  expect_identical(parallel::clusterCall(cl[-2], identity, "again"), list("again", "again"))
  stop_cluster(cl)
})

test_that("a death is an error at once, also while the call waits for another node", {
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  die_or_sleep <- function(i) if (i == 3) tools::pskill(Sys.getpid(), 9L) else Sys.sleep(600)
  for (call in list(function() parallel::clusterApply(cl, 1:3, die_or_sleep),
                    function() parallel::clusterMap(cl, die_or_sleep, 1:3))) {
    e <- expect_error(call(), class = "clutch_node_died")
    expect_identical(e$node, 3L)
    expect_identical(parallel::clusterApply(cl[1:2], 1:2, identity), list(1L, 2L))
    stop_cluster(cl)
    cl <- make_cluster(3)
  }
})

test_that("quit() and a segmentation fault are told apart", {
  cl <- make_cluster(2)
  e <- died(parallel::clusterCall(cl[1L], function() quit(status = 3)))
  expect_identical(e$status, 3L)
  expect_match(conditionMessage(e), "exit status 3")
  e <- died(parallel::clusterCall(cl[2L], function() tools::pskill(Sys.getpid(), 11L)))
  expect_match(conditionMessage(e), "SIGSEGV")
  stop_cluster(cl)
  cl <- make_cluster(2) # the fork server's temporary folder has survived a node's quit()
  expect_identical(parallel::clusterCall(cl, identity, 1), list(1, 1))
  stop_cluster(cl)
})

test_that("a death in clusterApplyLB is an error, and late answers are never taken for new ones", {
  cl <- make_cluster(3)
  e <- died(parallel::clusterApplyLB(cl,
                                     1:9, function(i) if (i == 4) tools::pskill(
                                       Sys.getpid(), 9L
                                     ) else {
    Sys.sleep(0.05)
    i
  }))
  ok <- cl[-e$node]
  for (k in 1:5) expect_identical(parallel::clusterApplyLB(ok, 11:20, identity), as.list(11:20))
  stop_cluster(cl)
})

test_that("a time limit ends a call, and the cluster is in step", {
  cl <- make_cluster(2)
  for (k in 1:3) {
    expect_error({
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      parallel::clusterCall(cl, function(k) {
        Sys.sleep(60)
        k
      }, k)
    })
    setTimeLimit()
    expect_identical(parallel::clusterCall(cl, identity, k + 100), list(k + 100, k + 100))
  }
  expect_identical(cluster_status(cl)$state, c("idle", "idle"))
  stop_cluster(cl)
})

test_that("a node that does not give up is replaced, said aloud", {
  old <- options(clutch.cancel_grace = 0.3)
  on.exit(options(old))
  cl <- make_cluster(2)
  try(silent = TRUE, {
    setTimeLimit(elapsed = 0.3, transient = TRUE)
    parallel::clusterCall(cl[1L], function() suspendInterrupts({
      end <- Sys.time() + 60
      while (Sys.time() < end) NULL
    }))
  })
  setTimeLimit()
  expect_warning(r <- parallel::clusterCall(cl, identity, 5), class = "clutch_node_replaced")
  expect_identical(r, list(5, 5))
  stop_cluster(cl)
})

test_that("Ctrl-C at random instants never yields an old answer", {
  long_test()
  linux_only()
  s <- start_script(fixture = c("interrupt-in", "interrupts-large-calls"))
  expect_true(said(s, "^done", 300))
  expect_identical(value_of(s, "bad"), "0")
  expect_gt(as.integer(value_of(s, "hit")), 10L)
})

test_that("a master killed takes all with it, also nodes deep in C code", {
  linux_only()
  s <- start_script(fixture = "session-busy")
  expect_true(said(s, "^ready"))
  p <- as.integer(strsplit(value_of(s, "pids"), " ")[[1L]])
  expect_true(all(alive(p)))
  tools::pskill(s$pid, 9L)
  expect_true(eventually(!any(alive(p))))
  expect_true(eventually(!dir.exists(value_of(s, "tmp"))))
})

test_that("fork server and master killed at once leave no node and no folder", {
  linux_only()
  s <- start_script(fixture = "session-idle")
  expect_true(said(s, "^ready"))
  p <- as.integer(strsplit(value_of(s, "pids"), " ")[[1L]])
  tmp <- strsplit(value_of(s, "tmp"), " ")[[1L]]
  tools::pskill(s$pid, 19L) # stopped, so that it cannot clean up
  tools::pskill(p[[1L]], 9L)
  tools::pskill(s$pid, 9L)
  expect_true(eventually(!any(alive(p))))
  expect_true(eventually(!any(dir.exists(tmp))))
  expect_true(eventually(!dir.exists(dirname(tmp[[1L]]))))
})

test_that("fork server and master killed while a node starts as a new R leave no node", {
  linux_only()
  profile <- tempfile(fileext = ".R")
  here <- tempfile()
  go_on <- tempfile()
  writeLines(c(
    "if (any(grepl('node/node.R', commandArgs(), fixed = TRUE))) {",
    "  parent <- sub('^.*[)] . ([0-9]+) .*$', '\\\\1', readLines('/proc/self/stat'))",
    sprintf("  writeLines(c(Sys.getpid(), parent, Sys.getenv('TMPDIR')), '%s.new')", here),
    sprintf("  file.rename('%s.new', '%s')", here, here),
    sprintf("  while (!file.exists('%s')) Sys.sleep(0.05)", go_on),
    "}"), profile)
  s <- start_script(c(sprintf("Sys.setenv(R_PROFILE_USER = '%s')", profile),
                      "make_cluster(1, strategy = 'spawn')"))
  expect_true(eventually(file.exists(here)))
  node <- readLines(here)
  p <- as.integer(node[1:2])
  expect_true(all(alive(p)))
  tools::pskill(s$pid, 19L)
  tools::pskill(p[[2L]], 9L)
  tools::pskill(s$pid, 9L)
  expect_true(eventually(!alive(p[[2L]])))
  file.create(go_on)
  expect_true(eventually(!alive(p[[1L]])))
  # where the system ends it, that was before it could remove anything
  if (!system_can("follow_parent")) expect_true(eventually(!dir.exists(dirname(node[[3L]]))))
})

test_that("a fork server that is killed while it is idle leaves no folder when the session ends", {
  linux_only()
  s <- start_script(c(
    "preload <- make_cluster(1, preload = x <- 1)", "cl <- make_cluster(1)",
    "server <- function(cl) .Call(clutch:::ffi_node_info, cl[[1L]]$handle)$server_pid",
    "pids <- c(server(cl), server(preload))", "stop_cluster(cl)",
    "tools::pskill(cluster_status(preload)$pid, 9L)", "tools::pskill(pids, 9L)",
    # all that they had open is closed
    "stat <- function(p) suppressWarnings(tryCatch(readLines(file.path('/proc', p, 'stat')),",
    "                                              error = function(e) ') Z '))",
    "while (!all(grepl(') Z ', lapply(pids, stat), fixed = TRUE))) Sys.sleep(0.01)",
    "cat('left=', length(list.files(dirname(tempdir()))) - 1L, '\\n', sep = '')",
    "cat('done\\n')"))
  expect_done(s)
  expect_gte(as.integer(value_of(s, "left")), 1L)
  expect_true(ends(s))
  expect_true(eventually(!length(list.files(s$tmp))))
})

# Its profile may have left files that cannot be moved: to another disk.
test_that("a fork server tells where its folder is as soon as it has one", {
  linux_only()
  other <- tempfile("clutch-test-", "/dev/shm")
  testthat::skip_if_not(suppressWarnings(dir.create(other)), "no other file system")
  on.exit(unlink(other, recursive = TRUE))
  s <- start_script(c(
    "old <- tempdir()", "file.create(tempfile())",
    sprintf("clutch:::move_temp_dir('TMPDIR=%s')", other), "unlink(old, recursive = TRUE)",
    sprintf("stopifnot(dirname(tempdir()) == '%s')", other),
    "links <- Sys.readlink(list.files(dirname(old), full.names = TRUE))",
    "cat('links=', tempdir() %in% links, '\\n', sep = '')",
    "cat('done\\n')"))
  expect_done(s)
  expect_identical(value_of(s, "links"), "TRUE")
})

test_that("a session that ends without stop_cluster() leaves nothing", {
  linux_only()
  s <- start_script(c(
    "cl <- make_cluster(2)",
    "cat('pids=', paste(cluster_status(cl)$pid, collapse = ' '), '\\n', sep = '')",
    "cat('ready\\n')"))
  expect_true(said(s, "^ready"))
  expect_true(eventually(!any(alive(as.integer(strsplit(value_of(s, "pids"), " ")[[1L]])))))
})

test_that("a cluster is of no use where it was not made", {
  cl <- make_cluster(1)
  file <- tempfile()
  saveRDS(cl, file)
  loaded <- readRDS(file)
  expect_error(parallel::clusterCall(loaded, identity, 1), "another R session",
               class = "clutch_stopped")
  expect_output(print(loaded), "not usable")
  child <- parallel::mcparallel(tryCatch(parallel::clusterCall(cl, identity, 1), error = class))
  expect_true("clutch_forked" %in% parallel::mccollect(child)[[1L]])
  expect_identical(parallel::clusterCall(cl, identity, 1), list(1))
  stop_cluster(cl)
})

test_that("a stopped (SIGSTOP) node answers after SIGCONT", {
  linux_only()
  cl <- make_cluster(2)
  p <- pids(cl)
  system(sprintf("kill -STOP %d; (sleep 0.5; kill -CONT %d) &", p[[1L]], p[[1L]]))
  expect_identical(parallel::clusterCall(cl, identity, 1), list(1, 1))
  stop_cluster(cl)
})

test_that("what a node started goes with it, and nodes have nothing of the user's descriptors", {
  linux_only()
  con <- file(tempfile(), "w")
  on.exit(close(con))
  cl <- make_cluster(2)
  child <- parallel::clusterCall(cl[1L], function() {
    system("sleep 300 >/dev/null 2>&1 & echo $!", intern = TRUE)
  })[[1L]]
  expect_true(alive(as.integer(child)))
  files <- unlist(parallel::clusterCall(cl,
                                        function() Sys.readlink(list.files(
                                          "/proc/self/fd", full.names = TRUE
                                        ))))
  expect_false(summary(con)$description %in% files)
  stop_cluster(cl)
  expect_true(eventually(!alive(as.integer(child))))
})

test_that("limits on processes and descriptors are clear errors that leave nothing", {
  long_test()
  linux_only()
  s <- start_script(fixture = "few-descriptors")
  expect_true(said(s, "^done"))
  expect_identical(value_of(s, "class"), "clutch_limit")
  expect_identical(value_of(s, "works"), "TRUE")
})

test_that("a task that is cancelled while R reads a package's environment leaves it whole", {
  # a node that has heard of it may have to wait for a processor
  old <- options(clutch.task_grace = 30)
  on.exit(options(old))
  cl <- make_cluster(21) # the last one is left alone
  on.exit(stop_cluster(cl), add = TRUE)
  before <- pids(cl)
  # the table of all S4 classes: each node reads it when it is first used, for 20 ms
  for (i in 1:20) {
    task <- cluster_submit(cl[i], {
      ls(methods:::.classTable)
      repeat Sys.sleep(.01)
    })
    Sys.sleep(i / 1000)
    cancel(task)
    expect_error(collect(task), class = "clutch_task_cancelled")
  }
  n <- unlist(parallel::clusterEvalQ(cl, length(ls(methods:::.classTable))))
  expect_identical(n, rep(n[[21L]], 21L))
  expect_identical(pids(cl), before) # none was replaced: each has heard of it
})
