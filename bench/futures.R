# One future after another under each plan: value(future(1)), and 20 futures at once on two workers. Each plan is
# measured in turn, in one session.
#
# Package future 1.40 or newer is wanted, and future.mirai: of the library that 'tools/deps.sh newer-library' names.
# QUICK=1: fewer futures.
newer <- tryCatch(suppressWarnings(system2("tools/deps.sh", "newer-library", stdout = TRUE)), error = function(e) "")
if (dir.exists(file.path(newer, "future"))) {
  .libPaths(c(newer, .libPaths()))
  Sys.setenv(R_LIBS = paste(.libPaths(), collapse = ":")) # for the workers of others
}
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
if (!has("future") || utils::packageVersion("future") < "1.40.0") {
  cat("without package future 1.40 or newer nothing is measured\n")
  quit("no")
}
machine()
tries <- if (quick) 50L else 200L

plans <- list(
  sequential = function() future::plan("sequential"),
  clutch = function() future::plan(clutch::clutch, workers = 2),
  multicore = function() future::plan("multicore", workers = 2),
  multisession = function() future::plan("multisession", workers = 2)
)
if (has("future.mirai")) {
  plans$future.mirai <- function() future::plan(future.mirai::mirai_multisession, workers = 2)
}

one <- function(n) {
  times <- vapply(seq_len(n), function(i) seconds(future::value(future::future(1))), 1)
  1e3 * stats::median(times)
}
many <- function(n) {
  1e3 * seconds(future::value(lapply(seq_len(n), function(i) future::future(i)))) / n
}

rows <- list()
for (r in seq_len(repetitions())) {
  for (who in rotated(names(plans), r)) {
    plans[[who]]()
    n <- if (who %in% c("multisession", "multicore")) tries %/% 5L else tries
    one(10L)
    rows[[length(rows) + 1L]] <- data.frame(
      who = who, rep = r, what = c("value(future(1))", "one of 20 futures at once"),
      value = c(one(n), many(20L)))
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
method("futures",
       what = sprintf("milliseconds; each figure of a repetition is the median of %d futures (a fifth of it %s)",
                      tries, "for multicore and multisession"),
       order = "in each repetition every plan once, another one first each time", warm = "10 futures")
