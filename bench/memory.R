# Memory that is a node's own (not shared with another process): idle, after its first full collection, after five small
# lm, and after lm on 1e5 x 10. --nodes=8 QUICK=1: fewer.
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
reps <- repetitions()
n <- as.integer(option("nodes", if (quick) "4" else "8"))
work <- function() {
  x <- matrix(stats::rnorm(1e6), 1e5)
  stats::lm(stats::rnorm(1e5) ~ x)
  Sys.getpid()
}
small <- function() {
  for (i in 1:5) stats::lm(mpg ~ wt + hp, datasets::mtcars)
  Sys.getpid()
}
collect_all <- function() {
  gc()
  Sys.getpid()
}
environment(work) <- environment(small) <- environment(collect_all) <- globalenv()
call_all <- function(cl, f) clusterCall(cl, f)
contenders <- list(
  "base PSOCK" = list(start = makeCluster, call = call_all, stop = stopCluster),
  "base fork" = list(start = makeForkCluster, call = call_all, stop = stopCluster),
  "clutch" = list(start = make_cluster, call = call_all, stop = stop_cluster))
if (has("mirai")) contenders$mirai <- list(
  start = function(n) { mirai::daemons(n); n },
  call = function(n, f) mirai::collect_mirai(mirai::everywhere(f(), f = f, .min = n)),
      stop = function(n) mirai::daemons(0))
if (has("callr")) contenders[["callr (sessions)"]] <- list(
  start = function(n) lapply(seq_len(n), function(i) callr::r_session$new()),
  call = function(all, f) {
    for (s in all) s$call(f)
    lapply(all, function(s) { s$poll_process(60000); s$read()$result })
  },
  stop = function(all) for (s in all) s$close())
moments <- c("idle", "after gc()", "after small lm", "after lm")
raw <- do.call(rbind, lapply(seq_len(reps), function(r) do.call(rbind, lapply(rotated(names(contenders), r),
    function(who) {
  c <- contenders[[who]]
  cl <- c$start(n)
  pids <- unlist(c$call(cl, Sys.getpid))
  idle <- private_mb(pids)
  own <- idle
  for (f in list(collect_all, small, work)) {
    c$call(cl, f)
    own <- c(own, private_mb(pids))
  }
  c$stop(cl)
  await_gone(pids)
  # a fork of this session that comes to collect what mirai's library has left here is aborted by that library
  for (k in 1:2) gc()
  data.frame(who = who, when = moments, nodes = n, rep = r, mb = own)
}))))
raw <- raw[order(match(raw$who, names(contenders)), match(raw$when, moments), raw$rep), ]
keep(raw, "memory")
table <- spread(raw, c("who", "when", "nodes"), "mb")
cat("MB of a node's own\n")
show(table, "memory")
wide <- function(value) as_matrix(table, "when", "who", value)
bars_png("memory.png", wide("median"), "MB of a node's own", "Memory of a node", low = wide("min"), high = wide("max"),
    zero = TRUE)
method("memory",
  what = sprintf("MB that belong to one node alone (Private_ in smaps_rollup), median of %d nodes", n),
  order = "all contenders once in each repetition, another one first each time",
  warm = "none; each repetition has a new cluster")
