# Base R's workers as nodes: make_cluster(node = "psock").

local({
  run_both <- list2env(list(new_cluster = function(n) make_cluster(n, node = "psock")),
                       parent = environment())
  lines <- parse(test_path("test-parallel.R"), keep.source = FALSE)
  # the tests that compare with base R; the others are about what its protocol does not have
  wanted <- vapply(lines, function(e) {
    !identical(e[[1L]], quote(test_that)) ||
      grepl("every function|same text|big values|what changes", e[[2L]])
  }, NA)
  for (e in lines[wanted]) eval(e, run_both)
})

test_that("base R's workers as nodes: state, death, interrupt, end", {
  linux_only()
  stop_cluster(make_cluster(1, node = "psock"))
  invisible(gc())
  before <- open_fds()
  for (s in c("parallel", "sequential")) {
    cl <- make_cluster(2, s, node = "psock", packages = "splines", env = c(A = "b"))
    p <- pids(cl)
    expect_identical(unlist(parallel::clusterCall(cl, Sys.getpid)), p)
    expect_identical(parallel::clusterCall(cl, Sys.getenv, "A"), list("b", "b"))
    expect_true(all(vapply(parallel::clusterCall(cl, search), function(s) "package:splines" %in% s,
                           NA)))
    expect_false(any(vapply(parallel::clusterCall(cl, loadedNamespaces),
                            function(s) "clutch" %in% s, NA)))
    expect_output(print(cl), "2 idle")
    x <- 3
    cluster_export(cl, "x", environment())
    expect_identical(parallel::clusterEvalQ(cl, x), list(3, 3))
    expect_error({
      setTimeLimit(elapsed = 0.3, transient = TRUE)
      parallel::clusterCall(cl, function() {
        Sys.sleep(1)
        "old"
      })
    })
    setTimeLimit()
    expect_identical(parallel::clusterCall(cl, identity, "new"), list("new", "new"))
    expect_identical(parallel::clusterApplyLB(cl, 1:7, identity), as.list(1:7))
    e <- tryCatch(
      parallel::clusterApply(cl, 1:2, function(i) {
        if (i == 2) tools::pskill(Sys.getpid(), 9L) else i
      }), clutch_node_died = identity
    )
    expect_identical(e[c("node", "pid", "signal")], list(node = 2L, pid = p[[2L]], signal = 9L))
    expect_identical(parallel::clusterCall(cl[1L], identity, 1), list(1))
    stop_cluster(cl)
    expect_false(any(alive(p)))
    expect_error(parallel::clusterCall(cl, identity, 1), class = "clutch_error")
    rm(cl)
  }
  e <- tryCatch(
    make_cluster(2, node = "psock", rscript_args = c("-e", "cat('no\\n');quit(status=3)")),
    clutch_start = identity
  )
  expect_match(conditionMessage(e), "exit status 3; it printed last:\n  no")
  e <- tryCatch(make_cluster(2, node = "psock", packages = "no.such.package"),
                clutch_package = identity)
  expect_identical(e$package, "no.such.package")
  rm(e)
  invisible(gc())
  expect_identical(left_by_nodes(), character())
  expect_identical(open_fds(), before)
})

test_that("a program that is missing is an error that leaves nothing, however it was named", {
  before <- list.files(tempdir())
  # a server of an earlier test may end meanwhile
  new_files <- function() setdiff(list.files(tempdir()), before)
  for (strategy in c("parallel", "sequential", "fork_server")) {
    e <- tryCatch(make_cluster(2, strategy, rscript = "/no/such/Rscript"), clutch_error = identity)
    expect_s3_class(e, "clutch_start")
    expect_match(conditionMessage(e), "/no/such/Rscript", fixed = TRUE, label = strategy)
    expect_identical(new_files(), character(), label = strategy)
  }
  expect_s3_class(
    tryCatch(make_cluster(2, node = "psock", rscript = "/no/such/Rscript"),
             clutch_error = identity), "clutch_start"
  )
  e <- tryCatch(
    suppressMessages(make_cluster(list(list(host = "far", rshcmd = "no-such-program-here")),
                                  tls = FALSE)), clutch_error = identity
  )
  expect_match(conditionMessage(e), "no-such-program-here", fixed = TRUE)
  expect_identical(new_files(), character())
})

test_that("who is ready is told while garbage is collected at each allocation", {
  listen <- function() .Call(clutch:::ffi_psock_listen, "127.0.0.1", 0L, NA_integer_)
  a <- listen()
  b <- listen()
  on.exit(for (l in list(a, b)) .Call(clutch:::ffi_psock_close, l$handle))
  s <- socketConnection("127.0.0.1", a$port)
  on.exit(close(s), add = TRUE)
  handles <- rep(list(a$handle, b$handle), each = 200)
  gctorture2(1)
  on.exit(gctorture2(0), add = TRUE)
  ready <- .Call(clutch:::ffi_psock_ready, handles, 5)
  gctorture2(0)
  expect_identical(ready, 1:200)
})

test_that("a listener for base R's workers takes both families; the workers know IPv4 only", {
  l <- .Call(clutch:::ffi_psock_listen, "", 0L, NA_integer_)
  on.exit(.Call(clutch:::ffi_psock_close, l$handle))
  for (host in c("127.0.0.1", if (has_ipv6()) "::1")) {
    con <- socket_connect(host, l$port)
    expect_true(eventually(!is.null(s <- .Call(clutch:::ffi_psock_accept, l$handle))), info = host)
    .Call(clutch:::ffi_psock_close, s)
    close(con)
  }
  expect_error(launch_plan("far.example", node = "psock", master = "::1"), "IPv4 only.*'::1'",
               class = "clutch_argument")
})

test_that("a time limit while workers answer is the session's, and not an answer", {
  l <- .Call(clutch:::ffi_psock_listen, "", 0L, NA_integer_)
  con <- socket_connect("127.0.0.1", l$port)
  on.exit({
    close(con)
    .Call(clutch:::ffi_psock_close, l$handle)
  })
  expect_true(eventually(!is.null(s <- .Call(clutch:::ffi_psock_accept, l$handle))))
  on.exit(.Call(clutch:::ffi_psock_close, s), add = TRUE)
  g <- list2env(list(handles = list(.Call(clutch:::ffi_psock_node, 1L)),
                     sockets = list(NULL), nodes = list(list(local = TRUE))))
  # R looks for its limit each thousand evaluations, wherever it is then
  for (k in 1:20) {
    expect_error({
      setTimeLimit(elapsed = 1e-9, transient = TRUE)
      for (i in seq_len(k)) NULL
      while (!clutch:::take_answer(s, g)) NULL
    }, "time limit")
    setTimeLimit()
  }
})

test_that("numbers in commands have a point, whatever option OutDec is", {
  old <- options(OutDec = ",")
  on.exit(options(old))
  plan <- launch_plan(1, "parallel", node = "psock", setup_timeout = 60.5)
  expect_match(unclass(plan), "'SETUPTIMEOUT=60.5'", fixed = TRUE, all = FALSE)
  cl <- make_cluster(1, "parallel", node = "psock", setup_timeout = 60.5)
  stop_cluster(cl)
  options(clutch.idle_limit = 300.5)
  on.exit(options(clutch.idle_limit = NULL), add = TRUE)
  expect_match(unclass(launch_plan(1)), "'300.5'", fixed = TRUE, all = FALSE)
})
