# One call to one node and back, and a raw vector there and back, by its size. --calls=2000 QUICK=1: fewer.
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
reps <- repetitions(5L)
calls <- as.integer(option("calls", if (quick) "400" else "2000"))
clusters <- list(base = makeCluster(1), clutch = make_cluster(1))
# asks the system to send small messages at once, which base R leaves to options(socketOptions = )
if (has("parallelly")) clusters$parallelly <- parallelly::makeClusterPSOCK(1)
one <- lapply(clusters, function(cl) function() clusterCall(cl, identity, 1))
names(one) <- paste(names(clusters), "clusterCall")
there <- lapply(clusters, function(cl) function(x) clusterCall(cl, identity, x))
if (has("mirai")) {
  mirai::daemons(1, dispatcher = TRUE)
  mirai::daemons(1, dispatcher = FALSE, .compute = "direct")
  one[["mirai"]] <- function() { m <- mirai::mirai(identity(1)); m[] }
  one[["mirai, direct"]] <- function() { m <- mirai::mirai(identity(1), .compute = "direct"); m[] }
  there[["mirai"]] <- function(x) { m <- mirai::mirai(x, x = x); m[] }
}
if (has("callr")) {
  session <- callr::r_session$new()
  one[["callr (session)"]] <- function() session$run(identity, list(1))
}

# Blocks of calls: callr takes a hundred times as long, and so has a tenth of the calls.
count <- ifelse(startsWith(names(one), "callr"), calls %/% 10L, calls) %/% reps
names(count) <- names(one)
for (who in names(one)) for (i in seq_len(count[[who]])) one[[who]]()
raw <- do.call(rbind, lapply(seq_len(4L * reps), function(r) do.call(rbind, lapply(rotated(names(one), r), function(who) {
  n <- max(count[[who]] %/% 4L, 1L)
  data.frame(who = who, rep = r, calls = n, us = us(for (i in seq_len(n)) one[[who]]()) / n)
}))))
raw <- raw[order(match(raw$who, names(one))), ]
keep(raw, "roundtrip")
table <- spread(raw, "who", "us")
table$times_clutch <- table$median / table$median[table$who == "clutch clusterCall"]
cat("one call and back, microseconds\n")
show(table, "roundtrip")
wide <- function(value) matrix(table[[value]], 1L, dimnames = list("microseconds", table$who))
bars_png("roundtrip.png", wide("median"), "microseconds", "One call to one node and back", low = wide("min"),
    high = wide("max"))

sizes <- if (quick) 10^(0:7) else round(10^c(0, 1, 2, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8))
rows <- list()
for (s in sizes) {
  x <- as.raw(seq_len(s) %% 251)
  # some sizes take base R 40 ms a way: Nagle's algorithm waits for an acknowledgement that the other end delays
  k <- if (s >= 1e7) 1L else if (s >= 2000) 5L else 50L
  for (r in 0:reps) for (who in rotated(names(there), r + 1L)) {
    t <- seconds(for (i in seq_len(k)) there[[who]](x)) / k
    if (r > 0L) rows[[length(rows) + 1L]] <- data.frame(who = who, bytes = s, rep = r, s = t)
  }
}
raw <- do.call(rbind, rows)
raw <- raw[order(match(raw$who, names(there)), raw$bytes, raw$rep), ]
keep(raw, "payload")
table <- spread(raw, c("who", "bytes"), "s")
cat("payload there and back, seconds\n")
show(table, "payload")
curve <- function(value) lapply(split(table, factor(table$who, names(there))), function(d) d[[value]])
lines_png("payload.png", sizes, curve("median"), "bytes", "seconds", "A raw vector to one node and back", curve("min"),
    curve("max"))

for (cl in clusters) stopCluster(cl)
if ("mirai" %in% names(one)) { mirai::daemons(0); mirai::daemons(0, .compute = "direct") }
if (exists("session")) session$close()
method("roundtrip",
  what = paste("microseconds of clusterCall(cl, identity, 1) on a cluster of one node, or what comes nearest to it;",
      "blocks of calls"),
  order = "a block of each in each repetition, another one first each time",
  warm = sprintf("%d calls of each before (callr: %d); of each size of a payload one repetition", calls %/% reps,
      calls %/% 10L %/% reps))
