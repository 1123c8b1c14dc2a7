# Submitted while busy: 200 tasks of 10 ms are submitted to two processes, then the session computes for 3 s in one C
# call. How many are done when it comes back, and when are all?
#
# Each contender is measured in a process of its own; Python's by bench/busy.py. A task says when it ended.
#
#   Rscript bench/busy.R [--reps=2] [--only=clutch] [--add]     QUICK=1: 100 tasks, 1.5 s, once
source("bench/_common.R")
tasks <- if (quick) 100L else 200L
computes <- if (quick) 1.5 else 3
nap <- function(i) {
  Sys.sleep(0.01)
  as.numeric(Sys.time())
}
environment(nap) <- globalenv()

cl <- NULL
in_clutch <- function(strategy) list(
  package = "clutch",
  start = function() {
    cl <<- clutch::make_cluster(2, strategy = strategy)
    parallel::clusterCall(cl, Sys.getpid)
  },
  submit = function(n) lapply(seq_len(n), function(i) clutch::cluster_submit(cl, nap(i))),
  collect = function(all) clutch::collect_all(all),
  stop = function() clutch::stop_cluster(cl))
in_mirai <- function(dispatcher) list(
  package = "mirai",
  start = function() {
    mirai::daemons(2, dispatcher = dispatcher)
    mirai::collect_mirai(mirai::everywhere(NULL, .min = 2L))
  },
  submit = function(n) lapply(seq_len(n), function(i) mirai::mirai(nap(i), nap = nap, i = i)),
  collect = function(all) mirai::collect_mirai(all),
  stop = function() mirai::daemons(0))
in_future <- function(plan) list(
  package = "future",
  start = function() {
    future::plan(plan, workers = 2L)
    lapply(lapply(1:2, function(i) future::future(1)), future::value)
  },
  submit = function(n) lapply(seq_len(n), function(i) future::future(nap(i))),
  collect = function(all) lapply(all, future::value),
  stop = function() future::plan("sequential"))

contenders <- list(
  "clutch" = in_clutch("fork_server"),
  "clutch over TCP" = in_clutch("parallel"),
  "mirai, dispatcher" = in_mirai(TRUE),
  "mirai, direct" = in_mirai(FALSE),
  "future, multisession" = in_future("multisession"),
  "future, multicore" = in_future("multicore"),
  "base mcparallel" = list(
    start = function() parallel::mccollect(parallel::mcparallel(1)),
    submit = function(n) lapply(seq_len(n), function(i) parallel::mcparallel(nap(i))),
    collect = function(all) parallel::mccollect(all),
    stop = function() NULL))

# ---- one contender: "name value" lines ----
measure <- function(c, library) {
  for (p in c$package) loadNamespace(p)
  dyn.load(library)
  c$start()
  c$collect(c$submit(10L))
  began <- as.numeric(Sys.time())
  all <- c$submit(tasks)
  submitted <- as.numeric(Sys.time())
  .C("busy_for", as.numeric(computes))
  back <- as.numeric(Sys.time())
  ends <- unlist(c$collect(all))
  done <- as.numeric(Sys.time())
  stopifnot(length(ends) == tasks)
  cat(sprintf("%s\t%.6f\n", c("submit", "done", "all"),
              c(submitted - began, sum(ends <= back), done - began)), sep = "")
  c$stop()
}
measure_alone(contenders, function(c) measure(c, option("library", "")))

# ---- all in turn ----
suppressPackageStartupMessages(library(clutch))
machine()
reps <- repetitions(2L, 1L)
in_python <- paste("Python", c("ProcessPoolExecutor, lock held", "ProcessPoolExecutor, lock released", "Dask, lock held",
                               "Dask, lock released"))
folder <- tempfile("busy-")
dir.create(folder)
library_file <- file.path(folder, paste0("busy", .Platform$dynlib.ext))
invisible(file.copy("bench/busy.c", folder))
built <- system2(file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "-o", library_file, file.path(folder, "busy.c")),
                 stdout = FALSE)
if (built != 0L) stop("bench/busy.c cannot be compiled")

contending <- field(contenders, in_python, "bench/busy.py")
all <- contending$who
run_one <- function(who, r) {
  x <- figures_alone(contending, who, paste0("--library=", library_file),
                     c("bench/busy.py", library_file, tasks, computes))
  if (is.null(x)) return(NULL)
  value <- stats::setNames(as.numeric(x[[2L]]), x[[1L]])
  data.frame(who = who, rep = r, done = value[["done"]], submit_s = value[["submit"]], all_s = value[["all"]])
}
raw <- do.call(rbind, lapply(turns("busy", reps), function(r) do.call(rbind, lapply(rotated(all, r), run_one, r))))
unlink(folder, recursive = TRUE)
raw$tasks <- tasks
raw$computes_s <- computes
raw <- with_earlier(raw, "busy", "who")
raw <- raw[order(match(raw$who, all), raw$rep), ]
keep(raw, "busy")
table <- do.call(rbind, lapply(c("done", "submit_s", "all_s"), function(what) {
  cbind(what = what, spread(raw, c("who", "tasks", "computes_s"), what))
}))
utils::write.csv(table, report("busy.csv"), row.names = FALSE)
cat(tasks, "tasks of 10 ms, then", computes, "s of computation\n")
print(data.frame(who = unique(table$who), as_matrix(table, "who", "what"), row.names = NULL))
dots_png("busy.png", unique(table$who), stats::setNames(
  lapply(c("done", "submit_s", "all_s"), function(what) table[table$what == what, ]),
  c(sprintf("done of %d when it comes back", tasks), "seconds to submit", "seconds until all are collected")),
  sprintf("%d tasks of 10 ms submitted to two processes, then %g s of computation", tasks, computes), zero = TRUE)
ours <- table[table$what == "done" & startsWith(table$who, "clutch"), ]
for (i in seq_len(nrow(ours))) cat(sprintf("goal: %s: all submitted tasks done when the computation ends (%g of %d): %s\n",
  ours$who[i], ours$median[i], tasks, if (ours$median[i] == tasks) "met" else "MISSED"))
method("busy",
  what = sprintf(paste("how many of %d tasks of 10 ms have ended when a computation of %g s, one C call begun after they",
    "were submitted, comes back; and seconds until all results are there"), tasks, computes),
  order = "each contender in a process of its own, once in each repetition, another one first each time",
  warm = "10 tasks before")
