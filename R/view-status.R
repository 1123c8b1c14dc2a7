# This file has the status of a cluster and its nodes, and how they are printed.

#' State of a cluster's nodes
#'
#' One row for each node: its process, its state, and what it has used. In a cluster
#' that grows those that are there.
#'
#' Asks the system and the fork servers, also those of other hosts. Runs nothing on the nodes, so it
#' also answers while they are busy.
#'
#' @param cl Cluster made by [make_cluster()]. `NULL`: the session's own, see [own-cluster]. Where
#'   there is none, none is made, and the data frame has no rows.
#' @return A data frame with these columns:
#' * `node`: integer, the node's number in the cluster.
#' * `host`: character.
#' * `pid`: integer.
#' * `state`: character, see below.
#' * `started`: date and time.
#' * `tasks`: number of calls answered.
#' * `cpu`: number of seconds, of user and system time. `NA` where the system does not tell, and for
#'   TCP nodes on other hosts.
#' * `memory`: number of MB (2^20 bytes) that are its own, in memory or swap. That is what it has
#'   written, and shares neither with its fork server nor with others. `.max_memory` of
#'   [cluster_map()] counts the same. `NA` as for `cpu`.
#' * `gave_back`: number of MB that the node has given back to the system in all. After a second
#'   without work a node that has grown by 64 MB and more collects its garbage and does that. `NA`
#'   for nodes that cannot tell: those on other hosts and TCP nodes.
#' * `given`: character, what the node's task was given of its host as its `.needs` asked (section
#'   *What elements ask for* of [cluster_map()]): `"cores=2 gpu=0,1"`. `""`: nothing.
#' @section States:
#' * `"idle"`, `"busy"`.
#' * `"held"`: it has a task and is stopped for a while, since memory is short, see option
#'   `clutch.memory` of [clutch-options].
#' * `"cancelling"`: it is told to give up a call that was interrupted.
#' * `"stopped"`: the cluster was stopped.
#' * `"dead: "` and how it ended.
#' @section Errors: `clutch_argument` when `cl` is no such cluster. It has class `clutch_error`.
#' ```r
#' tryCatch(cluster_status(cl), clutch_argument = function(e) NULL)
#' ```
#' @seealso [make_cluster()], [cluster_trace()]
#' @examples
#' cl <- make_cluster(2)
#' cluster_status(cl)
#' stop_cluster(cl)
#' @export
cluster_status <- function(cl = NULL) {
  if (is.null(cl)) cl <- own_cluster_as_is()
  check_cluster(cl)
  cl <- nodes_there(cl)
  infos <- lapply(cl, function(nd) .Call(ffi_node_info, nd$handle))
  pid <- vapply(infos, function(i) i$pid, 1L)
  alive <- vapply(infos, function(i) i$state %in% c("idle", "busy", "cancelling", "starting"), NA)
  here <- alive & vapply(cl, function(nd) is_this_machine(nd$host), NA)
  use <- use_elsewhere(cl)
  data.frame(
    node = vapply(cl, function(nd) nd$rank, 1L),
    host = vapply(cl, function(nd) nd$host, ""),
    pid = pid,
    state = with_held(vapply(infos, state_text, ""), cl),
    started = Sys.time() - vapply(infos, function(i) i$age, 1),
    tasks = vapply(infos, function(i) i$done, 1),
    cpu = ifelse(here, vapply(pid, process_cpu, 1), use$cpu),
    memory = ifelse(here, vapply(pid, process_memory, 1), use$memory),
    gave_back = vapply(infos, function(i) i$gave_back, 1) / 2^20,
    given = given_to(cl),
    stringsAsFactors = FALSE
  )
}

# `state`: of these nodes. A node that is stopped since memory is short is no more "busy".
with_held <- function(state, cl) {
  if (!length(cl)) return(state)
  is_held <- vapply(cl, function(nd) nd$rank, 1L) %in% held_nodes(info_of(cl))
  ifelse(is_held & state == "busy", "held", state)
}

# By node: its task was given this of its host.
given_to <- function(cl) {
  t <- if (length(cl)) info_of(cl)$tasks
  if (is.null(t)) return(character(length(cl)))
  given <- .Call(ffi_tasks_granted, t$ptr)[vapply(cl, function(nd) nd$rank, 1L)]
  ifelse(is.na(given), "", gsub("\n", " ", trimws(given), fixed = TRUE))
}

# The value is what nodes on other hosts have used, as their fork servers say: list(cpu, memory), in
# seconds and MB. NA: nobody says.
use_elsewhere <- function(cl) {
  unknown <- list(cpu = NA_real_, memory = NA_real_)
  info <- if (length(cl)) info_of(cl)
  if (is.null(info$remote$link)) return(unknown)
  is_up <- status_of_hosts(info)$state == "up"
  if (!any(is_up)) return(unknown)
  handles <- lapply(info$remote$servers[is_up], function(host) host$handle)
  .Call(ffi_servers_machine, handles, TRUE, 1)
  use <- vapply(unclass(cl), function(nd) .Call(ffi_node_use, nd$handle), c(1, 1))
  list(cpu = use[1L, ], memory = use[2L, ] / 2^20)
}

#' Whether a cluster was stopped, and how many of its nodes are free
#'
#' * `cluster_is_stopped()` tells whether nothing can be done with a cluster any more.
#' * `cluster_free()` counts the nodes that have nothing to do.
#'
#' Both go by what the session knows. No node is asked, so they also answer while all are busy.
#'
#' @param cl cluster made by [make_cluster()], or some of its nodes. `NULL`: the session's own, see
#'   [own-cluster]. It is never stopped for good.
#' @return
#' * `cluster_is_stopped()`: `TRUE` after [stop_cluster()], for a cluster of another session (it was
#'   saved and loaded again, or sent to a node), in a forked child of the session, and for a cluster
#'   without nodes. Else `FALSE`, also when nodes have died: they are replaced.
#' * `cluster_free()`: integer, the number of nodes without a task or call. Nodes that are being
#'   replaced do not count. 0 for a cluster that was stopped.
#' @section Errors: `clutch_argument`: `cl` is no such cluster; for `cluster_free()` also one with
#'   nodes of base R. It has class `clutch_error`.
#'   ```
#'   tryCatch(cluster_is_stopped("cl"), clutch_argument = conditionMessage)
#'   ```
#' @seealso [cluster_status()], [cluster_submit()]
#' @examples
#' cl <- make_cluster(2)
#' task <- cluster_submit(cl, Sys.sleep(0.5))
#' cluster_free(cl)
#' collect(task)
#' cluster_free(cl)
#' stop_cluster(cl)
#' cluster_is_stopped(cl)
#' @export
cluster_is_stopped <- function(cl) {
  if (missing(cl)) given(cl, "cl")
  if (is.null(cl)) return(FALSE)
  check_cluster(cl)
  # one that had died before counts, too
  was_stopped <- vapply(unclass(cl), function(nd) nd$rank %in% nd$info$stopped, NA)
  all(node_states(cl) == "stopped" | was_stopped)
}

#' @rdname cluster_is_stopped
#' @export
cluster_free <- function(cl) {
  cl <- cluster_or_own(cl)
  if (cluster_is_stopped(cl)) return(0L)
  t <- info_of(cl)$tasks
  # while nothing is under way, nodes that have died are replaced as for a new task
  if (is.null(t) || .Call(ffi_tasks_open, t$ptr) == 0) t <- tasks_of(cl)
  while (task_step(t, NULL, 0) == "deaths") NULL # what has come is read
  sum(node_states(nodes_there(cl)) == "idle")
}

# In words: see clu_node_status. Of nodes that are not this session's it is "stopped".
node_states <- function(cl) {
  vapply(unclass(cl), function(nd) {
    tryCatch(
      .Call(ffi_node_info, .subset2(nd, "handle"))$state,
      clutch_stopped = function(e) "stopped",
      clutch_forked = function(e) "stopped"
    )
  }, "")
}

process_cpu <- function(pid) {
  stat <- read_lines(proc_file(pid, "stat"))
  if (!length(stat)) return(NA_real_)
  fields <- strsplit(sub("^.*\\) ", "", stat[[1L]]), " ")[[1L]]
  sum(as.numeric(fields[12:13])) / 100 # USER_HZ is 100 on every Linux
}

# The value is in MB, by the same measure as that of `.max_memory`.
process_memory <- function(pid) .Call(ffi_process_memory, pid) / 2^20

#' @export
print.clutch_cluster <- function(x, ...) {
  whole <- x
  x <- nodes_there(whole)
  n <- length(x)
  hosts <- sQuote(unique(vapply(x, function(nd) nd$host, "")))
  most <- if (most_nodes(whole) > n) sprintf(" of at most %d", most_nodes(whole)) else ""
  cat(sprintf("clutch cluster with %d%s %s on host %s\n", n, most,
              if (n == 1L && !nzchar(most)) "node" else "nodes", paste0(hosts, collapse = ", ")))
  if (n == 0L) return(invisible(whole))
  info <- x[[1L]]$info
  cat(sprintf("  started by strategy \"%s\" in %.0f ms, %s\n", info$strategy, 1000 * info$took,
              format(info$started, "%Y-%m-%d %H:%M:%S")))
  packages <- info$plan$packages
  if (length(packages)) cat("  packages:", paste(packages, collapse = ", "), "\n")
  if (!is.null(info$plan$preload_text)) cat("  preload:", info$plan$preload_text, "\n")
  infos <- tryCatch(
    lapply(x, function(nd) .Call(ffi_node_info, nd$handle)),
    clutch_error = function(e) NULL
  )
  if (is.null(infos)) {
    cat("  not usable in this process\n")
    return(invisible(whole))
  }
  pids <- vapply(infos, function(i) as.character(i$pid), "")
  more <- if (n > 10L) sprintf(", ... (%d more)", n - 10L) else ""
  cat("  pids: ", paste(utils::head(pids, 10L), collapse = ", "), more, "\n", sep = "")
  states <- table(vapply(infos, state_text, ""))
  cat("  ", paste(states, names(states), collapse = ", "), "\n", sep = "")
  asked <- sum(info$tasks$resize$at == "asked")
  if (asked) cat(sprintf("  hosts asked for: %d\n", asked))
  invisible(whole)
}

#' @export
print.clutch_node <- function(x, ...) {
  i <- tryCatch(.Call(ffi_node_info, x$handle), clutch_error = function(e) NULL)
  if (is.null(i)) {
    cat(sprintf("node %d of a clutch cluster, not usable in this process\n", x$rank))
  } else {
    text <- "node %d of a clutch cluster on host %s with pid %d, %s\n"
    cat(sprintf(text, x$rank, sQuote(x$host), i$pid, state_text(i)))
  }
  invisible(x)
}
