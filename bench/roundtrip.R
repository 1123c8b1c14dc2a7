# One call and back, tiny tasks, payloads, and one object to many nodes.
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
clusters <- list(base = makeCluster(2), clutch = make_cluster(2))
calls <- as.integer(option("calls", "2000"))
has_mirai <- requireNamespace("mirai", quietly = TRUE)
if (!has_mirai) cat("without mirai (not installed)\n")

# Microseconds a call: median of 20 blocks
each_us <- function(f, n = calls) {
  for (i in seq_len(n %/% 5L)) f()
  block <- max(n %/% 20L, 1L)
  stats::median(replicate(20, 1e6 * seconds(for (i in seq_len(block)) f()) / block))
}
us <- vapply(clusters, function(cl) { one <- cl[1L]; each_us(function() clusterCall(one, identity, 1)) }, 1)
if (has_mirai) for (dispatcher in c(TRUE, FALSE)) {
  mirai::daemons(1, dispatcher = dispatcher)
  us[[if (dispatcher) "mirai" else "mirai, direct"]] <- each_us(function() { m <- mirai::mirai(identity(1)); m[] })
  mirai::daemons(0)
}
cat("one call and back\n")
show(data.frame(cluster = names(us), us = us, times_clutch = us / us[["clutch"]]), "roundtrip")

tiny <- vapply(clusters, function(cl) stats::median(replicate(3, seconds(clusterApplyLB(cl, 1:20000, function(i) i)))), 1)
cat("clusterApplyLB on 20,000 tiny tasks, 2 nodes\n")
show(data.frame(cluster = names(tiny), s = tiny, tasks_per_s = 20000 / tiny, times_clutch = tiny / tiny[["clutch"]]), "tiny")

sizes <- round(10^c(0, 1, 2, 3, 3.3, 3.7, 4, 4.3, 4.7, 5, 5.5, 6, 7, 8))
there_and_back <- function(call) vapply(sizes, function(s) {
  x <- as.raw(seq_len(s) %% 251)
  call(x)
  k <- if (s >= 1e7) 1L else 10L
  stats::median(replicate(3, seconds(for (i in seq_len(k)) call(x)) / k))
}, 1)
curve <- lapply(clusters, function(cl) { one <- cl[1L]; there_and_back(function(x) clusterCall(one, identity, x)) })
if (has_mirai) {
  mirai::daemons(1)
  curve$mirai <- there_and_back(function(x) { m <- mirai::mirai(x, x = x); m[] })
  mirai::daemons(0)
}
curve <- lapply(curve, pmax, 1e-6) # the clock's grain
cat("payload there and back, seconds\n")
show(data.frame(bytes = sizes, curve), "payload")
lines_png("payload.png", sizes, curve, "bytes", "seconds", "A raw vector to one node and back")
for (cl in clusters) stopCluster(cl)

clusters <- list(base = makeCluster(8), clutch = make_cluster(8))
big <- stats::runif(5e6)
f <- function(x) NULL
environment(f) <- globalenv()
mid <- function(expr) { expr <- substitute(expr); e <- parent.frame(); stats::median(replicate(3, seconds(eval(expr, e)))) }
eight <- c("base clusterExport" = mid(clusterExport(clusters$base, "big")),
           "base clusterCall" = mid(clusterCall(clusters$base, f, big)),
           "clutch cluster_export" = mid(cluster_export(clusters$clutch, "big")),
           "clutch clusterExport" = mid(clusterExport(clusters$clutch, "big")),
           "clutch clusterCall" = mid(clusterCall(clusters$clutch, f, big)))
cat("40 MB to 8 nodes\n")
show(data.frame(how = names(eight), s = eight, base_is_times = eight[[1L]] / eight), "export")
for (cl in clusters) stopCluster(cl)
