# cluster_debug(): frozen copies of nodes at which elements have failed.

local_options <- function(..., env = parent.frame()) {
  old <- options(...)
  do.call(on.exit, list(substitute(options(old), list(old = old)), add = TRUE), envir = env)
}
failed_of <- function(expr) tryCatch(expr, clutch_task_error = identity)

# Process ids of the copies that this session has.
copies_of <- function(cl) {
  p <- as.integer(list.files("/proc", "^[0-9]+$"))
  p <- p[vapply(p, function(p) {
    line <- tryCatch(suppressWarnings(readLines(file.path("/proc", p, "cmdline"), warn = FALSE)),
                     error = function(e) "")
    length(line) > 0L && any(grepl("clutch: failed element", line, fixed = TRUE))
  }, NA)]
  parent <- function(p) {
    stat <- tryCatch(suppressWarnings(readLines(file.path("/proc", p, "stat"))),
                     error = function(e) "1 (gone) S 0")
    as.integer(strsplit(sub(".*\\) ", "", stat), " ", fixed = TRUE)[[1L]][[2L]])
  }
  p[vapply(p, parent, 1L) %in% pids(cl)]
}

test_that("frames of a failed element are there, and the map has gone on", {
  local_options(clutch.frozen = 4)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  f <- function(x, k) {
    n <- nchar(x) * k
    g(n)
  }
  g <- function(y) {
    z <- y + 1
    if (y > 6) stop("too long")
    z
  }
  x <- suppressWarnings(cluster_map(cl, c("a", "abcd", "b"), f, k = 2, .on_error = "continue"))
  expect_identical(x[c(1, 3)], list(3, 3))
  labels <- cluster_debug(x[[2L]])
  expect_length(labels, 2L)
  expect_match(labels[[2L]], "g\\(n\\)")
  value <- function(...) cluster_debug(x[[2L]], ...)
  expect_identical(value(expr = quote(z)), 9)
  expect_identical(value(1, quote(x)), "abcd")
  expect_identical(value(1, quote(k)), 2)
  expect_identical(value(expr = quote(ls())), c("y", "z"))
  expect_error(value(expr = quote(stop("in the copy"))), "in the copy")
  expect_output(value(expr = quote(print("said"))), "said")
  expect_warning(expect_identical(value(expr = quote(as.integer("x"))), NA_integer_), "coercion")
  # what is changed there stays, and is nowhere else
  value(expr = quote(assign("z", 50, envir = environment())))
  expect_identical(value(expr = quote(z)), 50)
  expect_true(works(cl))
  # by element's number, and the last
  expect_identical(cluster_debug(2, 1, quote(n)), 8)
  expect_identical(cluster_debug(NULL, 1, quote(n)), 8)
  for (bad in list(3, 0, "a", c(1, 2)))
    expect_error(cluster_debug(2, bad), class = "clutch_argument")
  expect_error(cluster_debug(1), class = "clutch_gone")
})

test_that("of elements that fail at once with one message the error finds the copy", {
  local_options(clutch.frozen = 4)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  found <- function(...) {
    e <- failed_of(cluster_map(cl, 1:2, ...))
    suppressMessages(cluster_debug(e, 1, quote(x)))
  }
  for (i in 1:10) expect_true(found(function(x) stop("both")) %in% 1:2)
  for (i in 1:3) expect_true(found(function(x) Sys.sleep(60), .timeout = 0.1) %in% 1:2)
  both <- suppressWarnings(cluster_map(cl, 1:2, function(x) Sys.sleep(60), .timeout = 0.1,
                                       .on_error = "continue"))
  for (e in both) expect_true(suppressMessages(cluster_debug(e, 1, quote(x))) %in% 1:2)
})

test_that("the first frame of a part of a run is the user's function", {
  local_options(clutch.frozen = 4)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  g <- function(y) if (y == 4) stop("four") else node_receive(2)
  e <- failed_of(cluster_run(cl, function(rank, k) {
    own <- rank * k
    g(own)
  }, k = 2))
  expect_length(cluster_debug(e), 2L)
  expect_identical(cluster_debug(e, 1, quote(own)), 4)
  expect_identical(cluster_debug(e, 1, quote(sys.call())), quote(FUN(.x, k = k)))
})

test_that("the first frame of a map of several lists is the user's function", {
  local_options(clutch.frozen = 4)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  f <- function(a, b) {
    own <- a + b
    stop("no")
  }
  value <- function(e) cluster_debug(e, 1, quote(own))
  expect_identical(value(failed_of(cluster_pmap(cl, list(b = 2, a = 1), f))), 3)
  expect_identical(value(failed_of(cluster_map2(cl, 3, 4, f))), 7)
  expect_identical(value(failed_of(cluster_walk(cl, 5, f, b = 1))), 6)
})

test_that("of more parts than are kept the error finds one that is", {
  local_options(clutch.frozen = 1)
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl), add = TRUE)
  for (i in 1:4) {
    e <- failed_of(cluster_run(cl, function(rank) stop("all")))
    expect_true(suppressMessages(cluster_debug(e, 1, quote(rank))) %in% 1:3)
  }
})

test_that("of nodes that fail at the same moment not each ends the copy of another", {
  local_options(clutch.frozen = 1)
  cl <- make_cluster(12)
  on.exit(stop_cluster(cl), add = TRUE)
  f <- function(rank, at) {
    Sys.sleep(max(0, at - as.numeric(Sys.time())))
    stop("all")
  }
  for (i in 1:15) {
    e <- failed_of(cluster_run(cl, f, as.numeric(Sys.time()) + 0.1))
    expect_true(suppressMessages(cluster_debug(e, 1, quote(rank))) %in% 1:12)
  }
})

test_that("a task, an error in a calling handler, and one whose time was up", {
  local_options(clutch.frozen = 4, clutch.task_grace = 20)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  h <- function(v) stop("of ", v)
  task <- cluster_submit(cl, {
    own <- 5
    h(own)
  })
  failed_of(collect(task))
  expect_identical(cluster_debug(task, expr = quote(v)), 5)
  slow <- function(x) {
    at <- x * 2
    repeat Sys.sleep(0.01)
  }
  e <- failed_of(cluster_map(cl, 21, slow, .timeout = 0.3))
  expect_s3_class(e, "clutch_task_timeout")
  expect_false(any(grepl("frozen", e$stack)))
  expect_identical(cluster_debug(e, 1, quote(at)), 42)
  # handled errors leave none
  before <- length(copies_of(cl))
  cluster_map(cl, 1:20, function(i) {
    try(stop("quiet ", i), silent = TRUE)
    tryCatch(stop(i), error = function(e) i)
    i
  })
  expect_true(eventually(length(copies_of(cl)) <= before))
})

test_that("as many are kept as was said, the first of each message, and they end", {
  needs("proc")
  local_options(clutch.frozen = 3)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  many <- function(i) stop("message ", i %% 8)
  x <- suppressWarnings(cluster_map(cl, 1:1000, many, .on_error = "continue"))
  expect_true(eventually(length(copies_of(cl)) <= 3L))
  expect_gte(length(copies_of(cl)), 1L)
  kept <- Filter(function(e) !is.null(e$failure$copy), x)
  expect_lte(length(kept), 3L)
  # another of the same message
  same <- Find(function(e) {
    is.null(e$failure$copy) && conditionMessage(e$parent) == conditionMessage(kept[[1L]]$parent)
  }, x)
  expect_message(i <- cluster_debug(same, 1, quote(i)), "was not kept")
  expect_identical(as.double(i), kept[[1L]]$element)
  # a later map takes the place of this one
  y <- suppressWarnings(cluster_map(cl, 1:8, many, .on_error = "continue", .chunk = 1))
  expect_true(eventually(length(copies_of(cl)) <= 3L))
  expect_false(any(vapply(Filter(function(e) !is.null(e$failure$copy), y),
                          function(e) is.null(cluster_debug(e)), NA)))
  p <- copies_of(cl)
  folders <- clutch:::info_of(cl)$tasks$copies
  stop_cluster(cl)
  expect_true(eventually(!any(alive(p))))
  expect_false(any(dir.exists(folders)))
  expect_error(cluster_debug(y[[1L]]), class = "clutch_gone")
  # none are wanted
  options(clutch.frozen = 0)
  cl <- make_cluster(2)
  e <- failed_of(cluster_map(cl, 1, many))
  expect_error(cluster_debug(e), class = "clutch_gone")
  expect_length(copies_of(cl), 0L)
  options(clutch.frozen = "many")
  expect_error(cluster_map(cl, 1, many), class = "clutch_argument")
})

test_that("a copy ends with its node, and answers nobody without the secret", {
  needs("proc")
  local_options(clutch.frozen = 4)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  e <- failed_of(cluster_map(cl, 1, function(i) stop("no")))
  copy <- clutch:::failure_of(e)$copy
  s <- socket_connect(path = copy$path, blocking = TRUE, open = "r+b", timeout = 20, slot = FALSE)
  socket_send(s, "guessed")
  expect_error(socket_receive(s), class = "clutch_error")
  close(s)
  expect_identical(cluster_debug(e, 1, quote(i)), 1)
  expect_identical(as.integer(file.mode(dirname(copy$path))), as.integer(as.octmode("700")))
  file <- tempfile()
  saveRDS(e, file)
  expect_false(any(grepl(copy$key, readLines(gzfile(file), warn = FALSE, skipNul = TRUE),
                         fixed = TRUE, useBytes = TRUE)))
  unlink(file)
  p <- copies_of(cl)
  expect_length(p, 1L)
  tools::pskill(pids(cl)[[e$node]], 9L)
  expect_true(eventually(!any(alive(p))))
  # whoever removes its folder ends it
  e <- failed_of(cluster_map(cl, 1, function(i) stop("again")))
  p <- copies_of(cl)
  place <- dirname(clutch:::failure_of(e)$copy$path)
  unlink(file.path(place, "s"))
  expect_true(eventually(!any(alive(p))))
})

test_that("files and connections of the node are not the copy's", {
  linux_only()
  local_options(clutch.frozen = 4)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  # the pipe's reader ends when the node has closed it: the copy does not hold it open
  value <- suppressWarnings(cluster_map(cl, 1:2, function(i) {
    out <- pipe("cat > /dev/null", "w")
    on.exit(close(out))
    if (i == 1) stop("with a pipe")
    i
  }, .on_error = "continue"))
  expect_identical(value[[2L]], 2L)
  expect_identical(cluster_debug(value[[1L]], 1, quote(i)), 1L)
})

test_that("what fails in mclapply() leaves a copy, and is what package parallel gives", {
  on.exit(end_own_cluster())
  local_options(clutch.frozen = 4)
  g <- function(y) if (y == 4) stop("four is too much") else log(y)
  f <- function(x) {
    twice <- 2 * x
    g(twice)
  }
  set.seed(1, kind = "L'Ecuyer-CMRG")
  on.exit(RNGkind("default"), add = TRUE)
  seed <- .Random.seed
  for (prescheduled in c(TRUE, FALSE)) {
    lap <- function(ns) {
      suppressWarnings(ns$mclapply(1:3, f, mc.cores = 2, mc.preschedule = prescheduled))
    }
    x <- lap(asNamespace("clutch"))
    expect_identical(x, lap(asNamespace("parallel")))
    expect_s3_class(x[[2]], "try-error")
    labels <- cluster_debug(x[[2]])
    expect_length(labels, 2L)
    expect_match(labels[[1]], "FUN(X[[i]], ...)", fixed = TRUE)
    expect_identical(cluster_debug(x[[2]], expr = quote(y)), 4)
    expect_identical(cluster_debug(frame = 1, expr = quote(c(x, twice))), c(2, 4))
    # once more, here: an error with the same frames, and the session is as it was
    before <- list(options(), .Random.seed)
    e <- expect_error(cluster_replay(x[[2]]), "four is too much")
    expect_identical(conditionCall(e), conditionCall(attr(x[[2]], "condition")))
    expect_identical(list(options(), .Random.seed), before)
    g <- function(y) y
    expect_identical(cluster_replay(globals = "now"), if (prescheduled) list(4) else 4)
    g <- function(y) if (y == 4) stop("four is too much") else log(y)
  }
  expect_identical(.Random.seed, seed)
  # values that look like errors are values
  x <- suppressWarnings(mclapply(1:2, function(i) try(stop("handled ", i), silent = TRUE),
                                 mc.cores = 2, mc.preschedule = FALSE))
  expect_match(x[[2]], "handled 2")
})

test_that("at the prompt: menu, browser, output, errors, Ctrl-C, c, Q", {
  linux_only()
  outside_checks_only()
  skip_if_not(nzchar(Sys.which("tmux")), "needs tmux")
  term <- start_terminal()
  on.exit({
    term$close()
    for (p in processes_of(term)) tools::pskill(p, 9L)
  })
  shows <- function(pattern) eventually(any(grepl(pattern, term$screen())), 60)
  last <- function(pattern) ends_with(term, pattern)
  steps <- list(
    c("library(clutch); cl <- make_cluster(2); g <- function(y) { z <- y * 2; stop('long') }",
      "^> $"),
    c("f <- function(x) { n <- nchar(x); g(n) }", "^> $"),
    c("cluster_map(cl, 'abcd', f)", "^> $"),
    c("cluster_debug()", "^Selection: $"),
    c("2", "^Browse\\[1\\]> $"),
    c("paste('z', 'is', z)", "^Browse\\[1\\]> $"),
    c("message('to stderr'); no_such_thing", "^Browse\\[1\\]> $"),
    c("h <- function(a) {", "^\\+ $"),
    c("a + 41 }; h(1)", "^Browse\\[1\\]> $"),
    c("where", "^Browse\\[1\\]> $"),
    c("c", "^Selection: $"),
    c("1", "^Browse\\[1\\]> $"),
    c("rev(x)", "^Browse\\[1\\]> $"),
    c("Q", "^> $"),
    c("cluster_map_int(cl, 1:2, function(i) i)", "^> $")
  )
  expect_true(last("^> ?$"))
  for (s in steps) {
    before <- term$screen()
    term$type(s[[1L]])
    expect_true(ends_with(term, sub(" \\$$", " ?$", s[[2L]]), before),
                info = paste(c(s, term$screen()), collapse = "\n"))
  }
  screen <- term$screen()
  for (line in c("element 1 on node [12]: long", "2: .*g\\(n\\)", "^\\[1\\] \"z is 8\"",
                 "^to stderr", "^Error( in g\\(n\\) )?: object 'no_such_thing' not found",
                 "^\\[1\\] 42", "^where 2: FUN\\(.x\\)", "^\\[1\\] \"abcd\"", "^\\[1\\] 1 2"))
    expect_true(any(grepl(line, screen)), info = paste(c(line, screen), collapse = "\n"))
  # Ctrl-C ends what is evaluated, and not the browser
  term$type("cluster_debug(frame = 1)")
  expect_true(last("^Browse\\[1\\]> ?$"))
  term$type("cat('be', 'gun\\n', sep = ''); Sys.sleep(600)")
  Sys.sleep(1)
  term$interrupt()
  expect_true(last("^Browse\\[1\\]> ?$"))
  term$type("n + 100")
  expect_true(shows("^\\[1\\] 104"))
  term$type("Q")
  expect_true(last("^> ?$"))
  term$type("q('no')")
  expect_true(ends(term))
  expect_identical(list.files(term$tmp), character())
})

test_that("a copy that has ended before its element has is not told of, nor killed", {
  local_options(clutch.frozen = 2)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  told <- tempfile()
  on.exit(unlink(told), add = TRUE)
  f <- function(x, told) {
    on.exit({
      copy <- clutch:::the_node$frozen
      pid <- copy$pid
      tools::pskill(pid, 9L)
      while (!is.na(.Call(clutch:::ffi_process_letter, pid))) Sys.sleep(0.01)
      # to make another, which somebody wants to see, reaps it: its id may be another process's
      busy <- strsplit(clutch:::copy_while_busy(sys.nframe()), " ")[[1L]]
      saveRDS(list(.Call(clutch:::ffi_frozen_taken), file.exists(copy$path)), told)
      tools::pskill(as.integer(busy[[1L]]), 9L)
      .Call(clutch:::ffi_remove_folder, dirname(busy[[3L]]))
    })
    stop("boom")
  }
  expect_error(cluster_map(cl, 1, f, told = told), "boom")
  expect_identical(readRDS(told), list(FALSE, FALSE))
})

test_that("a copy lives on when an evaluation in it calls restart abort", {
  local_options(clutch.frozen = 4)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  e <- failed_of(cluster_map(cl, 1, function(i) {
    seen <- 7
    stop("no")
  }))
  expect_error(cluster_debug(e, expr = quote(invokeRestart("abort"))), "abort")
  expect_identical(cluster_debug(e, expr = quote(seen)), 7)
})
