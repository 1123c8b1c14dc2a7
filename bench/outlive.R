# What outlives its session: a fork server that is kept for the next one (make_cluster(keep = )), and maps that go on
# alone (.detach). Each start is in an R of its own.
#
#   Rscript bench/outlive.R [--reps=10]     QUICK=1: fewer times
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
reps <- repetitions(10L, 3L)
folder <- tempfile("outlive-")
dir.create(folder, mode = "0700")
Sys.setenv(CLUTCH_VIEW_FOLDER = folder, CLUTCH_JOBS_FOLDER = folder)
raw <- list()
note <- function(what, who, rep, ms) raw[[length(raw) + 1L]] <<- data.frame(what = what, who = who, rep = rep, ms = ms)

# ---- the next session's cluster ----
# not packages that start threads, as dplyr does: each of their nodes is a new R
packages <- Filter(function(p) nzchar(system.file(package = p)), c("survival", "mgcv", "stats4"))
script <- tempfile(fileext = ".R")
writeLines(c(
  "suppressPackageStartupMessages(library(clutch))",
  "began <- clutch:::clock()",
  sprintf("cl <- make_cluster(8, packages = %s, keep = as.numeric(commandArgs(TRUE)))", deparse1(packages)),
  "cat('SECONDS', clutch:::clock() - began, '\\n')"
), script)
start <- function(keep) {
  said <- system2(file.path(R.home("bin"), "Rscript"), c(script, keep), stdout = TRUE, stderr = FALSE)
  1000 * as.numeric(sub("SECONDS ", "", grep("^SECONDS", said, value = TRUE)))
}
cluster <- sprintf("make_cluster(8, packages = c(%s))", toString(packages))
invisible(start(600))
for (r in seq_len(reps)) {
  Sys.sleep(1) # the server that was used is ready for the next
  note(cluster, "kept", r, start(600))
  note(cluster, "a start of its own", r, start(0))
}
cluster_jobs(stop = TRUE)

# ---- a detached map ----
# one that has ended may wait for the system's first process to ask how
is_at_work <- function(pid) {
  status <- tryCatch(suppressWarnings(readLines(file.path("/proc", pid, "status"))), error = function(e) "State: Z")
  !any(grepl("^State:\\s+[ZX]", status))
}
f <- function(i) {
  end <- Sys.time() + 0.001
  while (Sys.time() < end) NULL
  i
}
n <- 2000L
path <- file.path(folder, "journal")
for (r in seq_len(reps)) {
  unlink(path)
  began <- clutch:::clock()
  job <- cluster_map(2, seq_len(n), f, .seed = 1, .journal = path, .detach = "map")
  submitted <- clutch:::clock()
  collect(job)
  note("a map of 2,000 tasks of 1 ms: the call returns", "detached", r, 1000 * (submitted - began))
  note("the same: its values are there", "detached", r, 1000 * (clutch:::clock() - began))
  unlink(path)
  began <- clutch:::clock()
  cl <- make_cluster(2)
  invisible(cluster_map(cl, seq_len(n), f, .seed = 1, .journal = path))
  note("the same: its values are there", "in the session", r, 1000 * (clutch:::clock() - began))
  stop_cluster(cl)
  fork_server_stop()
  unlink(path)
  job <- cluster_map(2, seq_len(n), f, .seed = 1, .journal = path, .detach = "map")
  while (cluster_jobs()$done < 100) Sys.sleep(0.01)
  pid <- cluster_jobs()$pid
  began <- clutch:::clock()
  cancel(job)
  while (is_at_work(pid)) Sys.sleep(0.001)
  note("cancel(): all of it is gone", "detached", r, 1000 * (clutch:::clock() - began))
  cluster_jobs(stop = TRUE)
}
unlink(folder, recursive = TRUE)
raw <- do.call(rbind, raw)
raw <- raw[order(match(raw$what, unique(raw$what)), match(raw$who, unique(raw$who)), raw$rep), ]
keep(raw, "outlive")
cat("ms\n")
show(spread(raw, c("what", "who"), "ms"), "outlive")
goal <- function(what, who, limit) {
  x <- stats::median(raw$ms[raw$what == what & raw$who == who])
  sprintf("%s, %s: at most %g ms: %s", what, who, limit, if (x <= limit) "met" else "MISSED")
}
cat("goals:", paste(c(goal(cluster, "kept", 30), goal("cancel(): all of it is gone", "detached", 300)), collapse = "; "),
    "\n")
method("outlive",
  what = "milliseconds: of the call in a new R; of detached maps on 2 nodes, whose runner and cluster start, too",
  order = "in turn", warm = "one session that keeps its fork server")
