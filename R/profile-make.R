# One profile over all nodes: R's own sampling is started on each, and what it has found is joined.
#
# The code that runs on the nodes is in profile-node.R, and reaches them by tell_node(): a busy node
# is not waited for, neither at the beginning nor at the end. What replaces a node meanwhile is
# sampled, too, as cluster_setup() prepares it.

#' Profile an expression on all nodes
#'
#' Evaluates an expression in the session, and takes samples of what the nodes and the session
#' compute meanwhile. `print()` shows which functions take the time, `plot()` draws a flame graph.
#'
#' The samples are those of [utils::Rprof()], which is started on all nodes at the beginning and
#' ended afterwards. It takes a sample at each `interval` of *CPU time*. So who waits or sleeps is
#' not sampled, and the shares are those of CPU time. What is computed in child processes of a node
#' is not sampled. With line numbers where functions have them, see `keep.source` in
#' [base::options()].
#'
#' A stack begins with the function of the user: `.f` is that of a map, or the expression of
#' [cluster_submit()]. What the node itself has to do, such as reading a message, is `(clutch)`.
#' `<GC>` is R's collection of garbage, `<compiler>` its compilation of functions that are called
#' again. With [parallel::parLapply()] and others the first function
#' is the one that they send.
#'
#' @param cl Cluster made by [make_cluster()], of nodes of any kind. `NULL`: the session's own, see
#'   [own-cluster], and the nodes of [mclapply()], whose numbers follow.
#' @param expr Expression. It is evaluated where `cluster_profile()` is called.
#' @param interval Number of seconds of CPU time from sample to sample, from 0.001 to 0.99. Systems
#'   take at most one sample in 1 to 10 ms, whatever they are told. That changes no share.
#' @param session Logical: whether the session is sampled, too. It is node 0 then.
#' @param memory Logical: whether to take the size of R's heap with each sample.
#' @param x,object Profile: value of `cluster_profile()`.
#' @param n Integer: how many functions to print.
#' @param by Character: what a row is of: `"function"`, `"line"` (of source files), or `"node"`.
#' @param node Integer vector: only these nodes; 0 is the session. `NULL`: all of them.
#' @param row.names,optional Not used.
#' @param ... Not used; of `plot()`: see [plot.clutch_profile()].
#' @return `cluster_profile()`: an object of class `clutch_profile`, a list with these elements:
#'   * `value`: of `expr`
#'   * `samples`: data frame with a row for each sample, a node's in the order of time: `node` and
#'     `stack` (integer). With `memory` also `memory`, the MB of R's heap, and `grown`, by how much
#'     it has grown since the sample before.
#'   * `stacks`: list of `calls` and `at`, which have an element for each stack: character vectors
#'     of its functions, the outermost first, and of where these are (`"file:line"`, or `""`)
#'   * `nodes`: data frame with a row for each node: `node`, `host`, `pid`, `samples` (number),
#'     `cpu` (seconds of CPU time that it has used), and `note`, which says why there are no
#'     samples, or not all of them, or is `""`
#'   * `interval`, `elapsed`: seconds; `interval` is the one that R has used
#'
#'   `summary()`: a data frame, of class `clutch_profile_summary`, with a row for each function,
#'   line or node, the one with most samples first: `name`, `self` and `total` (number of samples in
#'   which it was the innermost function, and in which it was on the stack), `self_share` and
#'   `total_share` (of all samples), with `memory` also `grown` (MB).
#'
#'   `as.data.frame()`: a row for each node and stack: `node`, `host`, `stack` (character, functions
#'   joined by `;`), `at` (character, where these are), `count` (number of samples), `share`, and
#'   `seconds` of CPU time.
#'
#'   `print()`: its argument, invisibly.
#' @section What is not in it: `print()` says what there is no profile of, and why:
#'   * A node that was busy with other work when the profile began is sampled from the end of that
#'     work on. One that is still busy when `expr` has ended is waited for, for a second. Then its
#'     samples are thrown away as soon as it has ended what it does.
#'   * Nodes on a host that is cut off when `expr` has ended.
#'   * What a node has done before it was replaced. Its successor is sampled.
#'   * A process in which [utils::Rprof()] runs already, a node or the session: that goes on
#'     undisturbed, and the process is not sampled. So a profile of your own is never ended.
#'   * What a node does after a task has called [utils::Rprof()] itself.
#' @section Errors:
#' * `clutch_profiling`: a profile is being made already, of this or another cluster.
#' * `clutch_stopped`: the cluster has been stopped.
#' * `clutch_argument`: an argument is of no use; [plot.clutch_profile()] or [write_profile()] have
#'   no samples to show.
#'
#' They have class `clutch_error`. After an error in `expr`, and an interrupt, samples are not taken
#' any more, and their files are gone.
#' ```r
#' tryCatch(
#'   cluster_profile(cl, cluster_map(cl, 1:3, f)),
#'   clutch_task_error = function(e) message("task ", e$element, ": ", conditionMessage(e))
#' )
#' ```
#' @seealso [plot.clutch_profile()], [write_profile()]; [cluster_trace()] for what the nodes did
#'   when
#' @examples
#' cl <- make_cluster(2)
#' slow <- function(n) {
#'   s <- 0
#'   for (i in seq_len(n)) s <- s + sqrt(i)
#'   s
#' }
#' p <- cluster_profile(cl, cluster_map(cl, 1:4, function(i) slow(1e6) + sum(sort(runif(1e5)))))
#' p
#' plot(p)
#' stop_cluster(cl)
#' @export
cluster_profile <- function(cl, expr, interval = 0.01, session = TRUE, memory = FALSE) {
  given(cl, "cl")
  given(expr, "expr")
  p <- profile_settings(interval, session, memory)
  if (identical(the$profiling, Sys.getpid()))
    throw("profiling", "a profile is being made already: cluster_profile() cannot be nested")
  is_own <- is_own(cl)
  cl <- cluster_or_own(cl)
  if (cluster_is_stopped(cl)) throw_stopped()
  the$profiling <- Sys.getpid()
  on.exit(suspendInterrupts({
    the$profiling <- the$on_new_nodes <- NULL
    end_profile(c(list(cl), profiled(cl, is_own)), p)
  }))
  before <- lapply(profiled(cl, is_own), begin_on_nodes, p)
  if (is_own) the$on_new_nodes <- function(fresh) begin_on_nodes(fresh, p)
  if (p$session) profile_begin_here(p)
  began <- clock()
  value <- expr # evaluated here
  elapsed <- clock() - began
  here <- if (p$session) profile_fetch_here(p)
  found <- Map(fetch_from_nodes, profiled(cl, is_own), MoreArgs = list(p = p))
  new_profile(value, here, found, before, interval, elapsed)
}

# The clusters that are sampled. The session's own may be made anew meanwhile. It has two parts: the
# cluster, and the nodes of mclapply().
profiled <- function(cl, is_own) {
  if (!is_own) return(list(cl))
  Filter(length, list(own_cluster_as_is(), the$pool$cl))
}

profile_settings <- function(interval, session, memory) {
  # R's own Rprof() ends the process when the interval is a second or more
  is_interval <- function(x) is.numeric(x) && x >= 0.001 && x <= 0.99
  check_needed(interval, "`interval`", is_interval, "a number of seconds, from 0.001 to 0.99")
  check_flag(session, "`session`")
  check_flag(memory, "`memory`")
  name <- basename(tempfile(sprintf("clutch-profile-%d-", Sys.getpid())))
  list(folder = name, interval = as.double(interval), memory = memory, session = session,
       is_sampled = profile_is_on)
}

# ---- beginning and end ----

# The value is what is known of the nodes now: a data frame.
begin_on_nodes <- function(cl, p) {
  info <- info_of(cl)
  set_setup(info, c(setup_of(info), list(list(fun = profile_begin_here, arg = p, profile = TRUE))))
  before <- data.frame(rank = node_ranks(cl), pid = node_pids(cl), busy = node_states(cl) == "busy")
  for (nd in unclass(cl)) tell_node(nd, profile_begin_here, list(p))
  before
}

node_ranks <- function(cl) vapply(unclass(cl), function(nd) nd$rank, 1L)

node_pids <- function(cl) {
  vapply(unclass(cl), function(nd) .Call(ffi_node_info, nd$handle)$pid, 1L)
}

# Whatever has happened: no process takes samples for it afterwards, and no file is left.
end_profile <- function(clusters, p) {
  if (p$session) profile_drop_here(p)
  for (cl in clusters) {
    info <- info_of(cl)
    setup <- Filter(function(s) !isTRUE(s$profile), setup_of(info))
    set_setup(info, if (length(setup)) setup)
    for (nd in unclass(cl)) tell_node(nd, profile_drop_here, list(p))
  }
}

# Has a node call a function when it has done what it is at, whatever comes of it. One that is not
# there is not told.
tell_node <- function(node, fun, args) {
  if (inherits(node, "clutch_psock_node")) return(tell_psock_node(node, fun, args))
  tell_handle(node$handle, fun, args)
}

# Its answer is thrown away, as that to a call that was given up.
tell_psock_node <- function(node, fun, args) {
  call <- list(fun = fun, args = args, return = TRUE, tag = NULL)
  tryCatch({
    sendData_clutch_psock_node(node, list(type = "EXEC", data = call, tag = NULL))
    next_epoch(node$info)
    TRUE
  }, clutch_error = function(e) FALSE)
}

# ---- what was found ----

# How long a node is waited for that is at something else when the expression has ended.
PROFILE_PATIENCE <- 1

# list(nodes, got): a data frame of the nodes as they are now, and for each what
# profile_fetch_here() says; NULL: nothing can be had.
fetch_from_nodes <- function(cl, p) {
  await_idle(cl, PROFILE_PATIENCE)
  states <- ifelse(are_cut_off(cl), "cut", node_states(cl))
  idle <- which(states == "idle")
  got <- vector("list", length(cl))
  if (length(idle)) got[idle] <- tryCatch(
    parallel::clusterCall(cl[idle], profile_fetch_here, p),
    clutch_node_died = function(e) lapply(idle, function(k) fetch_one(cl[k], p))
  )
  nodes <- data.frame(rank = node_ranks(cl), host = vapply(unclass(cl), function(nd) nd$host, ""),
                      pid = node_pids(cl), state = states, stringsAsFactors = FALSE)
  list(nodes = nodes, got = got)
}

# Tells whether they are on a host to which the connection is cut: whoever asks them waits for long.
are_cut_off <- function(cl) {
  info <- info_of(cl)
  if (is.null(info$remote$link)) return(logical(length(cl)))
  (status_of_hosts(info)$state != "up")[info$host_of[node_ranks(cl)]]
}

fetch_one <- function(cl, p) {
  tryCatch(
    parallel::clusterCall(cl, profile_fetch_here, p)[[1L]],
    clutch_node_died = function(e) NULL
  )
}

await_idle <- function(cl, seconds) {
  t <- info_of(cl)$tasks
  end <- clock() + seconds
  while (any(node_states(cl) %in% c("busy", "cancelling", "starting")) && clock() < end) {
    if (!is.null(t)) task_step(t, NULL, 0.01)
    Sys.sleep(0.002)
  }
}

# list(nodes, got): data frame with node, host, pid, note; what was got of each. Numbers of the
# nodes of mclapply() come after those of the cluster.
nodes_of_profile <- function(here, found, before) {
  nodes <- list()
  got <- list()
  if (!is.null(here)) {
    got <- list(here)
    nodes <- list(data.frame(node = 0L, host = "localhost", pid = Sys.getpid(),
                             note = note_on(here, "idle", FALSE, FALSE), stringsAsFactors = FALSE))
  }
  last <- 0L
  for (k in seq_along(found)) {
    now <- found[[k]]$nodes
    was <- if (k <= length(before)) before[[k]]
    was <- was[match(now$rank, was$rank), ]
    is_other <- if (is.null(was)) FALSE else !is.na(was$pid) & was$pid != now$pid
    was_busy <- if (is.null(was)) FALSE else was$busy %in% TRUE
    note <- .mapply(note_on, list(found[[k]]$got, now$state, is_other, was_busy), NULL)
    nodes <- c(nodes, list(data.frame(node = now$rank + last, now[c("host", "pid")],
                                      note = as.character(note), stringsAsFactors = FALSE)))
    got <- c(got, found[[k]]$got)
    last <- last + max(now$rank)
  }
  nodes <- do.call(rbind, nodes)
  rownames(nodes) <- NULL
  names(got) <- nodes$node
  list(nodes = nodes, got = got)
}

# `got`: what was fetched of it; NULL: nothing.
note_on <- function(got, state, is_other, was_busy) {
  if (is.null(got)) {
    if (state %in% c("dead", "stopped"))
      return(sprintf("no samples: it %s", if (state == "dead") "has died" else "was stopped"))
    if (state == "cut") return("no samples: its host is cut off")
    return("no samples: it was still busy when the expression had ended")
  }
  if (!is.null(got$problem)) return(paste("no samples:", got$problem))
  notes <- c(
    if (is_other) "it was replaced: there are no samples of the process before",
    if (was_busy && !is_other) "it was busy when the profile began: sampled from then on",
    if (isFALSE(got$on)) "Rprof() was called by a task: there are no samples from then on",
    if (got$children > 0.1 * max(got$cpu, 0.1))
      sprintf("its child processes, which are not sampled, used %.1f s of CPU", got$children),
    got$warning
  )
  paste(notes, collapse = "; ")
}

new_profile <- function(value, here, found, before, interval, elapsed) {
  all <- nodes_of_profile(here, found, before)
  whole <- Filter(function(x) !is.null(x) && is.null(x$problem), all$got)
  joined <- join_samples(whole)
  nodes <- all$nodes
  keys <- as.character(nodes$node)
  nodes$samples <- as.integer(table(factor(joined$samples$node, nodes$node)))
  nodes$cpu <- vapply(keys, function(k) if (is.null(whole[[k]])) NA_real_ else whole[[k]]$cpu, 1)
  nodes <- nodes[c("node", "host", "pid", "samples", "cpu", "note")]
  rownames(nodes) <- NULL
  used <- vapply(whole, function(x) x$interval, 1)
  x <- list(value = value, samples = joined$samples, stacks = joined$stacks, nodes = nodes,
            interval = max(used, if (!length(used)) interval), elapsed = elapsed)
  structure(x, class = "clutch_profile")
}
