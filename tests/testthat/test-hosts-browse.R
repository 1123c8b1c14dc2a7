# browser() and debug() in elements on other hosts: the prompt is the session's.

outside_checks_only()

test_that("lines go to browser() on another host, and the element goes on", {
  allow_browser()
  there <- hosts_or_skip(c("alpha", "beta"))
  on.exit(stop_hosts(there), add = TRUE)
  cl <- make_cluster(hosts(c("alpha", "beta"), 2, ssh = c("ssh", "-F", there$config)))
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  f <- in_workspace(function(x) {
    y <- x * 2
    cat("before", x, "\n")
    if (x == 2) browser()
    cat("after", x, "\n")
    y + 1
  })
  lines <- c("y", "y <- 50", "no_such", "warning('odd')", "Sys.info()[['nodename']]",
             sprintf("nchar('%s')", strrep("x", 3e5)), "c")
  expect_warning(x <- typing(lines, cluster_map(cl, 1:4, f)), "odd")
  expect_identical(x$value, list(3, 51, 7, 9))
  expect_identical(x$left, character())
  expect_identical(x$prompts, rep("Browse[1]> ", 7))
  for (line in c("before 2 ", "Called from: FUN(.x)", "[1] 4", "[1] 300000", "after 2 "))
    expect_identical(sum(x$out == line), 1L, info = line)
  expect_true(any(grepl("alpha|beta", x$out)))
  expect_true(any(grepl("^Error.*object 'no_such' not found", x$out)))
  # one element at a time, and functions that are debugged
  g <- in_workspace(function(x) {
    for (k in 1:3) browser()
    x
  })
  x <- typing(rep(c("cat('at', x, '\\n')", "c"), 12), cluster_map(cl, 1:4, g))
  expect_identical(x$value, list(1L, 2L, 3L, 4L))
  at <- sub("at ([0-9]) ", "\\1", grep("^at ", x$out, value = TRUE))
  expect_length(at, 12L)
  expect_length(rle(at)$lengths, 4L)
  h <- in_workspace(function(x) {
    z <- 3 * x
    z + 1
  })
  debug(h)
  x <- typing(c("n", "n", "z <- 100", "n", "c"), cluster_map(cl, 1:2, h))
  undebug(h)
  expect_true(101 %in% unlist(x$value))
  expect_true(any(grepl("^debug.*: z <- 3 [*] x", x$out)))
  expect_length(x$left, 0L)
  x <- typing(rep("c", 3), collect(cluster_submit_call(cl, g, list(5L))))
  expect_identical(x$value, 5L)
  # Q
  went_up <- withRestarts({
    typing("Q", cluster_map(cl, 1:2, g))
    "no"
  }, abort = function() "up")
  expect_identical(went_up, "up")
  expect_true(works(cl))
  left <- cluster_map(cl, 1:4, function(i) {
    grep("^browse", list.files(file.path(dirname(tempdir()), "frozen")), value = TRUE)
  })
  expect_length(unlist(left), 0L)
})

test_that("a cut while the prompt is open delays the line, or ends the element", {
  allow_browser()
  there <- hosts_or_skip("alpha")
  on.exit(stop_hosts(there), add = TRUE)
  old <- options(clutch.heartbeat = 0.5, clutch.reconnect = 60)
  on.exit(options(old), add = TRUE)
  start <- function() make_cluster(hosts("alpha", 1, ssh = c("ssh", "-F", there$config)))
  cl <- start()
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  f <- in_workspace(function(x) {
    browser()
    x
  })
  the <- clutch:::the
  on.exit(the$read_line <- NULL, add = TRUE, after = FALSE)
  lines <- c("x <- 50", "c")
  the$read_line <- function(prompt) {
    if (length(lines) == 2L) {
      cut_off(there, "alpha")
      expect_true(eventually(cluster_hosts(cl)$state == "cut", 20))
      system(paste("(sleep 2;", cut_commands(there, "alpha", "link")[[2L]], ") > /dev/null 2>&1 &"))
    }
    line <- lines[[1L]]
    lines <<- lines[-1L]
    line
  }
  expect_output(x <- cluster_map(cl, 1, f))
  expect_identical(x, list(50))
  expect_length(lines, 0L)
  stop_cluster(cl)
  # it is not there again in time
  options(clutch.reconnect = 1)
  cl <- start()
  prompts <- 0
  the$read_line <- function(prompt) {
    prompts <<- prompts + 1
    cut_off(there, "alpha")
    if (prompts == 1) expect_true(eventually(cluster_hosts(cl)$state == "ended", 30))
    "c"
  }
  e <- tryCatch(suppressMessages(cluster_map(cl, 1, f)), error = identity)
  expect_s3_class(e, "clutch_task_died")
  expect_identical(prompts, 1)
  make_good(there, "alpha")
  # the node is killed
  options(clutch.reconnect = 60)
  cl <- start()
  pid <- pids(cl)
  the$read_line <- function(prompt) {
    killed <<- c(killed, on_host(there, "alpha", paste("kill -9", pid, "&& echo killed")))
    Sys.sleep(0.3)
    "c"
  }
  killed <- character()
  e <- tryCatch(suppressMessages(cluster_map(cl, 1, f)), error = identity)
  expect_s3_class(e, "clutch_task_died")
  expect_identical(killed, "killed")
  # time is up
  the$read_line <- function(prompt) {
    at <- function() .Call(clutch:::ffi_node_at, cl[[1]]$handle)
    expect_true(eventually(anyNA(at()), 10))
    "c"
  }
  e <- tryCatch(suppressMessages(cluster_map(cl, 1, f, .timeout = 0.5)), error = identity)
  expect_s3_class(e, "clutch_task_timeout")
  the$read_line <- NULL
  expect_true(works(cl))
})

test_that("at the prompt: lines, stepping, Ctrl-C, Q, for another host", {
  linux_only()
  allow_browser()
  there <- hosts_or_skip("alpha")
  on.exit(stop_hosts(there), add = TRUE)
  term <- browser_terminal()
  types <- term$types
  types(sprintf("library(clutch); s <- c('ssh', '-F', '%s')", there$config), AT_R)
  types("cl <- make_cluster(hosts('alpha', 2, ssh = s))", AT_R)
  types("f <- function(x) { if (x == 2) browser(); x * 2 }", AT_R)
  types("unlist(cluster_map(cl, 1:4, f))", AT_BROWSER)
  types("x + 40", AT_BROWSER)
  term$interrupt()
  expect_true(ends_with(term, AT_BROWSER))
  types("c(h = Sys.info()[['nodename']])", AT_BROWSER)
  types("x <- 100", AT_BROWSER)
  types("c", AT_R)
  debugs_at_prompt(term)
  types("cluster_map_dbl(cl, 1:2, h)", AT_BROWSER)
  term$type("repeat NULL") # Ctrl-C ends the map
  Sys.sleep(0.5)
  term$interrupt()
  expect_true(ends_with(term, AT_R))
  types("undebug(g); cluster_map_dbl(cl, 3:4, h)", AT_R)
  term$shows(c("^Called from: FUN\\(.x\\)", "^\\[1\\] 42", "^ +h *$", "^\"alpha\"",
               "^\\[1\\]   2 200   6   8", "^debugging in: g\\(i\\)", "^\\[1\\] 70",
               "^\\[1\\] 40 50"))
  term$type("q('no')")
  expect_true(ends(term))
  expect_identical(list.files(term$tmp), character())
  expect_hosts_empty(there)
})
