# Output and conditions of tasks.

test_that("output and conditions come in order of elements, or as they come, or not at all", {
  of_each_strategy(function(cl) {
    f <- function(x) {
      if (x == 1) Sys.sleep(0.2)
      cat("out", x, "\n")
      message("msg ", x)
      if (x == 2) warning("warn ", x)
      signalCondition(structure(class = c("my_condition", "condition"),
                                list(message = "hi", call = NULL, x = x)))
      print(x)
      x
    }
    seen <- list()
    note <- function(what) function(c) {
      seen[[length(seen) + 1L]] <<- paste(what, trimws(conditionMessage(c)))
      for (r in c("muffleMessage", "muffleWarning")) {
        if (!is.null(findRestart(r, c))) invokeRestart(r)
      }
    }
    out <- capture.output(withCallingHandlers(r <- cluster_map(cl, 1:3, f), message = note("m"),
                                              warning = note("w"), my_condition = note("c")))
    expect_identical(r, list(1L, 2L, 3L))
    expect_identical(unlist(seen),
                     c("m msg 1", "c hi", "m msg 2", "w warn 2", "c hi", "m msg 3", "c hi"))
    expect_identical(out, c("out 1 ", "[1] 1", "out 2 ", "[1] 2", "out 3 ", "[1] 3"))
    out <- capture.output(cluster_walk(cl, 1:2, function(x) cat("live", x, "\n"), .relay = "live"))
    expect_setequal(out, c("live 1 ", "live 2 "))
    expect_identical(capture.output(cluster_walk(cl, 1:2, function(x) cat("no\n"), .relay = FALSE)),
                     character())
    # an ordinary call is none of it
    expect_silent(parallel::clusterCall(cl, function() cat("to the cluster's own output\n")))
  })
})

test_that("handlers muffle the conditions that they choose, the others stay as they are", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  f <- function(x) {
    cat("out", x, "\n")
    if (x %% 2) warning("simple ", x)
    if (x == 4) warning(structure(class = c("mine", "warning", "condition"),
                                  list(message = "mine", call = NULL)))
    if (x %% 3 == 0) message("said ", x)
    x
  }
  # what a handler leaves is seen further outside
  heard <- function(expr, leaves) {
    seen <- list(inner = NULL, outer = NULL)
    note <- function(where) function(c) {
      seen[[where]] <<- c(seen[[where]], trimws(conditionMessage(c)))
      is_left <- where == "inner" && grepl(leaves, conditionMessage(c))
      if (!is_left) tryInvokeRestart(computeRestarts(c)[[1]])
    }
    printed <- capture.output(withCallingHandlers(
      withCallingHandlers(invisible(expr), warning = note("inner"), message = note("inner")),
      warning = note("outer"), message = note("outer")
    ))
    c(seen, list(printed = printed))
  }
  for (leaves in c("5|mine|said 3", "simple", "said", "nothing", ".")) {
    expect_identical(heard(cluster_walk(cl, 1:9, f), leaves), heard(lapply(1:9, f), leaves))
  }
  g <- function(x) warning("simple ", x)
  # a handler may leave the map, and the next one finds the cluster as it was
  expect_identical(tryCatch(cluster_walk(cl, 1:2, g), warning = conditionMessage), "simple 1")
  expect_identical(suppressWarnings(cluster_map_int(cl, 1:3, function(x) {
    warning("x")
    x
  })), 1:3)
})

test_that("what C code prints may have bytes that no string of R has", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  f <- function(x) {
    suppressWarnings(writeChar("a", .Call(clutch:::ffi_work_output), eos = "")) # "a" and a 0
    cat("b\n")
    x
  }
  for (relay in list(TRUE, "live")) {
    expect_output(expect_identical(cluster_map(cl, 1, f, .relay = relay), list(1)), "^ab$")
  }
})

test_that("a function as .relay gets the conditions of a task while it goes on, in their order", {
  of_each_strategy(function(cl) {
    gate <- tempfile()
    seen <- character()
    hear <- function(cond) {
      seen <<- c(seen, paste(class(cond)[[1]], trimws(conditionMessage(cond))))
      if (inherits(cond, "my_condition")) file.create(gate)
    }
    task <- cluster_submit(cl, {
      message("first")
      cat("this is not for the session\n")
      warning("second")
      signalCondition(structure(class = c("my_condition", "condition"),
                                list(message = "third", call = NULL)))
      while (!file.exists(gate)) Sys.sleep(0.01) # it goes on when the handler was called
      message("last")
      "value"
    }, .relay = hear)
    expect_silent(expect_identical(collect(task, timeout = 60), "value"))
    all <- c("simpleMessage first", "simpleWarning second", "my_condition third",
             "simpleMessage last")
    expect_identical(seen, all)
    expect_silent(collect(task)) # once
    expect_identical(seen, all)
    unlink(gate)
  })
})

test_that("the handler is called whatever the session waits for, and before the task has ended", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  seen <- 0
  gate <- tempfile()
  on.exit(unlink(gate), add = TRUE)
  said <- function(cond) {
    seen <<- seen + 1
    file.create(gate)
  }
  submit <- function() {
    unlink(gate)
    seen <<- 0
    cluster_submit(cl, {
      message("now")
      while (!file.exists(gate)) Sys.sleep(0.01)
    }, .relay = said)
  }
  wait <- function() while (!file.exists(gate)) Sys.sleep(0.01)
  waits <- list(resolved = function(x) resolved(x, timeout = 60),
                other = function(x) collect(cluster_submit(cl, wait())),
                any = function(x) collect_any(x, timeout = 60),
                map = function(x) cluster_map(cl, 1, function(i) wait()),
                free = function(x) eventually(cluster_free(cl) == 2L))
  for (n in names(waits)) {
    x <- submit()
    waits[[n]](x)
    expect_identical(seen, 1, info = n)
    collect(x)
    expect_identical(seen, 1, info = n)
  }
  # one that has ended while nobody looked
  seen <- 0
  x <- cluster_submit(cl, for (i in 1:1000) message(i), .relay = said)
  Sys.sleep(0.3)
  expect_true(eventually(resolved(x)))
  expect_identical(seen, 1000)
})

test_that("an error in the handler is that of who waits, and the task goes on", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  seen <- 0
  x <- cluster_submit(cl, {
    for (i in 1:3) message(i)
    "value"
  }, .relay = function(cond) {
    seen <<- seen + 1
    if (seen == 2) stop("of the handler")
  })
  expect_error(collect(x), "of the handler", class = "simpleError")
  expect_identical(collect(x), "value")
  expect_identical(seen, 3)
  expect_error(cluster_map(cl, 1, function(i) message(i), .relay = function(cond) stop("oops")),
               "oops", class = "simpleError")
  expect_true(works(cl))
  # a task that fails: its conditions come first
  order <- character()
  x <- cluster_submit(cl, {
    message("said")
    stop("failed")
  }, .relay = function(cond) order <<- c(order, trimws(conditionMessage(cond))))
  tryCatch(collect(x), clutch_task_error = function(e) order <<- c(order, "error"))
  expect_identical(order, c("said", "error"))
})

test_that("a handler may wait for tasks itself: conditions keep their order", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  seen <- integer()
  x <- cluster_submit(cl, for (i in 1:20) message(i), .relay = function(cond) {
    before <- length(seen)
    collect(cluster_submit(cl, Sys.sleep(0.01)))
    resolved(x, timeout = 0.01)
    expect_length(seen, before)
    seen <<- c(seen, as.integer(conditionMessage(cond)))
  })
  collect(x)
  expect_identical(seen, 1:20)
})

test_that("maps hand conditions over, those of one element in their order", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  seen <- list()
  x <- withCallingHandlers(
    cluster_map(cl, 1:6, function(i) {
      for (k in 1:5) message(i, " ", k)
      i
    }, .relay = function(cond) seen[[length(seen) + 1L]] <<- conditionMessage(cond)),
    message = function(cond) stop("relayed, too")
  )
  expect_identical(x, as.list(1:6))
  by_element <- split(unlist(seen), substr(unlist(seen), 1, 1))
  expect_identical(unname(by_element), lapply(1:6, function(i) sprintf("%d %d\n", i, 1:5)))
  old <- options(clutch.relay = function(cond) seen <<- "by the option")
  on.exit(options(old), add = TRUE)
  cluster_map(cl, 1, function(i) message("said"))
  expect_identical(seen, "by the option")
  options(clutch.relay = NULL)
  expect_error(cluster_map(cl, 1, identity, .relay = 3), "or a function", class = "clutch_argument")
  # warnings that are errors
  seen <- list()
  warns <- function(i) {
    options(warn = 2)
    warning("as error")
  }
  note <- function(cond) seen <<- c(seen, class(cond)[[1]])
  expect_error(cluster_map(cl, 1, warns, .relay = note), class = "clutch_task_error")
  expect_identical(seen, list("simpleWarning"))
})

test_that("a handler may map, submit and wait on the same cluster, while more comes for it", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  setTimeLimit(elapsed = 60, transient = TRUE) # it would wait for ever
  on.exit(setTimeLimit(), add = TRUE)
  say <- function(i) for (k in 1:3) message(i)
  total <- 0
  cluster_map(cl, 1:4, say, .relay = function(cond) {
    total <<- total + cluster_map_dbl(cl, 1, function(i) 1) + collect(cluster_submit(cl, 1))
  })
  expect_identical(total, 24)
  seen <- character()
  value <- NULL
  task <- cluster_submit_call(cl, function() {
    say("a")
    "done"
  }, .relay = function(cond) {
    if (is.null(value)) value <<- collect(task, timeout = 30) # its own
    seen <<- c(seen, trimws(conditionMessage(cond)))
  })
  expect_identical(collect(task), "done")
  expect_identical(value, "done")
  expect_identical(seen, c("a", "a", "a"))
})
