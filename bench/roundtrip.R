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

# A function of the workspace travels apart from its arguments and is kept by the nodes; one made within another
# carries what is around it, and has to be sent whole each time.
itself <- function(i) i
for (how in c("function of the workspace", "function made within another")) {
  f <- if (how == "function of the workspace") itself else local(function(i) i, new.env())
  tiny <- replicate(5, vapply(clusters, function(cl) seconds(clusterApplyLB(cl, 1:20000, f)), 1))
  tiny <- apply(tiny, 1L, stats::median)
  cat("clusterApplyLB on 20,000 tiny tasks, 2 nodes,", how, "\n")
  show(data.frame(cluster = names(tiny), s = tiny, tasks_per_s = 20000 / tiny, times_clutch = tiny / tiny[["clutch"]]),
       if (how == "function of the workspace") "tiny" else "tiny-closure")
}

sizes <- round(10^c(0, 1, 2, 3, 3.3, 3.7, 4, 4.3, 4.7, 5, 5.5, 6, 7, 8))
there_and_back <- function(call) vapply(sizes, function(s) {
  x <- as.raw(seq_len(s) %% 251)
  call(x)
  k <- if (s >= 1e7) 1L else if (s >= 1e5) 10L else 100L
  stats::median(replicate(3, seconds(for (i in seq_len(k)) call(x)) / k))
}, 1)
curve <- lapply(clusters, function(cl) { one <- cl[1L]; there_and_back(function(x) clusterCall(one, identity, x)) })
if (has_mirai) {
  mirai::daemons(1)
  curve$mirai <- there_and_back(function(x) { m <- mirai::mirai(x, x = x); m[] })
  mirai::daemons(0)
}
cat("payload there and back, seconds\n")
show(data.frame(bytes = sizes, curve), "payload")
lines_png("payload.png", sizes, curve, "bytes", "seconds", "A raw vector to one node and back")
for (cl in clusters) stopCluster(cl)

clusters <- list(base = makeCluster(8), clutch = make_cluster(8))
big <- stats::runif(5e6)
f <- function(x) NULL
environment(f) <- globalenv()
# Memory that a machine touches for the first time is slow, and it is a lottery who does: they take turns.
eight <- replicate(as.integer(option("turns", "9")), c(
  "base clusterExport" = seconds(clusterExport(clusters$base, "big")),
  "clutch clusterExport" = seconds(clusterExport(clusters$clutch, "big")),
  "clutch cluster_export" = seconds(cluster_export(clusters$clutch, "big")),
  "base clusterCall" = seconds(clusterCall(clusters$base, f, big)),
  "clutch clusterCall" = seconds(clusterCall(clusters$clutch, f, big))))
eight <- apply(eight, 1L, stats::median)
cat("40 MB to 8 nodes\n")
show(data.frame(how = names(eight), s = eight, base_is_times = eight[c(1L, 1L, 1L, 4L, 4L)] / eight), "export")
for (cl in clusters) stopCluster(cl)
