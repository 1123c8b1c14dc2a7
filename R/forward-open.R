# Shared state and actors are in memory of the session's machine. Processes of other hosts use them
# by forwarders (src/core/forward/forwarder.h): a node more on each host that needs it takes
# connections there, one beside the session forks a delegate for each of them: a process that does
# what is asked (forward-serve.R), as any process of the session's machine. forward-ask.R is the
# side that asks.
#
# `t$forward` of a cluster's tasks is an environment with
#   delegates a cluster of one node, the forwarder beside the session, which forks them
#   handle    what hands on between them, see src/r/session/forward.c
#   hosts     by number of the host, as text: list(node, number), the forwarder there; or TRUE while
#             it is being started
#   wanted    these numbers, also of hosts where there is none now
#   again     when it is tried again to start one, by clock(); 0: all are there, as far as is known

FORWARD_LIMIT <- 60 # seconds that a forwarder may take to come

# From now on nodes of `cl` can use what is here, those that come later, too. `what`: what it is.
# Nothing is done where all are on this machine.
open_forwarders <- function(cl, what) {
  check_cluster(cl)
  if (is_all_here(cl)) return(invisible())
  info <- info_of(cl)
  if (is.null(info$remote)) {
    text <- paste("a %s is for nodes of this machine, or of hosts of hosts(), slurm() or",
                  "hosts_command()")
    throw("argument", sprintf(text, what))
  }
  t <- tasks_of(cl)
  if (is.null(t$forward)) begin_forwarding(t) # else tasks_of() has seen to it
  nodes <- unclass(cl)
  is_there <- vapply(nodes, function(node) node_works(node$handle), NA)
  ranks <- vapply(nodes, function(node) node$rank, 1L)
  for (k in unique(info$host_of[ranks[is_there]])) open_forwarder(info, k)
  invisible()
}

node_works <- function(handle) !.Call(ffi_node_info, handle)$state %in% c("dead", "stopped")
handle_of_delegates <- function(x) .subset2(x$delegates[[1L]], "handle")

# The new one is there before the old one ends: where that fails nothing has changed.
begin_forwarding <- function(t) {
  x <- new.env(parent = emptyenv())
  x$delegates <- make_cluster(1, strategy = "fork_server")
  x$handle <- .Call(ffi_forward_new, handle_of_delegates(x))
  x$hosts <- list()
  x$wanted <- t$forward$wanted
  x$again <- 0
  tell_handle(handle_of_delegates(x), be_forwarder_of_delegates, list())
  if (!is.null(t$forward)) end_forwarding(t)
  t$forward <- x
  t$at_stop$forward <- end_forwarding
  t$at_host$forward <- try_forwarder
  t$at_work$forward <- restore_forwarders
}

# Does so when nodes have been started on a host, or one has ended: what fails is tried again later,
# and no map fails for it. FALSE: it has failed.
try_forwarder <- function(info, k) {
  t <- info$tasks
  if (is.null(t$forward)) return(TRUE)
  tryCatch({
    open_forwarder(info, k)
    TRUE
  }, clutch_error = function(e) {
    t$problem <- conditionMessage(e)
    t$forward$again <- clock() + FORWARD_PAUSE
    FALSE
  })
}
FORWARD_PAUSE <- 10 # seconds

# On one host, unless it is there.
open_forwarder <- function(info, k) {
  x <- info$tasks$forward
  key <- format(k)
  is <- x$hosts[[key]]
  if (isTRUE(is) || (!is.null(is) && node_works(is$node))) return(invisible())
  x$wanted <- union(x$wanted, key)
  x$hosts[[key]] <- TRUE
  ok <- FALSE
  on.exit(if (!ok) x$hosts[[key]] <- NULL)
  end <- clock() + FORWARD_LIMIT
  left <- function() max(end - clock(), 0.01)
  rank <- match(k, info$host_of)
  node <- launcher_of(info)$start(info, rank, left)[[1L]]
  number <- .Call(ffi_forward_add, x$handle, node)
  tell_handle(node, be_forwarder_of_clients, list(number))
  if (!.Call(ffi_forward_await, x$handle, number, left())) {
    .Call(ffi_nodes_stop, list(node), 0, 0)
    text <- "host %s cannot use what is shared: the process that would pass it on did not come"
    throw("start", sprintf(text, info$hosts[[rank]]))
  }
  x$hosts[[key]] <- list(node = node, number = number)
  ok <- TRUE
  invisible()
}

# One that has ended is started again, on hosts that are there, when something is about to be done.
restore_forwarders <- function(t) {
  x <- t$forward
  if (is.null(x)) return(invisible())
  none_was_lost <- .Call(ffi_forward_none_lost, x$handle)
  if (none_was_lost && x$again == 0) return(invisible())
  if (clock() < x$again) return(invisible())
  x$again <- clock() + FORWARD_PAUSE
  if (!node_works(handle_of_delegates(x))) {
    is_there <- tryCatch({
      begin_forwarding(t)
      TRUE
    }, clutch_error = function(e) FALSE)
    if (!is_there) return(invisible())
    x <- t$forward
  }
  all <- TRUE
  for (k in as.integer(x$wanted)) {
    is_away <- host_has_ended(t$info$remote$servers[[k]]) ||
      (!is.null(t$resize) && host_is_away(t, k)) # its nodes come with a forwarder
    if (!is_away) all <- try_forwarder(t$info, k) && all
  }
  if (all) x$again <- 0
}

end_forwarding <- function(t) {
  x <- t$forward
  if (is.null(x)) return(invisible())
  t$forward <- NULL
  .Call(ffi_handle_end, x$handle)
  nodes <- lapply(Filter(is.list, x$hosts), `[[`, "node")
  .Call(ffi_nodes_stop, unname(nodes), 0, 0)
  stop_nodes(x$delegates)
}

# ---- in these nodes ----

# The clients find it by the folder that nodes of their fork server have in common.
be_forwarder_of_clients <- function(number) {
  path <- forwarder_path()
  .Call(ffi_remove_folder, dirname(path)) # of one that was there before
  dir.create(dirname(path), mode = "0700")
  .Call(ffi_node_title, "clutch: forwarder")
  .Call(ffi_forward_clients, number, path)
}

be_forwarder_of_delegates <- function() {
  .Call(ffi_node_title, "clutch: forwarder")
  fd <- .Call(ffi_forward_delegates)
  if (!is.null(fd)) serve_forwarded(fd)
}
