test_that("a cluster starts, computes, prints and stops, and leaves nothing", {
  linux_only()
  stop_cluster(make_cluster(1)) # the session's own means of waiting stay open from the first on
  fork_server_stop(all = TRUE)
  invisible(gc())
  before <- open_fds()
  cl <- make_cluster(3)
  expect_s3_class(cl, c("clutch_cluster", "cluster"), exact = TRUE)
  expect_identical(length(cl), 3L)
  expect_identical(parallel::parSapply(cl, 1:10, function(i) i^2), (1:10)^2)
  p <- pids(cl)
  expect_identical(unlist(parallel::clusterCall(cl, Sys.getpid)), p)
  expect_identical(vapply(cl, function(nd) nd$rank, 1L), 1:3)
  tmp <- unlist(parallel::clusterCall(cl, tempdir))
  expect_identical(anyDuplicated(c(tmp, tempdir())), 0L)
  expect_true(all(dir.exists(tmp)))
  expect_output(print(cl), "clutch cluster with 3 nodes on host")
  expect_output(print(cl), as.character(p[[1L]]))
  expect_output(print(cl[[2L]]), paste("pid", p[[2L]]))
  expect_true(all(cluster_status(cl)$tasks >= 3))
  stop_cluster(cl)
  expect_false(any(alive(p)))
  expect_true(eventually(!any(dir.exists(tmp)))) # the fork server tells of the end first
  fork_server_stop()
  expect_false(any(dir.exists(dirname(tmp))))
  rm(cl)
  invisible(gc())
  expect_identical(open_fds(), before)
})

test_that("the fork server stays warm, and one that died is replaced with a message", {
  linux_only()
  cl <- make_cluster(1)
  server <- .Call(clutch:::ffi_node_info, cl[[1L]]$handle)$server_pid
  stop_cluster(cl)
  cl <- make_cluster(2)
  expect_identical(.Call(clutch:::ffi_node_info, cl[[1L]]$handle)$server_pid, server)
  p <- pids(cl)
  tmp <- unlist(parallel::clusterCall(cl, tempdir))
  tools::pskill(server, 9L)
  expect_true(eventually(!any(alive(p))))
  e <- tryCatch(parallel::clusterCall(cl, identity, 1), clutch_node_died = identity)
  expect_s3_class(e, "clutch_node_died")
  expect_match(conditionMessage(e), "fork server .* killed by signal 9")
  expect_message(cl <- make_cluster(2), "fork server .* killed by signal 9 .SIGKILL.; a new one")
  expect_false(any(dir.exists(tmp)))
  expect_identical(parallel::clusterCall(cl, identity, 1), list(1, 1))
  stop_cluster(cl)
})

test_that("a cluster that is garbage is stopped", {
  linux_only()
  p <- pids(make_cluster(2))
  invisible(gc())
  invisible(gc())
  expect_true(eventually(!any(alive(p))))
})

test_that("arguments of no use are clear errors, before anything is started", {
  for (bad in list(0, -1, NA, NA_real_, "a b", 1.5, Inf, c(2, 1), character(), "-oProxyCommand=x",
                   TRUE))
    expect_error(make_cluster(bad), class = "clutch_argument")
  expect_error(make_cluster(c("localhost", "some.host"), "fork_server"), "this machine only",
               class = "clutch_argument")
  expect_error(make_cluster(1, port = 70000), class = "clutch_argument")
  expect_error(make_cluster(1, node = "x"), class = "clutch_argument")
  expect_error(make_cluster(1e6), class = "clutch_limit")
  expect_error(make_cluster(60000), class = "clutch_limit")
  expect_error(make_cluster(2, setup_timout = 3), "did you mean 'setup_timeout'",
               class = "clutch_argument")
  expect_error(make_cluster(2, 3, 4, 5, 6, 7, 8, 9), class = "clutch_argument")
  expect_error(make_cluster(1, env = "x"), class = "clutch_argument")
  expect_error(make_cluster(1, setup_timeout = -1), class = "clutch_argument")
  expect_error(make_cluster(1, "nonsense"), class = "clutch_argument")
  expect_error(make_cluster(1, outfile = tempfile("no", "/no/such/folder")), "no/such/folder",
               class = "clutch_start")
  old <- Sys.getenv("_R_CHECK_LIMIT_CORES_", NA)
  on.exit(
    if (
      is.na(old)
    ) Sys.unsetenv("_R_CHECK_LIMIT_CORES_") else Sys.setenv("_R_CHECK_LIMIT_CORES_" = old)
  )
  Sys.setenv("_R_CHECK_LIMIT_CORES_" = "TRUE")
  expect_error(clutch::make_cluster(3), "3 simultaneous processes spawned", class = "clutch_limit")
})

test_that("packages are attached in every node, and a missing one is named", {
  cl <- make_cluster(2, packages = c("splines", "stats4"))
  s <- parallel::clusterCall(cl, search)
  expect_true(all(c("package:splines", "package:stats4") %in% s[[1L]]))
  stop_cluster(cl)
  e <- tryCatch(make_cluster(2, packages = c("splines", "no.such.package")),
                clutch_package = identity)
  expect_s3_class(e, "clutch_package")
  expect_match(conditionMessage(e), "no.such.package")
  expect_identical(e$package, "no.such.package")
})

test_that("nodes are as an R started now would be", {
  cl <- make_cluster(1)
  stop_cluster(cl)
  wd <- setwd(tempdir())
  on.exit(setwd(wd))
  Sys.setenv(CLUTCH_TEST_VAR = "now")
  on.exit(Sys.unsetenv("CLUTCH_TEST_VAR"), add = TRUE)
  assign("clutch_test_object", 1, globalenv())
  on.exit(rm("clutch_test_object", envir = globalenv()), add = TRUE)
  cl <- make_cluster(1, env = c(CLUTCH_TEST_OTHER = "given"))
  base <- parallel::makePSOCKcluster(1)
  look <- function() list(search = search(), wd = getwd(), env = Sys.getenv(), lib = .libPaths(),
                          locale = Sys.getlocale(), umask = Sys.umask(), objects = ls(globalenv()),
                          interactive = interactive(),
                          options = options()[setdiff(names(options()), c("rscript", "nwarnings"))])
  ours <- parallel::clusterCall(cl, look)[[1L]]
  theirs <- parallel::clusterCall(base, look)[[1L]]
  parallel::stopCluster(base)
  stop_cluster(cl)
  for (what in c("search", "wd", "lib", "locale", "umask", "objects", "interactive"))
    expect_identical(ours[[what]], theirs[[what]])
  same <- names(theirs$options)
  expect_identical(ours$options[same], theirs$options[same])
  expect_identical(ours$env[["CLUTCH_TEST_OTHER"]], "given")
  own <- c("R_SESSION_TMPDIR", "CLUTCH_TEST_OTHER", "R_TESTS", "CLUTCH_NODE_CORES", "CLUTCH_MARK",
           "CLUTCH_BUDGET", "R_DATATABLE_NUM_THREADS", clutch:::thread_variables)
  keep <- function(e) {
    e <- structure(as.character(e), names = names(e))[!names(e) %in% own]
    # the shell script `R` puts its folders before those that are there, which may be the same
    path <- unique(strsplit(c(e, LD_LIBRARY_PATH = "")[["LD_LIBRARY_PATH"]], ":")[[1L]])
    e["LD_LIBRARY_PATH"] <- paste(path, collapse = ":")
    e
  }
  expect_identical(keep(ours$env), keep(theirs$env))
})

test_that("random numbers differ between nodes, and loading leaves .Random.seed alone", {
  cl <- make_cluster(8)
  x <- unlist(parallel::clusterCall(cl, stats::runif, 2))
  expect_identical(anyDuplicated(x), 0L)
  expect_identical(parallel::clusterCall(cl[1], RNGkind)[[1L]], RNGkind())
  stop_cluster(cl)
  cl <- make_cluster(2) # of the same fork server
  more <- unlist(parallel::clusterCall(cl, stats::runif, 2))
  expect_identical(anyDuplicated(c(x, more)), 0L)
  stop_cluster(cl)
  set.seed(1)
  before <- .Random.seed
  cl <- make_cluster(2)
  stop_cluster(cl)
  expect_identical(.Random.seed, before)
})

test_that("outfile gets what nodes print", {
  out <- tempfile()
  cl <- make_cluster(1, outfile = out)
  parallel::clusterCall(cl, function() {
    cat("to output\n")
    message("to error")
    system("echo from a child")
  })
  stop_cluster(cl)
  lines <- readLines(out)
  expect_match(lines, "starting worker pid=", all = FALSE)
  for (l in c("to output", "to error", "from a child")) expect_true(l %in% lines)
})

test_that("strategy spawn starts each node afresh", {
  long_test()
  cl <- make_cluster(2, strategy = "spawn", packages = "splines")
  expect_identical(parallel::parSapply(cl, 1:4, function(i) i), 1:4)
  expect_true(all(vapply(parallel::clusterCall(cl, search), function(s) "package:splines" %in% s,
                         NA)))
  e <- tryCatch(parallel::clusterCall(cl[2L], function() tools::pskill(Sys.getpid(), 9L)),
                clutch_node_died = identity)
  expect_identical(e$signal, 9L)
  p <- pids(cl)
  stop_cluster(cl)
  expect_false(any(alive(p)))
})

test_that("more than 128 nodes work", {
  long_test()
  linux_only()
  before <- length(list.files("/proc", "^[0-9]+$"))
  cl <- make_cluster(300)
  expect_identical(unlist(parallel::clusterApply(cl, 1:300, identity)), 1:300)
  x <- unlist(parallel::clusterCall(cl, function() stats::runif(1)))
  expect_identical(anyDuplicated(x), 0L)
  p <- pids(cl)
  stop_cluster(cl)
  expect_true(eventually(!any(alive(p))))
})

test_that("nodes that are stopped close what was left open, and run finalizers of the workspace", {
  folder <- tempfile("left")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  at <- function(name) file.path(folder, name)
  # each on a node of its own: one thing is enough
  leave <- list(
    connection = function(path) {
      con <- file(path, "w")
      cat("all of it\n", file = con)
      NULL # nor is a variable left
    },
    sink = function(path) {
      sink(path)
      cat("all of it\n")
      NULL
    },
    device = function(path) {
      grDevices::pdf(path)
      graphics::plot.new()
      NULL
    },
    finalizer = function(path) {
      assign("left", new.env(), globalenv())
      said <- function(e) cat("all of it\n", file = path)
      environment(said) <- list2env(list(path = path), parent = baseenv())
      reg.finalizer(get("left", globalenv()), said)
      NULL
    }
  )
  cl <- make_cluster(length(leave) + 1L)
  cluster_map(cl, seq_along(cl), identity) # after tasks, too
  for (k in seq_along(leave)) parallel::clusterCall(cl[k], leave[[k]], at(names(leave)[[k]]))
  p <- pids(cl)
  stop_cluster(cl)
  expect_false(any(alive(p)))
  for (name in c("connection", "sink", "finalizer"))
    expect_identical(readLines(at(name)), "all of it", info = name)
  expect_match(tail(readLines(at("device"), warn = FALSE), 1L), "%%EOF", fixed = TRUE)
})

test_that("nothing of a cluster of forked nodes listens at a port", {
  linux_only()
  listeners <- function(pids) {
    tables <- Filter(file.exists, c("/proc/net/tcp", "/proc/net/tcp6"))
    fields <- strsplit(trimws(unlist(lapply(tables, function(f) readLines(f)[-1L]))), " +")
    fields <- Filter(function(f) f[[4L]] == "0A", fields) # the state LISTEN
    sockets <- sprintf("socket:[%s]", vapply(fields, `[[`, "", 10L))
    files <- Sys.glob(sprintf("/proc/%d/fd/*", pids))
    sum(Sys.readlink(files) %in% sockets)
  }
  before <- listeners(Sys.getpid())
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_identical(cluster_map_int(cl, 1:2, identity), 1:2)
  expect_identical(listeners(c(server_pid(cl), pids(cl))), 0L)
  expect_identical(listeners(Sys.getpid()), before)
  l <- socket_listen(0)
  expect_identical(listeners(Sys.getpid()), before + 1L) # it would be seen
  close(l)
})
