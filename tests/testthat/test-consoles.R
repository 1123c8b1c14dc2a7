# A session that is not in a terminal, as editors have it: an interactive R whose input and output
# are pipes (RStudio's and Jupyter's ways), or a terminal whose cursor cannot be moved (emacs).

outside_checks_only()

# Starts an interactive R in such surroundings: list(say, out, pid, close). `command`: what runs it.
start_console <- function(command) {
  folder <- tempfile("console-")
  dir.create(folder)
  f <- function(name) file.path(folder, name)
  pipe <- f("in")
  file.create(f("out")) # the shell opens it in the background
  system2("mkfifo", pipe)
  # started in the background it would ignore SIGINT, see start_script()
  signals <- if (can_reset_signals()) "--default-signal=INT" else ""
  libraries <- shQuote(paste(.libPaths(), collapse = ":"))
  system(sprintf("env %s TMPDIR=%s R_LIBS=%s R_TESTS= %s < %s > %s 2>&1 & echo $! > %s",
                 signals, shQuote(folder), libraries, command, pipe, f("out"), f("pid")))
  to <- fifo(pipe, "w", blocking = TRUE)
  list(say = function(line) {
    writeLines(line, to)
    flush(to)
  },
  out = function() paste(readLines(f("out"), warn = FALSE), collapse = "\n"),
  pid = function() as.integer(readLines(f("pid"))),
  close = function() {
    close(to)
    eventually(!alive(as.integer(readLines(f("pid")))), 20)
  })
}

comes <- function(console, text, seconds = 30) {
  is_there <- eventually(grepl(text, console$out(), fixed = TRUE), seconds)
  expect_true(is_there, info = sprintf("'%s' is not in:\n%s", text, console$out()))
}

# What each of them has to bear: output in order, an error, an interrupt, and the session goes on.
bears_clutch <- function(console, interrupt) {
  # one line at a time: R that has read two from a pipe waits for a third before it takes the second
  console$say("library(clutch); cl <- make_cluster(2); cat('is', 'there\\n')")
  comes(console, "is there")
  console$say(paste("x <- cluster_map(cl, 1:30, function(i) Sys.sleep(0.1), .progress = TRUE);",
                    "cat('has', 'ended\\n')"))
  comes(console, "has ended")
  console$say("y <- cluster_map(cl, 1:2, function(i) { message('m', i); cat('out', i, '\\n') })")
  comes(console, "out 2")
  console$say("cluster_map(cl, 1, function(i) stop('b', 'ad'))")
  comes(console, "bad")
  console$say(paste("cat('sle', 'eps\\n', sep = '');",
                    "z <- cluster_map(cl, 1:2, function(i) Sys.sleep(100))"))
  comes(console, "sleeps")
  Sys.sleep(0.5)
  interrupt()
  console$say("cat('sum', sum(unlist(cluster_map(cl, 1:4, function(i) i^2))), '\\n')")
  comes(console, "sum 30")
  out <- console$out()
  expect_false(grepl("\033\\[[0-9;?]*[^0-9;?m]", out)) # colours are for the editor to show
  expect_lt(regexpr("out 1", out), regexpr("out 2", out))
  console$say("stop_cluster(cl); q('no')")
  expect_true(console$close())
}

program <- function(options) {
  paste(shQuote(file.path(R.home("bin"), "R")), "--vanilla --quiet --no-readline", options)
}

test_that("an interactive session behind pipes is served as one in a terminal", {
  console <- start_console(paste("TERM=dumb RSTUDIO=1", program("--interactive")))
  bears_clutch(console, function() {
    tools::pskill(console$pid(), tools::SIGINT)
  })
})

test_that("a terminal whose cursor cannot be moved is not asked to", {
  skip_if(!nzchar(Sys.which("script")), "not installed: script, of util-linux")
  command <- sprintf("env TERM=dumb INSIDE_EMACS=29.1,comint script -qfec %s /dev/null",
                     shQuote(program("")))
  console <- start_console(command)
  bears_clutch(console, function() console$say("\003"))
})
