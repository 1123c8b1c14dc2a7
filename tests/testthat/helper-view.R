# What shows clusters, and what is shown.

# A folder of its own: other sessions of this user are not seen.
own_view_folder <- function(env = parent.frame()) {
  old <- Sys.getenv("CLUTCH_VIEW_FOLDER", NA)
  folder <- tempfile("view-")
  dir.create(folder, mode = "0700")
  Sys.setenv(CLUTCH_VIEW_FOLDER = folder)
  do.call(on.exit, list(bquote({
    Sys.unsetenv("CLUTCH_VIEW_FOLDER")
    if (!is.na(.(old))) Sys.setenv(CLUTCH_VIEW_FOLDER = .(old))
    unlink(.(folder), recursive = TRUE)
  }), add = TRUE), envir = env)
}

# A cluster that is not there, for what shows clusters: the value of a "snapshot", made of numbers.

# At `t` seconds after its start; of tasks and events those that came after `since`. Nodes 1 to
# `nodes` in two clusters and on `hosts` hosts: some are dead, starting or cut off. Values depend on
# `t` alone.
example_snapshot <- function(t = 30, nodes = 12L, hosts = 2L, start = 1790000000,
                             label = "cluster_map(simulate)", since = NULL) {
  nodes <- as.integer(nodes)
  i <- seq_len(nodes)
  cluster <- ifelse(i <= ceiling(nodes * 0.75), 1L, 2L)
  node <- ifelse(cluster == 1L, i, i - sum(cluster == 1L))
  length_of_task <- 0.4 + (i * 7L) %% 13L / 10
  host <- paste0("host", (i - 1L) %% hosts + 1L)
  state <- rep("busy", nodes)
  state[i %% 5L == 0L] <- "idle"
  state[i %% 11L == 10L] <- "dead"
  state[i %% 17L == 16L] <- "starting"
  state[i %% 13L == 12L & hosts > 1L] <- "cut"
  ended <- floor(t / length_of_task) # tasks that each node has done
  busy <- state == "busy"
  tasks <- example_tasks(t, i, cluster, node, length_of_task, ended, start, nodes)
  events <- example_events(t, start, state, cluster, node)
  count <- function(table) as.numeric(tabulate(table$cluster, 2L))
  list(
    time = start + t,
    session = list(pid = 4242, host = "host1", user = "ada", since = start - 600, r = "4.2.2",
                   state = "sleeping"),
    clusters = data.frame(
      cluster = 1:2, name = c("main", "second"), since = start,
      nodes = c(sum(cluster == 1L), sum(cluster == 2L)), strategy = "fork_server", stopped = FALSE,
      ended = count(tasks), told = count(events)
    )[unique(cluster), ],
    nodes = data.frame(
      cluster = cluster, node = node, host = host, pid = 5000L + i, state = state,
      job = ifelse(busy, cluster, NA), element = ifelse(busy, as.integer(ended) * nodes + i, NA),
      since = ifelse(state == "dead", start + 10, start + ended * length_of_task),
      call = ifelse(busy, "rnorm(1e+06)", ""), given = "",
      done = ended, failed = (i * 3L) %% 7L %/% 6L,
      cpu = ifelse(busy, 0.5 + (i %% 5L) / 10, ifelse(state == "dead", NA, 0)),
      memory = ifelse(state == "dead", NA, (20 + (i * 13L) %% 80 + t / 10) * 2^20),
      limit = ifelse(i %% 3L == 0L, 128 * 2^20, NA), deaths = as.numeric(state == "dead"),
      sent = ended * 3e4 + 1e5, received = ended * 5e4
    ),
    jobs = example_jobs(t, nodes, ended, cluster, busy, start, label),
    tasks = utils::tail(example_news(tasks, since, since$ended), 2000L),
    events = example_news(events, since, since$told),
    hosts = data.frame(
      host = paste0("host", seq_len(hosts)), state = ifelse(seq_len(hosts) == 3L, "cut", "up"),
      nodes = as.integer(table(factor(host, paste0("host", seq_len(hosts))))),
      load = seq_len(hosts) + 0.5, memory = 8 * 2^30, memory_free = 3 * 2^30, sent = 5e8,
      received = 2e7, round_trip = c(NA, rep(0.012, hosts - 1L))
    ),
    actors = example_actors(t)
  )
}

example_actors <- function(t) {
  data.frame(
    cluster = 1L, label = c("counter", "cache", "old"), pid = c(6001L, 6002L, NA),
    state = c("up", "up", "ended"), queue = c(2, 0, 0), method = c("add", "read", ""),
    done = c(1000 + 10 * t, 12, 3), busy = c(t / 2, t, 0.5), restarts = c(0, 2, 0),
    waits_for = c("cache", "", "")
  )
}

example_jobs <- function(t, nodes, ended, cluster, busy, start, label) {
  one <- sum(ended[cluster == 1L])
  total <- max(200, 2 * one)
  data.frame(
    cluster = c(1L, 1L, 2L), job = c(1L, 3L, 2L),
    label = c(label, "cluster_submit(report)", "foreach(k)"),
    total = c(total, 1, 4 * nodes), done = c(one - 3, 1, nodes), failed = c(3, 0, 0),
    running = c(sum(busy & cluster == 1L), 0, sum(busy & cluster == 2L)),
    queued = c(total - one - sum(busy & cluster == 1L), 0, 3 * nodes - sum(busy & cluster == 2L)),
    retries = c(2, 0, 0), since = start + c(0, 1, 0.5), ended = c(NA, start + 3, NA)
  )
}

# Each node does one task after the other, each of the same length.
example_tasks <- function(t, i, cluster, node, length_of_task, ended, start, nodes) {
  number <- unlist(lapply(ended, seq_len))
  of <- rep(i, ended)
  began <- start + (number - 1) * length_of_task[of]
  tasks <- data.frame(
    cluster = cluster[of], job = cluster[of], element = as.integer(number - 1L) * nodes + of,
    node = node[of], began = began, ended = began + length_of_task[of] * 0.97,
    ok = (of * 31L + number * 17L) %% 41L != 0L
  )
  tasks[order(number * length_of_task[of]), ] # as they are told
}

# Of each cluster the rows after so many.
example_news <- function(table, since, seen) {
  if (is.null(since)) return(table)
  number <- stats::ave(table$cluster, table$cluster, FUN = seq_along)
  table[number > seen[match(table$cluster, since$cluster)], ]
}

example_events <- function(t, start, state, cluster, node) {
  dead <- utils::head(which(state == "dead"), 40L)
  events <- data.frame(
    time = start, cluster = c(1L, 2L), node = NA_integer_, kind = "start",
    text = c("started in 48 ms by strategy fork_server", "started in 31 ms by strategy fork_server")
  )
  rbind(
    events,
    data.frame(time = rep(start + 10, length(dead)), cluster = cluster[dead], node = node[dead],
               kind = rep("death", length(dead)),
               text = rep("killed by signal 9 (the kernel was out of memory)", length(dead))),
    data.frame(time = start + 10.2, cluster = 1L, node = 1L, kind = "retry",
               text = "element 17 is tried again, 1 of 3 times")
  )
}

# The program; `lib`: a library that has to have package chromote.
chromium_or_skip <- function(lib) {
  testthat::skip_if_not(nzchar(lib) && dir.exists(file.path(lib, "chromote")), "needs chromote")
  found <- Sys.which(c("chromium", "chromium-browser", "google-chrome", "chrome"))
  found <- found[nzchar(found)]
  testthat::skip_if_not(length(found) > 0L, "needs Chromium")
  found[[1L]]
}
