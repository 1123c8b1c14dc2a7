# This file runs in an observer: a child of a fork server, which answers who has connected to that
# (see view-observers.R). It reads what nodes and sessions write into shared memory. So it answers
# whatever the session does, and nobody waits for it.

# The request is list(command, arguments), the answer a value, or an error.
observer_main <- function() {
  socket <- .Call(ffi_socket_adopt, .Call(ffi_observer_caller), 1e6)
  the_observer$views <- .Call(ffi_observer_views)
  repeat {
    request <- tryCatch(next_request(socket), error = function(e) NULL)
    if (is.null(request)) break
    answer <- tryCatch(observer_command(request$command, request$arguments), error = identity)
    sent <- tryCatch({
      socket_send(socket, answer)
      TRUE
    }, error = function(e) FALSE)
    if (!sent) break
  }
  .Call(ffi_observer_end)
}

observer_command <- function(command, arguments) {
  switch(command,
    snapshot = {
      await_far_use(arguments$cluster)
      view_snapshot(arguments$cluster, arguments$tasks, arguments$since)
    },
    stacks = observer_stacks(arguments$cluster, arguments$wait, arguments$nodes),
    dashboard = observer_dashboard(arguments),
    throw("protocol", sprintf("an observer does not know '%s'", command))
  )
}

# Other hosts are asked what their nodes use from the first snapshot on: their answers are waited
# for, once.
await_far_use <- function(cluster) {
  if (isTRUE(the_observer$has_waited)) return(invisible())
  the_observer$has_waited <- TRUE
  end <- clock() + 2
  repeat {
    s <- view_snapshot(cluster, 0)
    known <- s$hosts$host[!is.na(s$hosts$memory)]
    is_there <- s$nodes$state %in% c("idle", "busy") & s$nodes$host != "localhost"
    are_told <- s$clusters$cluster[s$clusters$strategy %in% c("fork_server", "spawn")]
    missing <- is_there & s$nodes$cluster %in% are_told & !s$nodes$host %in% known
    if (!any(missing) || clock() >= end) return(invisible())
    Sys.sleep(0.05)
  }
}

# Meanwhile pages are served that ask for the dashboard.
next_request <- function(socket) {
  d <- the_observer$dashboard
  while (!is.null(d) && !any(socket_select(list(socket), timeout = 0))) dashboard_step(d, 0.25)
  socket_receive(socket)
}

# The address of the dashboard, which is served from the first such request on: see
# view-dashboard.R.
observer_dashboard <- function(arguments) {
  d <- the_observer$dashboard
  if (is.null(d)) {
    take <- function(since) view_snapshot(arguments$cluster, since = since)
    d <- open_dashboard(take, arguments$port, arguments$token, arguments$title)
    the_observer$dashboard <- d
  }
  list(url = d$url, port = d$port, ticket = new_ticket(d))
}

# The link process sees questions at once for so many seconds after a snapshot, and until it does
# else: see core/link/views.c.
WATCHED_FOR <- 4
FAR_WAIT <- 0.6

# The value says in which calls nodes of a cluster are, by their numbers or, with NULL, all:
# list(nodes, stacks, questions), of a snapshot, as ffi_observer_stacks() has it, and how often each
# has been asked until now (0: it was not asked).
observer_stacks <- function(cluster, wait, nodes = NULL) {
  view <- Find(function(v) is_of(v, cluster), the_observer$views)
  if (is.null(view)) throw("protocol", "there is no such cluster")
  if (clock() > c(the_observer$asked_at, -Inf)[[1L]] + WATCHED_FOR) {
    await_far_use(cluster)
    is_far <- view_snapshot(cluster, 0)$nodes$host != "localhost"
    if (any(is_far)) wait <- wait + FAR_WAIT
  }
  questions <- .Call(ffi_observer_ask, view, nodes)
  end <- clock() + wait
  repeat {
    stacks <- .Call(ffi_observer_stacks, view, questions)
    if (!any(stacks$open) || clock() >= end) break
    Sys.sleep(0.002)
  }
  list(nodes = view_snapshot(cluster, 0)$nodes, stacks = stacks, questions = questions)
}

# ---- a snapshot ----

# The value is what can be seen now, of one cluster (its number in the session) or, with NULL, of
# all that the fork server knows. Times are in seconds since the epoch, NA where not known; all of
# it is:
#   time
#   session   list(pid, host, user, since, r, state), state as process_state() has it; NULL: there
#             is no cluster
# and data frames, in which `cluster` is its number in the session:
#   clusters  cluster, name, since, nodes (how many), strategy, stopped; given, done, failed
#             (tasks); ended, told: how many tasks and events there have been until now
#   nodes     cluster, node, host, pid, state ("starting", "idle", "busy", "held", "dead",
#             "stopped"), job and element at hand, since, call (the last that is known, "" where
#             none is), done, failed (tasks), cpu (share of a core), memory
#             and limit (bytes), deaths, sent, received (bytes)
#   jobs      cluster, job, label, total, done, failed, running, queued, retries (tasks), since,
#             ended (NA: it goes on)
#   tasks     cluster, job, element, node, began, ended, ok: the last that have ended, as many as
#             `tasks` says; NULL: 2000
#   events    time, cluster, node (NA: none), kind, text: the last
#   hosts     host, state ("up", "waiting", "cut"), nodes, load (processes), memory, memory_free,
#             sent, received (bytes), round_trip (seconds)
#   actors    cluster, label, pid, state, queue, method, done, busy, restarts, waits_for: as
#             cluster_actors() has them, "" for NA
# `since`: `clusters` of an earlier snapshot, or of these cluster, ended and told: then of tasks and
# events only those that came after it.
view_snapshot <- function(cluster = NULL, tasks = NULL, since = NULL) {
  if (is.null(tasks)) tasks <- 2000
  views <- the_observer$views
  the_observer$asked_at <- clock()
  if (!is.null(cluster)) views <- views[vapply(views, is_of, NA, cluster)]
  seen <- lapply(views, function(v) .Call(ffi_observer_read, v, view_wish(v, tasks, since)))
  now <- as.numeric(Sys.time())
  if (length(seen)) set_clock(now - seen[[1L]]$about$now)
  seen <- lapply(seen, with_times)
  whole <- function(part) rows_of(lapply(seen, part))
  nodes <- whole(observed_nodes)
  clear_up(5e4 + 400 * NROW(nodes))
  list(time = now, session = observed_session(seen), clusters = whole(observed_cluster),
       nodes = nodes, jobs = whole(observed_jobs), tasks = whole(observed_tasks),
       events = whole(observed_events),
       hosts = observed_hosts(nodes, whole(function(x) to_rows(x$hosts))),
       actors = whole(observed_actors))
}

# So many bytes, about, are garbage soon. R would let that grow to some 60 MB, and to get memory
# takes longer than to read what is new. A collection of all generations would write to what the
# fork server has left here, and so copy it.
clear_up <- function(bytes) {
  the_observer$garbage <- c(the_observer$garbage, 0)[[1L]] + bytes
  if (the_observer$garbage < 8e6) return(invisible())
  the_observer$garbage <- 0
  gc(full = FALSE)
}

is_of <- function(view, cluster) .Call(ffi_view_numbers, view)[[1L]] == cluster

# c(tasks, ended, told)
view_wish <- function(view, tasks, since) {
  k <- if (length(since$cluster)) match(.Call(ffi_view_numbers, view)[[1L]], since$cluster) else NA
  as.double(c(tasks, if (is.na(k)) c(0, 0) else c(since$ended[[k]], since$told[[k]])))
}

# rbind() and data.frame() take a hundred times as long.
rows_of <- function(parts) {
  if (length(parts) < 2L) return(if (length(parts)) parts[[1L]])
  do.call(rbind, parts)
}

to_rows <- function(columns) {
  structure(columns, class = "data.frame", row.names = .set_row_names(length(columns[[1L]])))
}

# From this machine's clock, which counts from its start, to the time of day. What that is ahead is
# measured anew only where it has changed: so the time of one thing is the same in each snapshot.
set_clock <- function(ahead) {
  if (is.null(the_observer$ahead) || abs(ahead - the_observer$ahead) > 0.01) {
    the_observer$ahead <- round(ahead, 6)
  }
}

with_times <- function(x) {
  shift <- function(part, columns) {
    for (n in columns) part[[n]] <- part[[n]] + the_observer$ahead
    part
  }
  x$about <- shift(x$about, c("created", "stopped"))
  x$nodes <- shift(x$nodes, "since")
  x$jobs <- shift(x$jobs, c("began", "ended"))
  x$tasks <- shift(x$tasks, c("began", "ended"))
  x$events <- shift(x$events, "time")
  x
}

of_cluster <- function(x, n) rep(as.integer(x$about$number), n)

observed_cluster <- function(x) {
  a <- x$about
  to_rows(list(cluster = as.integer(a$number),
               name = sprintf("cluster %d", as.integer(a$number)), since = a$created,
               nodes = as.integer(a$nodes), strategy = a$strategy, stopped = !is.na(a$stopped),
               given = a$given, done = a$done, failed = a$failed, ended = a$ended, told = a$told))
}

observed_nodes <- function(x) {
  k <- x$nodes
  n <- length(k$pid)
  limit <- if (x$about$limit > 0) x$about$limit else NA_real_
  to_rows(list(cluster = of_cluster(x, n), node = seq_len(n), host = k$host, pid = k$pid,
               state = k$state, job = as.integer(k$job), element = k$element, since = k$since,
               call = k$call, given = k$given, done = k$done, failed = k$failed, cpu = k$cpu,
               memory = k$memory, limit = rep(limit, n), deaths = k$deaths, sent = k$sent,
               received = k$received))
}

observed_jobs <- function(x) {
  j <- x$jobs
  n <- length(j$job)
  if (n > 1L) {
    by_number <- order(j$job)
    j <- lapply(j, function(column) column[by_number])
  }
  left <- j$total - j$done - j$failed
  left[!is.na(j$ended)] <- 0
  running <- pmin(tabulate(match(x$nodes$job, j$job), n), left)
  # what was done, and was not read by the session yet, does not wait
  is_at_work <- any(x$nodes$state == "busy")
  queued <- if (is_at_work) pmax(left - running, 0) else pmin(left, j$waiting)
  queued[j$over] <- 0
  to_rows(list(cluster = of_cluster(x, n), job = as.integer(j$job), label = j$label,
               total = j$total, done = j$done, failed = j$failed, running = running,
               queued = queued, retries = j$retries, since = j$began,
               ended = j$ended))
}

observed_tasks <- function(x) {
  t <- x$tasks
  if (anyNA(t$job)) t <- lapply(t, function(column) column[!is.na(t$job)])
  n <- length(t$job)
  to_rows(list(cluster = of_cluster(x, n), job = as.integer(t$job), element = t$element,
               node = as.integer(t$node), began = t$began, ended = t$ended, ok = t$ok))
}

observed_events <- function(x) {
  e <- x$events
  to_rows(list(time = e$time, cluster = of_cluster(x, length(e$time)),
               node = as.integer(ifelse(e$node > 0, e$node, NA)), kind = e$kind, text = e$text))
}

observed_actors <- function(x) {
  a <- x$actors
  by_number <- order(a$number)
  a <- lapply(a, function(column) column[by_number])
  awaited <- a$label[match(a$waits, a$name)]
  awaited[is.na(awaited)] <- ""
  to_rows(list(cluster = of_cluster(x, length(a$name)), label = a$label, pid = a$pid,
               state = a$state, queue = a$queue, method = a$method, done = a$done,
               busy = round(a$busy, 3), restarts = a$restarts, waits_for = awaited))
}

observed_session <- function(seen) {
  if (!length(seen)) return(NULL)
  a <- seen[[1L]]$about
  since <- min(vapply(seen, function(x) x$about$created, 1))
  list(pid = a$pid, host = a$host, user = a$user, since = since, r = a$r,
       state = process_state(a$pid))
}

# One row for each that has nodes. `far`: those that the link process tells of; a host has several
# rows there if it has several fork servers.
observed_hosts <- function(nodes, far) {
  hosts <- unique(nodes$host)
  n <- length(hosts)
  at <- if (n == 1L) rep(1L, nrow(nodes)) else match(nodes$host, hosts)
  total <- function(x) if (n == 1L) sum(x) else vapply(seq_len(n), function(k) sum(x[at == k]), 1)
  out <- list(host = as.character(hosts), state = rep("up", n), nodes = tabulate(at, n),
              load = rep(NA_real_, n), memory = rep(NA_real_, n), memory_free = rep(NA_real_, n),
              sent = total(nodes$sent), received = total(nodes$received),
              round_trip = rep(NA_real_, n))
  here <- which(hosts == "localhost")
  if (length(here)) {
    machine <- .Call(ffi_observer_machine)
    out$load[here] <- machine[[1L]]
    out$memory[here] <- machine[[2L]]
    out$memory_free[here] <- machine[[3L]]
  }
  if (!NROW(far)) return(to_rows(out)) # the rest takes as long as all before
  far <- far[far$state != "ended", , drop = FALSE]
  for (k in which(hosts %in% far$host)) {
    of <- far[far$host == hosts[[k]], , drop = FALSE]
    states <- c("cut", "waiting", "up")
    out$state[[k]] <- states[states %in% of$state][[1L]]
    for (name in c("load", "memory", "memory_free")) out[[name]][[k]] <- max(of[[name]])
    for (name in c("sent", "received")) out[[name]][[k]] <- sum(of[[name]])
    out$round_trip[[k]] <- max(of$trip)
  }
  to_rows(out)
}

# In words; "unknown" where the system does not tell.
process_state <- function(pid) {
  letter <- .Call(ffi_process_letter, as.double(pid))
  if (identical(letter, "?")) letter <- letter_by_ps(pid)
  switch(letter, R = "running", S = , D = , I = , U = , L = , W = "sleeping", T = , t = "stopped",
         "?" = "unknown", "ended")
}

# Asks the program that each Unix has, where there is no /proc. That takes some milliseconds: it is
# asked once a second at the most, however often a snapshot is taken.
letter_by_ps <- function(pid) {
  known <- the_observer$letter
  if (!is.null(known) && known$pid == pid && clock() < known$until) return(known$letter)
  said <- tryCatch(
    suppressWarnings(system2("ps", c("-o", "state=", "-p", sprintf("%.0f", pid)), stdout = TRUE,
                             stderr = FALSE)),
    error = function(e) structure(character(), status = 127L)
  )
  status <- c(attr(said, "status"), 0L)[[1L]]
  letter <- substr(trimws(c(said, "")[[1L]]), 1L, 1L)
  if (!nzchar(letter)) letter <- if (status == 1L) NA_character_ else "?"
  the_observer$letter <- list(pid = pid, letter = letter, until = clock() + 1)
  letter
}
