# Errors of arguments, options and set-up: their classes, and whom they blame.

error_text <- function(expr) tryCatch({
  expr
  "no error"
}, clutch_error = conditionMessage)

test_that("a missing argument is an error of ours in every function", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  maps <- list(cluster_map, cluster_map_dbl, cluster_map_int, cluster_map_chr, cluster_map_lgl,
               cluster_map_dfr, cluster_walk)
  for (map in maps) {
    expect_error(map(), class = "clutch_argument")
    expect_error(map(.x = 1:2, .f = identity), "`cl`", class = "clutch_argument")
    expect_error(map(cl, .f = identity), "`.x`", class = "clutch_argument")
    expect_error(map(cl, 1:2), "`.f`", class = "clutch_argument")
  }
  expect_error(cluster_map2(cl, 1:2, .f = identity), "`.y`", class = "clutch_argument")
  expect_error(cluster_map2(cl, 1:2, 1:2), "`.f`", class = "clutch_argument")
  for (f in list(cluster_export, cluster_setup, cluster_submit, cluster_map2))
    expect_error(f(), "`cl`", class = "clutch_argument")
  expect_error(cluster_submit(cl), "`expr`", class = "clutch_argument")
  expect_error(cluster_setup(cl), "`expr`", class = "clutch_argument")
  expect_error(cluster_export(cl), "`varlist`", class = "clutch_argument")
})

test_that("variables that do not exist are errors of ours", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  expect_error(cluster_export(cl, "no_such_variable"), "varlist.*no_such_variable",
               class = "clutch_argument")
  expect_error(cluster_map(cl, 1:2, identity, .globals = "no_such_variable"),
               "globals.*no_such_variable", class = "clutch_argument")
  expect_error(cluster_submit(cl, 1, .globals = "no_such_variable"), "globals.*no_such_variable",
               class = "clutch_argument")
  here <- 5
  cluster_export(cl, "here")
  expect_identical(parallel::clusterEvalQ(cl, here), list(5))
})

test_that("cluster_setup() and cluster_export() tell which node failed, and why", {
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  parallel::clusterApply(cl, 1:3, function(i) {
    assign("clutch_test_number", i, globalenv())
    NULL
  })
  e <- tryCatch(cluster_setup(cl, if (clutch_test_number == 2) stop("not here")), error = identity)
  expect_s3_class(e, c("clutch_setup", "clutch_error", "error", "condition"), exact = TRUE)
  expect_identical(e$node, 2L)
  expect_match(conditionMessage(e), "node 2: not here")
  e <- tryCatch(cluster_setup(cl[3], stop("nor here")), error = identity)
  expect_identical(e$node, 3L)
  parallel::clusterEvalQ(cl, {
    lockEnvironment(globalenv())
    NULL
  })
  value <- 1
  expect_error(cluster_export(cl, "value"), "node 1: .*locked", class = "clutch_setup")
  expect_null(cl[[1]]$info$setup) # none of it is done on a node that replaces another
})

test_that("a part of a cluster that there is not is an error", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  for (i in list(3, 5L, 2:3, NA, c(TRUE, TRUE, TRUE), "a")) {
    expect_error(cl[i], "2 nodes", class = "clutch_argument")
  }
  expect_identical(length(cl[-1]), 1L)
  expect_identical(length(cl[0]), 0L)
  expect_identical(cl[], cl)
  expect_identical(cl[c(FALSE, TRUE)][[1]], cl[[2]])
  expect_s3_class(cl[2], c("clutch_cluster", "cluster"), exact = TRUE)
  expect_identical(parallel::clusterCall(cl[2:1], identity, 1), list(1, 1))
})

test_that("collect_any() takes tasks or a list, as collect_all() does", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  slow <- cluster_submit(cl, Sys.sleep(60))
  quick <- cluster_submit(cl, 2)
  expect_identical(collect_any(slow, quick)[c("index", "value")], list(index = 2L, value = 2))
  expect_identical(collect_any(list(slow, quick))[c("index", "value")], list(index = 2L, value = 2))
  expect_identical(collect_any(tasks = list(slow, quick))$index, 2L)
  cancel(slow)
  expect_identical(collect_any(quick)$value, 2)
  expect_error(collect_any(), class = "clutch_argument")
  expect_error(collect_any(list()), class = "clutch_argument")
  expect_error(collect_any(quick, 5), class = "clutch_argument")
  for (timeout in list("a", NA, -1, 1:2)) {
    expect_error(collect_any(quick, timeout = timeout), class = "clutch_argument")
    expect_error(collect_all(quick, timeout = timeout), class = "clutch_argument")
  }
  if (!isNamespaceLoaded("dplyr")) # which would be asked, and has an error of its own
    expect_error(collect(1), "wants a task", class = "clutch_argument")
  if (!isNamespaceLoaded("future")) for (f in list(cancel, resolved))
    expect_error(f(1), "wants a task", class = "clutch_argument")
})

test_that("a task has a format", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  t <- cluster_submit(cl, 1, .label = "the task")
  collect(t)
  expect_identical(format(t), "clutch task the task: done")
  expect_output(print(t), "^clutch task the task: done$")
  expect_identical(vapply(list(t, t), format, ""), rep("clutch task the task: done", 2))
})

test_that("options of the package are checked where they are read", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (bad in list("1GB", NA, -1, c(1, 2))) {
    old <- options(clutch.max_size = bad)
    expect_error(cluster_map(cl, 1:2, identity), "clutch.max_size", class = "clutch_argument")
    expect_error(cluster_submit(cl, 1), "clutch.max_size", class = "clutch_argument")
    options(old)
    for (name in c("clutch.trace", "clutch.task_grace")) {
      fresh <- make_cluster(1)
      old <- do.call(options, stats::setNames(list(bad), name))
      expect_error(cluster_map(fresh, 1:2, identity), name, class = "clutch_argument")
      options(old)
      expect_identical(cluster_map(fresh, 1:2, identity), list(1L, 2L))
      stop_cluster(fresh)
    }
  }
  old <- options(clutch.trace = Inf, clutch.task_grace = Inf, clutch.max_size = Inf)
  fresh <- make_cluster(1)
  expect_identical(cluster_map(fresh, 1:2, identity), list(1L, 2L))
  stop_cluster(fresh)
  options(old)
  expect_identical(cluster_map(cl, 1:2, identity), list(1L, 2L))
})

test_that("a wrong clutch.cancel_grace is an error of ours", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  go <- tempfile()
  old <- options(clutch.cancel_grace = "5 s")
  # the call is given up while the node does not listen to interrupts
  busy <- function(go) {
    suspendInterrupts(while (!file.exists(go)) NULL) # Sys.sleep() would react
    1
  }
  setTimeLimit(elapsed = 0.3, transient = TRUE)
  gone <- tryCatch(parallel::clusterCall(cl, busy, go), error = identity)
  setTimeLimit()
  expect_s3_class(gone, "error")
  expect_error(parallel::clusterCall(cl, identity, 1), "clutch.cancel_grace",
               class = "clutch_argument")
  options(old)
  file.create(go)
  expect_identical(parallel::clusterCall(cl, identity, 1), list(1))
  unlink(go)
})

test_that("a package that cannot be attached is no element's fault", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  for (how in c("stop", "continue")) {
    e <- tryCatch(
      cluster_map(cl, 1:4, identity, .packages = c("stats", "no.such.package"), .on_error = how),
      error = identity
    )
    expect_s3_class(e, c("clutch_package", "clutch_error", "error", "condition"), exact = TRUE)
    expect_identical(e$package, "no.such.package")
    expect_no_match(conditionMessage(e), "element")
  }
  expect_error(cluster_map_dbl(cl, 1:2, identity, .packages = "no.such.package"),
               class = "clutch_package")
  e <- tryCatch(collect(cluster_submit(cl, 1, .packages = "no.such.package")), error = identity)
  expect_s3_class(e, "clutch_package")
  # but one that the element's own code wants is (of several the first that is known is named)
  absent <- "no.such.package"
  expect_error(cluster_map(cl, 1, function(i) library(absent, character.only = TRUE)),
               "element 1", class = "clutch_task_error")
  expect_identical(cluster_map(cl, 1:2, identity), list(1L, 2L))
})

test_that("the hint for an object that a node has not found fits the session", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  in_workspace <- function(f) {
    environment(f) <- globalenv()
    f
  }
  why <- function(f) error_text(cluster_map(cl, 1, in_workspace(f), .globals = FALSE))
  nowhere <- why(function(i) no_such_object_at_all)
  expect_match(nowhere, "object 'no_such_object_at_all' not found")
  expect_no_match(nowhere, ".globals|cluster_export|.packages")
  expect_match(nowhere, "Neither the workspace")
  expect_no_match(why(function(i) no_such_function_at_all()), ".globals|.packages")
  a_local_object <- 1
  expect_match(why(function(i) a_local_object), "`.globals = \"a_local_object\"`")
  expect_match(why(function(i) expect_silent(1)),
               "package 'testthat' there with `.packages = \"testthat\"`")
  expect_no_match(why(function(i) expect_silent(1)), ".globals|cluster_export")
})

test_that("the session's cluster, tasks and connections name their cause in a node", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  for (strategy in c("fork_server", "spawn", "parallel")) {
    other <- make_cluster(1, strategy = strategy)
    use <- function(i, of) parallel::clusterCall(of, identity, 1)
    expect_match(error_text(cluster_map(other, 1, use, .more = list(of = cl))),
                 "the session's cluster.*make one there")
    stop_cluster(other)
  }
  expect_match(error_text(cluster_map(cl, 1, function(i, of) clutch::cluster_map(of, 1, identity),
                                      .more = list(of = cl))),
               "the session's cluster")
  t <- cluster_submit(cl, 1)
  expect_match(
    error_text(cluster_map(cl, 1, function(i, t) clutch::resolved(t), .more = list(t = t))),
    "the session's task"
  )
  # saved and loaded is another cause
  again <- unserialize(serialize(cl, NULL))
  expect_match(error_text(parallel::clusterCall(again, identity, 1)), "saved and loaded again")
  unused <- make_cluster(1)
  for (of in list(cl, unused)) {
    expect_error(cluster_map(unserialize(serialize(of, NULL)), 1, identity),
                 "saved and loaded again", class = "clutch_stopped")
  }
  stop_cluster(unused)

  pair <- socket_pair()
  light <- socket_pair(slot = FALSE)
  path <- tempfile()
  writeLines("text", path)
  con <- file(path, "r")
  on.exit({
    close_all(pair$a, pair$b, light$a, light$b, con)
    unlink(path)
  }, add = TRUE)
  uses <- list(clutch::socket_read, clutch::socket_info, function(s) clutch::socket_write(s, "a"),
               close)
  for (use in uses) for (s in list(pair$a, light$a)) {
    f <- function(i, s, use) use(s)
    expect_error(cluster_map(cl, 1, f, s = s, use = use), "`s.* which only the process that made",
                 class = "clutch_pointer")
    e <- tryCatch(cluster_map(cl, 1, f, s = s, use = use, .pointers = "allow"), error = identity)
    expect_s3_class(e$parent, "clutch_socket_closed")
    expect_match(conditionMessage(e), "another process's: connections cannot be sent to a node")
  }
  for (s in list(pair$a, con)) {
    f <- function(i, s) readBin(s, "raw", 1)
    expect_error(cluster_map(cl, 1, f, s = s), "`s` is a connection", class = "clutch_pointer")
    expect_match(error_text(cluster_map(cl, 1, f, s = s, .pointers = "allow")),
                 "Connections cannot be sent to a node")
  }
  expect_error(socket_info(unserialize(serialize(light$a, NULL))), "saved and loaded",
               class = "clutch_socket_closed")
  close(light$a)
  # of one that was closed here the cause is that
  e <- tryCatch(socket_info(light$a), error = identity)
  expect_match(conditionMessage(e), "this socket is closed")
})

test_that("of several elements that fail at the same time the first is told", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  first <- function(n, f) {
    tryCatch(cluster_map(cl, seq_len(n), f), clutch_task_error = function(e) e$element)
  }
  # Where the other node is kept from running for long, it is not awaited: one round of three.
  for (round in 1:3) {
    told <- vapply(1:50, function(k) first(1000, function(i) stop(i)), 1)
    if (sum(told == 1) > 44) break
  }
  expect_gt(sum(told == 1), 44)
  # the first that is known, where those before it go on
  expect_identical(first(4, function(i) if (i == 1) Sys.sleep(60) else stop(i)), 2)
})
