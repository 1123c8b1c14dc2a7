# From the end of a task to the handler of its promise, while R is idle, and what waiting for it costs. The clock is that
# of the machine, read by the task as its last act and by the handler as its first.
#
# Package later waits for descriptors since 1.4.0; where there is an older one, .build/newer of the checkout is tried,
# which 'make test' fills. QUICK=1: fewer tasks.
if (dir.exists(".build/newer/later")) .libPaths(c(".build/newer", .libPaths()))
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
tries <- if (quick) 30L else 100L
now <- function() as.numeric(Sys.time())

# `submit(pause)`: a promise of the time at which a task has ended that sleeps for so long
latency <- function(submit, pause) {
  one <- function() {
    got <- NULL
    promises::then(submit(pause), function(ended) got <<- now() - ended)
    while (is.null(got)) later::run_now(1)
    1e3 * got
  }
  for (i in 1:5) one()
  stats::median(vapply(seq_len(tries), function(i) one(), 1))
}
# While a task sleeps: turns of later's in a second, and processor time of this process in ms
waiting <- function(submit) {
  got <- FALSE
  promises::then(submit(1.5), function(ended) got <<- TRUE)
  later::run_now(0.2)
  cpu <- sum(proc.time()[1:2])
  turns <- 0
  end <- now() + 1
  while (now() < end) turns <- turns + later::run_now(end - now())
  cpu <- sum(proc.time()[1:2]) - cpu
  while (!got) later::run_now(1)
  c(turns, 1e3 * cpu)
}

contenders <- list(clutch = function() {
  cl <- make_cluster(2)
  list(submit = function(pause) {
    promises::as.promise(cluster_submit(cl, {
      Sys.sleep(pause)
      as.numeric(Sys.time())
    }))
  }, stop = function() stop_cluster(cl))
})
if (has("mirai")) contenders$mirai <- function() {
  mirai::daemons(2)
  list(submit = function(pause) {
    promises::as.promise(mirai::mirai({
      Sys.sleep(pause)
      as.numeric(Sys.time())
    }, pause = pause))
  }, stop = function() mirai::daemons(0))
}

rows <- list()
if (has("promises") && has("later")) for (r in seq_len(repetitions())) {
  for (who in rotated(names(contenders), r)) {
    x <- contenders[[who]]()
    w <- waiting(x$submit)
    rows[[length(rows) + 1L]] <- data.frame(
      who = who, rep = r,
      what = c("task that ends at once: ms to its handler", "task of 20 ms: ms to its handler",
               "turns of R in a second in which nothing happens", "ms of processor time in it"),
      value = c(latency(x$submit, 0), latency(x$submit, 0.02), w))
    x$stop()
  }
}
raw <- do.call(rbind, rows)
raw$later <- format(utils::packageVersion("later"))
keep(raw, "promises")
names(raw)[names(raw) == "value"] <- "median"
show(spread(raw, c("what", "who", "later"), "median"), "promises")
fork_server_stop()
method("promises", what = sprintf("milliseconds; each figure of a repetition is the median of %d tasks", tries),
       order = "in each repetition every package once, another one first each time", warm = "5 tasks")
