# SIGKILL of a random rank at a random instant while all are at collective operations, one after
# another: an error of all others that names it, and the cluster goes on.
#
# CLUTCH_SEED repeats the choices; CLUTCH_EVENTS >= 10000 ('make chaos'): each operation 500 times,
# on 4 nodes, and how long it takes until all others know it is printed.

needs("proc")

many <- as.integer(Sys.getenv("CLUTCH_EVENTS", "150")) >= 10000L
seed <- as.integer(Sys.getenv("CLUTCH_SEED", as.character(sample.int(1e6, 1L))))
kills <- if (many) 500L else 2L
nodes <- if (many) 4L else 3L

x <- runif(20000) # 160 kB, by segments
operations <- list(
  barrier = function() node_barrier(),
  broadcast = function() node_broadcast(x, from = 2),
  scatter = function() node_scatter(as.list(seq_len(node_count())), from = 1),
  gather = function() node_gather(x, to = 1),
  allgather = function() node_allgather(x),
  reduce = function() node_reduce(x, to = 2),
  allreduce = function() node_allreduce(x),
  "own function" = function() node_allreduce(x, function(a, b) pmax(a, b)),
  all_to_all = function() node_all_to_all(lapply(seq_len(node_count()), function(i) x[1:100])),
  messages = function() {
    node_send(node_rank() %% node_count() + 1, x)
    node_receive()
  }
)

# A part of a run. When it has ended with an error, and how, is in a file.
part <- function(rank, operation, folder) {
  file.create(file.path(folder, paste0("begun-", rank))) # else it would be begun by its successor
  tryCatch(repeat operation(), error = function(e) {
    cat(format(as.numeric(Sys.time()), digits = 17), class(e)[[1L]], e$rank, "\n",
        file = file.path(folder, rank))
    stop(e)
  })
}

# Seconds from the kill until the last of the others knows of it.
kill_one <- function(cl, operation, folder, label) {
  unlink(file.path(folder, "*"))
  rank <- sample.int(nodes, 1L)
  later(0, paste("cd %s; for k in $(seq 3000); do [ $(ls | grep -c begun) = %d ] && break;",
                 "sleep 0.01; done; sleep %.3f; kill -9 %d; date +%%s.%%N > killed"),
        folder, nodes, runif(1, 0, 0.03), pids(cl)[[rank]])
  e <- tryCatch(cluster_run(cl, part, operation, folder), error = identity)
  expect_s3_class(e, "clutch_node_died")
  expect_identical(e$rank, rank, label = label)
  told <- lapply(setdiff(seq_len(nodes), rank), function(k) {
    strsplit(readLines(file.path(folder, k)), " ")[[1L]]
  })
  for (of in told) {
    expect_identical(of[-1L], c("clutch_node_died", as.character(rank)), label = label)
  }
  knew <- max(as.numeric(vapply(told, `[[`, "", 1L)))
  expect_true(eventually(length(readLines(file.path(folder, "killed"))) == 1L))
  knew - as.numeric(readLines(file.path(folder, "killed")))
}

test_that("each operation", {
  outside_checks_only()
  set.seed(seed)
  on.exit(if (!all_right) cat("CLUTCH_SEED=", seed, "\n", sep = ""))
  all_right <- FALSE
  folder <- tempfile("kills-")
  dir.create(folder)
  cl <- make_cluster(nodes)
  on.exit(stop_cluster(cl), add = TRUE)
  kill_one(cl, operations$allgather, folder, "first") # what the session needs is there now
  for (name in names(operations)) {
    label <- paste0(name, ", CLUTCH_SEED=", seed)
    cluster_walk(cl, seq_len(nodes), identity) # all are there
    before <- open_fds()
    seconds <- vapply(seq_len(kills), function(k) {
      s <- kill_one(cl, operations[[name]], folder, label)
      cluster_walk(cl, seq_len(nodes), identity)
      s
    }, 1)
    expect_lte(open_fds(), before, label = paste("descriptors,", label))
    expect_true(all(cluster_run(cl, function(rank) node_allreduce(rank)) == sum(seq_len(nodes))))
    if (many) {
      at <- stats::quantile(1000 * seconds, c(0.5, 0.95, 1), na.rm = TRUE)
      cat(sprintf("\n%s: %d kills, ms until all others know: median %.1f, 95 %% %.1f, most %.1f",
                  name, kills, at[[1L]], at[[2L]], at[[3L]]))
    }
  }
  all_right <- TRUE
})
