# future::plan(cluster, workers = cl), and our tasks as futures.
#
# future asks whether a worker has answered by base R's socketSelect(), which takes R's own socket
# connections and nothing else: without one, resolved() waits for the value. as.cluster(), which
# plan() calls, makes nodes that have a connection `con` as long as an answer is awaited. It is one
# of two: at the one there is always something to be read, at the other never. The first stands for
# an answer that is there. Neither is read from.

adapt_to_future <- function(ns) {
  add_method(ns, "resolved", "clutch_task", resolved.clutch_task)
  add_method(ns, "cancel", "clutch_task", cancel.clutch_task)
  add_method(ns, "resolved", "clutch_job", resolved.clutch_job)
  add_method(ns, "cancel", "clutch_job", cancel.clutch_job)
  add_method(ns, "value", "clutch_job", function(...) collect.clutch_job(...elt(1L)))
  add_method(ns, "value", "clutch_task", function(...) collect.clutch_task(...elt(1L)))
  register_future_backend(ns)
}

adapt_to_parallelly <- function(ns) {
  add_method(ns, "as.cluster", "clutch_cluster", as_future_cluster)
  is_local <- function(node, ...) is_this_machine(.subset2(node, "host"))
  add_method(ns, "isLocalhostNode", "clutch_node", is_local)
  add_method(ns, "isNodeAlive", "clutch_node", function(x, ...) node_alive(x))
  add_method(ns, "killNode", "clutch_node", kill_node)
  add_method(ns, "cloneNode", "clutch_node", clone_node)
}

as_future_cluster <- function(x, ...) {
  if (inherits(x, "clutch_psock_cluster"))
    throw("argument", "nodes of base R (node = \"psock\") cannot be workers of package future")
  info <- x[[1L]]$info
  if (is.null(info$name)) {
    set_cluster(info, name = sprintf("clutch-%d-%s", Sys.getpid(), format(clock(), digits = 15)))
  }
  nodes <- lapply(unclass(x), function(nd) {
    if (!inherits(nd, "clutch_future_node")) class(nd) <- c("clutch_future_node", class(nd))
    nd
  })
  # future tells clusters apart by this name; without one it makes a digest of all that is in them
  ranks <- paste(vapply(nodes, function(nd) .subset2(nd, "rank"), 1L), collapse = ".")
  structure(nodes, class = class(x), name = paste(info$name, ranks, sep = "-"))
}

#' @export
`$.clutch_future_node` <- function(x, name) {
  switch(name,
         con = answer_connection(x),
         session_info = list(process = list(pid = .Call(ffi_node_info, .subset2(x, "handle"))$pid)),
         .subset2(x, name))
}

#' @export
`[[.clutch_future_node` <- function(x, i, ...) {
  if (is.character(i)) `$.clutch_future_node`(x, i) else .subset2(x, i)
}

answer_connection <- function(node) {
  ready <- .Call(ffi_node_ready, .subset2(node, "handle"))
  if (is.na(ready)) return(NULL)
  if (ready) signal_connections()$ready else signal_connections()$idle
}

# Made when they are first wanted, and again when somebody has closed all connections.
signal_connections <- function() {
  signals <- the$signals
  if (!is.null(signals) && is_same_connection(signals$ready) && is_same_connection(signals$idle))
    return(signals)
  close_signals()
  listener <- socket_listen(0, host = "127.0.0.1", slot = FALSE)
  on.exit(close(listener))
  port <- socket_info(listener)$local_port
  connect <- function() socketConnection("127.0.0.1", port, blocking = TRUE, open = "r+b")
  ready <- connect()
  ready_end <- socket_accept(listener, slot = FALSE)
  idle <- connect()
  idle_end <- socket_accept(listener, slot = FALSE)
  socket_write(ready_end, as.raw(1L))
  the$signals <- list(ready = ready, idle = idle, ends = list(ready_end, idle_end))
  the$signals
}

close_signals <- function() {
  signals <- the$signals
  the$signals <- NULL
  for (con in signals[c("ready", "idle")]) {
    if (!is.null(con) && is_same_connection(con)) close(con)
  }
  for (con in signals$ends) close(con)
}

kill_node <- function(x, signal = tools::SIGTERM, ...) {
  i <- .Call(ffi_node_info, .subset2(x, "handle"))
  if (!node_alive(x)) return(FALSE)
  if (is_this_machine(.subset2(x, "host"))) return(tools::pskill(i$pid, signal))
  stop_nodes(list(x))
  TRUE
}
