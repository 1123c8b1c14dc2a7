# cluster_replay(): a failed element again in the session.

failed_of <- function(expr) tryCatch(expr, clutch_task_error = identity)
again <- function(...) tryCatch(cluster_replay(...), error = conditionMessage)

test_that("an element is run again with its function, constants and random stream", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  draw <- function(x, most) {
    u <- runif(2)
    if (x == most) stop(paste("u is", u[[2L]])) else u
  }
  e <- failed_of(cluster_map(cl, 1:4, draw, most = 3, .seed = 5))
  here <- failed_of(cluster_map("here", 1:4, draw, most = 3, .seed = 5))
  expect_identical(again(e), conditionMessage(here$parent))
  expect_identical(again(e), conditionMessage(e$parent))
  expect_identical(again(), conditionMessage(e$parent))
  # of the others, too
  values <- cluster_map(cl, 1:4, draw, most = 9, .seed = 5)
  expect_identical(lapply(c(1, 2, 4), cluster_replay), values[c(1, 2, 4)])
  # the session's generator is as it was
  set.seed(1)
  before <- .Random.seed
  again(e)
  expect_identical(.Random.seed, before)
})

test_that("all kinds of maps and tasks can be run again", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  text <- "non-numeric argument to mathematical function"
  expect_match(again(failed_of(cluster_map(cl, list(1, "a"), log))), text)
  expect_match(again(failed_of(cluster_walk(cl, list("a", 1), log, .retries = 1))), text)
  expect_match(again(failed_of(cluster_map_dbl(cl, c(p = "a"), function(x, ...) log(x, ...),
                                               .more = list(base = 3)))), text)
  expect_match(again(failed_of(cluster_pmap(cl, list(x = list(1, "a"), base = 2), log))), text)
  expect_match(again(failed_of(cluster_imap(cl, c(a = "x"), function(v, n) log(n)))), text)
  z <- "a"
  task <- cluster_submit(cl, log(z))
  e <- failed_of(collect(task))
  expect_match(again(task), text)
  expect_match(again(e), text)
  named <- cluster_submit_call(cl, log, list(z), .label = "named")
  failed_of(collect(named))
  expect_match(again(named), text)
  x <- suppressWarnings(cluster_map(cl, list("a", 1, "b"), log, .on_error = "continue"))
  expect_match(again(x[[3L]]), text)
  expect_identical(again(2), 0)
  # one that has it as its parent
  wrapped <- structure(list(message = "wrapped", call = NULL, parent = x[[1L]]),
                       class = c("purrr_error_indexed", "error", "condition"))
  expect_match(again(wrapped), text)
  # a node that died, and one whose time was up
  e <- failed_of(cluster_map(cl, 1:2, function(i) {
    if (is.na(clutch::task_attempt())) "here" else tools::pskill(Sys.getpid(), 9L)
  }))
  expect_s3_class(e, "clutch_task_died")
  expect_identical(again(e), "here")
  e <- failed_of(cluster_map(cl, 1, function(i) {
    if (is.na(clutch::task_attempt())) "here" else Sys.sleep(60)
  }, .timeout = 0.2))
  expect_identical(again(e), "here")
})

test_that("variables of the workspace are as they were, or as they are", {
  cl <- make_cluster(2)
  on.exit({
    stop_cluster(cl)
    rm(list = c("replay_k", "replay_f"), envir = globalenv())
  })
  assign("replay_k", 2, globalenv())
  assign("replay_f", eval(quote(function(x) stop(x * replay_k)), globalenv()), globalenv())
  e <- failed_of(eval(quote(cluster_map(cl, 21, function(x) replay_f(x))), list(cl = cl),
                      globalenv()))
  expect_identical(again(e), "42")
  assign("replay_k", 3, globalenv())
  expect_identical(again(e), "42")
  expect_identical(get("replay_k", globalenv()), 3)
  expect_identical(again(e, "now"), "63")
  rm("replay_k", envir = globalenv())
  expect_identical(again(e), "42")
  expect_false(exists("replay_k", globalenv()))
  assign("replay_k", 4, globalenv())
})

test_that("frames of the function are there: debug(), options(error = ), warn", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  f <- function(x) g(x)
  g <- function(y) stop("no")
  e <- failed_of(cluster_map(cl, 1, f))
  calls <- NULL
  tryCatch(withCallingHandlers(cluster_replay(e), error = function(e) calls <<- sys.calls()),
           error = identity)
  texts <- vapply(calls, function(call) deparse(call)[[1L]], "")
  expect_true(all(c("FUN(.x)", "g(x)") %in% texts))
  # the function itself, and no copy: a mark of debug() counts
  debug(f)
  work <- clutch:::failure_of(e)$work
  expect_true(isdebugged(work$fun))
  undebug(f)
  old <- options(warn = 2)
  e <- failed_of(cluster_map(cl, 1, function(x) warning("w")))
  options(old)
  expect_match(again(e), "converted from warning")
  expect_identical(getOption("warn"), old$warn)
})

test_that("rlang's handler finds the frames of the element, as last_trace() shows them", {
  skip_if_not_installed("rlang")
  s <- start_script(c( # testthat decides where traces begin
    "cl <- make_cluster(2)", "inner <- function(i) stop('no')", "outer <- function(i) inner(i)",
    "caught <- function(code) {",
    "  tryCatch(withCallingHandlers(code, error = rlang::entrace), error = identity)", "}",
    "e <- caught(cluster_map(cl, 1:2, outer))",
    "calls <- vapply(e$trace$call, function(call) deparse(call)[[1L]], '')",
    "seen <- c('FUN(.x)', 'inner(i)', 'stop(\"no\")') %in% calls",
    "cat('class=', class(e)[[1L]], '\\n', 'seen=', sum(seen), '\\n', sep = '')",
    "cat('done\\n')"
  ))
  expect_done(s)
  expect_identical(value_of(s, "class"), "rlang_error")
  expect_identical(value_of(s, "seen"), "3")
})

test_that("an error does not carry its data when it is saved, and says when that is gone", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  big <- rnorm(1e5)
  e <- failed_of(cluster_map(cl, 1:2, function(i) if (i == 2) stop("no") else sum(big)))
  file <- tempfile()
  on.exit(unlink(file), add = TRUE)
  saveRDS(e, file)
  expect_lt(file.size(file), 1e5)
  expect_error(cluster_replay(readRDS(file)), class = "clutch_gone")
  expect_output(print(e$failure), "element 2: what it worked with is known")
  # large ones are remembered only with their error
  large <- local({
    x <- numeric(15e6)
    function(i) stop(length(x))
  })
  e <- failed_of(cluster_map(cl, 1, large))
  expect_identical(again(e), "15000000")
  expect_error(cluster_replay(), "too large", class = "clutch_gone")
  failure <- e$failure
  rm(e, large)
  invisible(gc())
  expect_false(is.null(clutch:::failure_of(structure(
    class = c("error", "condition"), list(message = "", call = NULL, failure = failure)))))
})

test_that("a part of a run, and an actor's function, run again without what is around them", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  part <- function(rank, k) {
    x <- runif(1)
    if (rank == 2) stop(rank + k, " ", x) else node_receive(2)
  }
  e <- failed_of(cluster_run(cl, part, k = 5))
  expect_match(conditionMessage(e$parent), "^7 ")
  expect_identical(again(e), conditionMessage(e$parent))
  e <- failed_of(cluster_run(cl, function(rank) stop(node_receive(timeout = 0))))
  expect_error(cluster_replay(e), class = "clutch_no_run")
  e <- failed_of(cluster_actor(cl, function(k) stop("begun with ", k), list(3)))
  expect_identical(e$calls[[1L]], "FUN(..arg1)")
  expect_identical(again(e), "begun with 3")
})

test_that("what has not failed is an error, and so is an element that there is not", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_error(cluster_replay(simpleError("no")), class = "clutch_argument")
  expect_error(cluster_replay("a"), class = "clutch_argument")
  done <- cluster_submit(cl, 1)
  collect(done)
  expect_error(cluster_replay(done),
               "has not failed", class = "clutch_argument")
  expect_error(cluster_replay(cluster_submit(cl, Sys.sleep(60))), "has not ended",
               class = "clutch_argument")
  failed_of(cluster_map(cl, 1:3, function(i) stop("no")))
  for (bad in list(0, 4, 1.5, c(1, 2), NA_real_))
    expect_error(cluster_replay(bad), "1 to 3", class = "clutch_argument")
  expect_error(cluster_replay(1, "never"), class = "clutch_argument")
})

test_that("what is remembered does not keep its cluster, which is garbage all the same", {
  in_function <- function() {
    cl <- make_cluster(1)
    f <- function(i) stop("no") # its environment knows the cluster
    failed_of(cluster_map(cl, 1, f))
    expect_error(cluster_replay(), "no")
    pids(cl)
  }
  node <- in_function()
  expect_true(eventually({
    gc()
    !tools::pskill(node, 0L)
  }))
  expect_error(cluster_replay(), "with its cluster", class = "clutch_gone")
})

test_that("only what has failed last is remembered", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  gone <- 0
  failing <- function() {
    data <- new.env()
    reg.finalizer(data, function(e) gone <<- gone + 1)
    function(x) stop("no")
  }
  for (k in 1:5) cluster_map(cl, 1:3, failing(), .on_error = "continue") |> suppressWarnings()
  expect_true(eventually({
    gc()
    gone == 4
  }))
  expect_error(cluster_replay(), "no")
  # the same of values that were exported again
  export_again <- function() {
    value <- failing()
    cluster_export(cl, "value", envir = environment())
  }
  for (k in 1:5) export_again()
  expect_true(eventually({
    gc()
    gone == 8
  }))
})

test_that("loops of foreach, and package parallel's maps", {
  skip_if_not_installed("foreach")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  registerDoClutch(cl)
  `%dopar%` <- foreach::`%dopar%`
  e <- tryCatch(foreach::foreach(i = 1:3) %dopar% if (i == 2) log("a") else i, error = identity)
  expect_match(again(e), "non-numeric argument")
  expect_match(again(), "non-numeric argument")
})
