# Uses clusters while one in so many system calls of the package fails (calls.c): each use has to give
# what it gives else, or an error of this package, within a minute; and afterwards nothing is left of
# it, and a new cluster works.
#   Rscript failing.R NUMBERS ONE_IN ROUNDS [SEED]
# NUMBERS: the file of CLUTCH_CALLS="fail NUMBERS". The last line is "N passed, N failed".

suppressPackageStartupMessages(library(clutch))
arguments <- commandArgs(TRUE)
numbers <- arguments[[1L]]
one_in <- as.integer(arguments[[2L]])
rounds <- as.integer(arguments[[3L]])
if (length(arguments) > 3L) set.seed(as.integer(arguments[[4L]]))

fail_one_in <- function(n) {
  con <- file(numbers, "r+b")
  on.exit(close(con))
  seek(con, 0, rw = "write")
  writeBin(as.integer(n), con)
}
count_failed <- function() readBin(numbers, "integer", 2L)[[2L]]

passed <- failed <- 0
say <- function(...) {
  failed <<- failed + 1
  cat("FAIL ", ..., "\n", sep = "")
}

# Its value, or its error.
attempt <- function(what, expr) {
  began <- proc.time()[[3L]]
  setTimeLimit(elapsed = 60, transient = TRUE)
  x <- tryCatch(suppressMessages(suppressWarnings(expr)), error = identity)
  setTimeLimit()
  seconds <- proc.time()[[3L]] - began
  if (seconds > 55) {
    say(what, " took ", round(seconds), " s")
  } else if (inherits(x, "error") && !inherits(x, "clutch_error")) {
    say(what, ": ", conditionMessage(x))
  } else {
    passed <<- passed + 1
  }
  x
}

has <- function(what, x, expected) {
  if (!inherits(x, "error") && !identical(x, expected)) say(what, " gives ", deparse(x)[[1L]])
}

uses <- list(
  map = function(cl) {
    x <- attempt("map", cluster_map_dbl(cl, 1:50, function(i) i * 2, .retries = 3))
    has("map", x, (1:50) * 2)
  },
  call = function(cl) {
    has("call", attempt("call", parallel::clusterCall(cl, function() 42)), rep(list(42), length(cl)))
  },
  large = function(cl) {
    v <- runif(3e5)
    has("large", attempt("large", cluster_map(cl, 1:3, function(i) v + i)),
        lapply(1:3, function(i) v + i))
  },
  run = function(cl) {
    x <- attempt("run", cluster_run(cl, function(rank) node_allreduce(rank)))
    has("run", x, rep(list(sum(seq_along(cl))), length(cl)))
  },
  journal = function(cl) {
    path <- tempfile()
    on.exit(unlink(paste0(path, "*")))
    for (k in 1:2) {
      x <- attempt("journal", cluster_map_dbl(cl, 1:30, function(i) i + 1, .journal = path))
      has("journal", x, 1:30 + 1)
    }
    fail_one_in(0)
    x <- attempt("journal again", cluster_map_dbl(cl, 1:30, function(i) i + 1, .journal = path))
    if (inherits(x, "clutch_journal_locked")) say(conditionMessage(x))
    fail_one_in(one_in)
  },
  actor = function(cl) {
    make <- function() {
      n <- 0
      list(add = function(k) n <<- n + k)
    }
    a <- attempt("actor", cluster_actor(cl, make))
    if (inherits(a, "error")) return()
    has("actor", attempt("actor call", actor_call(a, "add", 2, .timeout = 20)), 2)
    attempt("actor stop", actor_stop(a))
  },
  lock = function(cl) {
    lock <- attempt("lock", cluster_lock(cl))
    if (inherits(lock, "error")) return()
    x <- attempt("with lock", cluster_map_int(cl, 1:6, function(i) with_lock(lock, i)))
    has("with lock", x, 1:6)
  }
)

makers <- list(fork = function() make_cluster(3), grow = function() make_cluster(c(1, 3)),
               spawn = function() make_cluster(2, strategy = "spawn"))

one_round <- function(kind) {
  cl <- attempt(paste("start of", kind), makers[[kind]]())
  if (inherits(cl, "error")) return(invisible())
  for (name in sample(names(uses))) uses[[name]](cl)
  attempt("stop", stop_cluster(cl))
}

# What this process has: descriptors, and files that are none of a fork server.
what_is_here <- function() {
  for (k in 1:3) gc()
  files <- list.files(tempdir())
  list(descriptors = length(list.files("/proc/self/fd")),
       files = files[!startsWith(files, "clutch-server-")])
}

for (kind in names(makers)) one_round(kind)
before <- what_is_here()
for (i in seq_len(rounds)) {
  fail_one_in(one_in)
  one_round(sample(names(makers), 1L))
  fail_one_in(0)
}
works <- attempt("a cluster afterwards", {
  cl <- make_cluster(2)
  x <- cluster_map_int(cl, 1:9, identity)
  stop_cluster(cl)
  x
})
if (!identical(works, 1:9)) say("a cluster afterwards does not work")
rm(cl)
end <- Sys.time() + 20
repeat {
  now <- what_is_here()
  is_clean <- now$descriptors <= before$descriptors && !length(setdiff(now$files, before$files))
  if (is_clean || Sys.time() > end) break
  Sys.sleep(0.1)
}
if (!is_clean) {
  say("left: ", now$descriptors - before$descriptors, " descriptors, files ",
      toString(setdiff(now$files, before$files)))
}
cat(count_failed(), "calls have failed\n")
cat(passed, "passed,", failed, "failed\n")
