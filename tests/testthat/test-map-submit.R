# cluster_submit(): tasks that are waited for, cancelled, collected by others.

test_that("a value that nobody has any more goes with the next collection", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (plain in c(TRUE, FALSE)) {
    for (k in 1:2) before <- gc()[[2L, 2L]]
    for (i in 1:20) {
      task <- if (plain) cluster_submit(cl, rep(0.5, 1e5)) else {
        cluster_submit(cl, rep(0.5, 1e5), .label = "not plain")
      }
      expect_length(collect(task), 1e5)
    }
    rm(task)
    expect_lt(gc(full = FALSE)[[2L, 2L]] - before, 5) # MB; all of them have 16
  }
})

test_that("tasks are submitted, waited for, cancelled, raced", {
  of_each_strategy(function(cl) {
    a <- 20
    f <- function(k) {
      g <- function(z) z * k
      cluster_submit(cl, g(4) + a)
    }
    t <- f(3)
    expect_s3_class(t, "clutch_task")
    expect_identical(collect(t), 32)
    expect_identical(collect(t), 32) # again
    expect_true(resolved(t))
    slow <- cluster_submit(cl, Sys.sleep(60), .label = "the slow one")
    expect_false(resolved(slow))
    expect_error(collect(slow, timeout = 0.1), class = "clutch_timeout")
    r <- collect_any(list(slow, cluster_submit(cl, "quick")))
    expect_identical(r[c("index", "value")], list(index = 2L, value = "quick"))
    expect_true(cancel(slow))
    expect_error(collect(slow), class = "clutch_task_cancelled")
    expect_false(cancel(slow))
    expect_identical(collect_all(lapply(1:20, function(i) cluster_submit(cl, i^2))),
                     lapply(1:20, function(i) i^2))
    expect_error(collect(cluster_submit(cl, stop("oops"))), "oops", class = "clutch_task_error")
    expect_message(collect(cluster_submit(cl, message("said"))), "said")
    expect_output(print(cluster_submit(cl, 1 + 1)), "clutch task '1 \\+ 1'")
    set.seed(3)
    x <- collect(cluster_submit(cl, runif(1)))
    set.seed(3)
    expect_identical(collect(cluster_submit(cl, runif(1))), x)
    expect_true(works(cl))
  })
})

test_that("the task that ended first is not the one that is looked at first", {
  of_each_strategy(function(cl) {
    file <- tempfile()
    slow <- cluster_submit(cl, {
      while (!file.exists(file)) Sys.sleep(0.01)
      Sys.sleep(0.3)
      file.create(paste0(file, 2))
    })
    quick <- cluster_submit(cl, file.create(file))
    expect_true(eventually(file.exists(paste0(file, 2)), 60))
    Sys.sleep(0.3) # both have ended, and the session reads of it in one go
    expect_identical(collect_any(slow, quick)$index, 2L)
    begun <- paste0(file, 3)
    failing <- cluster_submit(cl, {
      file.create(begun)
      stop("oops")
    })
    expect_true(eventually(file.exists(begun)))
    Sys.sleep(0.3)
    slow <- cluster_submit(cl, 1)
    Sys.sleep(0.3)
    expect_error(collect_any(slow, failing), "oops")
    unlink(paste0(file, c("", 2, 3)))
  })
})

test_that("resolved() and collect() are those of other packages for what is no task", {
  # in a session of its own, with packages of these names and nothing else in them
  s <- start_script(fixture = "masked-generics")
  expect_done(s)
  expect_true(ends(s))
})

test_that("submitted tasks are all begun while nodes are idle, also when the session computes", {
  of_each_strategy(function(cl) {
    marks <- tempfile(c("a", "b"))
    t <- lapply(marks, function(mark) cluster_submit(cl, {
      file.create(mark)
      Sys.sleep(60)
    }))
    expect_true(eventually(all(file.exists(marks)))) # nothing of the cluster's is called meanwhile
    lapply(t, cancel)
    unlink(marks)
  })
})

test_that("a task to which nothing refers is cancelled, and nothing is left of it", {
  linux_only()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  mark <- tempfile()
  invisible(gc())
  before <- .Call(clutch:::ffi_live_handles)
  for (i in 1:4) cluster_submit(cl, {
    Sys.sleep(60)
    file.create(mark)
  })
  invisible(gc())
  expect_true(eventually(all(cluster_status(cl)$state == "idle")))
  expect_false(file.exists(mark))
  invisible(gc())
  expect_lte(.Call(clutch:::ffi_live_handles) - before, 1) # the scheduler
})

test_that("tasks become promises where package promises is installed", {
  skip_if_not_installed("promises")
  skip_if_not_installed("later")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  got <- NULL
  promises::then(promises::as.promise(cluster_submit(cl, 6 * 7)), function(v) got <<- v)
  expect_true(eventually({
    later::run_now(0.01)
    identical(got, 42)
  }))
})

test_that("collect_any() and collect_all() take the same: tasks, or one list of them", {
  expect_identical(formals(collect_any), formals(collect_all))
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  submit <- function(i) cluster_submit(cl, i * 2)
  expect_identical(collect_all(submit(1), b = submit(2)), list(2, b = 4))
  expect_identical(collect_all(list(a = submit(1), submit(2))), list(a = 2, 4))
  expect_identical(collect_all(list()), list())
  expect_identical(collect_any(submit(3))$value, 6)
  expect_identical(collect_any(list(submit(3)))$value, 6)
  slow <- cluster_submit(cl, Sys.sleep(60), .label = "the slow one")
  for (late in list(function() collect_all(submit(1), slow, timeout = 0.1),
                    function() collect_any(list(slow), timeout = 0.1),
                    function() collect(slow, timeout = 0.1))) {
    e <- tryCatch(late(), clutch_timeout = identity)
    expect_s3_class(e, "clutch_timeout")
    expect_match(conditionMessage(e), "within 0.1 seconds", fixed = TRUE)
  }
  expect_identical(resolved(list(slow, submit(1)))[[1L]], FALSE)
  expect_identical(cancel(list(a = slow, b = slow)), c(a = TRUE, b = FALSE))
  expect_identical(resolved(list()), logical())
  expect_identical(cancel(list()), logical())
  for (bad in list(1, list(1), "a")) {
    expect_error(collect_all(bad), class = "clutch_argument")
    expect_error(collect_any(bad), class = "clutch_argument")
  }
})

test_that("do.call() submits code in an object", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (code in list(quote(1 + 1), expression(1 + 1))) {
    expect_identical(collect(do.call(cluster_submit, list(cl, code))), 2)
  }
})

test_that("thousands of tasks wait at once: the time for each does not grow with their number", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  used <- function() sum(proc.time()[1:2]) # others take time, too
  took <- function(n) {
    began <- used()
    tasks <- lapply(seq_len(n), function(i) cluster_submit(cl, i))
    values <- lapply(tasks, collect)
    expect_identical(values, as.list(seq_len(n)))
    (used() - began) / n
  }
  took(500)
  few <- min(took(500), took(500), took(500))
  # it grew twentyfold when each step went through all of them
  expect_lt(took(10000) / few, 8)
})

test_that("a label is made of code when it is wanted, and code with data in it is not kept", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  expect_match(format(cluster_submit(cl, "text")), "clutch task '\"text\"': ", fixed = TRUE)
  expect_null(cluster_submit(cl, 1 + 1)$label)
  data <- as.double(1:1e5)
  task <- do.call(cluster_submit, list(cl, call("sum", data)))
  expect_null(task$code)
  expect_match(format(task), "^clutch task 'sum[(]c[(]1, ?2.* [.]{3}'")
  expect_identical(collect(task), sum(data))
  expect_error(collect(cluster_submit(cl, stop("oops"))), "'stop(\"oops\")' on node 1",
               fixed = TRUE)
})

test_that("what a node is told of a task is forgotten there when it has answered", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  finalized <- function() parallel::clusterEvalQ(cl, {
    gc()
    exists("clutch_finalized")
  })[[1L]]
  f <- local({
    kept <- new.env()
    function() {
      reg.finalizer(kept, function(e) assign("clutch_finalized", TRUE, globalenv()))
      1
    }
  })
  task <- cluster_submit(cl, f())
  while (!resolved(task)) Sys.sleep(0.01)
  expect_true(finalized())
  expect_identical(collect(task), 1)
})

test_that("resolved() and the collecting functions wait, and return what is asked for", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  gate <- tempfile()
  on.exit(unlink(gate), add = TRUE)
  slow <- cluster_submit(cl, {
    while (!file.exists(gate)) Sys.sleep(0.01)
    "done"
  })
  took <- system.time(expect_false(resolved(slow, timeout = 0.3)))[[3]]
  expect_gt(took, 0.29)
  expect_identical(collect(slow, timeout = 0.01, otherwise = NULL), NULL)
  expect_identical(collect(slow, 0, "not yet"), "not yet")
  expect_identical(collect(slow, timeout = 0, otherwise = stop), stop)
  expect_identical(collect_any(slow, timeout = 0.01, otherwise = "none"), "none")
  quick <- cluster_submit(cl, 2)
  expect_identical(collect_all(quick, slow, timeout = 0.01, otherwise = "not all"), "not all")
  tasks <- list(slow, quick, slow)
  expect_identical(resolved(tasks, 0.2), c(FALSE, TRUE, FALSE))
  expect_error(resolved(slow, timeout = "1 s"), class = "clutch_argument")
  expect_error(resolved(list(slow), timeout = -1), class = "clutch_argument")
  file.create(gate)
  expect_true(resolved(slow, timeout = Inf))
  # what has ended is not replaced by another value, nor is an error
  expect_identical(collect(slow, timeout = 0, otherwise = stop("not evaluated")), "done")
  failing <- cluster_submit(cl, stop("oops"))
  expect_true(resolved(failing, 60))
  expect_error(collect(failing, otherwise = 1), "oops", class = "clutch_task_error")
})

test_that("cluster_submit_call(): arguments are values, what the function needs is found", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  call <- function(...) collect(cluster_submit_call(cl, ...))
  expect_identical(call(sum, list(1, 2, NA, na.rm = TRUE)), 3)
  expect_identical(call("paste", list("a", "b", sep = "-")), "a-b")
  expect_identical(call(function() 7), 7)
  expect_identical(call(~ .x + .y, list(1, 2)), 3)
  expect_identical(call(function(x) x, list(quote(a + b))), quote(a + b))
  expect_identical(call(identity, list(quote(a))), quote(a))
  # names that the node's own call has, or that come twice
  args <- structure(as.list(1:5), names = c("FUN", ".x", "a", "a", ""))
  expect_identical(call(c, args), unlist(args))
  expect_identical(cluster_map(cl, 0L, c, .more = args[-1])[[1]], c(0L, unlist(args[-1])))
  offset <- 10
  local({
    inner <- 100
    expect_identical(call(function(x) x + inner + offset, list(1)), 111)
  })
  workspace <- globalenv()
  assign("of_the_workspace", 5, workspace)
  assign("helper_of_the_workspace", function(x) x * of_the_workspace, workspace)
  on.exit(rm(of_the_workspace, helper_of_the_workspace, envir = workspace), add = TRUE)
  f <- function(x, g) helper_of_the_workspace(x) + g(1)
  g <- function(y) of_the_workspace
  environment(f) <- environment(g) <- workspace
  expect_identical(call(f, list(2, g = g)), 15)
  expect_error(call(f, list(2, g = g), .globals = FALSE), class = "clutch_task_error")
  expect_identical(call(f, list(2, g), .globals = list(of_the_workspace = 1,
                                                       helper_of_the_workspace = identity)), 3)
  task <- cluster_submit_call(cl, Sys.sleep, list(60), .timeout = 0.1)
  expect_s3_class(task, "clutch_task")
  expect_match(format(task), "clutch task 'Sys.sleep(...)': ", fixed = TRUE)
  expect_error(collect(task), "'Sys.sleep(...)'", fixed = TRUE, class = "clutch_task_timeout")
  expect_match(format(cluster_submit_call(cl, identity, list(1), .label = "mine")), "mine")
  set.seed(3)
  x <- call(runif, list(1))
  set.seed(3)
  expect_identical(call(runif, list(1)), x)
  expect_error(call(), class = "clutch_argument")
  expect_error(call(42), class = "clutch_argument")
  expect_error(call("no_such_function"), "no_such_function", class = "clutch_argument")
  expect_error(call(sum, 1:3), class = "clutch_argument")
  expect_error(call(sum, .retries = "a"), class = "clutch_argument")
})

# The same expression submitted in the quick way, and with an option given, which is never quick.
both_ways <- function(cl, call, env = parent.frame()) {
  slow <- call
  slow$.label <- "slow"
  lapply(list(call, slow), function(call) {
    set.seed(5)
    task <- eval(call, env)
    answer <- tryCatch(list(value = collect(task)), error = function(e) list(error = class(e)))
    c(answer, list(next_draw = runif(1), again = tryCatch(collect(task), error = class)))
  })
}

test_that("what is submitted in the quick way comes to the same", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  local_value <- 5
  empty <- NULL
  makeActiveBinding("active", function() 7, environment())
  in_function <- function(x, missing_one, ...) {
    both_ways(cl, quote(cluster_submit(cl, list(x, nargs(), ...length()))))
  }
  calls <- list(
    quote(cluster_submit(cl, 1)), quote(cluster_submit(cl, "text")),
    quote(cluster_submit(cl, NULL)), quote(cluster_submit(cl, rnorm(2))),
    quote(cluster_submit(cl, local_value + 1)), quote(cluster_submit(cl, is.null(empty))),
    quote(cluster_submit(cl, active)), quote(cluster_submit(cl, stop("oops"))),
    quote(cluster_submit(cl, no_such_variable)), quote(cluster_submit(cl, no_such_function())),
    quote(cluster_submit(cl, assign("a", local_value))),
    quote(cluster_submit(cl, tools::toTitleCase("a b"))),
    quote(cluster_submit(cl, vapply(1:3, function(i) i * local_value, 1))),
    quote(cluster_submit(cl, data.frame(a = local_value))),
    quote(cluster_submit(expr = (local_value <<- 6) + local_value, cl = cl)))
  for (call in calls) {
    answers <- both_ways(cl, call)
    expect_identical(answers[[1L]], answers[[2L]], info = deparse(call))
  }
  answers <- in_function(3)
  expect_identical(answers[[1L]], answers[[2L]])
  expect_identical(local_value, 5)
})

test_that("the quick way is taken where nothing is out of the ordinary, and only there", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  collect(cluster_submit(cl, 1))
  alone <- function(code, env) is.function(.Call(clutch:::ffi_code_alone, code, env))
  submit <- function() .Call(clutch:::ffi_submit, cl, function() 1, 1, NULL)
  frame <- function(...) list2env(list(...), new.env(parent = globalenv()))
  expect_true(alone(1, globalenv()))
  expect_true(alone(quote(sqrt(2) + rnorm(1)), globalenv()))
  expect_true(alone(quote(x + 1), frame(x = 1)))
  for (element in lapply(1:2, function(x) environment())) {
    parent.env(element) <- globalenv()
    expect_true(alone(quote(x + 1), element))
  }
  assign("of_workspace", 1, globalenv())
  on.exit(rm("of_workspace", envir = globalenv()), add = TRUE)
  expect_false(alone(quote(of_workspace), globalenv()))
  expect_false(alone(quote(x + 1), frame(x = NULL)))
  expect_false(alone(quote(x + 1), asNamespace("stats")))
  expect_false(alone(quote(x + 1), (function(x, ...) environment())(1)))
  f <- function(x) of_workspace
  environment(f) <- globalenv()
  expect_false(alone(quote(f(x)), frame(f = f, x = 1)))
  expect_false(alone(structure(1, class = "a"), globalenv()))
  expect_false(alone(as.double(1:1000), globalenv()))
  expect_s3_class(submit(), "clutch_task")
  old <- options(clutch.seed = FALSE)
  expect_null(submit())
  options(old)
  old <- options(warn = 2)
  expect_null(submit())
  options(old)
  two <- make_cluster(2)
  on.exit(stop_cluster(two), add = TRUE)
  collect(cluster_submit(two, 1))
  expect_null(.Call(clutch:::ffi_submit, two[2L], function() 1, 1, NULL))
})

test_that("the quick way is not taken where a field that it looks at is not there", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  collect(cluster_submit(cl, 1))
  info <- cl[[1L]]$info
  t <- info$tasks
  without <- function(field) list2env(mget(setdiff(names(t), field), envir = t), new.env())
  submit <- function(t) {
    clutch:::set_cluster(info, tasks = t)
    .Call(clutch:::ffi_submit, cl, function() 1, 1, NULL)
  }
  value <- function(task, t) {
    task$scheduler <- t
    .Call(clutch:::ffi_task_value, task)
  }
  for (field in c("deaths", "deaths_in_a_row", "replacements", "has_attached")) {
    expect_null(submit(without(field)), info = field)
  }
  task <- submit(t)
  expect_s3_class(task, "clutch_task")
  for (field in c("replacements", "resize")) expect_null(value(task, without(field)), info = field)
  expect_identical(value(task, t), list(value = 1))
})

test_that("tasks of a dead node are seen to in the quick way, too", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (k in 1:3) {
    pid <- cluster_status(cl)$pid
    expect_identical(collect(cluster_submit(cl, k)), k)
    tools::pskill(pid, tools::SIGKILL)
    deadline <- Sys.time() + 10
    while (cluster_status(cl)$state != "dead" && Sys.time() < deadline) Sys.sleep(0.01)
    expect_identical(collect(cluster_submit(cl, 2)), 2)
    expect_error(collect(cluster_submit(cl, tools::pskill(Sys.getpid(), tools::SIGKILL))),
                 class = "clutch_task_died")
  }
})

test_that("what is missing or no cluster is told in the quick way, too", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  refused <- function(expr) expect_error(expr, class = "clutch_argument")
  refused(cluster_submit())
  refused(cluster_submit(cl))
  refused(cluster_submit(cl, .label = "a"))
  refused(cluster_submit(expr = 1, .label = "a"))
  refused(cluster_submit(list(), 1))
  refused(cluster_submit("a", 1))
})

test_that("tasks are told apart, and what one has said is relayed once", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  a <- cluster_submit(cl, 1)
  b <- cluster_submit(cl, 2)
  class(a) <- c("of_mine", class(a))
  expect_identical(class(b), class(cluster_submit(cl, 3)))
  expect_false(inherits(b, "of_mine"))
  expect_identical(collect(b), 2)
  said <- cluster_submit(cl, {
    message("once")
    4
  })
  expect_message(expect_identical(collect(said), 4), "once")
  expect_silent(expect_identical(collect(said), 4))
})

test_that("variables of the workspace travel in the quick way, and nothing of them stays", {
  cl <- make_cluster(1)
  workspace <- globalenv()
  before <- ls(workspace, all.names = TRUE)
  on.exit({
    stop_cluster(cl)
    made <- setdiff(ls(workspace, all.names = TRUE), c(before, ".Random.seed"))
    rm(list = made, envir = workspace)
  })
  assign("g_cl", cl, workspace)
  here <- function(expr) eval(substitute(expr), workspace)
  alone <- function(code) .Call(clutch:::ffi_code_alone, code, workspace)
  here({
    g_k <- 3
    g_add <- function(x) x + g_k
    g_null <- NULL
    makeActiveBinding("g_active", function() 7, globalenv())
  })
  expect_identical(alone(quote(g_k * 2))[[2L]], list(g_k = 3))
  expect_setequal(names(alone(quote(g_add(2)))[[2L]]), c("g_add", "g_k"))
  expect_null(alone(quote(is.null(g_null))))
  expect_null(alone(quote(g_active)))
  expect_identical(here(collect(cluster_submit(g_cl, g_k * 2))), 6)
  expect_identical(here(collect(cluster_submit(g_cl, g_add(2)))), 5)
  expect_identical(here(collect(cluster_submit(g_cl, is.null(g_null)))), TRUE)
  expect_identical(here(collect(cluster_submit(g_cl, g_active))), 7)
  expect_identical(here(cluster_map(g_cl, 1:3, function(i) i + g_k)), list(4, 5, 6))
  expect_identical(here(cluster_map(g_cl, 1, g_add)), list(4))
  left <- function() unlist(parallel::clusterCall(cl, ls, workspace))
  expect_identical(left(), character())
  # as an ordinary variable of the workspace: others find it there, and what is done to it ends
  expect_identical(here(collect(cluster_submit(g_cl, {
    found <- get("g_k", globalenv())
    g_k <<- g_k + 1
    rm(g_k, envir = globalenv())
    found
  }))), 3)
  expect_identical(here(collect(cluster_submit(g_cl, {
    g_k
    lockBinding("g_k", globalenv())
    exists("g_k")
  }))), TRUE)
  expect_identical(left(), character())
  # one that the node has is there again
  parallel::clusterCall(cl, assign, "g_k", 100, envir = workspace)
  expect_identical(here(collect(cluster_submit(g_cl, g_k * 2))), 6)
  expect_identical(parallel::clusterEvalQ(cl, g_k), list(100))
  e <- tryCatch(here(collect(cluster_submit(g_cl, stop(g_k)))), clutch_task_error = identity)
  expect_match(conditionMessage(e), "3")
  expect_identical(left(), "g_k")
})

test_that("option clutch.queued bounds what submitted tasks take", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  old <- options(clutch.queued = "3 MB", clutch.share_from = Inf)
  on.exit(options(old), add = TRUE)
  queued <- function() .Call(clutch:::ffi_tasks_queued, clutch:::tasks_of(cl)$ptr)
  sum_of <- utils::removeSource(function(x) {
    Sys.sleep(0.02)
    sum(x)
  })
  environment(sum_of) <- globalenv() # else this frame, and the source of this file, travel, too
  most <- 0
  tasks <- lapply(1:20, function(i) {
    task <- cluster_submit_call(cl, sum_of, list(rep(as.numeric(i), 1e6 / 8)))
    most <<- max(most, queued())
    task
  })
  expect_gt(most, 2e6)
  expect_lte(most, 3e6)
  expect_identical(unlist(collect_all(tasks)), 1:20 * 1e6 / 8)
  expect_identical(queued(), 0)
  # one alone may be larger, and is alone; a node that dies makes room, too
  large <- lapply(1:3, function(i) {
    task <- cluster_submit_call(cl, function(x) {
      if (x[[1L]] == 2) tools::pskill(Sys.getpid(), 9L)
      length(x)
    }, list(rep(i, 1e6)), .globals = FALSE)
    expect_lt(queued(), 9e6)
    task
  })
  expect_identical(collect(large[[1L]]), 1000000L)
  expect_error(collect(large[[2L]]), class = "clutch_task_died")
  expect_identical(collect(large[[3L]]), 1000000L)
  # an interrupt while it waits leaves nothing of the task that was to be submitted
  long <- cluster_submit_call(cl, function(x) Sys.sleep(60), list(rep(1, 1e6)))
  later(0.5, "kill -INT %d", Sys.getpid())
  got <- tryCatch(cluster_submit_call(cl, sum, list(rep(1, 1e6))), interrupt = function(e) "int")
  expect_identical(got, "int")
  cancel(long)
  expect_identical(queued(), 0)
  options(clutch.queued = -1)
  expect_error(cluster_submit(cl, 1), "clutch.queued", class = "clutch_argument")
})

test_that("what was sent for a task is not kept until its value is collected", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  go <- tempfile()
  wait <- function(x, go) {
    while (!file.exists(go)) Sys.sleep(0.01)
    length(x)
  }
  task <- cluster_submit_call(cl, wait, list(runif(1e5), go))
  weight <- function() .Call(clutch:::ffi_job_weight, task$job)
  expect_gt(weight(), 8e5)
  file.create(go)
  expect_true(eventually(resolved(task)))
  expect_identical(weight(), 0)
  expect_identical(collect(task), 100000L)
})

test_that("a task that is tried again does not wait while its new node has nothing to do", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  go <- tempfile()
  wait <- function(go) {
    while (!file.exists(go)) Sys.sleep(0.01)
    Sys.getpid()
  }
  tasks <- lapply(1:2, function(i) cluster_submit_call(cl, wait, list(go), .retries = 1))
  expect_true(eventually(all(cluster_status(cl)$state == "busy")))
  tools::pskill(pids(cl)[[1L]], 9L)
  expect_true(eventually({
    collect_any(tasks, timeout = 0.1, otherwise = NULL)
    all(cluster_status(cl)$state == "busy")
  }))
  file.create(go)
  expect_setequal(unlist(collect_all(tasks)), pids(cl))
  unlink(go)
})

test_that("the name of no function is an error that says so", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  expect_error(cluster_submit_call(cl, "not_there"), "no function 'not_there'",
               class = "clutch_argument")
  expect_error(cluster_submit_call(cl, ""), "no function ''", class = "clutch_argument")
  expect_error(cluster_map(cl, 1:2, sqrt, .reduce = ""), "no function ''",
               class = "clutch_argument")
})

test_that("a label is one string", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (bad in list(c("a", "b"), character(), NA_character_, list("a"))) {
    expect_error(cluster_submit(cl, 1, .label = bad), "`.label`", class = "clutch_argument")
    expect_error(cluster_submit_call(cl, identity, list(1), .label = bad), "`.label`",
                 class = "clutch_argument")
  }
})
