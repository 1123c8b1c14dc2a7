# From nothing to every node having answered a call. Contenders take turns within each repetition; each is
# gone before the next begins. --sizes=2,8,64 --reps=3 --only=clutch,base
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
sizes <- as.integer(strsplit(option("sizes", "2,8,64,256,1000"), ",")[[1L]])
reps <- as.integer(option("reps", "3"))
has <- function(p) requireNamespace(p, quietly = TRUE) || { cat("without", p, "(not installed)\n"); FALSE }
Sys.setenv(R_PARALLELLY_AVAILABLECORES_FALLBACK = "1000")
options(parallelly.maxWorkers.localhost = c(Inf, Inf))

answered <- function(cl) clusterCall(cl, Sys.getpid)
contenders <- list(
  "clutch, cold" = list(prepare = fork_server_stop, start = make_cluster, ready = answered, stop = stop_cluster, max = Inf),
  "clutch, warm" = list(prepare = function() stop_cluster(make_cluster(1)), start = make_cluster, ready = answered,
                        stop = stop_cluster, max = Inf),
  "clutch, parallel (TCP)" = list(start = function(n) make_cluster(n, "parallel"), ready = answered, stop = stop_cluster, max = 256),
  "clutch, sequential (TCP)" = list(start = function(n) make_cluster(n, "sequential"), ready = answered, stop = stop_cluster,
                                    max = 64, reps = 1),
  "base, parallel" = list(start = makePSOCKcluster, ready = answered, stop = stopCluster, max = 120),
  "base, sequential" = list(start = function(n) makePSOCKcluster(n, setup_strategy = "sequential"), ready = answered,
                            stop = stopCluster, max = 64, reps = 1),
  "base, fork" = list(start = makeForkCluster, ready = answered, stop = stopCluster, max = 64))
if (has("parallelly"))
  contenders[["parallelly"]] <- list(start = function(n) parallelly::makeClusterPSOCK(n, setup_strategy = "parallel"),
                                     ready = answered, stop = stopCluster, max = 64)
if (has("mirai")) # ready: everywhere() has run on each daemon
  contenders[["mirai"]] <- list(start = function(n) { mirai::daemons(n); n },
                                ready = function(n) mirai::collect_mirai(mirai::everywhere(Sys.getpid(), .min = n)),
                                stop = function(x) mirai::daemons(0), max = 64)

only <- strsplit(option("only", ""), ",")[[1L]]
if (length(only)) contenders <- contenders[vapply(names(contenders), function(k) any(startsWith(k, only)), NA)]
times <- array(NA_real_, c(length(sizes), length(contenders), reps), list(sizes, names(contenders), NULL))
for (s in seq_along(sizes)) for (r in seq_len(reps)) for (k in names(contenders)) {
  c <- contenders[[k]]
  if (sizes[s] > c$max || r > (if (is.null(c$reps)) reps else c$reps)) next
  if (!is.null(c$prepare)) c$prepare()
  x <- pids <- NULL
  times[s, k, r] <- tryCatch(seconds({ x <- c$start(sizes[s]); pids <- c$ready(x) }),
                             error = function(e) { cat(k, sizes[s], conditionMessage(e), "\n"); NA_real_ })
  if (!is.na(times[s, k, r])) stopifnot(length(unique(unlist(pids))) == sizes[s])
  try(c$stop(x), silent = TRUE)
  await_gone(pids)
  gc()
}
med <- apply(times, 1:2, stats::median, na.rm = TRUE)
cat("seconds, median of", reps, "\n")
show(data.frame(nodes = sizes, med, check.names = FALSE), "startup")
for (k in intersect(c("clutch, cold", "clutch, warm"), colnames(med))) {
  cat("times as long as", k, "\n")
  show(data.frame(nodes = sizes, round(med / med[, k], 1), check.names = FALSE), paste0("startup-ratio-", sub(".* ", "", k)))
}
lines_png("startup.png", sizes, lapply(split(t(med), colnames(med)), as.vector), "nodes", "seconds",
          "Start of a cluster until every node has answered")
