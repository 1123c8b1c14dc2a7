# foreach loops whose iterations do nothing: what a loop costs by itself. `%do%` is the floor: foreach reads each
# iteration from its iterator and combines each result, whoever evaluates it. registerDoClutch(), doParallel on base R's
# PSOCK nodes and doFuture under plan(clutch) have two nodes each.
#
#   Rscript bench/foreach.R [--iterations=20000] [--reps=2]     QUICK=1: fewer, twice
source("bench/_common.R")
use_deps_libraries() # doFuture wants a future newer than many have
suppressPackageStartupMessages({
  library(clutch)
  library(parallel)
})
if (!has("foreach") || !has("doParallel")) {
  cat("without packages foreach and doParallel nothing is measured\n")
  quit("no")
}
suppressPackageStartupMessages(library(foreach))
machine()
n <- as.integer(option("iterations", if (quick) 2000L else 20000L))

cl <- make_cluster(2)
base <- parallel::makePSOCKcluster(2)
contenders <- list(
  `%do%` = function() foreach(i = seq_len(n)) %do% NULL,
  clutch = function() {
    registerDoClutch(cl)
    foreach(i = seq_len(n)) %dopar% NULL
  },
  `doParallel, PSOCK` = function() {
    doParallel::registerDoParallel(base)
    foreach(i = seq_len(n)) %dopar% NULL
  }
)
if (has("doFuture")) contenders$`doFuture, plan(clutch)` <- function() {
  doFuture::registerDoFuture()
  future::plan(clutch::clutch, workers = cl)
  on.exit(future::plan("sequential"))
  foreach(i = seq_len(n)) %dopar% NULL
}
rows <- list()
for (r in seq_len(repetitions(2L))) {
  for (who in rotated(names(contenders), r)) {
    gc()
    us <- 1e6 * seconds(contenders[[who]]()) / n
    rows[[length(rows) + 1L]] <- data.frame(who = who, rep = r, iterations = n, us = us)
  }
}
raw <- do.call(rbind, rows)
keep(raw, "foreach")
show(spread(raw, c("who", "iterations"), "us"), "foreach")
registerDoSEQ()
stop_cluster(cl)
parallel::stopCluster(base)
fork_server_stop()
method("foreach", what = "microseconds for one iteration",
       order = "in each repetition every contender once, another one first each time",
       warm = "none: a loop is long")
