# From nothing to every node having answered a call. Contenders take turns within each repetition, another first each
# time; each is gone before the next begins. --sizes=2,8,64 --reps=3 --only=clutch,base QUICK=1: fewer nodes and
# repetitions.
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
sizes <- as.integer(strsplit(option("sizes", if (quick) "2,8,32,256" else "2,8,64,256,1000"), ",")[[1L]])
reps <- repetitions()
Sys.setenv(R_PARALLELLY_AVAILABLECORES_FALLBACK = "1000")
options(parallelly.maxWorkers.localhost = c(Inf, Inf))
# A cluster of package parallel takes one of R's connections a node, and one to listen.
of_connections <- connections_left() - 1L

answered <- function(cl) clusterCall(cl, Sys.getpid)
# `max`: more nodes take too long here; `cannot`: more are impossible
contenders <- list(
  "base, sequential" = list(start = function(n) makePSOCKcluster(n, setup_strategy = "sequential"), stop = stopCluster,
      max = 64,
                            cannot = of_connections),
  "base, parallel" = list(start = makePSOCKcluster, stop = stopCluster, max = 120, cannot = of_connections),
  "base, fork" = list(start = makeForkCluster, stop = stopCluster, max = 120, cannot = of_connections),
  "clutch, cold" = list(prepare = fork_server_stop, start = make_cluster, stop = stop_cluster),
  "clutch, warm" = list(prepare = function() stop_cluster(make_cluster(1)), start = make_cluster, stop = stop_cluster),
  "clutch, parallel (TCP)" = list(start = function(n) make_cluster(n, "parallel"), stop = stop_cluster, max = 64),
  "clutch, sequential (TCP)" = list(start = function(n) make_cluster(n, "sequential"), stop = stop_cluster, max = 8))
if (has("parallelly")) for (strategy in c("parallel", "sequential"))
  contenders[[paste0("parallelly, ", strategy)]] <- local({
    strategy <- strategy
    list(start = function(n) parallelly::makeClusterPSOCK(n, setup_strategy = strategy), stop = stopCluster,
         max = 8, cannot = of_connections) # with more it is as slow as base R, whose workers it starts
  })
if (has("mirai")) # ready: everywhere() has run on each daemon
  contenders[["mirai"]] <- list(start = function(n) { mirai::daemons(n); n },
                                ready = function(n) mirai::collect_mirai(mirai::everywhere(Sys.getpid(), .min = n)),
                                stop = function(x) mirai::daemons(0), max = 64)
# Sessions, not a cluster: all are started before the first is waited for. callr collects the ends of all children, so
# that R says at its own end that it could not end those of makeForkCluster(): they have ended long before.
if (has("callr"))
  contenders[["callr (sessions)"]] <- list(
    start = function(n) lapply(seq_len(n), function(i) callr::r_session$new(wait = FALSE)),
    ready = function(all) {
      for (s in all) while (s$get_state() == "starting") { s$poll_process(10000); s$read() }
      for (s in all) s$call(Sys.getpid)
      lapply(all, function(s) { s$poll_process(10000); s$read()$result })
    },
    stop = function(all) for (s in all) s$close(), max = 8)

only <- strsplit(option("only", ""), ",")[[1L]]
if (length(only)) contenders <- contenders[vapply(names(contenders), function(k) any(startsWith(k, only)), NA)]
limit <- function(c, what) if (is.null(c[[what]])) Inf else c[[what]]
rows <- list()
for (n in sizes) for (r in seq_len(reps)) for (k in rotated(names(contenders), r)) {
  c <- contenders[[k]]
  note <- if (n > limit(c, "cannot")) sprintf("cannot: R's connections are enough for %d nodes", c$cannot)
          else if (n > limit(c, "max")) "not tried: takes too long"
          else ""
  s <- NA_real_
  if (note == "") {
    if (!is.null(c$prepare)) c$prepare()
    x <- pids <- NULL
    s <- tryCatch(seconds({ x <- c$start(n); pids <- (if (is.null(c$ready)) answered else c$ready)(x) }),
                  error = function(e) { note <<- "failed"; cat(k, n, conditionMessage(e), "\n"); NA_real_ })
    if (!is.na(s)) stopifnot(length(unique(unlist(pids))) == n)
    try(c$stop(x), silent = TRUE)
    await_gone(pids)
    gc()
  }
  rows[[length(rows) + 1L]] <- data.frame(who = k, nodes = n, rep = r, s = s, note = note)
}
raw <- do.call(rbind, rows)
raw <- raw[order(match(raw$who, names(contenders)), raw$nodes, raw$rep), ]
keep(raw, "startup")
table <- spread(raw, c("who", "nodes"), "s")
table$note <- vapply(seq_len(nrow(table)), function(i) {
  x <- raw$note[raw$who == table$who[i] & raw$nodes == table$nodes[i]]
  x[order(x != "failed", x == "")][[1L]]
}, "")
cat("seconds until every node has answered\n")
show(table, "startup")
m <- as_matrix(table, "who", "nodes")
for (k in intersect(c("clutch, cold", "clutch, warm"), rownames(m))) {
  cat("times as long as", k, "\n")
  show(data.frame(nodes = sizes, round(t(m) / m[k, ], 1), check.names = FALSE), paste0("startup-ratio-", sub(".* ", "",
      k)))
}
# those of a few nodes only are in the table
drawn <- rownames(m)[rowSums(!is.na(m)) > 2L | nrow(t(m)) < 4L]
by_who <- function(value) lapply(split(table, factor(table$who, drawn)), function(d) d[[value]])
lines_png("startup.png", sizes, by_who("median"), "nodes", "seconds", "Start of a cluster until every node has answered",
          by_who("min"), by_who("max"))
method("startup",
  what = "seconds from the call that makes the cluster until each node has answered one call",
  order = paste("all contenders once in each repetition, another one first each time; the nodes of one have ended",
      "before the next begins"),
  warm = paste("none but what the names say: 'cold' ends the fork server before each start, 'warm' has one that",
               "made a node before.",
               "The packages of all contenders are loaded"))
