# What OpenTelemetry costs: small maps and submitted tasks in turn, without package otel, with it but without a tracer, and with
# one that records in memory (where otelsdk is installed).
#
# QUICK=1: fewer repetitions.
suppressPackageStartupMessages(library(clutch))
if (!requireNamespace("otel", quietly = TRUE)) stop("needs package otel")
quick <- nzchar(Sys.getenv("QUICK"))
shared <- clutch:::the
cl <- make_cluster(2)

submits <- function(n) for (i in seq_len(n)) collect(cluster_submit(cl, NULL))
maps <- function(n) for (i in seq_len(n)) cluster_map(cl, 1:10, identity)
us <- function(f, n) 1e6 * system.time(f(n))[[3L]] / n
once <- function(way) c(submit = us(submits, if (way == "recorded") 200 else 1000),
                        map = us(maps, if (way == "recorded") 50 else 300))
measure <- function(way) {
  shared$may_trace <- way != "not loaded"
  if (way != "recorded") return(once(way))
  otelsdk::with_otel_record(once(way), what = "traces")$value
}
ways <- c("not loaded", "no tracer", if (requireNamespace("otelsdk", quietly = TRUE)) "recorded")
for (way in ways) measure(way)
times <- lapply(seq_len(if (quick) 5L else 25L), function(k) vapply(ways, measure, c(0, 0)))
for (what in c("submit", "map")) {
  x <- vapply(times, function(t) t[what, ], numeric(length(ways)))
  cat(sprintf("%-6s %-10s %8.1f us %6.3f\n", what, ways, apply(x, 1, median),
              apply(x / rep(x[1L, ], each = nrow(x)), 1, median)), sep = "")
}
stop_cluster(cl)
