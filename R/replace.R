# Nodes that have died, and those that come in their place.
#
# A node on this machine is there in a moment. One on another host, which perhaps cannot be reached, is started and then
# looked for now and then (see_to_replacements()), while the others work. What fails is tried again, after longer and longer
# pauses, as long as others are there.

START_LIMIT <- 60 # seconds that a node may take to come
START_TRIES <- 3L # of a node on this machine: whatever killed the one before may kill one that is starting
PAUSES <- c(1, 60) # seconds before it is tried again: the first and the longest
USUAL <- 5         # seconds that one on a host within reach takes at most

node_host <- function(info, i) if (is.null(info$tcp)) "localhost" else info$tcp$nodes[[i]]$host

# A new process behind the same handle: whether it is there, or to be expected.
replace_dead <- function(t, index) {
  key <- format(index)
  if (!is.null(t$replacements[[key]]$acceptor)) return(invisible(TRUE))
  if (is.null(t$info$tcp)) {
    end <- clock() + START_LIMIT
    left <- function() max(end - clock(), 0.01)
    for (try in seq_len(START_TRIES)) {
      fresh <- tryCatch(start_nodes(t$info, 1L, left, as.integer(index))[[1L]], clutch_error = identity)
      if (!inherits(fresh, "error")) return(put_in_place(t, index, fresh))
      t$problem <- conditionMessage(fresh)
    }
    return(invisible(FALSE))
  }
  begin_replacement(t, index, PAUSES[[1L]])
  r <- t$replacements[[key]]
  if (t$info$tcp$nodes[[index]]$local) settle(t, r, START_LIMIT)
  invisible(is.null(t$replacements[[key]]) || !is.null(t$replacements[[key]]$acceptor))
}

# When the work is done: calls that follow find the nodes of hosts within reach.
settle_replacements <- function(t) for (r in t$replacements) settle(t, r, USUAL)

# Waits for it until it is so many seconds old.
settle <- function(t, r, seconds) {
  if (is.null(r$acceptor)) return(invisible())
  .Call(ffi_acceptor_wait, r$acceptor$handle, 1L, max(r$began + seconds - clock(), 0))
  see_to_replacements(t)
}

# It gets what cluster_setup() and cluster_export() have said.
put_in_place <- function(t, index, fresh) {
  handle <- t$info$handles[[index]]
  .Call(ffi_node_swap, handle, fresh)
  node <- structure(list(handle = handle, host = node_host(t$info, index), rank = as.integer(index), info = t$info),
                    class = "clutch_node")
  it <- structure(list(node), class = c("clutch_cluster", "cluster"))
  ok <- tryCatch({
    for (s in setup_of(t$info)) parallel::clusterCall(it, s$fun, s$arg)
    TRUE
  }, error = identity)
  if (inherits(ok, "error")) {
    t$problem <- paste("what cluster_setup() says failed on a new node:", conditionMessage(ok))
  }
  .Call(ffi_tasks_attach, t$ptr, as.integer(index)) # before the warning, which may be an error
  if (inherits(ok, "error"))
    warning(warningCondition(sprintf("node %d was replaced, but %s", index, t$problem), class = "clutch_setup"))
  invisible(TRUE)
}

# ---- over TCP ----

# Of `t$replacements` each is one that is under way, with an `acceptor`, or one that is to be tried again `at` a time.
begin_replacement <- function(t, index, pause) {
  tcp <- t$info$tcp
  node <- tcp$nodes[[index]]
  tempdir(TRUE) # it may have been deleted since the cluster was made
  r <- list(index = index, pause = pause)
  ok <- FALSE
  on.exit(if (!ok) end_replacement(r))
  failed <- tryCatch({
    m <- .Call(ffi_acceptor_open, tcp$listen, tcp$ports, as.integer(tcp$backlog), tcp$secret)
    if (is.character(m)) throw("start", paste("there is no port at which a new node could connect:", m))
    r$acceptor <- m
    r$began <- clock()
    r$handle <- .Call(ffi_acceptor_node, m$handle, as.integer(index), join_settings(t$info, node))
    r$log <- log_of(tcp, node)
    start_tcp_node(tcp, node, as.integer(index), r$handle, m, r$log)
    NULL
  }, clutch_error = identity)
  if (is.null(failed)) {
    t$replacements[[format(index)]] <- r
    ok <- TRUE
  } else try_again_later(t, r, conditionMessage(failed))
}

end_replacement <- function(r) {
  if (!is.null(r$acceptor)) .Call(ffi_acceptor_close, r$acceptor$handle)
  if (!is.null(r$handle)) .Call(ffi_nodes_stop, list(r$handle), 0, 0.2)
  unlink(r$log)
}

try_again_later <- function(t, r, why) {
  t$problem <- sprintf("node %d on %s cannot be replaced: %s", r$index, node_host(t$info, r$index), why)
  longer <- min(2 * r$pause, PAUSES[[2L]])
  t$replacements[[format(r$index)]] <- list(index = r$index, at = clock() + r$pause, pause = longer)
}

# One look at each of them.
see_to_replacements <- function(t) {
  for (r in t$replacements) {
    if (is.null(r$acceptor)) {
      if (clock() >= r$at) begin_replacement(t, r$index, r$pause)
    } else if (.Call(ffi_acceptor_wait, r$acceptor$handle, 1L, 0)) {
      t$replacements[[format(r$index)]] <- NULL
      .Call(ffi_acceptor_close, r$acceptor$handle)
      unlink(r$log)
      t$info$port <- r$acceptor$port
      put_in_place(t, r$index, r$handle)
    } else if (clock() >= r$began + START_LIMIT || has_failed(r$handle)) {
      tcp <- replace(t$info$tcp, "setup_timeout", START_LIMIT)
      e <- start_failure(list(tcp = tcp), r$index, 1L, list(r$handle), r$log, r$acceptor)
      end_replacement(r)
      try_again_later(t, r, conditionMessage(e))
    }
  }
}

has_failed <- function(handle) {
  i <- .Call(ffi_node_info, handle)
  i$state == "dead" || !is.null(i$refusal)
}

# No node is there: waits for one that is under way. FALSE: there is none either.
await_replacement <- function(t, seconds) {
  under_way <- Filter(function(r) !is.null(r$acceptor), t$replacements)
  if (!length(under_way)) return(FALSE)
  .Call(ffi_acceptor_wait, under_way[[1L]]$acceptor$handle, 1L, seconds)
  TRUE
}

drop_replacements <- function(t) {
  if (is.null(t)) return(invisible())
  for (r in t$replacements) end_replacement(r)
  t$replacements <- NULL
  invisible()
}
