# A new process in the place of a node, for the cluster's tasks.

# It gets what cluster_setup() and cluster_export() have said. `is_new`: there was none before.
put_in_place <- function(t, index, fresh, is_new = FALSE) {
  t$half_way <- union(t$half_way, index)
  .Call(ffi_node_swap, t$info$handles[[index]], fresh)
  finish_place(t, index, is_new)
}

finish_place <- function(t, index, is_new = FALSE) {
  failed <- tryCatch({
    set_up_again(node_of_plan(t$info, as.integer(index)))
    NULL
  }, error = identity)
  if (!is.null(failed)) {
    what <- "what cluster_setup() says failed on a new node:"
    t$problem <- paste(what, conditionMessage(failed))
  }
  t$half_way <- setdiff(t$half_way, index)
  # before the warning, which may be an error
  .Call(ffi_tasks_attach, t$ptr, as.integer(index))
  if (!is_new) tell_replacement(t$info, index, if (is.null(failed)) "" else t$problem)
  if (is.null(failed)) return()
  what <- if (is_new) "has come" else "was replaced"
  text <- sprintf("node %d %s, but %s", index, what, t$problem)
  warning(warningCondition(text, class = "clutch_setup"))
}

# Nodes are set up now, before they get any work, if somebody was interrupted while that was done.
# `ranks`: these only; without them all but those of hosts that open_host() is still to open.
finish_places <- function(t, ranks = NULL, is_new = FALSE) {
  if (is.null(ranks)) {
    ranks <- t$half_way
    if (!is.null(t$resize)) ranks <- ranks[t$resize$at[t$info$host_of[ranks]] == "there"]
  }
  for (index in intersect(ranks, t$half_way)) {
    if (.Call(ffi_node_info, t$info$handles[[index]])$state %in% c("dead", "stopped")) {
      t$half_way <- setdiff(t$half_way, index)
    } else {
      finish_place(t, index, is_new)
    }
  }
}
