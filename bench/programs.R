# Five programs of inst/examples/programs, each with lapply() and with what others have in its place: seconds from start to
# end, and memory of all processes. Workers of others are told the program's file, as their users would have to: what
# clutch and future find by themselves.
#
# The pages wait and have 16 processes, the others two. Each contender does each program in a process of its own, and all
# results have to be the same.
#
#   Rscript bench/programs.R [--reps=2] [--jobs=pages,tiles] [--memory-reps=1] [--add]     QUICK=1: smaller, once
source("bench/_common.R")
suppressPackageStartupMessages(library(parallel))
file_of <- function(job) normalizePath(file.path("inst", "examples", "programs", paste0(job, ".R")))

# ---- the programs, by the function that they are called with in place of lapply() ----
programs <- list(
  bootstrap = list(package = "survival", what = "bootstrap of a Cox model, 2,000 fits",
                   run = function(map) bootstrap(map, if (quick) 500 else 2000)),
  forest = list(package = "rpart", what = "75 forests of 15 trees, tuned by five-fold cross-validation",
                run = function(map) unlist(tune_forest(map, if (quick) 4 else 15))),
  chains = list(package = NULL, what = "eight Markov chains of 10,000 steps",
                run = function(map) sample_posterior(map, 8, if (quick) 2000 else 10000)),
  pages = list(package = c("httpuv", "promises"), what = "100 pages of a server that misbehaves, by 16 processes", workers = 16L,
               run = function(map) {
                 server <- start_server()
                 on.exit(server$stop())
                 nchar(unlist(map(paste0(server$url, "/", seq_len(if (quick) 40 else 100)), fetch)))
               }),
  tiles = list(package = NULL, what = "a picture of 10,000 tiles",
               run = function(map) mandelbrot(map, if (quick) 20 else 100)))

# ---- the contenders: start(workers, file), map(x, f), stop() ----
cl <- NULL
start_parallel <- function(workers, file) {
  cl <<- makeCluster(workers)
  clusterCall(cl, source, file)
}
contenders <- list(
  "lapply" = list(map = lapply),
  "clutch" = list(
    package = "clutch",
    start = function(workers, file) cl <<- clutch::make_cluster(workers),
    map = function(x, f) clutch::cluster_map(cl, x, f),
    stop = function() clutch::stop_cluster(cl)),
  "parallel" = list(
    start = start_parallel,
    map = function(x, f) parLapply(cl, x, f),
    stop = function() stopCluster(cl)),
  "parallel, one by one" = list(
    start = start_parallel,
    map = function(x, f) parLapplyLB(cl, x, f, chunk.size = 1),
    stop = function() stopCluster(cl),
    but = "tiles"), # 10,000 round trips: four minutes
  "mclapply" = list(
    start = function(workers, file) options(mc.cores = workers),
    map = mclapply),
  "mirai" = list(
    package = "mirai",
    start = function(workers, file) {
      mirai::daemons(workers)
      mirai::collect_mirai(mirai::everywhere(source(file), file = file, .min = workers))
    },
    map = function(x, f) mirai::mirai_map(x, f)[],
    stop = function() mirai::daemons(0)),
  "future" = list(
    package = c("future", "future.apply"),
    start = function(workers, file) {
      options(parallelly.maxWorkers.localhost = c(Inf, Inf)) # it refuses 16 on two cores
      future::plan("multisession", workers = workers)
    },
    map = function(x, f) future.apply::future_lapply(x, f, future.seed = NULL), # the tasks have seeds of their own
    stop = function() future::plan("sequential")))

do_job <- function(contender, job) {
  file <- file_of(job)
  job <- programs[[job]]
  for (p in c(contender$package, job$package)) loadNamespace(p)
  source(file)
  workers <- if (is.null(job$workers)) 2L else job$workers
  start <- if (is.null(contender$start)) 0 else seconds(contender$start(workers, file))
  run <- seconds(result <- job$run(contender$map))
  if (!is.null(contender$stop)) contender$stop()
  cat(sprintf("%.6f\t%.6f\t%d %.12g\n", start, run, length(result), sum(as.numeric(result), na.rm = TRUE)))
}
measure_alone(contenders, function(c) do_job(c, option("job", "")))

suppressPackageStartupMessages(library(clutch))
machine()
table <- measure_jobs("programs", contenders, programs, repetitions(2L, 1L))
who <- intersect(names(contenders), table$who)
panels <- lapply(stats::setNames(nm = unique(table$job)), function(j) table[table$job == j & table$what == "all_s", ])
dots_png("programs.png", who, panels, "Seconds of a program, start of the processes included", zero = TRUE, right = 0.35)
method("programs",
  what = paste("seconds of the start of the processes, and of the program; MB of all processes of a run (Pss), the most of",
    "samples 20 ms apart, in runs of their own"),
  order = "each contender and program in a process of its own, once in each repetition, another one first each time",
  warm = "none; the session has loaded the packages that the contender and the program need, the nodes have not")
