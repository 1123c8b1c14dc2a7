# Starts, first maps and stops, each beside what it is to be compared with: one `Rscript -e 1`, base R's clusters, or the
# time that the elements take in any case. --rows=warm,spawn: these only. QUICK=1: fewer nodes and repetitions.
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
reps <- repetitions()
only <- strsplit(option("rows", ""), ",")[[1L]]
wanted <- function(row) !length(only) || row %in% only
raw <- list()
note <- function(row, who, nodes, rep, value) {
  raw[[length(raw) + 1L]] <<- data.frame(row = row, who = who, nodes = nodes, rep = rep, value = value)
}
one_r <- function() seconds(system2(file.path(R.home("bin"), "Rscript"), c("-e", "1"), stdout = FALSE))

# Seconds of a start; the nodes are gone when this returns.
start <- function(make, stop) {
  cl <- NULL
  s <- seconds(cl <- make())
  pids <- clusterCall(cl, Sys.getpid)
  stop(cl)
  await_gone(pids)
  gc()
  s
}
of_us <- function(n, ...) start(function() make_cluster(n, ...), stop_cluster)
of_base <- function(n, make = makePSOCKcluster) start(function() make(n), stopCluster)
# All contenders once in each repetition, another one first each time. `cold`: no fork server runs.
in_turn <- function(row, nodes, contenders, n = reps) {
  if (!wanted(row)) return(invisible())
  for (r in seq_len(n)) for (k in rotated(names(contenders), r)) note(row, k, nodes, r, contenders[[k]]())
}
cold <- function(expr) {
  fork_server_stop()
  expr
}

# A fork server as that of a new session: one that has had 1,000 nodes shares its memory with new ones in smaller pieces,
# and their first task takes up to 1 ms longer.
new_server <- function() {
  fork_server_stop()
  stop_cluster(make_cluster(1))
}

# 10 elements of 0.1 s a node
nap <- function(i) Sys.sleep(0.1)
environment(nap) <- globalenv()
maps <- function(n, reps) {
  if (wanted("maps")) for (r in seq_len(reps)) {
    new_server()
    cl <- make_cluster(n)
    for (k in c("first map", "second map")) note(k, "clutch", n, r, seconds(cluster_map(cl, seq_len(10L * n), nap)))
    note("stop", "clutch", n, r, seconds(stop_cluster(cl)))
    if (n > 64L) next
    cl <- makeForkCluster(n)
    note("first map", "base, clusterApplyLB", n, r, seconds(clusterApplyLB(cl, seq_len(10L * n), nap)))
    stopCluster(cl)
  }
}

# Early: for minutes after thousands of folders were removed some file systems take ten times as long to make one, which
# each node does for its first task.
maps(64L, reps)

# The first thing that a new node does, in milliseconds: at once, that is while it makes its folder and random numbers
if (wanted("first")) new_server()
if (wanted("first")) for (r in seq_len(3L * reps)) {
  cl <- make_cluster(1)
  note("first task (ms)", "clutch", 1L, r, 1000 * seconds(collect(cluster_submit(cl, 1))))
  stop_cluster(cl)
  cl <- make_cluster(1)
  note("first map of one (ms)", "clutch", 1L, r, 1000 * seconds(cluster_map(cl, 1, identity)))
  stop_cluster(cl)
}

# often: the pace of a machine may change by a half within seconds
in_turn("cold", 64L, list("Rscript -e 1" = one_r, clutch = function() cold(of_us(64L))), 3L * reps)
if (wanted("warm")) stop_cluster(make_cluster(1))
in_turn("warm", 64L, list("base, fork" = function() of_base(64L, makeForkCluster), clutch = function() of_us(64L)))
for (n in if (quick) 8L else c(8L, 64L)) {
  base <- list("base, PSOCK" = function() of_base(n))
  few <- if (n > 8L) min(reps, 2L) else reps
  in_turn("spawn", n, c(base, clutch = function() cold(of_us(n, "spawn"))), few)
  in_turn("parallel", n, c(base, clutch = function() of_us(n, "parallel")), few)
}

# With the option, a new script that attaches the package and makes a cluster a moment later.
script <- tempfile(fileext = ".R")
writeLines(c("options(clutch.prestart = commandArgs(TRUE)[[1L]] == 'on')", "library(clutch)",
             "Sys.sleep(as.numeric(commandArgs(TRUE)[[2L]]))", "began <- as.numeric(Sys.time())",
             "cl <- make_cluster(64)", "cat(as.numeric(Sys.time()) - began)",
             "stop_cluster(cl)", "cl <- make_cluster(64)", "stop_cluster(cl)", "began <- as.numeric(Sys.time())",
             "cl <- make_cluster(64)", "cat('', as.numeric(Sys.time()) - began)", "stop_cluster(cl)"), script)
if (wanted("prestart")) for (r in seq_len(3L * reps)) {
  # twice the time of one R: its cores are shared with what is started
  out <- system2(file.path(R.home("bin"), "Rscript"), c(script, "on", 2 * one_r()), stdout = TRUE)
  x <- as.numeric(strsplit(out, " ")[[1L]])
  note("prestart", "clutch, warm, same script", 64L, r, x[[2L]])
  note("prestart", "clutch", 64L, r, x[[1L]])
}
unlink(script)

if (!quick) maps(1000L, min(reps, 2L))

for (n in if (quick) 1000L else c(1000L, 4000L))
  in_turn("many", n, list("Rscript -e 1" = one_r, clutch = function() cold(of_us(n))), min(reps, 5L))

# MB that a node has written to, idle and after a map of 10 elements a node
written_mb <- function(pids) stats::median(vapply(pids, function(p) {
  l <- grep("^Private_Dirty", readLines(file.path("/proc", p, "smaps_rollup")), value = TRUE)
  as.numeric(gsub("[^0-9]", "", l)) / 1024
}, 1))
if (wanted("memory")) for (r in seq_len(min(reps, 2L))) {
  n <- if (quick) 100L else 500L
  cl <- make_cluster(n)
  pids <- cluster_status(cl)$pid
  note("memory, idle (MB)", "clutch", n, r, written_mb(pids))
  invisible(cluster_map(cl, seq_len(10L * n), function(i) i))
  note("memory, after a map (MB)", "clutch", n, r, written_mb(pids))
  stop_cluster(cl)
}

raw <- do.call(rbind, raw)
keep(raw, "starting")
table <- spread(raw, c("row", "nodes", "who"), "value")
# How many times as long as the other one, or as fast (`faster`), or at most how much.
goals <- utils::read.csv(text = c(
  "row,nodes,other,goal,how",
  "cold,64,Rscript -e 1,1.2,times as long", "warm,64,\"base, fork\",6,times as fast",
  "spawn,8,\"base, PSOCK\",1.15,times as fast", "spawn,64,\"base, PSOCK\",1.15,times as fast",
  "parallel,8,\"base, PSOCK\",1.15,times as fast", "parallel,64,\"base, PSOCK\",1.15,times as fast",
  "many,1000,Rscript -e 1,4.5,times as long", "many,4000,Rscript -e 1,18,times as long",
  "prestart,64,\"clutch, warm, same script\",1.1,times as long",
  "first map,64,,1.03,at most", "first map,1000,,1.6,at most", "second map,1000,,1.25,at most",
  "stop,1000,,0.5,at most", "first task (ms),1,,2,at most", "first map of one (ms),1,,2,at most", "\"memory, after a map (MB)\",500,,3,at most"))
at <- function(row, nodes, who) {
  x <- table$median[table$row == row & table$nodes == nodes & table$who == who]
  if (length(x)) x[[1L]] else NA_real_
}
goals$other[is.na(goals$other)] <- ""
goals$clutch <- mapply(at, goals$row, goals$nodes, "clutch")
goals$beside <- mapply(at, goals$row, goals$nodes, goals$other)
goals$found <- ifelse(goals$how == "times as fast", goals$beside / goals$clutch,
                      ifelse(goals$how == "times as long", goals$clutch / goals$beside, goals$clutch))
goals$met <- ifelse(goals$how == "times as fast", goals$found >= goals$goal, goals$found <= goals$goal)
goals <- goals[!is.na(goals$found), ]
utils::write.csv(goals, report("starting-goals.csv"), row.names = FALSE)
show(table, "starting")
cat(sprintf("goal: %s, %d nodes: %.2f %s%s (%g): %s\n", goals$row, goals$nodes, goals$found, goals$how,
            ifelse(nzchar(goals$other), paste(" beside", goals$other), ""), goals$goal,
            ifelse(goals$met, "met", "MISSED")), sep = "")
method("starting",
  what = paste("seconds of the call that makes, uses or stops the cluster; memory is Private_Dirty, the median of all nodes"),
  order = "all contenders of a row once in each repetition, another one first each time",
  warm = paste("*cold*, *many* and *spawn* end the fork server before each start, the others have one.",
               "That of maps is new, and so is that of first tasks: after 1,000 nodes these take up to 1 ms longer.",
               "*prestart*: a script of its own, which waits for twice the time of one Rscript between library() and make_cluster()"))
