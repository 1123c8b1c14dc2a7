# Tasks that leave while the session's main thread computes: by a thread that owns the event loop, or from a queue in
# memory that session and nodes share. handout*.c is the measuring program, whose nodes are stubs.
#
# QUICK=1: fewer repetitions and tasks.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()

program <- tempfile("handout-")
config <- function(what) system2(file.path(R.home("bin"), "R"), c("CMD", "config", what), stdout = TRUE)
if (system(paste(config("CC"), "-O2 -pthread -o", program, "lab/handout*.c")) != 0L)
  stop("lab/handout*.c cannot be compiled")
run <- function(...) { # the numbers that it prints
  out <- suppressWarnings(system2(program, c(...), stdout = TRUE, timeout = 60))
  x <- suppressWarnings(as.numeric(strsplit(paste(out, ""), " ")[[1L]]))
  if (!length(x)) stop("no figures from: handout ", paste(c(...), collapse = " "))
  x
}

ways <- c("thread", "thread-signalled", "thread-only", "queue")
nodes <- 2L
tasks <- if (quick) 20000L else 100000L
waiting <- 10000L
tries <- if (quick) 100L else 500L
rows <- list()
note <- function(what, way, rep, value) {
  rows[[length(rows) + 1L]] <<- data.frame(what = what, way = way, rep = rep, value = value)
}

measure_way <- function(way, r) {
  states <- c(waits = "no-ops a second, the session waits for all",
              collects = "no-ops a second, submitted and collected one by one",
              computes = "no-ops a second, the session computes")
  for (state in names(states)) {
    x <- run(way, "rate", nodes, tasks, 0, state)
    note(states[[state]], way, r, tasks / x[[1L]])
    if (state != "waits") next
    note("us of processor time a no-op, session", way, r, x[[2L]])
    note("us of processor time a no-op, nodes", way, r, x[[3L]])
  }
  x <- run(way, "rate", nodes, 100, 10000, "computes")
  note("100 tasks of 10 ms, the session computes: s (ideal: 0.5)", way, r, x[[1L]])
  note("one task, submit to result, us", way, r, run(way, "one", nodes, tries)[[1L]])
  x <- run(way, "start", nodes, tries)
  note("the session computes: submit to start, us", way, r, x[[1L]])
  note("the same, 90 % quantile", way, r, x[[3L]])
  note("the session computes: what a submit takes from it, us", way, r, x[[5L]])
  x <- run(way, "idle", nodes)
  note("ms of processor time in an idle second, all processes", way, r, sum(x))
  note(sprintf("MB for %s waiting tasks of 200 bytes", format(waiting, big.mark = ",")), way, r,
       run(way, "memory", nodes, waiting) / 1024)
}

measure_calls <- function(r) {
  states <- c(none = "no thread", parked = "a thread with nothing to do",
              armed = "a thread that waits for another node's task")
  for (state in rotated(names(states), r))
    note("one call, us", states[[state]], r, run("thread", "call", state, tries)[[1L]])
}

for (r in seq_len(repetitions(5L))) {
  for (way in rotated(ways, r)) measure_way(way, r)
  measure_calls(r)
}
raw <- do.call(rbind, rows)
keep(raw, "handout")
names(raw)[names(raw) == "value"] <- "median"
table <- spread(raw, c("what", "way"), "median")
show(table, "handout")
unlink(program)
method("handout",
  what = sprintf(paste("two stub nodes (forked processes without R); tasks of 200 bytes, results of 64; %s no-ops;",
                       "single tasks: the median of %d"), format(tasks, big.mark = ","), tries),
  order = "in each repetition every way once, another one first each time",
  warm = "20 tasks before single ones are timed")
