# Tasks: how many a second, how evenly, what a large constant costs, what a death costs. On two nodes, base R's and mirai's
# functions beside. QUICK=1: fewer tasks.
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
reps <- repetitions(3L, 2L)
k <- if (quick) 10L else 1L
has_mirai <- requireNamespace("mirai", quietly = TRUE)
if (!has_mirai) cat("without mirai (not installed)\n")
wall <- function(expr) { gc(); t <- as.numeric(Sys.time()); force(expr); as.numeric(Sys.time()) - t }
goal <- function(text, ok) cat(sprintf("goal: %s: %s\n", text, if (ok) "met" else "MISSED"))

cl <- make_cluster(2)
base <- makePSOCKcluster(2)
if (has_mirai) mirai::daemons(2)
noop <- function(x) NULL
environment(noop) <- globalenv()

# ---- one by one ----
n <- 100000L %/% k
few <- 10000L %/% k
each <- list(
  clutch = function() n / wall(cluster_map(cl, seq_len(n), noop, .chunk = 1)),
  base = function() few / wall(clusterApplyLB(base, seq_len(few), noop)),
  mirai = if (has_mirai) function() few / wall(mirai::mirai_map(seq_len(few), noop)[]))
each <- Filter(Negate(is.null), each)
rate <- sapply(names(each), function(x) numeric())
for (f in each) f()
for (r in seq_len(reps)) for (x in rotated(names(each), r)) rate[[x]] <- c(rate[[x]], each[[x]]())
med <- vapply(rate, stats::median, 1)
# All repetitions, for the report: a list or a matrix with a column for each who
all_of <- function(x, file, value) {
  x <- as.list(as.data.frame(x, check.names = FALSE))
  raw <- stats::setNames(data.frame(rep(names(x), lengths(x)), unlist(lapply(x, seq_along)), unlist(x), row.names = NULL), c("who", "rep", value))
  keep(raw, file)
  utils::write.csv(spread(raw, "who", value), report(paste0(file, "-spread.csv")), row.names = FALSE)
}
all_of(rate, "tasks", "tasks_a_second")
cat("tiny tasks, one by one, load-balanced\n")
show(data.frame(who = names(med), tasks_a_second = round(med), times = round(med[["clutch"]] / med, 1)), "tasks")
goal(sprintf("at least 8 times clusterApplyLB (%.1f)", med[["clutch"]] / med[["base"]]), med[["clutch"]] >= 8 * med[["base"]])
if (has_mirai) goal(sprintf("at least 15 times mirai_map (%.1f)", med[["clutch"]] / med[["mirai"]]), med[["clutch"]] >= 15 * med[["mirai"]])

# ---- in chunks ----
n <- 1000000L %/% k
x <- seq_len(n)
in_chunks <- list(clutch = function() n / wall(cluster_map(cl, x, noop)), parLapply = function() n / wall(parLapply(base, x, noop)))
for (f in in_chunks) f() # the heaps of all workers grow to what they need
chunks <- t(vapply(seq_len(3L * reps), function(r) vapply(in_chunks[rotated(names(in_chunks), r)], function(f) f(), 1)[names(in_chunks)], c(1, 1)))
all_of(chunks, "tasks-chunks", "tasks_a_second")
med <- apply(chunks, 2, stats::median)
cat("\nno-ops, chunks by measured time; parLapply sends one chunk a node\n")
show(data.frame(who = names(med), tasks_a_second = round(med)), "tasks-chunks")
goal("250,000 a second", med[["clutch"]] >= 250000)
goal(sprintf("not slower than parLapply (%.2f)", med[["clutch"]] / med[["parLapply"]]), med[["clutch"]] >= med[["parLapply"]])

# ---- uneven ----
set.seed(1)
times <- sort(stats::rlnorm(if (quick) 100 else 240, log(0.01), 1), decreasing = FALSE) # the long ones last: the worst order for chunks
busy <- function(s) { end <- as.numeric(Sys.time()) + s; while (as.numeric(Sys.time()) < end) NULL }
environment(busy) <- globalenv()
best <- max(sum(times) / 2, max(times))
all_uneven <- list(cluster_map = function() wall(cluster_map(cl, times, busy)), clusterApplyLB = function() wall(clusterApplyLB(base, times, busy)),
                   mirai_map = if (has_mirai) function() wall(mirai::mirai_map(times, busy)[]),
                   parLapply = function() wall(parLapply(base, times, busy)))
all_uneven <- Filter(Negate(is.null), all_uneven)
uneven <- t(vapply(seq_len(reps), function(r) vapply(all_uneven[rotated(names(all_uneven), r)], function(f) f(), 1)[names(all_uneven)],
                   vapply(all_uneven, function(f) 1, 1)))
med <- apply(uneven, 2, stats::median)
cat("\nuneven tasks (lognormal times), against the best schedule possible\n")
show(data.frame(who = names(med), seconds = med, over_best = sprintf("%+.1f %%", 100 * (med / best - 1))), "tasks-uneven")
all_of(100 * (uneven / best - 1), "tasks-uneven", "percent_over_best")
goal(sprintf("within 5 %% of the best (%.1f %%)", 100 * (med[["cluster_map"]] / best - 1)), med[["cluster_map"]] <= 1.05 * best)
plot_trace <- function(file) {
  grDevices::png(report(file), 1000, 420, res = 110, type = if (capabilities("cairo")) "cairo" else "Xlib")
  x <- cluster_trace(cl)
  x <- x[x$job == max(x$job), ]
  from <- min(x$began)
  x$began <- x$began - from
  x$ended <- x$ended - from
  plot(x, main = "Uneven tasks on two nodes")
  grDevices::dev.off()
  cat("plot:", report(file), "\n")
}
plot_trace("tasks-uneven.png")
one_by_one <- vapply(rate, function(x) c(stats::median(x), min(x), max(x)), c(1, 1, 1))
colnames(one_by_one) <- c(clutch = "clutch\ncluster_map", base = "base\nclusterApplyLB", mirai = "mirai\nmirai_map")[colnames(one_by_one)]
bars_png("tasks.png", one_by_one[1L, , drop = FALSE], "tasks a second", "Tiny tasks, one by one, on two nodes",
         low = one_by_one[2L, ], high = one_by_one[3L, ], zero = TRUE)

# ---- a large constant ----
big <- stats::runif(if (quick) 1.25e6 else 1.25e7)
pick <- function(i, b) b[[i]]
environment(pick) <- globalenv()
tasks <- if (quick) 100L else 1000L
t_clutch <- wall(cluster_map_dbl(cl, seq_len(tasks), pick, b = big))
# Arguments of clusterApplyLB() go with each task: base R's users export what is large.
pick_exported <- function(i) big[[i]]
environment(pick_exported) <- globalenv()
t_base <- wall({
  clusterExport(base, "big")
  clusterApplyLB(base, seq_len(tasks), pick_exported)
})
cat(sprintf("\na constant of %.0f MB, %d tasks: cluster_map %.2f s, clusterExport and clusterApplyLB %.2f s\n", 8 * length(big) / 1e6, tasks, t_clutch, t_base))
invisible(gc())

# ---- death ----
sleepy <- function(i, dies) { if (i == 7 && dies && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9L); Sys.sleep(0.02); i }
environment(sleepy) <- globalenv()
added <- vapply(1:9, function(r) 1000 * (wall(cluster_map(cl, 1:40, sleepy, dies = TRUE, .retries = 1)) - wall(cluster_map(cl, 1:40, sleepy, dies = FALSE))), 1)
cat(sprintf("\na node dies in a map and is replaced: %.0f ms added (median of 9; %.0f to %.0f)\n", stats::median(added), min(added), max(added)))
goal("at most 50 ms", stats::median(added) <= 50)

many <- if (quick) 2000L else 10000L
dir <- tempfile("starts-")
dir.create(dir)
killer <- function(i, dir) {
  if (i %% 100 == 0) { cat("x", file = file.path(dir, i), append = TRUE); tools::pskill(Sys.getpid(), 9L) }
  i
}
environment(killer) <- globalenv()
t <- wall(r <- suppressWarnings(cluster_map(cl, seq_len(many), killer, dir = dir, .retries = 1, .on_error = "continue")))
dead <- which(vapply(r, inherits, NA, "clutch_task_died"))
starts <- file.size(file.path(dir, dead))
cat(sprintf("\n%d tasks of which 1 %% kill their node, one retry: %.2f s, %d errors, started %s times each\n", many, t, length(dead), paste(unique(starts), collapse = ", ")))
goal("all accounted for", identical(dead, seq(100L, many, 100L)) && all(starts == 2) && identical(unlist(r[-dead]), setdiff(seq_len(many), dead)))
unlink(dir, recursive = TRUE)
stop_cluster(cl)
stopCluster(base)
if (has_mirai) mirai::daemons(0)

method("tasks",
  what = sprintf("tasks a second on 2 nodes: one by one %s tasks of cluster_map(), %s of the others; no-ops in chunks %s",
                 format(100000L %/% k, big.mark = ","), format(10000L %/% k, big.mark = ","), format(1000000L %/% k, big.mark = ",")),
  order = "all contenders once in each repetition, another one first each time; three times as many repetitions in chunks, which are short",
  warm = "one run of each before, not counted; the same nodes for all")

# ---- the scheduler alone ----
exe <- tempfile("scheduler-")
cc <- system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = TRUE)
if (system(paste(cc, "-O2 -Isrc -o", exe, "bench/scheduler.c src/core/sched/*.c src/core/base/err.c -lm")) != 0L) stop("bench/scheduler.c cannot be compiled")
sizes <- c(10, 100, 1000, 10000)
cost <- vapply(sizes, function(n) stats::median(vapply(1:5, function(i) as.numeric(system2(exe, sprintf("%.0f", c(n, 1e6 / k, 1)), stdout = TRUE)), 1)), 1)
cat("\nthe scheduler alone, nanoseconds a task\n")
show(data.frame(stub_nodes = sizes, ns = round(cost, 1)), "tasks-scheduler")
goal(sprintf("with 10,000 nodes at most 1.5 times as much as with 10 (%.2f)", cost[[4L]] / cost[[1L]]), cost[[4L]] <= 1.5 * cost[[1L]])
unlink(exe)
