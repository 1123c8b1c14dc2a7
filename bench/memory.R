# Memory that is a node's own: idle, and after lm on 1e5 x 10.
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
n <- as.integer(option("nodes", "64"))
work <- function() {
  x <- matrix(stats::rnorm(1e6), 1e5)
  stats::lm(stats::rnorm(1e5) ~ x)
  Sys.getpid()
}
environment(work) <- globalenv()
measure <- function(name, start, stop) {
  cl <- start(n)
  pids <- unlist(clusterCall(cl, Sys.getpid))
  idle <- private_mb(pids)
  clusterCall(cl, work)
  used <- private_mb(pids)
  stop(cl)
  await_gone(pids)
  data.frame(cluster = name, nodes = n, idle_MB = idle, after_lm_MB = used)
}
show(rbind(measure("base PSOCK", makeCluster, stopCluster), measure("clutch", make_cluster, stop_cluster)), "memory")
