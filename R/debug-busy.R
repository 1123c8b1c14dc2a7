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
  if (!length(k)) {
    if (!is.null(outcome(task))) return(NULL) # it has ended meanwhile
    throw("argument", sprintf("%s has not begun", label_of(task)))
  }
  copy_of_node(nodes[[k[[1L]]]], task)
}

# The value is as that of copy_of(). `element`: NA: it is at none.
copy_of_node <- function(node, task = NULL) {
  node <- unclass(node)
  answer <- .Call(ffi_node_copy, node$handle, COPY_WITHIN)
  if (answer[[1L]] != "copy") throw_not_copied(node, answer[[1L]], task)
  parts <- regmatches(answer[[2L]], regexec("^([0-9]+) ([^ ]+) (.*)$", answer[[2L]]))[[1L]]
  at <- .Call(ffi_stacks, list(node$handle), 0)
  list(pid = as.integer(parts[[2L]]), key = parts[[3L]], path = parts[[4L]], element = at$element,
       node = node$rank, host = node$host, tasks = list(info = node$info), text = "busy",
       is_busy = TRUE)
}

throw_not_copied <- function(node, why, task) {
  name <- sprintf("node %d", node$rank)
  text <- switch(why,
    idle = if (is.null(task)) "%s is at nothing" else "%s has ended what it was at",
    unknown = "%s cannot be asked: it shares no memory with this session, and has no fork server",
    silent = paste("%s has made no copy within 5 seconds: R there does not look for interrupts, as",
                   "in compiled code"),
    refused = "%s could not make a copy: memory is short, or it has no more processes"
  )
  throw(if (why == "idle" && is.null(task)) "argument" else "gone", sprintf(text, name))
}
