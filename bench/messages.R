# What nodes that talk to each other take: messages, collective operations, three programs in rounds, state that is shared,
# and how soon a death is known. Beside Rmpi on Open MPI, Erlang's processes, base R's rounds through the session, and rush.
#
#   Rscript bench/messages.R [--reps=3] [--parts=pingpong,together,many,all,programs,state,actors,deaths]
#
# bench/messages-rmpi.R, bench/messages.erl and bench/messages-dask.py are the programs of others.
source("bench/_common.R")
use_deps_libraries()
suppressPackageStartupMessages({
  library(parallel)
  library(clutch)
})
machine()
reps <- repetitions()
every <- c("pingpong", "together", "many", "all", "programs", "state", "actors", "deaths")
asked <- strsplit(option("parts", paste(every, collapse = ",")), ",")[[1L]]
raw <- list()
note <- function(what, who, value) {
  raw[[length(raw) + 1L]] <<- data.frame(what = what, who = who, value = value)
}
with_nodes <- function(n, f) {
  cl <- make_cluster(n)
  on.exit(stop_cluster(cl))
  f(cl)
}

# ---- programs of others ----

# mpirun looks for libmpi.so, which Debian has in a package of headers only.
mpi_libraries <- function() {
  folder <- tempfile("mpi-")
  dir.create(folder)
  real <- Sys.glob("/usr/lib/*/libmpi.so.*")
  if (length(real)) file.symlink(real[[1L]], file.path(folder, "libmpi.so"))
  folder
}
has_rmpi <- nzchar(Sys.which("mpirun")) && length(find.package("Rmpi", quiet = TRUE)) > 0L
if (!has_rmpi) cat("without Rmpi (it, or mpirun, is not installed)\n")
rmpi <- function(ranks, part) {
  if (!has_rmpi) return()
  out <- suppressWarnings(system2("mpirun", c(
    "--allow-run-as-root", if (ranks > available_cores()) "--oversubscribe", "-n", ranks, "Rscript", "bench/messages-rmpi.R", part, reps
  ), stdout = TRUE, stderr = FALSE, timeout = 300, env = paste0("LD_LIBRARY_PATH=", mpi_libraries())))
  for (line in strsplit(grep("^[a-z]+-[0-9e+]+ ", out, value = TRUE), " ")) {
    who <- if (startsWith(line[[1L]], "typed")) "Rmpi, numbers of a known length" else "Rmpi"
    note(sub("typed", "pingpong", line[[1L]]), who, as.numeric(line[[2L]]))
  }
}

# ---- messages of two ----

pingpong <- function() {
  for (bytes in c(8, 1e3, 1e6, 1e8)) {
    n <- c(3000L, 3000L, 200L, 3L)[[match(bytes, c(8, 1e3, 1e6, 1e8))]]
    trips <- function(rank, bytes, n, reps) {
      x <- as.numeric(seq_len(bytes / 8)) + 0
      once <- function() {
        if (rank == 1) {
          node_send(2, x)
          node_receive(2)
        } else {
          node_send(1, node_receive(1)$value)
        }
      }
      vapply(seq_len(reps), function(r) {
        once()
        node_barrier()
        began <- as.numeric(Sys.time())
        for (i in seq_len(n)) once()
        (as.numeric(Sys.time()) - began) / n
      }, 0)
    }
    for (s in with_nodes(2, function(cl) cluster_run(cl, trips, bytes, n, reps))[[1L]]) {
      note(sprintf("pingpong-%g", bytes), "clutch", s)
    }
    x <- as.numeric(seq_len(bytes / 8)) + 0
    base <- makePSOCKcluster(1)
    for (r in seq_len(reps)) {
      k <- if (bytes < 1e6) 300L else if (bytes < 1e8) 20L else 1L
      s <- seconds(for (i in seq_len(k)) clusterCall(base, function(x) x, x)) / k
      note(sprintf("pingpong-%g", bytes), "clusterCall of base", s)
    }
    stopCluster(base)
  }
  rmpi(2, "pingpong")
}

# ---- sums of all, and meetings ----

together <- function() {
  parts <- function(rank, reps) {
    x <- as.numeric(seq_len(1e6)) + rank
    timed <- function(n, f) {
      f()
      node_barrier()
      began <- as.numeric(Sys.time())
      for (i in seq_len(n)) f()
      (as.numeric(Sys.time()) - began) / n
    }
    lapply(seq_len(reps), function(r) {
      c(allreduce = timed(10L, function() node_allreduce(x)), barrier = timed(500L, node_barrier))
    })
  }
  for (n in c(2, 4, 8)) {
    for (s in with_nodes(n, function(cl) cluster_run(cl, parts, reps))[[1L]]) {
      for (what in names(s)) note(sprintf("%s-%d", what, n), "clutch", s[[what]])
    }
    rmpi(n, "together")
  }
}

many <- function() {
  parts <- function(rank, reps) {
    x <- as.numeric(seq_len(1000))
    timed <- function(f) {
      f()
      node_barrier()
      began <- as.numeric(Sys.time())
      for (i in 1:5) f()
      (as.numeric(Sys.time()) - began) / 5
    }
    lapply(seq_len(reps), function(r) {
      c(barrier = timed(node_barrier), small = timed(function() node_allreduce(x)))
    })
  }
  n <- if (quick) 100L else 1000L
  for (s in with_nodes(n, function(cl) cluster_run(cl, parts, reps))[[1L]]) {
    note(sprintf("barrier-%d", n), "clutch", s[["barrier"]])
    note(sprintf("allreduce-of-1000-%d", n), "clutch", s[["small"]])
  }
}

# ---- all to all, small ----

all_to_all <- function() {
  parts <- function(rank, messages, reps) {
    others <- setdiff(seq_len(node_count()), rank)
    vapply(seq_len(reps), function(r) {
      node_barrier()
      began <- as.numeric(Sys.time())
      for (i in seq_len(messages)) node_send(others, i)
      for (i in seq_len(messages * length(others))) node_receive()
      node_barrier()
      as.numeric(Sys.time()) - began
    }, 0)
  }
  folder <- tempfile("erlang-")
  dir.create(folder)
  erlang <- nzchar(Sys.which("erlc")) && system2("erlc", c("-o", folder, "bench/messages.erl")) == 0L
  if (!erlang) cat("without Erlang (not installed)\n")
  for (n in c(2, 4, 8, 16, 32)) {
    m <- ceiling(20000 / n / (n - 1))
    of_one <- n * (n - 1) * m
    for (s in with_nodes(n, function(cl) cluster_run(cl, parts, m, reps))[[1L]]) {
      note(sprintf("all-to-all-%d", n), "clutch", s / of_one)
    }
    if (!erlang) next
    us <- system2("erl", c("-noshell", "-pa", folder, "-s", "messages", "main", n, m, reps), stdout = TRUE)
    for (s in as.numeric(us) / 1e6) note(sprintf("all-to-all-%d", n), "Erlang's processes", s / of_one)
  }
}

# ---- programs in rounds ----

# k-means: sums of all points of each center
nearest_sums <- function(points, centers) {
  k <- nrow(centers)
  distance <- vapply(seq_len(k), function(j) {
    d <- 0
    for (i in seq_len(ncol(points))) d <- d + (points[, i] - centers[j, i])^2
    d
  }, numeric(nrow(points)))
  nearest <- max.col(-distance, ties.method = "first")
  sums <- rowsum(cbind(points, 1), factor(nearest, levels = seq_len(k)))
  out <- matrix(0, k, ncol(points) + 1)
  out[as.integer(rownames(sums)), ] <- sums
  out
}
moved <- function(sums) sums[, -ncol(sums)] / sums[, ncol(sums)]

kmeans_program <- function(n, rows, rounds, who) {
  make <- function(rank, n, rows) {
    set.seed(rank)
    matrix(rnorm(rows / n * 10), ncol = 10) + rank %% 3
  }
  centers <- matrix(seq_len(50) / 10, 5)
  cl <- if (who == "clutch") make_cluster(n) else makePSOCKcluster(n)
  on.exit(stopCluster(cl))
  if (who == "clutch") {
    points <- NULL
    invisible(clusterApply(cl, seq_len(n), function(rank, f, n, rows) {
      assign("points", f(rank, n, rows), globalenv())
      NULL
    }, make, n, rows))
    s <- seconds(out <- cluster_run(cl, function(rank, centers, rounds, nearest_sums, moved) {
      mine <- get("points", globalenv())
      for (i in seq_len(rounds)) centers <- moved(node_allreduce(nearest_sums(mine, centers)))
      if (rank == 1) centers
    }, centers, rounds, nearest_sums, moved))
    return(list(s, out[[1L]]))
  }
  invisible(clusterApply(cl, seq_len(n), function(rank, f, n, rows) {
    assign("points", f(rank, n, rows), globalenv())
    NULL
  }, make, n, rows))
  f <- nearest_sums
  environment(f) <- globalenv()
  s <- seconds(for (i in seq_len(rounds)) {
    parts <- clusterCall(cl, function(f, centers) f(get("points", globalenv()), centers), f, centers)
    centers <- moved(Reduce(`+`, parts))
  })
  list(s, centers)
}

# Heat on a grid: each node has rows, and needs one row of each neighbour in each round.
heat_step <- function(u) {
  k <- nrow(u)
  m <- ncol(u)
  u[2:(k - 1), 2:(m - 1)] <- u[2:(k - 1), 2:(m - 1)] + 0.2 * (
    u[1:(k - 2), 2:(m - 1)] + u[3:k, 2:(m - 1)] + u[2:(k - 1), 1:(m - 2)] + u[2:(k - 1), 3:m] -
      4 * u[2:(k - 1), 2:(m - 1)]
  )
  u
}
heat_program <- function(n, side, rounds, who) {
  blocks <- splitIndices(side, n)
  full <- matrix(0, side + 2, side)
  full[, 1] <- 1
  start <- lapply(blocks, function(b) full[c(b[[1L]], b + 1, b[[length(b)]] + 2), ])
  cl <- if (who == "clutch") make_cluster(n) else makePSOCKcluster(n)
  on.exit(stopCluster(cl))
  if (who == "clutch") {
    s <- seconds(out <- cluster_run(cl, function(rank, start, rounds, step) {
      u <- start[[rank]]
      n <- node_count()
      k <- nrow(u)
      for (i in seq_len(rounds)) {
        if (rank > 1) node_send(rank - 1, u[2, ])
        if (rank < n) node_send(rank + 1, u[k - 1, ])
        if (rank > 1) u[1, ] <- node_receive(rank - 1)$value
        if (rank < n) u[k, ] <- node_receive(rank + 1)$value
        u <- step(u)
      }
      u[2:(k - 1), ]
    }, start, rounds, heat_step))
    return(list(s, do.call(rbind, out)))
  }
  f <- heat_step
  environment(f) <- globalenv()
  set <- function(u, f) {
    assign("u", u, globalenv())
    assign("f", f, globalenv())
    NULL
  }
  environment(set) <- globalenv()
  s <- seconds({
    invisible(clusterApply(cl, start, set, f))
    round <- function(edges) {
      u <- get("u", globalenv())
      k <- nrow(u)
      if (!is.null(edges[[1L]])) u[1, ] <- edges[[1L]]
      if (!is.null(edges[[2L]])) u[k, ] <- edges[[2L]]
      u <- get("f", globalenv())(u)
      assign("u", u, globalenv())
      list(u[2, ], u[k - 1, ])
    }
    environment(round) <- globalenv()
    edges <- lapply(start, function(u) list(u[2, ], u[nrow(u) - 1, ]))
    for (i in seq_len(rounds)) {
      give <- lapply(seq_len(n), function(r) {
        list(if (r > 1) edges[[r - 1L]][[2L]], if (r < n) edges[[r + 1L]][[1L]])
      })
      edges <- clusterApply(cl, give, round)
    }
    out <- clusterCall(cl, function() {
      u <- get("u", globalenv())
      u[2:(nrow(u) - 1), ]
    })
  })
  list(s, do.call(rbind, out))
}

# Parallel tempering: chains at several temperatures, neighbours exchange after each round of steps.
chain_steps <- function(x, beta, steps) {
  energy <- function(x) (x^2 - 4)^2
  for (i in seq_len(steps)) {
    to <- x + rnorm(1)
    if (log(runif(1)) < beta * (energy(x) - energy(to))) x <- to
  }
  x
}
tempering_program <- function(n, chains, rounds, who) {
  betas <- seq(1, 0.05, length.out = chains)
  mine <- splitIndices(chains, n)
  exchange <- function(x, y, bx, by, u) log(u) < (bx - by) * ((x^2 - 4)^2 - (y^2 - 4)^2)
  cl <- if (who == "clutch") make_cluster(n) else makePSOCKcluster(n)
  on.exit(stopCluster(cl))
  clusterSetRNGStream(cl, 1)
  if (who == "clutch") {
    return(list(seconds(cluster_run(cl, function(rank, betas, mine, rounds, steps, exchange) {
      x <- rep(0, length(mine[[rank]]))
      for (i in seq_len(rounds)) {
        for (j in seq_along(x)) x[[j]] <- steps(x[[j]], betas[[mine[[rank]][[j]]]], 20)
        all <- unlist(node_allgather(list(x)))
        u <- node_broadcast(if (rank == 1) runif(length(all)), 1)
        for (k in seq(1 + i %% 2, length(all) - 1, 2)) {
          if (exchange(all[[k]], all[[k + 1]], betas[[k]], betas[[k + 1]], u[[k]])) all[c(k, k + 1)] <- all[c(k + 1, k)]
        }
        x <- all[mine[[rank]]]
      }
      x
    }, betas, mine, rounds, chain_steps, exchange)), NULL))
  }
  work <- function(x, betas, steps) vapply(seq_along(x), function(j) steps(x[[j]], betas[[j]], 20), 0)
  environment(work) <- environment(chain_steps) <- globalenv()
  all <- rep(0, chains)
  s <- seconds(for (i in seq_len(rounds)) {
    all <- unlist(clusterMap(cl, work, lapply(mine, function(m) all[m]), lapply(mine, function(m) betas[m]),
                             MoreArgs = list(steps = chain_steps)))
    u <- runif(chains)
    for (k in seq(1 + i %% 2, chains - 1, 2)) {
      if (exchange(all[[k]], all[[k + 1]], betas[[k]], betas[[k + 1]], u[[k]])) all[c(k, k + 1)] <- all[c(k + 1, k)]
    }
  })
  list(s, NULL)
}

programs <- function() {
  rows <- if (quick) 1e5 else 1e6
  cases <- list(
    "k-means" = function(n, who) kmeans_program(n, rows, 20, who),
    "heat" = function(n, who) heat_program(n, 400, 100, who),
    "tempering" = function(n, who) tempering_program(n, 16, 1000, who)
  )
  for (what in names(cases)) for (n in c(2, 4)) for (r in seq_len(if (what == "k-means") 1L else reps)) {
    results <- list()
    for (who in rotated(c("clutch", "clusterCall rounds of base"), r)) {
      x <- cases[[what]](n, who)
      note(sprintf("%s-%d", what, n), who, x[[1L]])
      results[[who]] <- x[[2L]]
    }
    if (length(results)) stopifnot(isTRUE(all.equal(results[[1L]], results[[2L]], tolerance = 1e-12)))
  }
}

# ---- shared state ----

state <- function() {
  lock <- cluster_lock()
  ids <- cluster_counter()
  bare <- function(lock, expr) {
    before <- NULL
    on.exit(if (!is.null(before)) NULL)
    before <- 0L
    if (before != 0L) stop()
    expr
  }
  loop <- function(f, n) {
    force(f)
    seconds(for (i in seq_len(n)) f()) / n
  }
  for (r in seq_len(reps)) {
    note("lock taken and given", "clutch", loop(function() with_lock(lock, NULL), 1e5))
    note("lock taken and given", "the same function without a lock", loop(function() bare(lock, NULL), 1e5))
    note("counter_add()", "clutch", loop(function() counter_add(ids), 1e5))
    queue <- cluster_table()
    note("a task of a table", "clutch", loop(function() {
      table_append(queue, list(x = 1))
      task <- table_pop(queue)
      table_set(queue, task$id, list(y = 2))
    }, 5000))
  }
  rush_rows()
}

# A task of rush: pushed, taken by a worker, its result told. Needs a server of Redis of its own.
rush_rows <- function() {
  if (!has("rush") || !nzchar(Sys.which("redis-server"))) return()
  folder <- tempfile("redis-")
  dir.create(folder)
  at <- file.path(folder, "socket")
  server <- c("--port", "0", "--unixsocket", at, "--save", "''", "--daemonize", "yes", "--dir", folder,
              "--pidfile", file.path(folder, "pid"))
  system2("redis-server", server, stdout = FALSE)
  on.exit(tools::pskill(as.integer(readLines(file.path(folder, "pid")))))
  while (!file.exists(at)) Sys.sleep(0.05)
  config <- redux::redis_config(path = at)
  worker <- rush::RushWorker$new(network_id = "bench", config = config)
  for (r in seq_len(reps)) {
    s <- seconds(for (i in 1:1000) {
      worker$push_tasks(list(list(x = 1)))
      task <- worker$pop_task()
      worker$finish_tasks(task$key, list(list(y = 2)))
    })
    note("a task of a table", "rush, with Redis here", s / 1000)
  }
}

# ---- actors ----

# A call and its value, one after the other: from the session, and from a task
actors <- function() {
  n <- if (quick) 500L else 5000L
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  base <- makePSOCKcluster(1)
  on.exit(stopCluster(base), add = TRUE)
  counter <- cluster_actor(cl, function() {
    n <- 0
    list(add = function(k) n <<- n + k)
  })
  total <- 0
  add <- function(k) total <<- total + k
  environment(add) <- globalenv()
  for (x in list(cl, base)) clusterCall(x, function() assign("total", 0, globalenv()))
  loop <- function(f, n) {
    force(f)
    for (i in seq_len(n %/% 10L)) f()
    seconds(for (i in seq_len(n)) f()) / n
  }
  for (r in seq_len(reps)) {
    note("call of an actor", "clutch", loop(function() actor_call(counter, "add", 1), n))
    note("call of an actor", "clutch, from a task", collect(cluster_submit(cl, loop(function() {
      actor_call(counter, "add", 1)
    }, n))))
    note("call of an actor", "clusterCall of clutch, one node", loop(function() clusterCall(cl, add, 1), n))
    note("call of an actor", "clusterCall of base, one node", loop(function() clusterCall(base, add, 1), n %/% 10L))
    note("cast to an actor", "clutch", {
      s <- seconds({
        for (i in seq_len(n)) actor_cast(counter, "add", 1)
        actor_call(counter, "add", 1)
      })
      s / n
    })
  }
  dask <- first_python(c("-c", shQuote("import distributed; print(distributed.__version__)")))
  if (is.null(dask)) return(cat("without Dask (not installed)\n"))
  for (s in as.numeric(system2(dask$python, c("bench/messages-dask.py", n %/% 5L, reps), stdout = TRUE, stderr = FALSE))) {
    note("call of an actor", "Dask's actor, from Python", s)
  }
}

# ---- deaths ----

# From when a rank kills itself to the error of each other one, in each collective operation
deaths <- function() {
  calls <- list(
    barrier = function() node_barrier(), broadcast = function() node_broadcast(1, 1),
    scatter = function() node_scatter(as.list(1:3), 1), gather = function() node_gather(1, 1),
    allgather = function() node_allgather(1), reduce = function() node_reduce(1:1000 + 0),
    allreduce = function() node_allreduce(1:1000 + 0), all_to_all = function() node_all_to_all(as.list(1:3)),
    ring = function() {
      node_send(node_rank() %% 3 + 1, 1)
      node_receive()
    }
  )
  n <- if (quick) 5L else 20L
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  for (what in names(calls)) for (i in seq_len(n)) {
    at <- cluster_table(cl)
    run <- function(rank, f, victim, at) {
      kill <- tools::pskill # its package takes 50 ms to load
      e <- tryCatch({
        repeat {
          if (rank == victim && stats::runif(1) < 0.05) {
            table_append(at, list(rank = rank, time = as.numeric(Sys.time())))
            kill(Sys.getpid(), 9)
          }
          f()
        }
      }, error = identity)
      table_append(at, list(rank = rank, time = as.numeric(Sys.time())))
      stop(e)
    }
    victim <- sample(3L, 1L)
    e <- tryCatch(cluster_run(cl, run, calls[[what]], victim, at), error = identity)
    if (!inherits(e, "clutch_node_died")) stop(e)
    stopifnot(e$rank == victim)
    d <- table_read(at)
    stopifnot(nrow(d) == 3L)
    for (s in d$time[d$rank != victim] - d$time[d$rank == victim]) note(paste("death in", what), "clutch", s)
  }
}

run_parts <- list(pingpong = pingpong, together = together, many = many, all = all_to_all, programs = programs,
                  state = state, actors = actors, deaths = deaths)
for (part in asked) {
  cat(part, "\n")
  run_parts[[part]]()
}
raw <- do.call(rbind, raw)
raw$rep <- (stats::ave(raw$value, raw$what, raw$who, FUN = seq_along) - 1) %% reps + 1 # deaths have more
keep(raw, "messages")
show(spread(raw, c("what", "who"), "value"), "messages")
method("messages",
  what = "seconds of one operation, in loops of 2 to 100,000; of whole programs; from a death to each error",
  order = "one after the other; programs in turn, another one first each time", warm = "one operation; programs none")
