# cluster_debug() of a node that is busy: a copy of it is made now, and ends when it was looked at.

# So many seconds a node has to make it: R there may be in compiled code.
COPY_WITHIN <- 5

# `e`: as of cluster_debug(). NULL: it is nothing that is busy.
copy_of_busy <- function(e) {
  if (inherits(e, "clutch_task") && is.null(outcome(e))) return(copy_of_task(e))
  if (inherits(e, "clutch_node")) return(copy_of_node(e))
  if (!inherits(e, "clutch_cluster")) return(NULL)
  check_cluster(e)
  if (length(e) != 1L) has_to_be("`e`", "one node, as cl[1], where it is a cluster")
  copy_of_node(unclass(e)[[1L]])
}

copy_of_task <- function(task) {
  number <- .Call(ffi_job_state, task$job)$number
  nodes <- nodes_in_plan(task$scheduler$info)
  at <- .Call(ffi_stacks, lapply(nodes, function(node) node$handle), 0)
  k <- which(at$job == number)
  copy <- if (length(k)) copy_of_node(nodes[[k[[1L]]]], number)
  if (!is.null(copy)) return(copy)
  step_for_task(task, 0)
  if (!is.null(outcome(task))) return(NULL) # it has ended meanwhile
  throw("argument", sprintf("%s is at no node: it waits for one", label_of(task)))
}

# The value is as that of copy_of(). `element`: NA: it is at none. `number`: of the job that it is
# to be at; NULL, where it is at another by now.
copy_of_node <- function(node, number = NA) {
  node <- unclass(node)
  copy <- list(node = node$rank, host = node$host, tasks = list(info = node$info),
               element = NA_real_, is_busy = TRUE)
  if (!is_this_machine(node$host)) idle_node_beside(copy) # or an error
  # a node may have ended what it was at before it has made the copy
  for (try in 1:5) {
    answer <- .Call(ffi_node_copy, node$handle, number, COPY_WITHIN)
    if (answer[[1L]] != "idle" || !is.na(number)) break
  }
  if (answer[[1L]] == "idle" && !is.na(number)) return(NULL)
  if (answer[[1L]] != "copy") throw_not_copied(node, answer[[1L]])
  copy$element <- answer[[3L]]
  c(copy, read_copy(answer[[2L]]), text = "busy")
}

throw_not_copied <- function(node, why) {
  text <- switch(why,
    idle = "%s is at nothing",
    unknown = "%s cannot be asked: it shares no memory with this session, and has no fork server",
    silent = paste("%s has made no copy within 5 seconds: R there does not look for interrupts, as",
                   "in compiled code"),
    refused = "%s could not make a copy: memory is short, or it has no more processes"
  )
  throw(if (why == "idle") "argument" else "gone", sprintf(text, sprintf("node %d", node$rank)))
}
