# A new process in the place of a node, for the cluster's tasks.

# It gets what cluster_setup() and cluster_export() have said. `is_new`: there was none before.
put_in_place <- function(t, index, fresh, is_new = FALSE) {
  .Call(ffi_node_swap, t$info$handles[[index]], fresh)
  failed <- tryCatch({
    set_up_again(node_of_plan(t$info, as.integer(index)))
    NULL
  }, error = identity)
  if (!is.null(failed)) {
    what <- "what cluster_setup() says failed on a new node:"
    t$problem <- paste(what, conditionMessage(failed))
  }
  # before the warning, which may be an error
  .Call(ffi_tasks_attach, t$ptr, as.integer(index))
  if (!is_new) tell_replacement(t$info, index, if (is.null(failed)) "" else t$problem)
  if (is.null(failed)) return()
  what <- if (is_new) "has come" else "was replaced"
  text <- sprintf("node %d %s, but %s", index, what, t$problem)
  warning(warningCondition(text, class = "clutch_setup"))
}
