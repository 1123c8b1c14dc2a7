# A node of a cluster gets a new process, outside of tasks.

# For one that does not come back from what it was told to give up, deep in compiled code.
replace_node <- function(node) {
  old <- .Call(ffi_node_info, node$handle)
  .Call(ffi_nodes_stop, list(node$handle), 0, 5)
  grace <- option_number("clutch.cancel_grace", 5)
  how <- sprintf("it did not give up an interrupted call within %g seconds", grace)
  tell_death_of(node$info, old, how, cause = "no_reaction")
  .Call(ffi_node_swap, node$handle, start_one(node$info, node$rank, 30))
  tell_replacement(node$info, node$rank, how)
  warn_replaced(node$rank, old$pid, how)
}

warn_replaced <- function(rank, pid, how) {
  text <- "node %d (pid %d) was replaced, and what was exported to it is lost: %s"
  text <- sprintf(text, rank, pid, how)
  warning(warningCondition(text, class = "clutch_node_replaced"))
}

# A new process, set up as the cluster's nodes are. That of a node which has ended comes behind the
# same handle, so that the cluster has it, too.
clone_node <- function(x, ...) {
  info <- .subset2(x, "info")
  if (inherits(x, "clutch_psock_node"))
    throw("argument", "a node of base R (node = \"psock\") cannot be cloned")
  rank <- .subset2(x, "rank")
  fresh <- start_one(info, rank, 60)
  if (node_alive(x)) {
    x$handle <- fresh
    # it is no part of the cluster
    x$info <- cluster_apart(info, rank, fresh)
  } else {
    old <- .Call(ffi_node_info, .subset2(x, "handle"))
    tell_death_of(info, old, death_text(old, info))
    .Call(ffi_node_swap, .subset2(x, "handle"), fresh)
    set_cluster(info, stopped = setdiff(info$stopped, rank))
    tell_replacement(info, rank)
  }
  set_up_again(x)
  x
}

node_alive <- function(node) {
  state <- .Call(ffi_node_info, .subset2(node, "handle"))$state
  state %in% c("starting", "idle", "busy", "cancelling")
}
