# One object to many nodes. --nodes=8 --mb=40 QUICK=1: fewer turns, 10 MB.
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
reps <- repetitions(5L)
n <- as.integer(option("nodes", "8"))
mb <- as.numeric(option("mb", if (quick) "10" else "40"))
clusters <- list(base = makeCluster(n), clutch = make_cluster(n))
big <- stats::runif(mb * 125000)
f <- function(x) NULL
environment(f) <- globalenv()
ways <- list(
  "base clusterExport" = function() clusterExport(clusters$base, "big"),
  "clutch clusterExport" = function() clusterExport(clusters$clutch, "big"),
  "clutch cluster_export" = function() cluster_export(clusters$clutch, "big"),
  "base clusterCall" = function() clusterCall(clusters$base, f, big),
  "clutch clusterCall" = function() clusterCall(clusters$clutch, f, big))
if (has("mirai")) {
  mirai::daemons(n)
  mirai::collect_mirai(mirai::everywhere(NULL, .min = n))
  ways[["mirai everywhere"]] <- function() mirai::collect_mirai(mirai::everywhere(NULL, big = big, .min = n))
}
# Memory that a machine touches for the first time is slow, and it is a lottery who does: they take turns.
rows <- list()
for (r in 0:reps) for (way in rotated(names(ways), r + 1L)) {
  t <- seconds(ways[[way]]())
  if (r > 0L) rows[[length(rows) + 1L]] <- data.frame(how = way, rep = r, s = t)
}
raw <- do.call(rbind, rows)
raw <- raw[order(match(raw$how, names(ways)), raw$rep), ]
raw$nodes <- n
raw$mb <- mb
keep(raw, "broadcast")
table <- spread(raw, c("how", "nodes", "mb"), "s")
cat(mb, "MB to", n, "nodes, seconds\n")
show(table, "broadcast")
for (cl in clusters) stopCluster(cl)
if ("mirai everywhere" %in% names(ways)) mirai::daemons(0)
m <- function(value) matrix(table[[value]], 1L, dimnames = list("seconds", sub(" ", "\n", table$how)))
bars_png("broadcast.png", m("median"), "seconds", sprintf("%g MB to %d nodes", mb, n), low = m("min"), high = m("max"))
method("broadcast",
  what = sprintf("seconds until %d nodes have said that they have a vector of %g MB", n, mb),
  order = "all once in each repetition, another one first each time",
  warm = "one repetition before, not counted")
