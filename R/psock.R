# Base R's own workers as nodes (node = "psock"): started and watched as ours, spoken to in their protocol. Its
# handshake proves nothing: a worker is who answers a command, and, where the session has started it, has the
# pid of a process that was started.
#
# A worker answers in order and cannot be told to give up. What was asked before a call was interrupted has an older
# number (epoch) than what is asked afterwards, and its answers are thrown away. Nothing is lost when sending or receiving
# is interrupted half-way: it goes on with the next call.

psock_cluster <- function(info, n, left, began) {
  tcp <- info$tcp
  l <- .Call(ffi_psock_listen, tcp$listen, tcp$ports, as.integer(tcp$backlog))
  if (is.character(l)) throw("start", paste("there is no port at which the nodes could connect:", l))
  ranks <- seq_len(n)
  handles <- lapply(ranks, function(r) .Call(ffi_acceptor_node, NULL, r, NULL))
  sockets <- vector("list", n)
  pending <- list()
  since <- numeric()
  logs <- character()
  ok <- FALSE
  on.exit({
    for (s in c(list(l$handle), pending, if (!ok) Filter(Negate(is.null), sockets))) .Call(ffi_psock_close, s)
    if (!ok) .Call(ffi_nodes_stop, handles, 0, 5)
    unlink(logs)
  })
  pids <- function() vapply(handles, function(h) { p <- .Call(ffi_node_child_pid, h); if (is.null(p)) NA_integer_ else p }, 1L)
  # One who has answered; FALSE: not yet all of it
  take <- function(s) {
    pid <- tryCatch(.Call(ffi_psock_recv, s, 0, 4096, NULL)$value$value,
                    clutch_incomplete = identity, error = function(e) NULL)
    if (inherits(pid, "clutch_incomplete")) return(FALSE)
    free <- vapply(sockets, is.null, NA)
    known <- pids()
    at <- if (!is.integer(pid) || length(pid) != 1L) NA else if (pid %in% known[free]) which(free & known %in% pid)[1L]
      else which(free & (is.na(known) | !vapply(tcp$nodes, function(nd) nd$local, NA)))[1L]
    if (is.na(at)) {
      .Call(ffi_psock_close, s)
      return(TRUE)
    }
    sockets[[at]] <<- s
    .Call(ffi_psock_is_ready, handles[[at]], pid)
    TRUE
  }
  forget <- function(which) {
    pending <<- pending[!which]
    since <<- since[!which]
  }
  # Who does not answer has ten seconds, and where there are many one.
  sweep <- function() {
    late <- clock() - since > (if (length(pending) < 128L + n) 10 else 1)
    for (s in pending[late]) .Call(ffi_psock_close, s)
    forget(late)
  }
  ask_pid <- list(type = "EXEC", data = list(fun = eval, args = list(quote(Sys.getpid())), return = TRUE, tag = NULL), tag = NULL)
  wait_for <- function(k) {
    while (sum(!vapply(sockets, is.null, NA)) < k) {
      dead <- any(vapply(handles, function(h) .Call(ffi_node_info, h)$state == "dead", NA))
      if (dead || left() <= 0.02) {
        e <- start_failure(info, ranks, length(logs), handles, logs, NULL)
        .Call(ffi_nodes_stop, handles, 0, 5)
        stop(e)
      }
      ready <- .Call(ffi_psock_ready, c(list(l$handle), pending), min(left(), 0.1))
      # the listener first in `ready`; what follows is in the order of `pending`, to which accept() appends
      if (1L %in% ready && length(pending) < 128L + n && !is.null(s <- .Call(ffi_psock_accept, l$handle))) {
        .Call(ffi_psock_queue, s, ask_pid, NA_real_)
        if (.Call(ffi_psock_flush, s, 0)) {
          pending[[length(pending) + 1L]] <<- s
          since[length(pending)] <<- clock()
        }
      }
      answered <- seq_along(pending) %in% (setdiff(ready, 1L) - 1L)
      answered[answered] <- vapply(pending[answered], take, NA)
      forget(answered)
      sweep()
    }
  }
  for (i in ranks) {
    logs[[i]] <- log_of(tcp, tcp$nodes[[i]])
    start_psock_node(info, tcp$nodes[[i]], handles[[i]], l$port, logs[[i]])
    if (tcp$sequential) wait_for(i)
  }
  wait_for(n)
  ok <- TRUE
  info$port <- l$port
  cl <- as_cluster(info, handles, began)
  info$handles <- NULL # they know nothing of tasks
  info$epoch <- 0
  for (i in ranks) {
    cl[[i]]$con <- sockets[[i]]
    class(cl[[i]]) <- c("clutch_psock_node", "clutch_node")
  }
  class(cl) <- c("clutch_psock_cluster", class(cl))
  set_up_psock(cl, info, left)
  cl
}

set_up_psock <- function(cl, info, left) {
  set_up <- function(packages, nice, env) {
    on.exit({ # as starting_is_over() does
      Sys.unsetenv("CLUTCH_STARTING")
      if (identical(getOption("error"), expression(NULL))) options(error = NULL)
    })
    if (length(env)) do.call(Sys.setenv, as.list(env))
    if (!is.na(nice)) tools::psnice(value = nice)
    for (p in packages) {
      why <- tryCatch({ suppressPackageStartupMessages(library(p, character.only = TRUE)); NULL }, error = conditionMessage)
      if (!is.null(why)) return(c(p, why))
    }
    NULL
  }
  environment(set_up) <- baseenv()
  ok <- FALSE
  on.exit(if (!ok) stop_nodes(cl))
  for (i in seq_along(cl)) the$parallel$sendCall(cl[[i]], set_up, list(info$packages, info$tcp$nodes[[i]]$nice, info$tcp$env))
  info$answer_by <- clock() + left()
  bad <- Filter(Negate(is.null), lapply(unclass(cl), the$parallel$recvResult))
  info$answer_by <- NULL
  ok <- length(bad) == 0L
  if (!ok) throw("package", sprintf("package '%s' cannot be attached on the nodes: %s", bad[[1L]][[1L]], bad[[1L]][[2L]]), package = bad[[1L]][[1L]])
}

psock_command <- function(node, port, tcp) {
  packages <- c("datasets", "utils", "grDevices", "graphics", "stats", if (tcp$methods) "methods")
  c(node$rscript, paste0("--default-packages=", paste(packages, collapse = ",")), node$rscript_args,
    "-e", "parallel:::.workRSOCK()", paste0("MASTER=", node$master), paste0("PORT=", port), paste0("OUT=", node$outfile),
    paste0("SETUPTIMEOUT=", format(tcp$setup_timeout, scientific = FALSE)),
    paste0("TIMEOUT=", format(tcp$timeout, scientific = FALSE)), "XDR=TRUE", "SETUPSTRATEGY=parallel")
}

start_psock_node <- function(info, node, handle, port, log) {
  command <- psock_command(node, port, info$tcp)
  if (info$tcp$manual) {
    cat("Manually start worker on", node$host, "with\n    ", command_line(command), "\n")
    utils::flush.console()
    return(invisible())
  }
  launch_node(info$tcp, node, handle, NULL, command, character(), log)
}

# What cannot leave at once is not waited for: a worker that does not read is killed, or finds the connection closed.
tell_psock_done <- function(nd) {
  try(silent = TRUE, if (.Call(ffi_psock_flush, nd$con, 0)) {
    .Call(ffi_psock_queue, nd$con, list(type = "DONE", data = NULL, tag = NULL), NA_real_)
    .Call(ffi_psock_flush, nd$con, 0)
  })
  .Call(ffi_psock_close, nd$con)
}

# ---- methods for parallel ----

sendData_clutch_psock_node <- function(node, data) {
  if (identical(data$type, "DONE")) {
    stop_nodes(list(node))
    return(invisible())
  }
  silence <- node$info$tcp$timeout
  if (!.Call(ffi_psock_flush, node$con, silence)) psock_died(node, TRUE) # the rest of one that was interrupted
  giving_up(node, {
    .Call(ffi_psock_queue, node$con, data, if (identical(data$type, "EXEC")) node$info$epoch else NA_real_)
    if (!.Call(ffi_psock_flush, node$con, silence)) psock_died(node, TRUE)
  })
  invisible()
}

# The next answer; NULL: it is to a call that has been given up, or not yet complete `seconds` after its last byte.
psock_answer <- function(node, seconds) {
  answer <- tryCatch(.Call(ffi_psock_recv, node$con, seconds, 1e16, node$handle),
                     clutch_incomplete = function(e) list(epoch = NA), error = function(e) NULL)
  if (is.null(answer)) psock_died(node)
  if (identical(answer$epoch, node$info$epoch)) answer$value
}

# An interrupt, or the death of a node, while an answer is awaited: all that is under way is given up.
giving_up <- function(node, expr) {
  done <- FALSE
  on.exit(if (!done) node$info$epoch <- node$info$epoch + 1)
  force(expr)
  done <- TRUE
}

# One whose answer has come in part, and then no more for as long as `timeout` says, is lost.
check_silence <- function(node) {
  if (.Call(ffi_psock_awaited, node$con)[[2L]] > node$info$tcp$timeout) psock_died(node)
  if (!is.null(by <- node$info$answer_by) && clock() > by)
    throw("start", sprintf("node %d did not answer within setup_timeout; nothing was left running", node$rank), nodes = node$rank)
}

recvData_clutch_psock_node <- function(node) {
  answer <- NULL
  if (!.Call(ffi_psock_awaited, node$con)[[1L]]) throw("no_call", "nothing was sent to this node that it could answer")
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
    for (i in .Call(ffi_psock_ready, cons, 1))
      if (is.null(found) && !is.null(answer <- psock_answer(nodes[[i]], 0.1))) found <- list(node = i, value = answer)
    if (is.null(found)) for (nd in nodes) check_silence(nd)
  })
  found
}

psock_died <- function(node, before = FALSE) {
  end <- clock() + 1
  while (.Call(ffi_node_info, node$handle)$state == "idle" && clock() < end) Sys.sleep(0.002)
  .Call(ffi_psock_close, node$con)
  if (.Call(ffi_node_info, node$handle)$state == "idle") .Call(ffi_node_lost, node$handle)
  throw_node_died(node, before)
}
