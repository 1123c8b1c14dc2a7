# What does it cost a cluster that somebody looks at it?
#
# 1. The same maps of elements that do nothing, with and without another process that looks twice a second, as
#    cluster_top() does from another terminal, in turn: many short blocks of a second, so that the two
#    of a pair find the machine in the same state. Each pair gives a ratio, of time and of the processor time of session and
#    nodes; what counts is the median of the ratios, and between what it is in 95 of 100 cases. Where all processors are
#    busy, the first has also what the observer and the other terminal's R need themselves: that is told, too. And to see
#    what the method can tell apart, as many pairs have nobody who looks in either block.
# 2. The processor time of an observer that looks twice a second at many nodes that are busy.
#
#   Rscript bench/observers.R [--reps=20]     QUICK=1: fewer times, and 100 nodes in place of 1,000
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
reps <- repetitions(20L, 6L) # the median of 20 ratios is known to 0.015
elements <- seq_len(1e6)
block <- 1 # seconds
many <- if (quick) 100L else 1000L
watched_for <- if (quick) 5 else 15

# Processor time of these processes until now, in seconds.
cpu_of <- function(pids) {
  lines <- vapply(pids, function(p) readLines(file.path("/proc", p, "schedstat")), "")
  sum(as.numeric(sub(" .*", "", lines))) / 1e9
}
# The only child of this fork server that is not a node of the cluster.
observer_pid <- function(o, cl) {
  children <- scan(sprintf("/proc/%d/task/%d/children", o$server, o$server), quiet = TRUE)
  of <- setdiff(children, cluster_status(cl)$pid)
  stopifnot(length(of) == 1L)
  of
}

# ---- 1: maps ----

cl <- make_cluster(2)
# The other terminal: it looks while file `on` is there, and ends with file `up`.
folder <- tempfile("observers-")
dir.create(folder)
on <- file.path(folder, "on")
up <- file.path(folder, "up")
invisible(file.create(up))
writeLines(c(
  sprintf(".libPaths(%s)", deparse1(.libPaths())),
  "find <- function() Filter(function(o) o$session == SESSION, clutch:::find_clusters())",
  "o <- find()[[1L]]",
  "writeLines(as.character(c(Sys.getpid(), o$server)), PIDS)",
  "looks <- 0",
  "while (file.exists(UP)) {",
  "  if (file.exists(ON)) {",
  "    s <- clutch:::top_snapshot(o)",
  "    looks <- looks + 1",
  "    writeLines(as.character(looks), paste0(LOOKS, \".new\"))", # who reads it meanwhile has the one before
  "    file.rename(paste0(LOOKS, \".new\"), LOOKS)",
  "  }",
  "  Sys.sleep(0.5)",
  "}"
), script <- file.path(folder, "look.R"))
set <- sprintf("SESSION <- %d; ON <- %s; UP <- %s; LOOKS <- %s; PIDS <- %s", Sys.getpid(), deparse(on),
               deparse(up), deparse(file.path(folder, "looks")), deparse(file.path(folder, "pids")))
writeLines(c(set, readLines(script)), script)
system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), wait = FALSE)
looks <- function() {
  x <- tryCatch(suppressWarnings(readLines(file.path(folder, "looks"))), error = function(e) "0")
  as.numeric(c(x, "0")[[1L]])
}
# once, so that it is there
invisible(file.create(on))
end <- Sys.time() + 60
while (looks() < 1 && Sys.time() < end) Sys.sleep(0.05)
stopifnot(looks() >= 1)
pids_there <- as.integer(readLines(file.path(folder, "pids")))
terminal <- pids_there[[1L]]
observer <- observer_pid(list(server = pids_there[[2L]]), cl)

pids <- cluster_status(cl)$pid
cpu <- function() sum(proc.time()[1:2]) + cpu_of(pids)
once <- function() cluster_map_int(cl, elements, identity)
invisible(once())
maps <- max(1L, as.integer(round(block / seconds(once()))))
raw <- do.call(rbind, unlist(lapply(seq_len(reps), function(r) {
  # Which pair is first, and which of the pair, changes: no block is always the first after another kind. The blocks of
  # the two pairs alternate: every second block takes a quarter longer, whoever looks.
  pair <- rotated(c("without", "with"), r)
  control <- rotated(c("alone", "alone again"), r)
  lapply(c(if (r %% 4L < 2L) rbind(pair, control) else rbind(control, pair)), function(how) {
    if (how == "with") file.create(on) else unlink(on)
    gc() # each block has as much garbage to collect: else every second one has the other's, too
    Sys.sleep(0.1) # the look that is under way is over
    before <- c(looks(), cpu_of(observer), cpu_of(terminal))
    spent <- cpu()
    took <- seconds(for (k in seq_len(maps)) once())
    spent <- cpu() - spent
    more <- c(looks(), cpu_of(observer), cpu_of(terminal)) - before
    data.frame(how = how, rep = r, took = took, cpu = spent, looks = more[[1L]], observer = more[[2L]],
               terminal = more[[3L]])
  })
}), recursive = FALSE))
invisible(unlink(up))
stop_cluster(cl)
keep(raw, "observers")

of <- function(how) {
  x <- raw[raw$how == how, ]
  x[order(x$rep), ]
}
with <- of("with")
without <- of("without")
nobody <- of("alone")
again <- of("alone again")
rows <- list(
  "elements a second" = without$took / with$took,
  "processor time of session and nodes" = with$cpu / without$cpu,
  "elements a second, nobody looks in either" = nobody$took / again$took,
  "processor time, nobody looks in either" = again$cpu / nobody$cpu
)
ratios <- do.call(rbind, lapply(names(rows), function(what) {
  data.frame(what = what, rep = with$rep, ratio = rows[[what]])
}))
table <- spread(ratios, "what", "ratio")
within <- vapply(rows, median_within, c(median = 1, low = 1, high = 1))
within <- within[, match(table$what, colnames(within)), drop = FALSE]
table <- data.frame(table, low = within["low", ], high = within["high", ])
cat("maps while somebody looks twice a second, by those while nobody does: ratios of pairs\n")
cat("low, high: between these is the median in 95 of 100 cases\n")
show(table, "observers")
cat(sprintf("%.2f looks a second\n", sum(with$looks) / sum(with$took)))
verdict <- function(x, is_met, is_missed) {
  sprintf("%.3f (%.3f to %.3f): %s", x[["median"]], x[["low"]], x[["high"]],
          if (is_met) "met" else if (is_missed) "MISSED" else "not decided: the spread is too large")
}
speed <- median_within(rows[[1L]])
effort <- median_within(rows[[2L]])
cat("goal: elements a second with an observer at least 0.98 of those without:",
    verdict(speed, speed[["low"]] >= 0.98, speed[["high"]] < 0.98), "\n")
cat("the same of processor time, at most 1.02 of that without:",
    verdict(effort, effort[["high"]] <= 1.02, effort[["low"]] > 1.02), "\n\n")

# ---- 2: many nodes ----

many_cl <- make_cluster(many)
nodes <- cluster_status(many_cl)$pid
tasks <- lapply(seq_len(many), function(k) cluster_submit(many_cl[k], repeat Sys.sleep(1)))
Sys.sleep(2)
alone <- cpu_of(nodes)
Sys.sleep(5)
alone <- (cpu_of(nodes) - alone) / 5
o <- clutch:::observer_of(many_cl)
snapshot <- clutch:::top_snapshot(o) # the first looks at all
many_observer <- observer_pid(o, many_cl)
before <- c(cpu_of(many_observer), cpu_of(Sys.getpid()), cpu_of(nodes))
began <- Sys.time()
asked <- 0
while (difftime(Sys.time(), began, units = "secs") < watched_for) {
  asked <- asked + 1
  snapshot <- clutch:::top_snapshot(o)
  next_look <- 0.5 * asked - as.numeric(difftime(Sys.time(), began, units = "secs"))
  if (next_look > 0) Sys.sleep(next_look)
}
lasted <- as.numeric(difftime(Sys.time(), began, units = "secs"))
used <- c(cpu_of(many_observer), cpu_of(Sys.getpid()), cpu_of(nodes)) - before
stopifnot(all(snapshot$nodes$state == "busy"))
clutch:::close_observer(o)
invisible(lapply(tasks, cancel))
stop_cluster(many_cl)
# at two looks a second, also where the machine was too busy for as many
shares <- c(2 * used[1:2] / asked, used[[3L]] / lasted - alone)
cost <- data.frame(
  what = c(sprintf("observer of %s busy nodes, share of a core", format(many, big.mark = ",")),
           "the R that asks it", "these nodes, beyond what they use without it",
           "observer of two nodes, milliseconds of one look",
           "the other terminal's R, milliseconds of one look"),
  value = c(shares, 1000 * sum(with$observer) / sum(with$looks), 1000 * sum(with$terminal) / sum(with$looks))
)
show(cost, "observers-cost")
cat(sprintf("goal: the observer of %d nodes uses at most 0.01 of a core: %.4f: %s\n", many, shares[[1L]],
            if (shares[[1L]] <= 0.01) "met" else "MISSED"))
method("observers",
  what = sprintf(paste("blocks of %d maps of %s elements that do nothing on two nodes, with and without an observer, %d",
                       "pairs; %d looks at %s nodes that are busy with Sys.sleep()"),
                 maps, format(length(elements), big.mark = ","), reps, asked, format(many, big.mark = ",")),
  order = "with and without in turn, the other one first each time",
  warm = "the same map twice before")
