# The field: what the start of a pool of processes costs, one task, and each of many, in clutch and in what else there
# is, in R and in Python.
#
# Each contender is measured in a process of its own, which has loaded its package only; Python's by bench/peers.py,
# which does the same steps. What is not installed is named and left out.
#
#   Rscript bench/peers.R [--reps=2] [--only=clutch,future] [--add]     QUICK=1: fewer
#   Rscript bench/peers.R --measure=NAME                        one contender, here: "name value" lines
source("bench/_common.R")
library(parallel)

# ---- the contenders of R ----
# start(n): makes n processes and returns their ids when all have answered; stop(); one(): one task and back;
# submit(n): n tasks as objects of their own, then all results; each(n): n tasks by the function for that, handed out
# one by one; chunks(n): the same in chunks. What there is not is left out.
noop <- function(i) i
environment(noop) <- globalenv()
cl <- NULL
workers <- 2L # where nothing is started before

of_parallel <- function(make) list(
  start = function(n) {
    cl <<- make(n)
    unlist(clusterCall(cl, Sys.getpid))
  },
  stop = function() stopCluster(cl),
  one = function() clusterCall(cl[1L], noop, 1),
  each = function(n) clusterApplyLB(cl, seq_len(n), noop),
  chunks = function(n) parLapply(cl, seq_len(n), noop))

in_clutch <- list(
  package = "clutch",
  prepare = function() clutch::fork_server_stop(),
  start = function(n) {
    cl <<- clutch::make_cluster(n)
    unlist(clusterCall(cl, Sys.getpid))
  },
  stop = function() clutch::stop_cluster(cl),
  one = function() clutch::collect(clutch::cluster_submit(cl, 1)),
  submit = function(n) clutch::collect_all(lapply(seq_len(n), function(i) clutch::cluster_submit(cl, i))),
  each = function(n) clutch::cluster_map(cl, seq_len(n), noop, .chunk = 1),
  chunks = function(n) clutch::cluster_map(cl, seq_len(n), noop))

# Here as for future: chunks are made by hand where the package has none
in_pieces <- function(n, pieces) lapply(splitIndices(n, pieces), identity)
of_mirai <- function(dispatcher) list(
  package = "mirai",
  start = function(n) {
    mirai::daemons(n, dispatcher = dispatcher)
    unlist(mirai::collect_mirai(mirai::everywhere(Sys.getpid(), .min = n)))
  },
  stop = function() mirai::daemons(0),
  one = function() mirai::mirai(1)[],
  submit = function(n) mirai::collect_mirai(lapply(seq_len(n), function(i) mirai::mirai(i, i = i))),
  each = function(n) mirai::mirai_map(seq_len(n), noop)[],
  chunks = function(n) mirai::mirai_map(in_pieces(n, 4L * workers), function(x) lapply(x, noop), noop = noop)[])

of_future <- function(plan, package = "future.apply") list(
  package = c("future", package),
  start = function(n) {
    future::plan(plan, workers = n)
    all <- lapply(seq_len(n), function(i) future::future(Sys.getpid()))
    unlist(lapply(all, future::value))
  },
  stop = function() future::plan("sequential"),
  one = function() future::value(future::future(1)),
  submit = function(n) lapply(lapply(seq_len(n), function(i) future::future(i)), future::value),
  each = function(n) future.apply::future_lapply(seq_len(n), noop, future.chunk.size = 1L),
  chunks = function(n) future.apply::future_lapply(seq_len(n), noop))

# Forks the session for each future: nothing is started before.
in_multicore <- of_future("multicore")
in_multicore$start <- NULL
in_multicore$set_up <- function() future::plan("multicore", workers = workers)
in_furrr <- of_future("multisession", "furrr")
in_furrr$package <- c("furrr", "future")
in_furrr$submit <- in_furrr$one <- NULL
in_furrr$each <- function(n) furrr::future_map(seq_len(n), noop, .options = furrr::furrr_options(chunk_size = 1L))
in_furrr$chunks <- function(n) furrr::future_map(seq_len(n), noop)

in_warm <- in_clutch[c("package", "start", "stop")]
in_warm$prepare <- function() clutch::stop_cluster(clutch::make_cluster(1))

contenders <- list(
  "clutch" = in_clutch,
  "clutch, fork server runs" = in_warm,
  "clutch by parallel's functions" = c(in_clutch[c("package", "prepare")], of_parallel(function(n) clutch::make_cluster(n))),
  "base PSOCK" = of_parallel(function(n) makePSOCKcluster(n)),
  "base fork cluster" = of_parallel(function(n) makeForkCluster(n)),
  "base mclapply" = list(
    one = function() mccollect(mcparallel(1)),
    each = function(n) mclapply(seq_len(n), noop, mc.cores = workers, mc.preschedule = FALSE),
    chunks = function(n) mclapply(seq_len(n), noop, mc.cores = workers, mc.preschedule = TRUE)),
  "snow" = c(list(package = "snow"), of_parallel(NULL)),
  "mirai, dispatcher" = of_mirai(TRUE),
  "mirai, direct" = of_mirai(FALSE),
  "future, multisession" = of_future("multisession"),
  "future, multicore" = in_multicore,
  "furrr, multisession" = in_furrr,
  "callr" = list(
    package = "callr",
    start = function(n) {
      cl <<- lapply(seq_len(n), function(i) callr::r_session$new(wait = FALSE))
      for (s in cl) while (s$get_state() == "starting") {
        s$poll_process(10000)
        s$read()
      }
      unlist(lapply(cl, function(s) s$run(Sys.getpid)))
    },
    stop = function() for (s in cl) s$close(),
    one = function() cl[[1L]]$run(noop, list(1))))
# Package snow has functions of the same names for clusters of its own.
contenders$snow[c("start", "stop", "one", "each", "chunks")] <- list(
  function(n) {
    cl <<- snow::makeSOCKcluster(rep("localhost", n))
    unlist(snow::clusterCall(cl, Sys.getpid))
  },
  function() snow::stopCluster(cl),
  function() snow::clusterCall(cl[1L], noop, 1),
  function(n) snow::clusterApplyLB(cl, seq_len(n), noop),
  function(n) snow::parLapply(cl, seq_len(n), noop))

# ---- one contender ----
# parallelly, by which future starts its processes, has a limit of three a core
options(parallelly.maxWorkers.localhost = c(Inf, Inf))
budget <- if (quick) 0.1 else 0.3 # seconds of each measurement
many <- if (quick) 100000L else 1000000L # no-ops in chunks
# Seconds of each of n tasks: n is what takes about the budget, by runs of fewer before.
cost <- function(f, most) {
  n <- 10L
  repeat {
    s <- seconds(f(n))
    if (s > budget / 4 || n >= most) break
    n <- min(most, max(2L * n, as.integer(n * budget / 2 / max(s, 1e-4))))
  }
  n <- as.integer(min(most, max(10, n * budget / s)))
  c(seconds(f(n)) / n, n)
}
say <- function(what, value, n) cat(sprintf("%s\t%.9f\t%d\n", what, value, as.integer(n)))
measure <- function(c) {
  for (p in c$package) loadNamespace(p)
  if (!is.null(c$set_up)) c$set_up()
  if (!is.null(c$start)) for (n in c(8L, workers)) {
    if (!is.null(c$prepare)) c$prepare()
    pids <- NULL
    s <- seconds(pids <- c$start(n))
    stopifnot(length(unique(pids)) == n)
    say(paste0("start", n), s, 1)
    if (n > workers) c$stop()
  }
  if (!is.null(c$one)) {
    for (i in 1:5) c$one()
    k <- max(5L, min(2000L, as.integer(budget / seconds(c$one()))))
    say("one", stats::median(vapply(seq_len(k), function(i) seconds(c$one()), 1)), k)
  }
  most <- c(submit = 10000L, each = 200000L)
  for (what in names(most)) if (!is.null(c[[what]])) {
    x <- cost(c[[what]], most[[what]])
    say(what, x[[1L]], x[[2L]])
  }
  if (!is.null(c$chunks)) {
    c$chunks(many)
    say("chunks", seconds(c$chunks(many)) / many, many)
  }
  if (!is.null(c$stop)) c$stop()
}
measure_alone(contenders, measure)

# ---- all in turn ----
machine()
reps <- repetitions(2L, 1L)
in_python <- paste("Python", c("ProcessPoolExecutor, fork", "ProcessPoolExecutor, forkserver", "joblib (loky)", "Dask"))
contending <- field(contenders, in_python, "bench/peers.py")
all <- contending$who
run_one <- function(who) {
  x <- figures_alone(contending, who, in_python = c("bench/peers.py", budget, many))
  if (!is.null(x)) data.frame(who = who, what = x[[1L]], s = as.numeric(x[[2L]]), n = as.integer(x[[3L]]))
}

raw <- do.call(rbind, lapply(turns("peers", reps), function(r) do.call(rbind, lapply(rotated(all, r), function(who) {
  x <- run_one(who)
  if (!is.null(x)) cbind(x, rep = r)
}))))
raw <- with_earlier(raw, "peers", c("who", "what"))
raw <- raw[order(match(raw$who, all), raw$what, raw$rep), c("who", "what", "rep", "n", "s")]
keep(raw, "peers")
table <- spread(raw, c("who", "what"), "s")
table$n <- spread(raw, c("who", "what"), "n")$median
table$language <- ifelse(table$who %in% in_python, "Python", "R")
table$version <- unname(contending$version[table$who])
utils::write.csv(table, report("peers.csv"), row.names = FALSE)
cat("seconds\n")
print(data.frame(who = unique(table$who), signif(as_matrix(table, "who", "what"), 3), row.names = NULL))
panel <- function(what, unit) {
  t <- table[table$what == what, ]
  for (k in c("median", "min", "max")) t[[k]] <- t[[k]] * unit
  t
}
dots_png("peers.png", unique(table$who), list(
  "start of 8 (ms)" = panel("start8", 1e3), "one task and back (us)" = panel("one", 1e6),
  "each of many, one by one (us)" = panel("each", 1e6), "each of many, in chunks (ns)" = panel("chunks", 1e9)),
  "What a start and a task cost, on two processes")
method("peers",
  what = paste("seconds: from nothing until 8, and 2, processes have each answered; one no-op and back; each of",
    "many no-ops, of which there are as many as take about", budget, "seconds; each of",
    format(many, big.mark = ",", scientific = FALSE), "in chunks"),
  order = "each contender in a process of its own, once in each repetition, another one first each time",
  warm = "five tasks before one, runs of fewer before many, and one run before that in chunks")
