# What R code costs on a node, beside one of base R's: seconds, time in collections, MB of memory that the code touches.
#
# One node does a job again and again; all of it is timed in there. Each repetition has a new cluster of each kind, and
# they take turns, in random order. The first two runs are not counted.
#
#   Rscript bench/work-on-a-node.R [--reps=3] [--jobs=cox,text] [--only=clutch]     QUICK=1: fewer repetitions
#   --pages=always|madvise|never sets the system's transparent huge pages meanwhile (root)
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
reps <- repetitions(3L, 2L)

# ---- the jobs: what is done once more, how often in a run, and how often while the memory is looked at ----
cox <- function(i) {
  d <- survival::lung[sample(nrow(survival::lung), replace = TRUE), ]
  stats::coef(survival::coxph(survival::Surv(time, status) ~ age + sex + ph.ecog, data = d))
}
mixed <- function(i) stats::coef(nlme::lme(distance ~ age + Sex, data = nlme::Orthodont, random = ~ 1))
text <- function(i) {
  words <- vapply(1:200, function(k) paste(letters[1 + (k * i + 0:5) %% 26], collapse = ""), "")
  counts <- table(substr(gsub("[aeiou]", "", toupper(words), ignore.case = TRUE), 1, 3))
  names(sort(counts, decreasing = TRUE))[[1L]]
}
groups <- function(i) {
  d <- data.table::data.table(g = rep(1:500, 40), x = seq_len(20000) / i)
  nrow(d[, list(m = mean(x), s = sum(x)), by = "g"])
}
product <- function(i) {
  x <- matrix(seq_len(90000) / i, 300)
  sum(x %*% x)
}
loop <- function(i) {
  x <- numeric(2000)
  for (k in seq_along(x)) x[[k]] <- if (k %% 2) k / i else sqrt(k)
  sum(x)
}
jobs <- list(
  cox = list(f = cox, n = 100L, package = "survival", what = "Cox model of a bootstrap sample (package survival)"),
  mixed = list(f = mixed, n = 8L, package = "nlme", what = "mixed model (package nlme)"),
  text = list(f = text, n = 60L, what = "words made, changed, counted"),
  groups = list(f = groups, n = 40L, package = "data.table", what = "means and sums of 500 groups (package data.table)"),
  product = list(f = product, n = 30L, what = "product of two matrices, 300 x 300"),
  loop = list(f = loop, n = 300L, what = "a loop over 2,000 numbers"))
for (k in names(jobs)) environment(jobs[[k]]$f) <- globalenv()
asked <- strsplit(option("jobs", paste(names(jobs), collapse = ",")), ",")[[1L]]
jobs <- jobs[asked]
jobs <- jobs[vapply(jobs, function(j) are_installed(j$package), NA)]

# ---- the kinds of nodes ----
kinds <- list(
  "base PSOCK" = function(job) makeCluster(1),
  "base fork" = function(job) makeForkCluster(1),
  "clutch" = function(job) make_cluster(1),
  "clutch, packages =" = function(job) if (length(job$package)) make_cluster(1, packages = job$package),
  "clutch, new R" = function(job) make_cluster(1, strategy = "parallel"))
only <- strsplit(option("only", ""), ",")[[1L]]
if (length(only)) kinds <- kinds[vapply(names(kinds), function(k) any(startsWith(k, only)), NA)]

# One cluster of each kind. They take turns at every run, so that a busy machine is busy for all of them.
measure <- function(job) {
  clusters <- Filter(Negate(is.null), lapply(kinds, function(start) start(job)))
  on.exit(for (cl in clusters) stopCluster(cl))
  pids <- lapply(clusters, function(cl) clusterCall(cl, Sys.getpid)[[1L]])
  for (cl in clusters) clusterSetRNGStream(cl, 1)
  run <- function(k, n) clusterCall(clusters[[k]], timed_job, job$f, n)[[1L]]
  names <- names(clusters)
  in_turn <- function(times, f) {
    rounds <- lapply(seq_len(times), function(i) sapply(sample(names), f, simplify = FALSE)[names])
    sapply(names, function(k) lapply(rounds, `[[`, k), simplify = FALSE)
  }
  in_turn(2L, function(k) run(k, 2L * job$n))
  runs <- in_turn(5L, function(k) run(k, job$n))
  # often: there may be a collection in one of them
  touched <- in_turn(5L, function(k) touched_mb(pids[[k]], run(k, max(job$n %/% 5L, 1L))))
  sapply(names, function(k) {
    r <- simplify2array(runs[[k]])
    c(seconds = min(r[1L, ]), collecting = sum(r[2L, ]), touched = stats::median(unlist(touched[[k]])))
  }, simplify = FALSE)
}

# What else a node does that a plain R does not: the same run in turn on one node. Ratios to a call, whose output goes
# nowhere and which nobody looks at.
of_element <- function(n, timed, f) timed(f, n)
environment(of_element) <- globalenv()
in_map <- function(cl, job, ...) cluster_map(cl, list(job$n), of_element, timed = timed_job, f = job$f, ...)[[1L]]
extras <- list(
  "a call" = function(cl, job) clusterCall(cl, timed_job, job$f, job$n)[[1L]],
  "an element of a map" = function(cl, job) in_map(cl, job),
  "the same, .relay = \"none\"" = function(cl, job) in_map(cl, job, .relay = "none"),
  "the same, .fresh = TRUE" = function(cl, job) in_map(cl, job, .fresh = TRUE),
  "a task, asked for its R calls 20 times a second" = function(cl, job) {
    task <- cluster_submit_call(cl, timed_job, list(job$f, job$n))
    while (!resolved(task)) {
      cluster_stacks(cl, 0.05)
      Sys.sleep(0.05)
    }
    collect(task)
  })
measure_extras <- function(job) {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (k in 1:3) clusterCall(cl, timed_job, job$f, job$n)
  one <- function() vapply(sample(extras), function(run) run(cl, job)[[1L]], 1)[names(extras)]
  apply(vapply(1:7, function(k) one(), numeric(length(extras))), 1L, min)
}

# ---- the system's huge pages ----
pages_file <- "/sys/kernel/mm/transparent_hugepage/enabled"
pages_now <- function() sub(".*\\[(.*)\\].*", "\\1", suppressWarnings(readLines(pages_file)))
pages <- option("pages", "")
if (nzchar(pages)) {
  before <- pages_now()
  writeLines(pages, pages_file)
  invisible(reg.finalizer(globalenv(), function(e) writeLines(before, pages_file), onexit = TRUE))
}

raw <- list()
for (j in names(jobs)) for (r in seq_len(reps)) {
  found <- measure(jobs[[j]])
  for (k in names(found)) {
    raw[[length(raw) + 1L]] <- data.frame(job = j, who = k, rep = r, what = names(found[[k]]), value = unname(found[[k]]))
  }
}
raw <- do.call(rbind, raw)
raw <- raw[order(match(raw$job, names(jobs)), match(raw$who, names(kinds)), raw$what, raw$rep), ]
file <- if (nzchar(pages)) paste0("work-on-a-node-", pages) else "work-on-a-node"
keep(raw, file)
table <- spread(raw[!is.na(raw$value), ], c("job", "who", "what"), "value")
base <- table[table$who == "base PSOCK", ]
table$ratio <- table$median / base$median[match(paste(table$job, table$what), paste(base$job, base$what))]
show(table, file)

if (!nzchar(pages) && !length(only)) {
  more <- do.call(rbind, lapply(intersect(names(jobs), c("cox", "text", "loop")), function(j) {
    do.call(rbind, lapply(seq_len(min(reps, 5L)), function(r) {
      x <- measure_extras(jobs[[j]])
      data.frame(job = j, what = names(x), rep = r, ratio = unname(x / x[["a call"]]))
    }))
  }))
  keep(more, "work-on-a-node-extras")
  show(spread(more, c("job", "what"), "ratio"), "work-on-a-node-extras")
}

# At most so many times base R's
goals <- data.frame(what = c("seconds", "seconds", "collecting", "touched"), goal = c(1.02, 0.98, 1.2, 1.1),
                    preloaded = c(FALSE, TRUE, NA, NA))
for (i in seq_len(nrow(goals))) {
  g <- goals[i, ]
  rows <- table[table$what == g$what & startsWith(table$who, "clutch") & is.finite(table$ratio), ]
  if (!is.na(g$preloaded)) rows <- rows[(rows$who == "clutch, packages =") == g$preloaded, ]
  if (nrow(rows)) cat(sprintf("goal: %s, %s, %s: %.2f of base R's (%g): %s\n", rows$job, rows$who, rows$what, rows$ratio, g$goal,
                              ifelse(rows$ratio <= g$goal, "met", "MISSED")), sep = "")
}
method(file,
  what = paste("seconds of the quickest of 5 runs; seconds in collections of all 5 together (gc.time()); MB that a fifth of a",
               "run touches (Referenced in smaps_rollup, median of 7). Median of all clusters"),
  order = "a new cluster of each kind in each repetition, which take turns in random order",
  warm = "two runs of double length before",
  pages = paste("transparent huge pages of the system:", if (file.exists(pages_file)) pages_now() else "none"))
