# Real work on two processes, against lapply(): a bootstrap, a cross-validation of a random forest, a simulation of
# many short steps, and texts. Time, and memory of all processes together.
#
# Each contender does each job in a process of its own, with nodes of its own, and all results have to be the same.
# Memory is sampled in runs of their own, so that sampling takes no time of the others.
#
#   Rscript bench/work.R [--reps=2] [--jobs=bootstrap,text] [--memory-reps=1] [--add]     QUICK=1: shorter jobs, once
source("bench/_common.R")
library(parallel)
share <- if (quick) 0.2 else 1

# ---- the jobs: elements, function of one element, constant arguments ----
# The random numbers are those of the element, whoever computes it.
seeded <- function(i) set.seed(i, "Mersenne-Twister", "Inversion", "Rejection")

bootstrap <- function() list(
  x = seq_len(1000 * share),
  f = function(i) {
    set.seed(i, "Mersenne-Twister", "Inversion", "Rejection")
    d <- survival::lung[sample(nrow(survival::lung), replace = TRUE), ]
    stats::coef(survival::coxph(survival::Surv(time, status) ~ age + sex + ph.ecog, data = d))
  })

forest <- function() {
  seeded(1)
  x <- matrix(stats::rnorm(1000 * 10), 1000)
  d <- data.frame(y = x[, 1] + x[, 2] * x[, 3] + stats::rnorm(1000), x)
  list(
    x = seq_len(if (quick) 10 else 40),
    f = function(i, d) {
      fold <- (i - 1) %% 10 + 1
      mtry <- c(1, 2, 4, 8)[(i - 1) %/% 10 + 1]
      out <- seq_len(nrow(d)) %% 10 + 1 == fold
      fit <- ranger::ranger(y ~ ., data = d[!out, ], num.trees = 50, mtry = mtry, num.threads = 1, seed = i)
      mean((d$y[out] - stats::predict(fit, data = d[out, ], num.threads = 1)$predictions)^2)
    },
    constants = list(d = d))
}

simulation <- function() list(
  x = seq_len(20000 * share),
  f = function(i) {
    set.seed(i, "Mersenne-Twister", "Inversion", "Rejection")
    walk <- cumsum(stats::rnorm(400))
    max(walk) - min(walk)
  })

text <- function() {
  seeded(1)
  vocabulary <- vapply(1:5000, function(i) paste(sample(letters, 2 + i %% 9, TRUE), collapse = ""), "")
  words <- sample(vocabulary, 10000 * share * 100, TRUE, 1 / seq_along(vocabulary))
  list(
    x = vapply(split(words, rep(seq_len(10000 * share), each = 100)), paste, "", collapse = " ", USE.NAMES = FALSE),
    f = function(document, stopwords) {
      words <- strsplit(gsub("[^a-z ]+", " ", tolower(document)), " +")[[1L]]
      words <- words[nzchar(words) & !words %in% stopwords]
      counts <- sort(table(words), decreasing = TRUE)
      stats::setNames(as.integer(counts), names(counts))[1:10]
    },
    constants = list(stopwords = vocabulary[1:100]))
}
jobs <- list(
  "bootstrap" = list(make = bootstrap, package = "survival",
                     what = "bootstrap of a Cox model on survival::lung, 1,000 replicates"),
  "forest" = list(make = forest, package = "ranger",
                  what = "10-fold cross-validation of four random forests by ranger, 1,000 x 10, 50 trees"),
  "simulation" = list(make = simulation, package = NULL,
                      what = "simulation of 20,000 steps of about 50 us"),
  "text" = list(make = text, package = NULL, what = "ten commonest words of each of 10,000 documents of 100 words"))

# ---- the contenders: start() until two processes have answered, run(job), stop() ----
cl <- NULL
with_constants <- function(f, job, ...) do.call(f, c(list(...), job$constants))
contenders <- list(
  "lapply" = list(
    run = function(job) with_constants(lapply, job, job$x, job$f)),
  "clutch cluster_map" = list(
    package = "clutch",
    start = function() {
      cl <<- clutch::make_cluster(2)
      clusterCall(cl, Sys.getpid)
    },
    run = function(job) with_constants(clutch::cluster_map, job, cl, job$x, job$f),
    stop = function() clutch::stop_cluster(cl)),
  "clutch, own cluster" = list( # of the session; it has the packages that the function names
    package = "clutch",
    run = function(job) with_constants(clutch::cluster_map, job, NULL, job$x, job$f)),
  "clutch mclapply" = list(
    package = "clutch",
    run = function(job) with_constants(clutch::mclapply, job, job$x, job$f, mc.cores = 2L)),
  "base parLapply" = list(
    start = function() {
      cl <<- makePSOCKcluster(2)
      clusterCall(cl, Sys.getpid)
    },
    run = function(job) with_constants(parLapply, job, cl, job$x, job$f),
    stop = function() stopCluster(cl)),
  "base parLapply, packages" = list( # which is what base R's users do
    start = function(job) {
      cl <<- makePSOCKcluster(2)
      clusterCall(cl, function(package) if (length(package)) library(package, character.only = TRUE), job$package)
    },
    run = function(job) with_constants(parLapply, job, cl, job$x, job$f),
    stop = function() stopCluster(cl),
    but = c("simulation", "text")), # they need none
  "base mclapply" = list(
    run = function(job) with_constants(mclapply, job, job$x, job$f, mc.cores = 2L)),
  "base mclapply, one by one" = list(
    run = function(job) with_constants(mclapply, job, job$x, job$f, mc.cores = 2L, mc.preschedule = FALSE),
    but = c("bootstrap", "simulation", "text")), # a fork for each element: a minute and more
  "mirai_map" = list(
    package = "mirai",
    start = function() {
      mirai::daemons(2)
      mirai::collect_mirai(mirai::everywhere(NULL, .min = 2L))
    },
    run = function(job) mirai::mirai_map(job$x, job$f, .args = job$constants)[],
    stop = function() mirai::daemons(0)),
  "mirai_map, 8 chunks" = list(
    package = "mirai",
    start = function() {
      mirai::daemons(2)
      mirai::collect_mirai(mirai::everywhere(NULL, .min = 2L))
    },
    run = function(job) {
      several <- function(x, f, constants) do.call(lapply, c(list(x, f), constants))
      environment(several) <- globalenv()
      pieces <- lapply(splitIndices(length(job$x), 8L), function(i) job$x[i])
      do.call(c, mirai::mirai_map(pieces, several, .args = list(f = job$f, constants = job$constants))[])
    },
    stop = function() mirai::daemons(0),
    but = "forest"), # 40 elements are few enough
  "future_lapply" = list(
    package = c("future", "future.apply"),
    start = function() {
      future::plan("multisession", workers = 2L)
      lapply(lapply(1:2, function(i) future::future(1)), future::value)
    },
    # the elements have seeds of their own
    run = function(job) with_constants(future.apply::future_lapply, job, job$x, job$f, future.seed = NULL),
    stop = function() future::plan("sequential")))

# ---- one contender, one job: seconds of the start, of the job, and what the results add up to ----
do_job <- function(contender, job) {
  about <- job <- jobs[[job]]
  # the session has what the job needs, so that its forks need not load it
  for (p in c(contender$package, job$package)) loadNamespace(p)
  job <- job$make()
  environment(job$f) <- globalenv() # as where a user writes it
  gc()
  start <- if (is.null(contender$start)) {
    0
  } else if (length(formals(contender$start))) {
    seconds(contender$start(about))
  } else {
    seconds(contender$start())
  }
  run <- seconds(result <- contender$run(job))
  if (!is.null(contender$stop)) contender$stop()
  cat(sprintf("%.6f\t%.6f\t%d %.12g\n", start, run, length(result), sum(as.numeric(unlist(result)))))
}
measure_alone(contenders, function(c) do_job(c, option("job", "")))

# ---- all in turn ----
suppressPackageStartupMessages(library(clutch))
machine()
reps <- repetitions(2L, 1L)
table <- measure_jobs("work", contenders, jobs, reps)
who <- intersect(names(contenders), table$who)
panels <- function(value) lapply(stats::setNames(nm = unique(table$job)), function(j) {
  table[table$job == j & table$what == value, ]
})
dots_png("work.png", who, panels("all_s"), "Seconds of a job, start of the processes included", zero = TRUE, right = 0.35)
if (any(table$what == "mb")) dots_png("work-memory.png", who, panels("mb"), "MB of all processes together, at the most", zero = TRUE, right = 0.35)
method("work",
  what = paste("seconds of the start of two processes, and of the job, whose first tasks load packages there; MB of",
    "all processes of a run (Pss), the most of samples 20 ms apart, in runs of their own"),
  order = "each contender and job in a process of its own, once in each repetition, another one first each time",
  warm = "none; the session has loaded the packages that the contender and the job need, the nodes have not")
