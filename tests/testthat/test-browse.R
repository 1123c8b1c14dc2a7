# browser() and debug() in elements: the prompt is the session's.

left_behind <- function(cl) {
  root <- file.path(dirname(collect(cluster_submit(cl, tempdir()))), "frozen")
  grep("^browse", list.files(root), value = TRUE)
}

test_that("lines go to browser(), and the element goes on", {
  allow_browser()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  f <- in_workspace(function(x) {
    y <- x * 2
    cat("before", x, "\n")
    if (x == 2) browser()
    cat("after", x, "\n")
    y + 1
  })
  lines <- c("y", "y <- 50", "no_such", "warning('odd')", "h <- function(a) {", "a + 41 }", "h(1)",
             "c")
  expect_warning(x <- typing(lines, cluster_map(cl, 1:4, f)), "odd")
  expect_identical(x$value, list(3, 51, 7, 9))
  expect_identical(x$left, character())
  expect_identical(x$prompts, c(rep("Browse[1]> ", 5), "+ ", rep("Browse[1]> ", 2)))
  at <- function(line) which(x$out == line)
  for (line in c("before 2 ", "Called from: FUN(.x)", "[1] 4", "[1] 42", "after 2 "))
    expect_length(at(line), 1L)
  expect_true(any(grepl("^Error.*object 'no_such' not found", x$out)))
  expect_lt(at("Called from: FUN(.x)"), at("[1] 4"))
  expect_lt(at("[1] 42"), at("after 2 "))
  expect_identical(left_behind(cl), character())
  # nobody is at a prompt: it is skipped
  expect_output(x <- cluster_map(cl, 1:3, f), "after 2")
  expect_identical(x, list(3, 5, 7))
})

test_that("a function that is debugged here is debugged there, and not in a later map", {
  allow_browser()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  g <- in_workspace(function(x) {
    z <- 3 * x
    z + 1
  })
  assign("debugged_g", g, globalenv())
  on.exit(rm("debugged_g", envir = globalenv()), add = TRUE)
  f <- in_workspace(function(x) debugged_g(x))
  run <- function(lines) typing(lines, cluster_map(cl, 1:2, f))
  debug(debugged_g)
  for (k in 1:2) {
    x <- run(c("n", "n", "z", "z <- 100", "n", "c"))
    expect_identical(x$left, character())
    expect_identical(sort(unlist(x$value)), c(sort(unlist(x$value))[[1L]], 101))
    expect_true(any(grepl("debugging in: debugged_g(x)", x$out, fixed = TRUE)))
    expect_true(any(grepl("^debug.*: z <- 3 [*] x", x$out)))
  }
  undebug(debugged_g)
  x <- run("left")
  expect_identical(x$value, list(4, 7))
  expect_identical(x$left, "left")
  debug(f)
  x <- run(c("c", "c"))
  expect_identical(x$value, list(4, 7))
  expect_identical(sum(grepl("debugging in: FUN(.x)", x$out, fixed = TRUE)), 2L)
  undebug(f)
  expect_identical(run("left")$left, "left")
})

test_that("one element at a time is at the prompt", {
  allow_browser()
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl), add = TRUE)
  f <- in_workspace(function(x) {
    for (k in 1:3) browser()
    x
  })
  lines <- rep(c("cat('at', x, '\\n')", "c"), 9)
  x <- typing(lines, cluster_map(cl, 1:3, f))
  expect_identical(x$value, list(1L, 2L, 3L))
  at <- sub("at ([0-9]) ", "\\1", grep("^at ", x$out, value = TRUE))
  expect_length(at, 9L)
  expect_length(rle(at)$lengths, 3L)
  expect_identical(left_behind(cl), character())
})

test_that("tasks, other maps and mclapply() ask, too; where output is collected nobody asks", {
  allow_browser()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  f <- in_workspace(function(x) {
    browser()
    x + 1
  })
  x <- typing("c", {
    task <- cluster_submit_call(cl, f, list(1))
    collect(task)
  })
  expect_identical(x$value, 2)
  x <- typing(c("x <- 10", "c", "c"), cluster_map_dbl(cl, c(1, 2), f))
  expect_true(11 %in% x$value)
  expect_length(x$left, 0L)
  collects <- in_workspace(function(x) utils::capture.output(browser()))
  x <- typing("left", cluster_map(cl, 1, collects))
  expect_identical(x$left, "left")
  x <- typing("left", cluster_map(cl, 1, f, .relay = "none"))
  expect_identical(x$left, "left")
  x <- typing(c("c", "c"), mclapply(1:2, f, mc.cores = 2))
  on.exit(end_own_cluster(), add = TRUE)
  expect_identical(x$value, list(2, 3))
  expect_length(x$left, 0L)
  # one that has a prompt nobody listens to does not hold up others
  second <- in_workspace(function(i) {
    if (i == 1) Sys.sleep(0.5)
    browser()
    i
  })
  x <- typing(rep("c", 3), {
    tasks <- lapply(1:2, function(i) cluster_submit_call(cl, second, list(i)))
    list(collect(tasks[[1]]), cluster_map(cl, 5, f), collect(tasks[[2]]))
  })
  expect_identical(x$value, list(1L, list(6), 2L))
  expect_length(x$left, 0L)
  # each part of a program is at the prompt
  part <- in_workspace(function(rank) {
    if (rank == 2) browser()
    node_barrier()
    rank
  })
  x <- typing("c", cluster_run(cl, part))
  expect_identical(x$value, list(1L, 2L))
  expect_length(x$left, 0L)
  # an error that R's own C code signals is not the element's, nor is the end of the input a line
  x <- typing(c("list()[[3]]", "stop(structure(class = c('odd', 'error', 'condition'),",
                "list(message = 'm', call = NULL)))", "z = 5", "z; invisible(z)", "c"),
              cluster_map(cl, 1, f))
  expect_identical(x$value, list(2))
  expect_identical(x$prompts[[3L]], "+ ")
  expect_true(any(grepl("subscript out of bounds", x$out)))
  expect_true("Error: m" %in% x$out)
  expect_identical(sum(x$out == "[1] 5"), 1L)
  long <- sprintf("nchar('%s')", strrep("x", 1e5))
  expect_true("[1] 100000" %in% typing(c(long, "c"), cluster_map(cl, 1, f))$out)
  reads <- in_workspace(function(i) length(readLines(stdin(), 1)))
  expect_identical(typing("left", cluster_map(cl, 1, reads))$left, "left")
  # a function that fails behind its prompt
  fails <- in_workspace(function(x) {
    browser()
    stop("behind it")
  })
  expect_error(typing("c", cluster_map(cl, 1, fails)), "behind it")
  expect_true(works(cl))
})

test_that("Q ends the map; a node that dies, and a time limit, end the wait", {
  allow_browser()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  f <- in_workspace(function(x) {
    browser()
    x
  })
  went_up <- withRestarts({
    typing("Q", cluster_map(cl, 1:2, f))
    "no"
  }, abort = function() "up")
  expect_identical(went_up, "up")
  expect_true(works(cl))
  task <- NULL
  withRestarts(typing("Q", {
    task <- cluster_submit_call(cl, f, list(1))
    collect(task)
  }), abort = function() "up")
  expect_error(collect(task, 20), "left by Q", class = "clutch_task_error")
  expect_true(works(cl))
  expect_identical(left_behind(cl), character())
  # while the user thinks
  before <- pids(cl)
  the <- clutch:::the
  the$read_line <- function(prompt) {
    tools::pskill(before[[1L]], 9L)
    Sys.sleep(0.3)
    "c"
  }
  on.exit(the$read_line <- NULL, add = TRUE)
  e <- tryCatch(suppressMessages(cluster_map(cl[1], 1, f)), clutch_task_died = identity)
  expect_s3_class(e, "clutch_task_died")
  the$read_line <- NULL
  expect_true(works(cl))
  # its time is up while nobody types, also where nothing else happens meanwhile
  options(clutch.memory = FALSE)
  on.exit(options(clutch.memory = NULL), add = TRUE)
  for (k in 1:3) {
    has_ended <- FALSE
    the$read_line <- function(prompt) {
      at <- function() .Call(clutch:::ffi_node_at, cl[[1]]$handle)
      has_ended <<- eventually(anyNA(at()), 10)
      "c"
    }
    e <- tryCatch(suppressMessages(cluster_map(cl[1], 1, f, .timeout = 0.5)),
                  clutch_task_timeout = identity)
    expect_s3_class(e, "clutch_task_timeout")
    expect_true(has_ended)
  }
  the$read_line <- NULL
  expect_true(works(cl))
  expect_identical(left_behind(cl), character())
})

test_that("at the prompt: lines, stepping, Ctrl-C, Q", {
  allow_browser()
  linux_only()
  outside_checks_only()
  term <- browser_terminal()
  types <- term$types
  types("library(clutch); cl <- make_cluster(2); f <- function(x) { if (x == 2) browser(); x * 2 }",
        AT_R)
  types("unlist(cluster_map(cl, 1:4, f))", AT_BROWSER)
  types("x + 40", AT_BROWSER)
  term$interrupt()
  expect_true(ends_with(term, AT_BROWSER))
  types("x <- 100", AT_BROWSER)
  types("c", AT_R)
  debugs_at_prompt(term)
  types("undebug(g); cluster_map_dbl(cl, 3:4, h)", AT_R)
  term$shows(c("^Called from: FUN\\(.x\\)", "^\\[1\\] 42", "^\\[1\\]   2 200   6   8",
               "^debugging in: g\\(i\\)", "^\\[1\\] 70", "^\\[1\\] 40 50"))
  term$type("q('no')")
  expect_true(ends(term))
  expect_identical(list.files(term$tmp), character())
})
