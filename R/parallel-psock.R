# The methods by which parallel's functions run on nodes of base R (node = "psock").
#
# A worker answers in order and cannot be told to give up. What was asked before a call was
# interrupted has an older number (epoch) than what is asked afterwards, and its answers are thrown
# away. Nothing is lost when sending or receiving is interrupted half-way: it goes on with the next
# call.

sendData_clutch_psock_node <- function(node, data) {
  if (identical(data$type, "DONE")) {
    stop_nodes(list(node))
    return(invisible())
  }
  silence <- node$info$plan$process$timeout
  # the rest of one that was interrupted
  if (!.Call(ffi_psock_flush, node$con, silence)) psock_died(node, TRUE)
  epoch <- if (identical(data$type, "EXEC")) node$info$epoch else NA_real_
  giving_up(node, {
    .Call(ffi_psock_queue, node$con, data, epoch)
    if (!.Call(ffi_psock_flush, node$con, silence)) psock_died(node, TRUE)
  })
  invisible()
}

recvData_clutch_psock_node <- function(node) {
  answer <- NULL
  if (!.Call(ffi_psock_awaited, node$con)[[1L]]) {
    throw("no_call", "nothing was sent to this node that it could answer")
  }
  giving_up(node, while (is.null(answer)) {
    if (length(.Call(ffi_psock_ready, list(node$con), 1))) answer <- psock_answer(node, 1)
    if (is.null(answer)) check_silence(node)
  })
  answer
}

recvOneData_clutch_psock_cluster <- function(cl) {
  found <- NULL
  nodes <- unclass(cl)
  cons <- lapply(nodes, function(nd) nd$con)
  giving_up(nodes[[1L]], while (is.null(found)) {
    found <- first_answer(nodes, .Call(ffi_psock_ready, cons, 1))
    if (is.null(found)) for (nd in nodes) check_silence(nd)
  })
  found
}

# The value is the first of the ready nodes whose answer is complete and wanted.
first_answer <- function(nodes, ready) {
  for (i in ready) {
    answer <- psock_answer(nodes[[i]], 0.1)
    if (!is.null(answer)) return(list(node = i, value = answer))
  }
}

# The next answer; NULL: it is to a call that has been given up, or not yet complete `seconds` after
# its last byte.
psock_answer <- function(node, seconds) {
  answer <- tryCatch(
    .Call(ffi_psock_recv, node$con, seconds, 1e16, node$handle),
    clutch_incomplete = function(e) list(epoch = NA),
    error = function(e) {
      if (.Call(ffi_psock_awaited, node$con)[[3L]]) stop(e) # a time limit of R's
    }
  )
  if (is.null(answer)) psock_died(node)
  if (identical(answer$epoch, node$info$epoch)) answer$value
}

# An interrupt, or the death of a node, while an answer is awaited: all that is under way is given
# up.
giving_up <- function(node, expr) {
  done <- FALSE
  on.exit(if (!done) next_epoch(node$info))
  force(expr)
  done <- TRUE
}

# One whose answer has come in part, and then no more for as long as `timeout` says, is lost.
check_silence <- function(node) {
  silence <- .Call(ffi_psock_awaited, node$con)[[2L]]
  if (silence > node$info$plan$process$timeout) psock_died(node)
  answer_by <- node$info$answer_by
  if (is.null(answer_by) || clock() <= answer_by) return()
  text <- "node %d did not answer within setup_timeout; nothing was left running"
  throw("start", sprintf(text, node$rank), nodes = node$rank)
}

psock_died <- function(node, before = FALSE) {
  state <- function() .Call(ffi_node_info, node$handle)$state
  end <- clock() + 1
  while (state() == "idle" && clock() < end) Sys.sleep(0.002)
  .Call(ffi_psock_close, node$con)
  if (state() == "idle") .Call(ffi_node_lost, node$handle)
  throw_node_died(node, before, .Call(ffi_node_info, node$handle))
}
