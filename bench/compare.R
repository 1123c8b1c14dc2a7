# Two builds of the package in turn: is a row slower than the spread of its own repetitions?
#
#   Rscript bench/compare.R LIBRARY-BEFORE LIBRARY-AFTER [ROUNDS]
#   Rscript bench/compare.R --count LIBRARY-BEFORE LIBRARY-AFTER [ROUNDS]
#
# Each library has clutch installed (.build/lib of two checkouts). Every round runs all rows once
# with each of the two, in a fresh R, in changing order. A row is the median of its repetitions.
# What is said: medians over the rounds, their range, and the ratio. "slower": all of the new
# figures are above all of the old ones.
#
# --count: in place of times the instructions that the session executes outside the kernel, by
# valgrind's callgrind. They show a difference of 1 %, which times on a shared machine do not, but
# nothing of what the kernel and the nodes do. Session and nodes do not wait awake there. "more":
# besides, the ratio is above 1.02.

args <- commandArgs(TRUE)

# ---- one run: all rows, as "name value" lines ----

rows <- function(counting) {
  library(clutch)
  us <- function(n, expr) {
    expr <- substitute(expr)
    env <- parent.frame()
    # quick ones as often as ever: now and then one collects garbage
    if (counting) return(instructions(if (n >= 300) n else max(1, n %/% 10), expr, env))
    took <- vapply(seq_len(n), function(i) {
      began <- clutch:::clock()
      eval(expr, env)
      clutch:::clock() - began
    }, 1)
    1e6 * stats::median(took)
  }
  out <- list()
  stop_cluster(make_cluster(1))
  gc()
  out[["start of 64 nodes, warm"]] <- us(5, stop_cluster(make_cluster(64)))
  out[["start of 4 nodes over TCP"]] <- us(3, stop_cluster(make_cluster(4, strategy = "parallel")))
  cl <- make_cluster(2)
  parallel::clusterCall(cl, function() NULL)
  one <- cl[1L]
  for (i in 1:300) parallel::clusterCall(one, identity, 1)
  out[["clusterCall, one node"]] <- us(3000, parallel::clusterCall(one, identity, 1))
  out[["clusterCall, two nodes"]] <- us(2000, parallel::clusterCall(cl, identity, 1))
  out[["collect(cluster_submit())"]] <- us(500, collect(cluster_submit(cl, 1)))
  out[["cluster_map of one element"]] <- us(500, cluster_map(cl, 1, identity))
  out[["cluster_map, 1e5 one by one"]] <- us(5, cluster_map(cl, 1:1e5, identity, .chunk = 1))
  out[["cluster_map, 1e6 no-ops"]] <- us(3, cluster_map(cl, 1:1e6, identity))
  out[["parLapply of 1,000"]] <- us(30, parallel::parLapply(cl, 1:1000, identity))
  out[["clusterApplyLB of 1,000"]] <- us(25, parallel::clusterApplyLB(cl, 1:1000, identity))
  x <- stats::runif(5e6)
  out[["40 MB to two nodes"]] <- us(5, parallel::clusterCall(cl, length, x))
  out[["8 MB there and back"]] <- us(10, parallel::clusterCall(one, identity, x[1:1e6]))
  out[["10,000 messages relayed"]] <- us(3, suppressMessages(
    cluster_map(cl, 1:10000, function(i) message("m"))))
  stop_cluster(cl)
  listener <- socket_listen(0)
  port <- socket_info(listener)$local_port
  out[["connect, accept, close"]] <- us(300, {
    a <- socket_connect("127.0.0.1", port)
    b <- socket_accept(listener)
    close(a)
    close(b)
  })
  a <- socket_connect("127.0.0.1", port)
  b <- socket_accept(listener)
  out[["serialize 1:3 by a socket"]] <- us(2000, {
    serialize(1:3, a)
    unserialize(b)
  })
  close(a)
  close(b)
  close(listener)
  for (name in names(out)) cat(sprintf("%s\t%.6f\n", name, out[[name]]))
}

# One evaluation's, in thousands, after some that warm up.
instructions <- function(n, expr, env) {
  for (i in seq_len(max(1, n %/% 5))) eval(expr, env)
  gc()
  control <- function(what) {
    system2("callgrind_control", c(what, Sys.getpid()), stdout = FALSE, stderr = FALSE)
  }
  control("--zero")
  for (i in seq_len(n)) eval(expr, env)
  control("--dump")
  files <- list.files(".", sprintf("^callgrind\\.out\\.%d\\.", Sys.getpid()))
  newest <- files[[which.max(as.integer(sub(".*\\.", "", files)))]]
  total <- grep("^totals:", readLines(newest), value = TRUE)
  as.numeric(sub(".*: *", "", total)) / n / 1000
}

run <- function(lib, file, counting) {
  env <- sprintf("R_LIBS=%s", lib)
  lines <- if (counting) {
    env <- c(env, "CLUTCH_WAIT_AWAKE=0")
    old <- setwd(tempfile_folder())
    on.exit(setwd(old))
    system2(file.path(R.home("bin"), "R"),
            c("-d", shQuote("valgrind --tool=callgrind --log-file=log"), "--no-echo", "--vanilla",
              "-f", file, "--args", "--count-rows"), env = env, stdout = TRUE)
  } else {
    system2(file.path(R.home("bin"), "Rscript"), c(file, "--rows"), env = env, stdout = TRUE)
  }
  parts <- strsplit(grep("\t", lines, value = TRUE), "\t")
  structure(as.numeric(vapply(parts, `[[`, "", 2L)), names = vapply(parts, `[[`, "", 1L))
}

verdict <- function(new, old, counting) {
  if (min(new) <= max(old)) return("")
  if (!counting) return("  slower")
  if (stats::median(new) > 1.02 * stats::median(old)) "  more" else ""
}

tempfile_folder <- function() {
  dir <- tempfile("counted-")
  dir.create(dir)
  dir
}

compare <- function(before, after, rounds, file, counting) {
  old <- new <- NULL
  for (k in seq_len(rounds)) {
    for (which in if (k %% 2) c("old", "new") else c("new", "old")) {
      if (which == "old") old <- rbind(old, run(before, file, counting))
      else new <- rbind(new, run(after, file, counting))
    }
  }
  unit <- if (counting) "1,000 instructions" else "us, median (range)"
  show <- function(x) sprintf("%.0f (%.0f to %.0f)", stats::median(x), min(x), max(x))
  cat(sprintf("%-30s %32s %32s %6s\n", unit, "before", "after", "ratio"))
  for (name in colnames(old)) {
    o <- old[, name]
    n <- new[, name]
    cat(sprintf("%-30s %32s %32s %6.2f%s\n", name, show(o), show(n),
                stats::median(n) / stats::median(o), verdict(n, o, counting)))
  }
}

file <- normalizePath(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)))
counting <- identical(args[1L], "--count")
if (identical(args, "--rows") || identical(args, "--count-rows")) {
  rows(identical(args, "--count-rows"))
} else {
  if (counting) args <- args[-1L]
  if (counting && !nzchar(Sys.which("valgrind"))) stop("--count needs valgrind")
  if (length(args) < 2L) {
    stop("Rscript bench/compare.R [--count] LIBRARY-BEFORE LIBRARY-AFTER [ROUNDS]")
  }
  rounds <- if (length(args) > 2L) as.integer(args[[3L]]) else if (counting) 3L else 5L
  compare(normalizePath(args[[1L]]), normalizePath(args[[2L]]), rounds, file, counting)
}
