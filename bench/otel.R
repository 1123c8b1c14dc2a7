# What OpenTelemetry costs: small maps and submitted tasks in turn, without package otel, with it but without a tracer, and with
# one that records in memory (where otelsdk is installed). Blocks of some milliseconds, in fours (without, with, with, without,
# and the reverse): each four gives a ratio, and what counts is their median. The same of blocks that do not differ
# ("again") says what the method can tell apart.
#
# QUICK=1: fewer repetitions.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
if (!requireNamespace("otel", quietly = TRUE)) stop("needs package otel")
machine()
shared <- clutch:::the
cl <- make_cluster(2)

submits <- function(n) for (i in seq_len(n)) collect(cluster_submit(cl, NULL))
maps <- function(n) for (i in seq_len(n)) cluster_map(cl, 1:10, identity)
us <- function(f, n) 1e6 * seconds(f(n)) / n
kinds <- list(submit = function(way) us(submits, if (way == "recorded") 200 else 1000),
              map = function(way) us(maps, if (way == "recorded") 50 else 300))
measure <- function(way, kind) {
  shared$otel <- if (!way %in% c("not loaded", "again")) clutch:::otel_unknown
  if (way != "recorded") return(kinds[[kind]](way))
  otelsdk::with_otel_record(kinds[[kind]](way), what = "traces")$value
}
# c(the first, the second, their ratio), of one four
four <- function(way, kind, r) {
  x <- vapply(in_fours(c("not loaded", way), r), measure, 1, kind)
  of <- c(mean(x[names(x) == "not loaded"]), mean(x[names(x) == way]))
  c(of, of[[2L]] / of[[1L]])
}
ways <- c("again", "no tracer", if (requireNamespace("otelsdk", quietly = TRUE)) "recorded")
fours <- if (quick) 5L else 200L
cat("us of one; ratio to those without package otel, and where its median is in 95 of 100 cases\n")
for (kind in names(kinds)) for (way in ways) {
  invisible(measure(way, kind))
  x <- vapply(seq_len(if (way == "recorded") min(fours, 20L) else fours), function(r) four(way, kind, r), c(1, 1, 1))
  within <- median_within(x[3L, ])
  cat(sprintf("%-6s %-10s %8.1f us without %8.1f us  ratio %.4f (%.4f to %.4f)\n", kind, way, median(x[2L, ]),
              median(x[1L, ]), within[["median"]], within[["low"]], within[["high"]]))
  if (way == "no tracer") {
    cat(sprintf("goal: %s with package otel and no tracer takes at most 1.005 times as long: %.4f: %s\n", kind,
                within[["median"]],
                if (within[["low"]] > 1.005) "MISSED" else if (within[["high"]] <= 1.005) "met" else "not decided"))
  }
}
stop_cluster(cl)
