# Base R's own workers as nodes (node = "psock"): started and watched as ours, spoken to in their
# protocol, see parallel-psock.R. Their handshake proves nothing: a worker is who answers a command,
# and, where the session has started it, has the pid of a process that was started.

psock_launcher <- function() {
  new_launcher(plan = plan_psock, start = start_psock, complete = complete_psock,
               show = show_psock)
}
add_kind("launcher", "psock", psock_launcher)

plan_psock <- function(request) {
  plan <- plan_processes(request, "psock")
  masters <- vapply(plan$process$nodes, function(node) node$master, "")
  six <- grep(":", masters, fixed = TRUE, value = TRUE)
  if (length(six)) { # so far as R 4.6
    text <- paste("workers of base R (node = \"psock\") know IPv4 only: `master` cannot be '%s',",
                  "but a name, or an address of IPv4")
    throw("argument", sprintf(text, six[[1L]]))
  }
  plan
}

# Base R's worker does not listen to RANK: it tells which of the nodes it is, see psock_who().
psock_command <- function(node, port, rank, process) {
  c(
    node$rscript, default_packages_argument(process$methods), node$rscript_args,
    "-e", "parallel:::.workRSOCK()",
    paste0("MASTER=", node$master),
    paste0("PORT=", port),
    paste0("RANK=", rank),
    paste0("OUT=", node$outfile),
    paste0("SETUPTIMEOUT=", seconds_text(process$setup_timeout)),
    paste0("TIMEOUT=", seconds_text(process$timeout)),
    "XDR=TRUE", "SETUPSTRATEGY=parallel"
  )
}

show_psock <- function(info) {
  show_processes(info, psock_commands(info))
}

psock_commands <- function(info) {
  function(node, rank, port) psock_command(node, port, rank, info$plan$process)
}

# ---- start ----

# Handles of all nodes, which have answered, or an error and none. Their sockets are in
# `info$sockets`.
start_psock <- function(info, ranks, left) {
  process <- info$plan$process
  say_plain(process)
  g <- new_gathering(process, ranks)
  ok <- FALSE
  on.exit(end_gathering(g, ok))
  for (i in ranks) {
    node <- process$nodes[[i]]
    g$logs[[i]] <- log_of(process, node)
    start_psock_node(process, node, i, g$handles[[i]], g$listener$port, g$logs[[i]])
    if (process$sequential) gather(g, i, info, left)
  }
  gather(g, length(ranks), info, left)
  set_cluster(info, port = g$listener$port, sockets = g$sockets)
  ok <- TRUE
  g$handles
}

start_psock_node <- function(process, node, rank, handle, port, log) {
  ports <- ports_of(node, port)
  command <- psock_command(node, ports$there, rank, process)
  if (process$manual) return(say_command(node, command_line(command)))
  start_process(process, node, handle, NULL, command, ports, character(), log)
}

# Workers that are on their way: an environment with
#   listener        list(handle, port)
#   nodes           as in info$plan$process
#   handles, logs   of the nodes
#   sockets         of the nodes that have answered, NULL for the others
#   pending, since  sockets of those that have been asked and have not answered, and since when
new_gathering <- function(process, ranks) {
  listener <- .Call(ffi_psock_listen, process$listen, process$ports, process$backlog)
  if (is.character(listener)) {
    throw("start", paste("there is no port at which the nodes could connect:", listener))
  }
  g <- new.env(parent = emptyenv())
  g$listener <- listener
  g$nodes <- process$nodes
  g$handles <- lapply(ranks, function(rank) .Call(ffi_psock_node, rank))
  g$logs <- character()
  g$sockets <- vector("list", length(ranks))
  g$pending <- list()
  g$since <- numeric()
  g
}

end_gathering <- function(g, ok) {
  ours <- if (!ok) Filter(Negate(is.null), g$sockets)
  for (s in c(list(g$listener$handle), g$pending, ours)) .Call(ffi_psock_close, s)
  if (!ok) .Call(ffi_nodes_stop, g$handles, 0, 5)
  unlink(g$logs)
}

# Waits until `n` workers have answered.
gather <- function(g, n, info, left) {
  while (sum(!vapply(g$sockets, is.null, NA)) < n) {
    is_dead <- function(handle) .Call(ffi_node_info, handle)$state == "dead"
    if (any(vapply(g$handles, is_dead, NA)) || left() <= 0.02) throw_gathering_failed(g, info)
    sockets <- c(list(g$listener$handle), g$pending)
    ready <- .Call(ffi_psock_ready, sockets, min(left(), 0.1))
    # the first is the listener; accept_pending() appends to those that follow
    if (1L %in% ready && has_room(g)) accept_pending(g)
    answered <- seq_along(g$pending) %in% (setdiff(ready, 1L) - 1L)
    answered[answered] <- vapply(g$pending[answered], take_answer, NA, g)
    forget_pending(g, answered)
    sweep_pending(g)
  }
}

throw_gathering_failed <- function(g, info) {
  begun <- seq_along(g$logs) # with "sequential" the others were not started
  e <- start_failure(info, length(g$handles), begun, g$handles[begun], g$logs,
                     psock_commands(info), port = g$listener$port)
  .Call(ffi_nodes_stop, g$handles, 0, 5)
  stop(e)
}

has_room <- function(g) length(g$pending) < 128L + length(g$handles)

# A worker is asked this: its pid, and the RANK of its command, or 0.
psock_who <- quote(c(Sys.getpid(), as.integer(substring(
  c(grep("^RANK=[0-9]+$", commandArgs(TRUE), value = TRUE), "RANK=0")[[1L]], 6L
))))

# Somebody has connected, and is asked who it is.
accept_pending <- function(g) {
  s <- .Call(ffi_psock_accept, g$listener$handle)
  if (is.null(s)) return()
  call <- list(fun = eval, args = list(psock_who, baseenv()), return = TRUE, tag = NULL)
  .Call(ffi_psock_queue, s, list(type = "EXEC", data = call, tag = NULL), NA_real_)
  if (!.Call(ffi_psock_flush, s, 0)) return()
  g$pending[[length(g$pending) + 1L]] <- s
  g$since[[length(g$pending)]] <- clock()
}

# Takes the answer of one that is pending. FALSE: not all of it is there yet. Nothing is waited for;
# a time limit of the session's, which is an error, is not one of the answer.
take_answer <- function(s, g) {
  who <- suspendInterrupts(tryCatch(
    .Call(ffi_psock_recv, s, 0, 4096, NULL)$value$value,
    clutch_incomplete = identity,
    error = function(e) NULL
  ))
  if (inherits(who, "clutch_incomplete")) return(FALSE)
  at <- node_that_is(g, who)
  if (is.na(at)) {
    .Call(ffi_psock_close, s)
    return(TRUE)
  }
  g$sockets[[at]] <- s
  .Call(ffi_psock_is_ready, g$handles[[at]], who[[1L]])
  TRUE
}

# The node that a worker is, by its pid and rank: the process that was started, or else the one with
# this rank, if it was not started by this session, or is behind rshcmd. NA: none.
node_that_is <- function(g, who) {
  if (!is.integer(who) || length(who) != 2L || anyNA(who)) return(NA_integer_)
  child_pid <- function(handle) {
    pid <- .Call(ffi_node_child_pid, handle)
    if (is.null(pid)) NA_integer_ else pid
  }
  known <- vapply(g$handles, child_pid, 1L)
  is_free <- vapply(g$sockets, is.null, NA)
  is_elsewhere <- !vapply(g$nodes, function(node) node$local, NA)
  free <- which(is_free & (is.na(known) | is_elsewhere))
  if (who[[2L]] %in% free) return(who[[2L]])
  is_ours <- is_free & !is_elsewhere & known %in% who[[1L]]
  if (any(is_ours)) which(is_ours)[1L] else free[1L]
}

forget_pending <- function(g, which) {
  g$pending <- g$pending[!which]
  g$since <- g$since[!which]
}

# A peer that does not answer has ten seconds, and where there are many one.
sweep_pending <- function(g) {
  late <- clock() - g$since > (if (has_room(g)) 10 else 1)
  for (s in g$pending[late]) .Call(ffi_psock_close, s)
  forget_pending(g, late)
}

# ---- set-up ----

# The nodes get their sockets, and are set up as the plan says.
complete_psock <- function(cl, left) {
  info <- cl[[1L]]$info
  set_cluster(info, handles = NULL, epoch = 0) # these nodes know nothing of tasks
  for (i in seq_along(cl)) {
    cl[[i]]$con <- info$sockets[[i]]
    class(cl[[i]]) <- c("clutch_psock_node", "clutch_node")
  }
  set_cluster(info, sockets = NULL)
  class(cl) <- c("clutch_psock_cluster", class(cl))
  ok <- FALSE
  on.exit(if (!ok) stop_psock_nodes(cl))
  set_up_psock(cl, info, left)
  ok <- TRUE
  cl
}

set_up_psock <- function(cl, info, left) {
  for (i in seq_along(cl)) {
    arguments <- list(info$plan$packages, info$plan$process$nodes[[i]]$nice, info$plan$process$env)
    the$parallel$sendCall(cl[[i]], psock_set_up_here, arguments)
  }
  set_cluster(info, answer_by = clock() + left())
  bad <- Filter(Negate(is.null), lapply(unclass(cl), the$parallel$recvResult))
  set_cluster(info, answer_by = NULL)
  if (length(bad)) stop(error_of_package(bad[[1L]][[1L]], bad[[1L]][[2L]]))
}

# Runs in a worker, without this package. NULL, or the package that cannot be attached, and why.
psock_set_up_here <- function(packages, nice, env) {
  on.exit({ # as starting_is_over() does
    Sys.unsetenv("CLUTCH_STARTING")
    if (identical(getOption("error"), expression(NULL))) options(error = NULL)
  })
  watcher <- Sys.getenv("CLUTCH_WATCHER") # as end_watcher() does
  Sys.unsetenv("CLUTCH_WATCHER")
  if (nzchar(watcher)) tools::pskill(as.integer(watcher), 9L)
  if (length(env)) do.call(Sys.setenv, as.list(env))
  if (!is.na(nice)) tools::psnice(value = nice)
  for (p in packages) {
    why <- tryCatch({
      suppressPackageStartupMessages(library(p, character.only = TRUE))
      NULL
    }, error = conditionMessage)
    if (!is.null(why)) return(c(p, why))
  }
  NULL
}
environment(psock_set_up_here) <- baseenv()

# ---- end ----

stop_psock_nodes <- function(cl) {
  for (nd in unclass(cl)) tell_psock_done(nd)
  .Call(ffi_nodes_stop, lapply(unclass(cl), function(nd) nd$handle), 2000, 5)
}

# Nobody waits for bytes that cannot leave at once: a worker that does not read is killed, or finds
# the connection closed.
tell_psock_done <- function(node) {
  try(silent = TRUE, {
    if (.Call(ffi_psock_flush, node$con, 0)) {
      .Call(ffi_psock_queue, node$con, list(type = "DONE", data = NULL, tag = NULL), NA_real_)
      .Call(ffi_psock_flush, node$con, 0)
    }
  })
  .Call(ffi_psock_close, node$con)
}
