# What a journal costs, and what it saves: maps with and without one, the same map again, and beside them packages that
# keep results on disk, batchtools and targets, where they are installed.
#
#   Rscript bench/journal.R [--tasks=1000] [--sync=1]
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
reps <- repetitions(2L)
n_tasks <- as.integer(option("tasks", if (quick) "200" else "1000"))
sync <- as.numeric(option("sync", "1"))
folder <- tempfile("journal-")
dir.create(folder)
path <- file.path(folder, "journal")
cl <- make_cluster(2)
# The user's message is no part of it
quietly <- function(expr) suppressMessages(expr)
workspace <- function(f) {
  environment(f) <- globalenv()
  f
}
busy_for <- function(seconds) {
  f <- function(i) {
    end <- Sys.time() + SECONDS
    while (Sys.time() < end) NULL
    i
  }
  body(f) <- do.call(substitute, list(body(f), list(SECONDS = seconds)))
  workspace(f)
}

# ---- cost ----
million <- if (quick) 1e5 else 1e6
jobs <- list(
  "a million no-ops" = list(seq_len(million), workspace(function(i) NULL)),
  "10,000 tasks of 1 ms" = list(seq_len(if (quick) 1000L else 10000L), busy_for(0.001)),
  "100 results of 10 MB" = list(seq_len(if (quick) 20L else 100L), workspace(function(i) {
    x <- numeric(1.25e6)
    for (k in 1:20) x[] <- rnorm(1e4) # some 0.1 s
    x
  }))
)
raw <- list()
# `s`: the map is called when this is evaluated. Beside it the processor time that the session takes for it, which other
# work on the machine changes less.
note <- function(job, who, rep, s) {
  before <- sum(proc.time()[1:2])
  force(s)
  cpu <- sum(proc.time()[1:2]) - before
  raw[[length(raw) + 1L]] <<- data.frame(job = job, who = who, rep = rep, s = s, cpu = cpu)
}
sizes <- list()
for (r in seq_len(reps)) for (job in names(jobs)) {
  x <- jobs[[job]][[1L]]
  f <- jobs[[job]][[2L]]
  quietly(cluster_map(cl, x[1:20], f))
  unlink(path)
  if (r %% 2 == 0) note(job, "without", r, seconds(cluster_map(cl, x, f, .seed = 1)))
  map <- function() quietly(cluster_map(cl, x, f, .seed = 1, .journal = path, .journal_sync = sync))
  note(job, "with a journal", r, seconds(map()))
  if (r %% 2 == 1) note(job, "without", r, seconds(cluster_map(cl, x, f, .seed = 1)))
  note(job, "the same again", r, seconds(map()))
  sizes[[job]] <- file.size(path) / 1e6
  gc()
}
unlink(path)
f <- workspace(function(i) i + 0.5)
for (n in c(1e5, million)) {
  quietly(cluster_map(cl, seq_len(n), f, .journal = path))
  job <- sprintf("%s finished elements", format(n, big.mark = ",", scientific = FALSE))
  for (r in seq_len(reps)) note(job, "the same again", r, seconds(quietly(cluster_map(cl, seq_len(n), f, .journal = path))))
  sizes[[job]] <- file.size(path) / 1e6
}
raw <- do.call(rbind, raw)
raw <- raw[order(match(raw$job, unique(raw$job)), match(raw$who, unique(raw$who)), raw$rep), ]
keep(raw, "journal")
table <- spread(raw, c("job", "who"), "s")
table$mb <- vapply(table$job, function(job) sizes[[job]], 1)
cat("Seconds; MB of the journal\n")
show(table, "journal")
cat("Processor seconds of the session\n")
show(spread(raw, c("job", "who"), "cpu"), "journal-cpu")

# ---- beside others: the overhead of `n_tasks` tasks of 10 ms, and of the same again ----
task <- busy_for(0.01)
work <- n_tasks * 0.01 / 2
others <- list(
  "clutch with a journal" = function(again) {
    quietly(cluster_map(cl, seq_len(n_tasks), task, .journal = path))
  },
  "batchtools" = if (has("batchtools")) function(again) {
    registry <- file.path(folder, "registry")
    options(batchtools.verbose = FALSE, batchtools.progress = FALSE)
    if (again) {
      reg <- batchtools::loadRegistry(registry, writeable = TRUE)
    } else {
      reg <- suppressMessages(batchtools::makeRegistry(registry, conf.file = NA))
      reg$cluster.functions <- batchtools::makeClusterFunctionsSocket(2)
      batchtools::batchMap(task, seq_len(n_tasks), reg = reg)
      ids <- batchtools::findJobs(reg = reg)
      ids$chunk <- batchtools::chunk(ids$job.id, n.chunks = 2)
      batchtools::submitJobs(ids, reg = reg)
      batchtools::waitForJobs(reg = reg, sleep = 0.05)
    }
    batchtools::reduceResultsList(reg = reg)
  },
  "targets" = if (has("targets") && has("crew")) function(again) {
    old <- setwd(folder)
    on.exit(setwd(old))
    saveRDS(task, "task.rds")
    writeLines(c(
      "library(targets)",
      "tar_option_set(controller = crew::crew_controller_local(workers = 2), storage = 'worker', retrieval = 'worker')",
      sprintf("list(tar_target(x, seq_len(%d)), tar_target(task, readRDS('task.rds')),", n_tasks),
      "  tar_target(y, task(x), pattern = map(x)))"), "_targets.R")
    targets::tar_make(reporter = "silent", callr_arguments = list(show = FALSE))
    targets::tar_read_raw("y")
  }
)
others <- Filter(Negate(is.null), others)
raw <- list()
for (who in names(others)) {
  unlink(path)
  first <- seconds(values <- others[[who]](FALSE))
  stopifnot(length(values) == n_tasks)
  again <- seconds(others[[who]](TRUE))
  raw[[who]] <- data.frame(who = who, what = c("beyond the work, s", "the same again, s"), rep = 1, s = c(first - work, again))
}
raw <- do.call(rbind, raw)
keep(raw, "journal-others")
cat(n_tasks, "tasks of 10 ms on two processes, their start included\n")
show(spread(raw, c("who", "what"), "s"), "journal-others")
stop_cluster(cl)
unlink(folder, recursive = TRUE)
method("journal",
  what = sprintf(paste("whole maps on 2 nodes, with `.journal_sync = %g`; beside them %s tasks of 10 ms, seconds beyond",
                       "what two processes need for the work alone"), sync, format(n_tasks, big.mark = ",")),
  order = "with and without in turn, another one first each time; the others once",
  warm = "20 elements of each job")
