# Nodes that connect to the session over TCP. The acceptor (src/core/node) listens for them, and
# node and session prove to each other that they know the cluster's secret.
#
# plan_processes() lists all that the start of a node, or of its replacement, depends on. The
# acceptor listens on a loopback address if all nodes are local, or if ssh carries the connections
# of the others (with_way()); else on all addresses, of IPv4 and of IPv6. A local node is a child
# process with its secret in the environment, from which the node wipes it. A node behind ssh
# reads its secret from standard input. After the handshake (src/core/wire/handshake.h) the first
# message brings the settings. The node attaches its packages and sends HELLO. Until then a
# connection that breaks is made again (src/core/node/joiner.h).

tcp_launcher <- function() {
  new_launcher(plan = plan_tcp, start = start_tcp, begin = begin_tcp, show = show_tcp)
}
add_kind("launcher", "tcp", tcp_launcher)

plan_tcp <- function(request) plan_processes(request, "tcp")

# Handles of nodes with these ranks that are ready, or an error and none.
start_tcp <- function(info, ranks, left) {
  tempdir(TRUE) # it may have been deleted since the cluster was made
  process <- info$plan$process
  say_plain(process)
  logs <- character()
  handles <- list()
  ok <- FALSE
  acceptor <- open_acceptor(process, "there is no port at which the nodes could connect:")
  on.exit({
    .Call(ffi_acceptor_close, acceptor$handle)
    if (!ok) .Call(ffi_nodes_stop, handles, 0, 5)
    unlink(logs)
  })
  wait_for <- function(n) {
    if (.Call(ffi_acceptor_wait, acceptor$handle, n, left())) return()
    begun <- seq_along(logs) # with "sequential" the others were not started
    e <- tcp_failure(info, length(ranks), ranks[begun], handles[begun], logs, acceptor)
    .Call(ffi_nodes_stop, handles, 0, 5)
    stop(e)
  }
  # all are expected from now on: some may be running already
  for (i in seq_along(ranks)) {
    node <- process$nodes[[ranks[[i]]]]
    settings <- join_settings(info, node)
    handles[[i]] <- .Call(ffi_acceptor_node, acceptor$handle, ranks[[i]], settings)
  }
  for (i in seq_along(ranks)) {
    node <- process$nodes[[ranks[[i]]]]
    logs[[i]] <- log_of(process, node)
    start_tcp_node(process, node, ranks[[i]], handles[[i]], acceptor, logs[[i]])
    if (process$sequential) wait_for(i)
  }
  wait_for(length(ranks))
  set_cluster(info, port = acceptor$port)
  ok <- TRUE
  handles
}

# list(handle, port)
open_acceptor <- function(process, problem) {
  check_masters(process)
  acceptor <- .Call(ffi_acceptor_open, process$listen, process$ports, process$backlog,
                    process$secret)
  if (is.character(acceptor)) throw("start", paste(problem, acceptor))
  acceptor
}

# The session tells this to a node that has joined.
join_settings <- function(info, node) {
  process <- info$plan$process
  list(
    env = if (!node$local || process$manual) process$env,
    packages = info$plan$packages,
    nice = node$nice,
    outfile = node$outfile,
    announce = process$announce && node$outfile != "/dev/null",
    timeout = process$timeout
  )
}

# The R of a node and its arguments, as a character vector.
node_command <- function(node, port, rank, process,
                         lib = dirname(getNamespaceInfo("clutch", "path"))) {
  code <- if (node$same) {
    file.path(lib, "clutch", "node", "join.R")
  } else {
    c("-e", "loadNamespace(\"clutch\")$.__join__(commandArgs(TRUE))")
  }
  c(
    node$rscript, default_packages_argument(process$methods), node$rscript_args, code,
    if (node$same) paste0("LIB=", lib),
    paste0("MASTER=", node$master),
    paste0("PORT=", port),
    paste0("RANK=", rank),
    paste0("SETUPTIMEOUT=", seconds_text(process$setup_timeout))
  )
}

# The value is a function that makes the command of a node of this plan.
tcp_command <- function(info) {
  function(node, rank, port) node_command(node, port, rank, info$plan$process)
}

# Starts a node, or says how to.
start_tcp_node <- function(process, node, rank, handle, acceptor, log) {
  ports <- ports_of(node, acceptor$port)
  command <- node_command(node, ports$there, rank, process)
  if (process$manual) {
    secret <- .Call(ffi_acceptor_secret, acceptor$handle)
    return(say_command(node, paste0("CLUTCH_SECRET=", secret, " ", command_line(command))))
  }
  own <- paste0("PARENT=", Sys.getpid())
  start_process(process, node, handle, acceptor$handle, command, ports, own, log)
}

# ---- one node anew ----

# It is under way when this returns: list(handle, acceptor, log, began). The node may be on a host
# that cannot be reached, so it is waited for while the others work, see task-replace.R.
begin_tcp <- function(info, rank) {
  tempdir(TRUE)
  process <- info$plan$process
  node <- process$nodes[[rank]]
  coming <- list(began = clock())
  ok <- FALSE
  on.exit(if (!ok) drop_coming(coming))
  coming$acceptor <- open_acceptor(process, "there is no port at which a new node could connect:")
  settings <- join_settings(info, node)
  coming$handle <- .Call(ffi_acceptor_node, coming$acceptor$handle, rank, settings)
  coming$log <- log_of(process, node)
  start_tcp_node(process, node, rank, coming$handle, coming$acceptor, coming$log)
  ok <- TRUE
  coming
}

# Waits for so many seconds at the most, and tells whether it is ready.
wait_for_coming <- function(coming, seconds) {
  .Call(ffi_acceptor_wait, coming$acceptor$handle, 1L, seconds)
}

coming_has_failed <- function(coming) has_failed(.Call(ffi_node_info, coming$handle))

# The error of one that did not come within `seconds`.
coming_failure <- function(info, rank, coming, seconds) {
  process <- info$plan$process
  process$setup_timeout <- seconds
  info <- list(plan = list(process = process), hosts = info$hosts)
  tcp_failure(info, 1L, rank, list(coming$handle), coming$log, coming$acceptor)
}

# It is there, and needs no acceptor any more.
settle_coming <- function(coming) {
  .Call(ffi_acceptor_close, coming$acceptor$handle)
  unlink(coming$log)
}

# Ends it, whatever there is of it.
drop_coming <- function(coming) {
  if (!is.null(coming$acceptor)) .Call(ffi_acceptor_close, coming$acceptor$handle)
  if (!is.null(coming$handle)) .Call(ffi_nodes_stop, list(coming$handle), 0, 0.2)
  unlink(coming$log)
}

# ---- failure ----

tcp_failure <- function(info, n, ranks, handles, logs, acceptor) {
  start_failure(info, n, ranks, handles, logs, tcp_command(info),
                more = pending_peers_text(acceptor), port = acceptor$port)
}

# The text says who else came to the port, if anybody.
pending_peers_text <- function(acceptor) {
  what <- c(
    silent = "did not say in time what a node has to say",
    closed = "closed or reset the connection before the end of the handshake",
    garbage = "sent what is no message of a handshake",
    version = "spoke another version of the protocol",
    no_proof = "did not know the cluster's secret",
    crowded = "had to make room for others",
    pending = "had not come to the end of the handshake"
  )
  count <- .Call(ffi_acceptor_report, acceptor$handle)[names(what)]
  some <- count > 0L
  if (!any(some)) return(NULL)
  peers <- paste(sprintf("%d that %s", count[some], what[some]), collapse = ", ")
  sprintf("at port %d: %s", acceptor$port, peers)
}

# ---- dry run ----

show_tcp <- function(info) {
  commands <- show_processes(info, tcp_command(info))
  c(commands, "each node proves that it knows the secret, which is not in its command")
}
