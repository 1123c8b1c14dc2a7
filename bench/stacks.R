# Stacks: how long does cluster_stacks() take to tell which R calls 64 busy nodes are in, and what does it cost the
# nodes that they can be asked?
#
#   Rscript bench/stacks.R [--reps=15]     QUICK=1: fewer
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
reps <- repetitions(15L, 5L)
nodes <- 64L

# The processor time of these processes, in seconds
cpu_of <- function(pids) {
  lines <- vapply(pids, function(p) readLines(file.path("/proc", p, "schedstat")), "")
  sum(as.numeric(sub(" .*", "", lines))) / 1e9
}
works <- list(
  "asleep in Sys.sleep()" = quote(Sys.sleep(600)),
  "in an R loop" = quote(repeat for (i in 1:1000) sqrt(i))
)

raw <- do.call(rbind, lapply(names(works), function(what) {
  cl <- make_cluster(nodes)
  code <- works[[what]]
  tasks <- lapply(seq_len(nodes), function(k) eval(bquote(cluster_submit(cl[k], .(code)))))
  while (!isTRUE(all(cluster_stacks(cl, 5)$current))) NULL
  pids <- cluster_status(cl)$pid
  out <- do.call(rbind, lapply(seq_len(reps), function(r) {
    Sys.sleep(0.2)
    before <- cpu_of(pids)
    told <- NULL
    took <- seconds(told <- cluster_stacks(cl, 5))
    spent <- cpu_of(pids) - before
    data.frame(what = what, rep = r, ms = 1000 * took, told = sum(told$current %in% TRUE),
               cpu = if (what == names(works)[[1L]]) 1000 * spent / nodes else NA)
  }))
  if (what == names(works)[[1L]]) {
    before <- cpu_of(pids)
    Sys.sleep(if (quick) 2 else 5)
    asleep <<- (cpu_of(pids) - before) / (if (quick) 2 else 5)
  }
  invisible(lapply(tasks, cancel))
  stop_cluster(cl)
  out
}))
keep(raw, "stacks")
table <- spread(raw, "what", "ms")
table$told <- as.vector(tapply(raw$told, factor(raw$what, table$what), min))
cat("which calls 64 nodes are in: milliseconds until all have told\n")
show(table, "stacks")
cost <- data.frame(
  what = c("processor time of one answer, milliseconds", "64 nodes asleep, share of a core"),
  value = c(stats::median(raw$cpu, na.rm = TRUE), asleep)
)
show(cost, "stacks-cost")
worst <- max(table$median[[1L]])
cat(sprintf("goal: the R stack of 64 nodes that sleep within 200 ms: %.0f ms: %s\n", worst,
            if (worst <= 200 && all(raw$told == nodes)) "met" else "MISSED"))
method("stacks",
  what = sprintf("milliseconds of cluster_stacks() until each of %d nodes has told its calls, %d times", nodes, reps),
  order = "asleep first, then in a loop",
  warm = "each node has told its calls once before")
