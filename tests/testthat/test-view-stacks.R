# cluster_stacks(): which calls nodes are in, while their work goes on.

# Those of node `k`, when it has reported them: it may not be at its task yet.
# Without the places where they are written.
stack_of <- function(cl, k = 1L, has = "", seconds = 20, places = FALSE) {
  got <- NULL
  eventually({
    got <- cluster_stacks(cl)
    isTRUE(got$current[[k]]) && any(grepl(has, got$stack[[k]], fixed = TRUE))
  }, seconds)
  expect_true(got$current[[k]])
  if (places) got$stack[[k]] else sub(" at [^ ]+:[0-9]+$", "", got$stack[[k]])
}

# The last calls are these.
expect_last <- function(stack, ...) expect_identical(utils::tail(stack, ...length()), c(...))

# A task that goes on until this file is there.
gate_file <- function() tempfile("gate")
wait_for <- function(gate) while (!file.exists(gate)) Sys.sleep(0.01)

test_that("idle nodes have no stack, and busy ones that of now", {
  of_each_strategy(function(cl) {
    x <- cluster_stacks(cl)
    expect_s3_class(x, "clutch_stacks")
    expect_identical(x$node, 1:2)
    expect_identical(x$state, c("idle", "idle"))
    expect_identical(x$stack, list(NULL, NULL))
    expect_true(all(is.na(c(x$job, x$element, x$since, x$current, x$note))))
    gate <- gate_file()
    outer <- function(gate) inner(gate)
    inner <- function(gate) while (!file.exists(gate)) Sys.sleep(0.01)
    task <- cluster_submit(cl[2], outer(gate))
    s <- stack_of(cl, 2L, "inner(gate)")
    expect_identical(s[1:3], c("FUN()", "outer(gate)", "inner(gate)"))
    x <- cluster_stacks(cl)
    expect_identical(x$state, c("idle", "busy"))
    expect_identical(is.na(x$job), c(TRUE, FALSE))
    expect_identical(x$element, c(NA_real_, NA_real_))
    expect_gt(x$since[[2]], 0)
    expect_lt(x$since[[2]], 60)
    file.create(gate)
    collect(task)
    unlink(gate)
    expect_identical(cluster_stacks(cl)$stack, list(NULL, NULL))
  })
})

test_that("a node that sleeps, loops, or maps reports what it is at", {
  cl <- make_cluster(4)
  on.exit(stop_cluster(cl))
  gate <- gate_file()
  on.exit(unlink(gate), add = TRUE)
  loops <- function(gate) {
    x <- 0
    repeat {
      for (i in 1:1e5) x <- x + sqrt(i)
      if (file.exists(gate)) return("looped")
    }
  }
  each <- compiler::cmpfun(function(k, gate) loops(gate))
  tasks <- list(
    cluster_submit(cl[1], tryCatch({
      repeat {
        Sys.sleep(3)
        if (file.exists(gate)) break
      }
      "slept"
    }, interrupt = function(e) "interrupted", condition = function(e) "signalled")),
    cluster_submit(cl[2], loops(gate)),
    cluster_submit(cl[3], unlist(lapply(1:2, each, gate))),
    cluster_submit(cl[4], withCallingHandlers(loops(gate), condition = function(c) stop("seen")))
  )
  expect_last(stack_of(cl, 1L, "Sys.sleep"), "Sys.sleep(3)")
  expect_true("loops(gate)" %in% stack_of(cl, 2L))
  s <- stack_of(cl, 3L, "loops")
  expect_identical(s[3:5], c("lapply(1:2, each, gate)", "FUN(X[[i]], ...)", "loops(gate)"))
  expect_true("loops(gate)" %in% stack_of(cl, 4L, "loops"))
  for (k in 1:20) cluster_stacks(cl, 0.02)
  file.create(gate)
  # nothing was ended, interrupted or signalled
  expect_identical(lapply(tasks, collect), list("slept", "looped", c("looped", "looped"), "looped"))
})

test_that("calls of package parallel are reported, too", {
  skip_on_os("windows")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  gate <- gate_file()
  on.exit(unlink(gate), add = TRUE)
  f <- function(gate) while (!file.exists(gate)) Sys.sleep(0.01)
  # what is asked within a call of that package is asked by its own functions
  snow <- asNamespace("parallel")
  snow$sendCall(cl[[1]], f, list(gate))
  s <- stack_of(cl, 1L, "Sys.sleep")
  expect_last(s, "Sys.sleep(0.01)")
  expect_match(s[[1L]], "function", fixed = TRUE)
  x <- cluster_stacks(cl)
  expect_identical(is.na(x$job), TRUE)
  expect_gt(x$since, 0)
  file.create(gate)
  snow$recvResult(cl[[1]])
})

test_that("files and lines are told, deep recursions and large data are not told in full", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  gate <- gate_file()
  file <- tempfile(fileext = ".R")
  on.exit(unlink(c(gate, file)), add = TRUE)
  writeLines(c("written <- function(gate) {", "  Sys.sleep(0)",
               "  while (!file.exists(gate)) Sys.sleep(0.01)", "}"), file)
  source(file, local = TRUE, keep.source = TRUE)
  deep <- function(n, gate) {
    if (n > 0) return(deep(n - 1, gate))
    while (!file.exists(gate)) Sys.sleep(0.01)
  }
  t1 <- cluster_submit(cl[1], written(gate))
  expect_last(stack_of(cl, 1L, "Sys.sleep(0.01)", places = TRUE),
              sprintf("Sys.sleep(0.01) at %s:3", basename(file)))
  big <- runif(1e6)
  t2 <- cluster_submit(cl[2], do.call(function(x, n, gate) deep(n, gate), list(big, 300, gate)))
  s <- stack_of(cl, 2L, "Sys.sleep")
  expect_lte(length(s), 51L)
  expect_true(any(grepl("^\\.\\.\\. \\([0-9]+ calls\\)$", s)))
  expect_last(s, "deep(n - 1, gate)", "Sys.sleep(0.01)")
  expect_true(all(nchar(s) <= 200))
  file.create(gate)
  collect(t1)
  collect(t2)
})

test_that("a long stack in any encoding is cut to what has room", {
  wide <- function(text) as.call(list(as.name(strrep(text, 40)), strrep(text, 100)))
  calls <- c(rep(list(wide("\u00e4")), 70), quote(last(1)), quote(asker()))
  text <- clutch:::stack_text(calls)
  expect_lte(nchar(text, "bytes"), 8000)
  # CLU_STACK_TEXT, src/core/shm/stacks.h: C cuts what is longer, also within a letter
  sizes <- vapply(1:60, function(n) {
    lines <- clutch:::stack_ends(rep(paste0(strrep("x", n), strrep("\u00e9", 60)), 80))
    nchar(paste(lines, collapse = "\n"), "bytes")
  }, 1L)
  expect_lte(max(sizes), 7984)
  expect_true(validUTF8(text))
  lines <- strsplit(text, "\n")[[1]]
  expect_identical(lines[[length(lines)]], "last(1)")
  expect_identical(clutch:::stack_text(list(quote(asker()))), "")
  bad <- as.call(list(as.name("f"), "\xff\xfe"))
  expect_true(validUTF8(clutch:::stack_text(list(bad, quote(asker())))))
})

test_that("compiled code that does not look: its last known calls, marked as such", {
  skip_on_os("windows")
  outside_checks_only() # it needs a compiler
  so <- compiled("compute")
  on.exit(unlink(dirname(so), recursive = TRUE))
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  gate <- gate_file()
  on.exit(unlink(gate), add = TRUE)
  at_work <- function(so, gate) {
    dyn.load(so)
    while (!file.exists(gate)) Sys.sleep(0.01)
    .C("compute", 3, 0)[[1]]
  }
  t1 <- cluster_submit(cl[1], at_work(so, gate))
  begun <- gate_file()
  on.exit(unlink(begun), add = TRUE)
  t2 <- cluster_submit(cl[2], {
    dyn.load(so)
    file.create(begun)
    .C("compute", 3, 0)[[1]]
  })
  expect_last(stack_of(cl[1], 1L, "Sys.sleep"), "Sys.sleep(0.01)")
  expect_true(eventually(file.exists(begun)))
  file.create(gate)
  got <- NULL
  expect_true(eventually({
    got <- cluster_stacks(cl)
    isFALSE(got$current[[1]])
  }, 2.5))
  expect_match(got$stack[[1]], "at_work(so, gate)", fixed = TRUE, all = FALSE)
  expect_match(got$note[[1]], "not looked for interrupts since", fixed = TRUE)
  expect_match(paste(capture.output(got), collapse = "\n"), "last that it has reported")
  # of one that has never reported what its task is called is known
  expect_match(got$stack[[2]], "^cluster_submit\\(")
  expect_identical(got$current[[2]], FALSE)
  expect_match(got$note[[2]], "reported nothing.*the call that has made its task")
  expect_identical(collect(t1), 3)
  expect_identical(collect(t2), 3)
  # nothing of that is left for the next task
  expect_identical(cluster_stacks(cl)$stack, list(NULL, NULL))
})

test_that("waits of a task are not ended: system(), sockets, pipes", {
  skip_on_os("windows")
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  listener <- socket_listen(0)
  on.exit(close(listener), add = TRUE)
  port <- port_of(listener)
  tasks <- list(
    cluster_submit(cl[1], system.time(system("sleep 1"))[["elapsed"]]),
    cluster_submit(cl[2], {
      con <- socketConnection(port = port, blocking = TRUE, timeout = 30)
      on.exit(close(con))
      readLines(con, 1)
    }),
    cluster_submit(cl[3], readLines(pipe("sleep 1; echo done")))
  )
  peer <- socket_accept(listener, blocking = TRUE, open = "a+b")
  on.exit(close(peer), add = TRUE)
  expect_true("readLines(con, 1)" %in% stack_of(cl, 2L, "readLines"))
  end <- Sys.time() + 1.5
  while (Sys.time() < end) cluster_stacks(cl, 0.05)
  writeLines("a line", peer)
  expect_identical(collect(tasks[[2]]), "a line")
  expect_gte(collect(tasks[[1]]), 1)
  expect_identical(collect(tasks[[3]]), "done")
})

test_that("a dead node is told as dead, and its successor tells its own", {
  skip_on_os("windows")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  tools::pskill(cluster_status(cl)$pid[[1]], tools::SIGKILL)
  expect_true(eventually(startsWith(cluster_stacks(cl)$state[[1]], "dead")))
  x <- cluster_stacks(cl)
  expect_null(x$stack[[1]])
  expect_match(capture.output(x)[[1]], "node 1 on .* dead: ")
  gate <- gate_file()
  on.exit(unlink(gate), add = TRUE)
  f <- function(gate) while (!file.exists(gate)) Sys.sleep(0.01)
  task <- cluster_submit(cl[1], f(gate))
  expect_true("f(gate)" %in% stack_of(cl, 1L))
  file.create(gate)
  collect(task)
})

test_that("limits and interrupts of a task are in force while it is asked again and again", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  slow <- cluster_submit(cl, Sys.sleep(100), .timeout = 0.5)
  limited <- cluster_submit(cl, {
    setTimeLimit(elapsed = 0.5, transient = TRUE)
    repeat {}
  })
  end <- Sys.time() + 1
  while (Sys.time() < end) cluster_stacks(cl, 0.001)
  expect_error(collect(slow), class = "clutch_task_timeout")
  expect_error(collect(limited), "reached elapsed time limit")
  looping <- cluster_submit(cl, repeat {})
  end <- Sys.time() + 0.3
  while (Sys.time() < end) cluster_stacks(cl, 0.001)
  cancel(looping)
  expect_error(collect(looping), class = "clutch_task_cancelled")
  expect_true(works(cl))
})

test_that("the error of a task whose time is up says what it was in", {
  old <- options(clutch.task_grace = 20) # until it is ended, and says nothing: nodes react at once
  on.exit(options(old))
  of_each_strategy(function(cl) {
    inner <- function(s) Sys.sleep(s)
    outer <- function(s) inner(s)
    loops <- function() repeat sqrt(2)
    e <- task_error_of(collect(cluster_submit(cl, outer(100), .timeout = 1)))
    expect_s3_class(e, "clutch_task_timeout")
    stack <- sub(" at [^ ]+:[0-9]+$", "", e$stack)
    expect_identical(stack, c("FUN()", "outer(100)", "inner(s)", "Sys.sleep(s)"))
    text <- gsub(" at [^ ]+:[0-9]+", "", conditionMessage(e))
    expect_match(text, "allows; it was in Sys.sleep(s), called by inner(s), called by outer(100)",
                 fixed = TRUE)
    expect_warning(r <- cluster_map(cl, 1:3, function(i) if (i == 2) loops() else i,
                                    .timeout = 1.5, .on_error = "continue"))
    expect_match(conditionMessage(r[[2]]), "it was in loops()", fixed = TRUE)
    expect_identical(r[-2], list(1L, 3L))
    # it reacts by what it has for that
    t <- cluster_submit(cl, tryCatch(outer(100), interrupt = function(e) "caught"), .timeout = 0.3)
    e <- task_error_of(collect(t))
    expect_s3_class(e, "clutch_task_timeout")
    # nothing is left for the next
    e <- task_error_of(collect(cluster_submit(cl, stop("its own"))))
    expect_false(any(grepl("Sys.sleep", e$calls, fixed = TRUE)))
    expect_true(works(cl))
  })
})

test_that("a node that sleeps is interrupted once", {
  old <- options(clutch.task_grace = 20)
  on.exit(options(old))
  of_each_strategy(function(cl) {
    # a second interrupt would come while the loop is evaluated
    out <- tempfile()
    e <- task_error_of(collect(cluster_submit(cl, .timeout = 1, {
      one <- tryCatch(Sys.sleep(60), interrupt = function(e) "caught")
      two <- tryCatch({
        for (i in 1:2e5) sqrt(i)
        Sys.sleep(0.2)
        "whole"
      }, interrupt = function(e) "again")
      cat(one, two, file = out)
    })))
    expect_s3_class(e, "clutch_task_timeout")
    expect_identical(readLines(out, warn = FALSE), "caught whole")
    unlink(out)
  })
})

test_that("a signal of the user's own is heard after a cancel that came in system()", {
  linux_only()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  e <- task_error_of(collect(cluster_submit(cl, system("sleep 60"), .timeout = 1)))
  expect_s3_class(e, "clutch_task_timeout")
  begun <- tempfile()
  t <- cluster_submit(cl, .timeout = 60, tryCatch({
    file.create(begun)
    repeat sqrt(2)
  }, interrupt = function(e) "caught"))
  expect_true(eventually(file.exists(begun)))
  unlink(begun)
  tools::pskill(pids(cl), tools::SIGINT)
  expect_identical(collect(t), "caught")
})

test_that("a task that is ended for want of a reaction has an error without calls", {
  linux_only()
  old <- options(clutch.task_grace = 0.3)
  on.exit(options(old))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  e <- task_error_of(collect(cluster_submit(cl, suspendInterrupts(repeat {}), .timeout = 0.3)))
  expect_s3_class(e, "clutch_task_timeout")
  expect_null(e$stack)
  expect_match(conditionMessage(e), "allows$")
})

test_that("options, the last value and random numbers of a task stay as they are", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  spin <- function(seconds) {
    end <- proc.time()[[3]] + seconds
    while (proc.time()[[3]] < end) NULL
    invisible(7)
  }
  task <- cluster_submit(cl, {
    options(warn = 2, error = quote(cat("error handler\n")))
    set.seed(1)
    before <- .Random.seed
    visible <- withVisible(spin(0.5))
    list(identical(before, .Random.seed), visible, Sys.getenv("R_HOME") == R.home())
  })
  while (!resolved(task)) cluster_stacks(cl, 0.01)
  expect_identical(collect(task)[1:2], list(TRUE, list(value = 7, visible = FALSE)))
})

test_that("a node under gctorture reports, and computes what it would", {
  skip_on_os("windows")
  long_test()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  task <- cluster_submit(cl, {
    gctorture2(20, inhibit_release = FALSE)
    x <- 0
    for (i in 1:400) x <- x + length(paste0("a", i))
    gctorture(FALSE)
    x
  })
  told <- 0
  while (!resolved(task)) told <- told + isTRUE(cluster_stacks(cl, 0.5)$current)
  expect_identical(collect(task), 400)
  expect_gt(told, 0)
})

test_that("children of a node do not answer for it", {
  skip_on_os("windows")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  in_child <- function() Sys.sleep(1)
  task <- cluster_submit(cl, {
    p <- parallel::mcparallel(in_child())
    parallel::mccollect(p)
    "collected"
  })
  seen <- character()
  while (!resolved(task)) seen <- c(seen, unlist(cluster_stacks(cl, 0.05)$stack))
  expect_identical(collect(task), "collected")
  expect_false(any(startsWith(seen, "in_child()")))
})

test_that("64 nodes report in a moment, and several ask at a time", {
  outside_checks_only()
  skip_on_os("windows")
  cl <- make_cluster(64)
  on.exit(stop_cluster(cl))
  gate <- gate_file()
  on.exit(unlink(gate), add = TRUE)
  tasks <- lapply(1:64, function(k) cluster_submit(cl[k], while (!file.exists(gate)) Sys.sleep(5)))
  # one that has just begun may be in file.exists()
  expect_true(eventually({
    x <- cluster_stacks(cl, 5)
    all(x$current %in% TRUE) &&
      all(vapply(x$stack, function(s) any(startsWith(s, "Sys.sleep(5)")), NA))
  }))
  file.create(gate)
  lapply(tasks, cancel)
})

test_that("functions that look at clusters may be the first that a session calls", {
  looks <- c("cluster_stacks()", "cluster_status()", "cluster_trace()", "cluster_hosts()",
             "share_info()", "cluster_free()", "cluster_is_stopped()")
  for (look in looks) {
    s <- start_script(c(sprintf("invisible(try(%s, silent = TRUE))", look), "cat('looked\\n')"))
    expect_true(said(s, "^looked$"), info = look)
    expect_true(ends(s), info = look)
  }
})

test_that("bad arguments, no nodes, a stopped cluster", {
  expect_error(cluster_stacks("cl"), class = "clutch_argument")
  end_own_cluster()
  x <- cluster_stacks()
  expect_identical(nrow(x), 0L)
  expect_output(print(x), "no nodes")
  cl <- make_cluster(2)
  for (bad in list("a", NA, -1, 1:2, NULL[0])) {
    if (!is.null(bad)) expect_error(cluster_stacks(cl, bad), class = "clutch_argument")
  }
  expect_identical(nrow(cluster_stacks(cl[2])), 1L)
  expect_identical(cluster_stacks(cl[2])$node, 2L)
  stop_cluster(cl)
  x <- cluster_stacks(cl)
  expect_identical(x$state, c("stopped", "stopped"))
  expect_output(print(x), "2 stopped")
})

test_that("what is printed", {
  x <- structure(data.frame(
    node = 1:4, host = c("localhost", "localhost", "beta", "beta"),
    state = c("busy", "idle", "busy", "dead: killed by SIGKILL"), job = c(3, NA, NA, NA),
    element = c(7, NA, NA, NA), since = c(12.34, NA, NA, NA), current = c(TRUE, NA, NA, NA),
    note = c(NA, NA, "it cannot be asked: it shares no memory with this session", NA)
  ), class = c("clutch_stacks", "data.frame"))
  x$stack <- list(c("FUN(.x)", "fit(x) at model.R:12", "Sys.sleep(100)"), NULL, NULL, NULL)
  expect_snapshot(print(x))
})
