# The main job on real input: a bootstrap of a Cox model on survival::lung, on all cores: on a cluster of base R and of
# clutch, and by mclapply() of both. The estimates have to be the same.
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch); library(survival)})
machine()
replicates <- as.integer(option("replicates", "5000"))
n <- available_cores()

one <- function(i) {
  d <- survival::lung[sample(nrow(survival::lung), replace = TRUE), ]
  stats::coef(survival::coxph(survival::Surv(time, status) ~ age + sex + ph.ecog, data = d))
}
environment(one) <- globalenv()

job <- function(name, start, stop) {
  cat(sprintf("%s: %d replicates on %d nodes ...\n", name, replicates, n))
  up <- seconds({ cl <- start(n); clusterCall(cl, identity, 1) })
  clusterSetRNGStream(cl, 20261120)
  run <- seconds(est <- parSapply(cl, seq_len(replicates), one))
  pids <- unlist(clusterCall(cl, Sys.getpid))
  memory <- private_mb(pids)
  stop(cl)
  await_gone(pids)
  list(est = est, row = data.frame(cluster = name, start_s = up, run_s = run, total_s = up + run, MB_per_node = memory))
}
# Its nodes are started by the call, and end with it; base R's are forks of this session, with all that it has loaded.
by_forks <- function(name, apply) {
  cat(sprintf("%s: %d replicates on %d nodes ...\n", name, replicates, n))
  RNGkind("L'Ecuyer-CMRG")
  set.seed(20261120)
  run <- seconds(est <- apply(seq_len(replicates), one, mc.cores = n))
  list(est = simplify2array(est), row = data.frame(cluster = name, start_s = 0, run_s = run, total_s = run, MB_per_node = NA))
}
base <- job("base PSOCK", makeCluster, stopCluster)
ours <- job("clutch", make_cluster, stop_cluster)
base_forks <- by_forks("base mclapply", parallel::mclapply)
our_forks <- by_forks("clutch mclapply", clutch::mclapply)
if (!identical(base$est, ours$est) || !identical(base_forks$est, our_forks$est)) stop("the estimates differ")
cat("\nSame estimates: TRUE. 95 % intervals of the log hazard ratios:\n")
print(t(apply(ours$est, 1L, stats::quantile, c(0.025, 0.5, 0.975))), digits = 3)
cat("\n")
show(rbind(base$row, ours$row, base_forks$row, our_forks$row), "demo")

cat("Start-up time against nodes (cluster made and one call answered by each) ...\n")
sizes <- c(1, 2, 4, 8, 16, 32)
up <- function(start, stop) vapply(sizes, function(k) {
  s <- seconds({ cl <- start(k); pids <- clusterCall(cl, Sys.getpid) })
  stop(cl)
  await_gone(pids)
  s
}, 1)
times <- list("base PSOCK" = up(makeCluster, stopCluster), "clutch, warm" = up(make_cluster, stop_cluster),
              "clutch, cold" = up(function(k) { fork_server_stop(); make_cluster(k) }, stop_cluster))
show(data.frame(nodes = sizes, base = times[[1L]], clutch_cold = times[[3L]], clutch_warm = times[[2L]]), "demo-startup")
lines_png("demo-startup.png", sizes, times, "nodes", "seconds", "Start of a cluster until every node has answered")
