# One future after another under each plan: value(future(1)), and 20 futures at once on two workers. Each plan is
# measured in turn, in one session, for as many futures as end within the same time: the slowest plans take twenty
# times as long as the quickest.
#
# Package future 1.40 or newer is wanted, and future.mirai: of the library that 'tools/deps.sh newer-library' names.
#
#   Rscript bench/futures.R [--seconds=1.5] [--reps=2]     QUICK=1: shorter, twice
source("bench/_common.R")
use_deps_libraries()
suppressPackageStartupMessages(library(clutch))
if (!has("future") || utils::packageVersion("future") < "1.40.0") {
  cat("without package future 1.40 or newer nothing is measured\n")
  quit("no")
}
machine()
budget <- as.numeric(option("seconds", if (quick) "0.5" else "1.5"))

plans <- list(
  sequential = function() future::plan("sequential"),
  clutch = function() future::plan(clutch::clutch, workers = 2),
  multicore = function() future::plan("multicore", workers = 2),
  multisession = function() future::plan("multisession", workers = 2)
)
if (has("future.mirai")) {
  plans$future.mirai <- function() future::plan(future.mirai::mirai_multisession, workers = 2)
}

# At least ten, for about so many seconds.
one <- function(s) {
  times <- numeric()
  while (length(times) < 10L || sum(times) < s) {
    times <- c(times, seconds(future::value(future::future(1))))
  }
  list(ms = 1e3 * stats::median(times), n = length(times))
}
many <- function(n) {
  1e3 * seconds(future::value(lapply(seq_len(n), function(i) future::future(i)))) / n
}

rows <- list()
for (r in seq_len(repetitions(2L))) {
  for (who in rotated(names(plans), r)) {
    plans[[who]]()
    one(0) # warm
    x <- one(budget)
    rows[[length(rows) + 1L]] <- data.frame(
      who = who, rep = r, what = c("value(future(1))", "one of 20 futures at once"),
      value = c(x$ms, many(20L)), futures = c(x$n, 20L))
    future::plan("sequential")
  }
}
raw <- do.call(rbind, rows)
raw$future <- format(utils::packageVersion("future"))
keep(raw, "futures")
names(raw)[names(raw) == "value"] <- "ms"
table <- spread(raw, c("what", "who", "future"), "ms")
show(table, "futures")
fork_server_stop()
n <- tapply(raw$futures, raw$who, max)[unique(raw$who)]
counts <- paste(n, names(n), collapse = ", ")
method("futures",
       what = sprintf(paste("milliseconds; each figure of a repetition is the median of the futures that end within",
                            "%g s, of ten at least: %s"), budget, counts),
       order = "in each repetition every plan once, another one first each time", warm = "10 futures")
