# Real work of packages that know futures and mirai and no others: a grid of parameters tried by tune (tidymodels), and
# learners compared by mlr3. Each on two processes, through plan(clutch) and mirai_daemons(), and through the others' own.
#
# In each repetition every contender does each job twice with processes of its own: the first time these load the packages.
# All results have to be the same as those of the session.
#
# Packages tune, rsample, parsnip, rpart and mlr3 are wanted, each job only if its own are there: 'tools/deps.sh models'.
#
#   Rscript bench/models.R [--reps=3]     QUICK=1: fewer folds, once
source("bench/_common.R")
use_deps_libraries(c("models", "library"))
folds <- if (quick) 3L else 5L
seeded <- function(i) set.seed(i, "Mersenne-Twister", "Inversion", "Rejection")

# ---- the jobs: run() gives the figures that are compared ----
grid_of_tune <- function() {
  seeded(1)
  x <- matrix(stats::rnorm(4000 * 8), 4000)
  d <- data.frame(y = x[, 1] + x[, 2] * x[, 3] + stats::rnorm(4000), x)
  split <- rsample::vfold_cv(d, v = folds)
  tree <- parsnip::decision_tree(mode = "regression", cost_complexity = hardhat::tune(), tree_depth = hardhat::tune())
  tree <- parsnip::set_engine(tree, "rpart")
  grid <- expand.grid(cost_complexity = 10^-(1:3), tree_depth = c(4L, 8L))
  function() {
    seeded(2)
    found <- suppressMessages(tune::tune_grid(tree, y ~ ., split, grid = grid, metrics = NULL))
    tune::collect_metrics(found)$mean
  }
}
benchmark_of_mlr3 <- function() {
  lgr::get_logger("mlr3")$set_threshold("warn")
  learners <- list(mlr3::lrn("classif.rpart", cp = 0.001), mlr3::lrn("classif.rpart", id = "short", maxdepth = 3),
                   mlr3::lrn("classif.featureless"))
  design <- {
    seeded(3)
    mlr3::benchmark_grid(mlr3::tsks(c("spam", "german_credit")), learners, mlr3::rsmp("cv", folds = folds))
  }
  function() {
    seeded(4)
    mlr3::benchmark(design)$aggregate(mlr3::msr("classif.ce"))$classif.ce
  }
}
jobs <- list(
  "tune_grid" = list(make = grid_of_tune, package = c("tune", "rsample", "parsnip", "rpart"), profile = NULL,
                     what = paste("tune: 6 regression trees of rpart, 4,000 x 8, by cross-validation, folds:", folds)),
  "benchmark" = list(make = benchmark_of_mlr3, package = c("mlr3", "rpart", "future.apply"),
                     profile = "mlr3_parallelization",
                     what = paste("mlr3: 3 learners on 2 tasks, by cross-validation, folds:", folds)))

# ---- the contenders ----
no_plan <- function(job) future::plan("sequential")
contenders <- list(
  "the session alone" = list(start = no_plan, stop = no_plan),
  "plan(clutch)" = list(start = function(job) future::plan(clutch::clutch, workers = 2L), stop = no_plan),
  "plan(multisession)" = list(start = function(job) future::plan("multisession", workers = 2L), stop = no_plan),
  "plan(multicore)" = list(start = function(job) future::plan("multicore", workers = 2L), stop = no_plan),
  "mirai_daemons()" = list(
    package = "mirai",
    start = function(job) clutch::mirai_daemons(2L, .compute = job$profile),
    stop = function(job) mirai::daemons(0L, .compute = job$profile)),
  "mirai::daemons()" = list(
    package = "mirai",
    start = function(job) mirai::daemons(2L, .compute = job$profile),
    stop = function(job) mirai::daemons(0L, .compute = job$profile)))

suppressPackageStartupMessages(library(clutch))
machine()
there <- Filter(function(j) are_installed(c("future", jobs[[j]]$package)), names(jobs))
if (length(absent <- setdiff(names(jobs), there))) cat("without", toString(absent), "(a package is not installed)\n")
contenders <- Filter(function(x) are_installed(x$package), contenders)
if (!length(there)) quit("no")

rows <- list()
results <- list()
for (j in there) {
  job <- jobs[[j]]
  run <- job$make()
  run() # the session loads what it needs
  for (r in seq_len(repetitions(3L, 1L))) {
    for (who in rotated(names(contenders), r)) {
      start <- seconds(contenders[[who]]$start(job))
      times <- vapply(1:2, function(i) seconds(results[[paste(j, who)]] <<- run()), 1)
      contenders[[who]]$stop(job)
      rows[[length(rows) + 1L]] <- data.frame(job = j, who = who, rep = r, start_s = start, first_s = times[[1L]],
                                              again_s = times[[2L]])
    }
  }
  of_session <- results[[paste(j, "the session alone")]]
  same <- vapply(results[paste(j, names(contenders))], function(x) isTRUE(all.equal(x, of_session)), NA)
  if (!all(same)) stop("other results of ", j, ": ", toString(names(contenders)[!same]))
}
raw <- do.call(rbind, rows)
keep(raw, "models")
table <- do.call(rbind, lapply(c("start_s", "first_s", "again_s"), function(what) {
  cbind(what = what, spread(raw, c("job", "who"), what))
}))
show(table, "models")
utils::write.csv(data.frame(job = there, what = vapply(jobs[there], `[[`, "", "what")), report("models-jobs.csv"),
                 row.names = FALSE)
fork_server_stop()
method("models",
       what = "seconds: of the start of two processes, of the job the first time, when they load packages, and again",
       order = "in each repetition every contender once, another one first each time",
       warm = "the session has done the job once")
