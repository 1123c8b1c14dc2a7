# What each measure for the heap of a fork server brings, and what it costs the work on its nodes: the package as it is,
# and without each of them. A variant is a copy of the source in which one line is another one, built into a library of
# its own.
#
#   Rscript bench/heap-measures.R [--reps=3] [--only=blocks,cells]
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})

# ---- the measures: file, what stands there, what stands there in the variant ----
measures <- list(
  "as it is" = NULL,
  "room: R's own" = c("R/start-packages.R", "SERVER_CELLS <- 400000", "SERVER_CELLS <- 350000"),
  "room: 1,000,000" = c("R/start-packages.R", "SERVER_CELLS <- 400000", "SERVER_CELLS <- 1000000"),
  "no collection with methods" = c("R/start-packages.R", "if (forks && has_server_cells()) collect_for_forks()", ""),
  "pages one by one" = c("src/r/node/stack.c", "if (clu_me.running) clu_os_heap_ahead(1);", ""),
  "parent's pages one by one" = c("src/r/node/stack.c", "clu_os_heap_ahead(1)", "clu_os_heap_ahead(0)"),
  "full collection at the end" = c("R/node-fork-server.R", "if (settles) settle_memory(is_larger)",
                                   "if (settles) settle_memory(TRUE)"),
  "cells not used up" = c("src/r/node/warm-up.c", "use_up_cells(lengths[k], &cells);", "(void)use_up_cells;"),
  "blocks not used up" = c("src/r/node/warm-up.c", "use_up_blocks(size, &left);", "(void)use_up_blocks, (void)left;"),
  "small blocks apart" = c("src/r/node/warm-up.c", "put_blocks_together(size);", "(void)put_blocks_together;"),
  "large blocks given back" = c("src/r/node/warm-up.c", "  keep_large_blocks();", "  (void)keep_large_blocks;"),
  "code not inherited" = c("src/r/node/warm-up.c", "  share_code();", "  (void)share_code;"),
  "no warm-up" = c("R/node-fork-server.R", "if (settles) warm_up()", ""))

# ---- one variant: figures of one process, one "name value" a line ----
job_of <- function(name) {
  for (e in parse("bench/work-on-a-node.R")) {
    if (is.call(e) && identical(e[[1L]], quote(`<-`)) && identical(e[[2L]], as.name(name))) f <- eval(e, globalenv())
  }
  environment(f) <- globalenv()
  f
}
figures <- function() {
  out <- c()
  out[["start of 64 nodes, cold (ms)"]] <- 1000 * seconds(cl <- make_cluster(64))
  stop_cluster(cl)
  out[["start of 64 nodes, warm (ms)"]] <- 1000 * seconds(cl <- make_cluster(64))
  stop_cluster(cl)
  fork_server_stop()
  cl <- make_cluster(4)
  pids <- cluster_status(cl)$pid
  clusterCall(cl, Sys.getpid)
  out[["faults, first answer"]] <- stats::median(vapply(pids, of_process, 1, 10L))
  out[["own MB, idle"]] <- stats::median(vapply(pids, memory_mb, 1, "Private"))
  before <- vapply(pids, of_process, 1, 10L)
  cluster_map(cl, 1:100, identity)
  out[["faults, first map"]] <- stats::median(vapply(pids, of_process, 1, 10L) - before)
  stop_cluster(cl)
  # the node of the variant and base R's take turns
  jobs <- list(cox = 50L, mixed = 8L, loop = 150L)
  for (j in names(jobs)) {
    f <- job_of(j)
    both <- list(clutch = make_cluster(1), base = makeCluster(1))
    run <- function(who, n) clusterCall(both[[who]], timed_job, f, n)[[1L]]
    for (k in 1:2) for (who in sample(names(both))) run(who, 2L * jobs[[j]])
    x <- sapply(1:8, function(k) sapply(sample(names(both)), run, jobs[[j]])[, names(both)])
    out[[paste(j, "time")]] <- min(x[1L, ]) / min(x[3L, ])
    out[[paste(j, "collecting")]] <- sum(x[2L, ]) / sum(x[4L, ])
    touched <- sapply(both, function(cl) {
      pid <- clusterCall(cl, Sys.getpid)[[1L]]
      stats::median(replicate(7L, touched_mb(pid, clusterCall(cl, timed_job, f, jobs[[j]] %/% 3L))))
    })
    out[[paste(j, "touched")]] <- touched[["clutch"]] / touched[["base"]]
    for (cl in both) stopCluster(cl)
  }
  cat(sprintf("figure\t%s\t%.5g\n", names(out), unlist(out)), sep = "")
}
if ("--figures" %in% commandArgs(TRUE)) {
  figures()
  quit()
}

# ---- all variants in turn ----
machine()
if (!file.exists("/proc/self/smaps_rollup")) stop("needs Linux", call. = FALSE)
only <- strsplit(option("only", ""), ",")[[1L]]
if (length(only)) measures <- measures[vapply(names(measures), function(m) any(vapply(only, grepl, NA, m)), NA)]
library_of <- function(measure) {
  to <- tempfile("variant-")
  dir.create(to)
  there <- intersect(c("DESCRIPTION", "NAMESPACE", "LICENSE", "NEWS.md", "configure", "cleanup", "R", "src", "man", "inst", "data"), dir())
  file.copy(there, to, recursive = TRUE, copy.date = TRUE)
  if (length(measure)) {
    path <- file.path(to, measure[[1L]])
    text <- readLines(path)
    at <- grep(measure[[2L]], text, fixed = TRUE)
    if (length(at) != 1L) stop(measure[[1L]], " has no such line: ", measure[[2L]], call. = FALSE)
    text[at] <- sub(measure[[2L]], measure[[3L]], text[at], fixed = TRUE)
    writeLines(text, path)
  }
  lib <- file.path(to, "lib")
  dir.create(lib)
  log <- system2(file.path(R.home("bin"), "R"), c("CMD", "INSTALL", "--no-docs", paste0("--library=", lib), to), stdout = TRUE, stderr = TRUE)
  if (!dir.exists(file.path(lib, "clutch"))) stop(paste(log, collapse = "\n"), call. = FALSE)
  lib
}
libraries <- lapply(measures, library_of)
reps <- repetitions(3L, 1L)
raw <- list()
for (r in seq_len(reps)) for (m in rotated(names(libraries), r)) {
  paths <- paste(c(libraries[[m]], .libPaths()), collapse = .Platform$path.sep)
  lines <- system2(rscript, c("bench/heap-measures.R", "--figures"), stdout = TRUE, env = paste0("R_LIBS=", shQuote(paths)))
  for (x in strsplit(grep("^figure\t", lines, value = TRUE), "\t")) {
    raw[[length(raw) + 1L]] <- data.frame(measure = m, what = x[[2L]], rep = r, value = as.numeric(x[[3L]]))
  }
}
raw <- do.call(rbind, raw)
keep(raw, "heap-measures")
show(spread(raw, c("what", "measure"), "value"), "heap-measures")
method("heap-measures",
  what = paste("start of 64 nodes; page faults and memory of nodes of a new fork server; of jobs of bench/work-on-a-node.R the time",
               "(quickest of 8), the time in collections and the memory that is touched, times those of a node of base R"),
  order = "all variants once in each repetition, another one first each time; a node of each and one of base R take turns",
  warm = "two runs of double length before")
