# How nodes and fork servers ended, in words, and the error of a call to a node that has died.

# "killed by signal 9 (SIGKILL)", "it ended with exit status 3"
how_ended <- function(by_signal, code) {
  if (is.na(by_signal) || is.na(code)) return("how it ended is not known")
  if (by_signal) return(sprintf("killed by signal %d%s", code, signal_name(code)))
  why <- if (code == 74L) ", since what it did closed its connection to the session" else ""
  sprintf("it ended with exit status %d%s", code, why)
}

signal_name <- function(code) {
  name <- .Call(ffi_signal_name, code)
  if (is.null(name)) return("")
  what <- switch(name,
    SIGSEGV = ", a segmentation fault",
    SIGABRT = ", an abort",
    SIGFPE = ", an arithmetic fault",
    SIGBUS = ", memory or a file that is not there",
    SIGXFSZ = ", a file larger than ulimit -f allows",
    SIGXCPU = ", more processor time than ulimit -t allows",
    ""
  )
  sprintf(" (%s%s)", name, what)
}

# `i`: of ffi_server_info().
server_ended <- function(i) {
  if (is.na(i$by_signal)) return("ended")
  if (i$by_signal) return(paste("was", how_ended(TRUE, i$code)))
  sprintf("ended with exit status %d", i$code)
}

# Why a node has ended with its fork server. `info` is the cluster's; a server that has a successor
# has left its text there.
server_end_text <- function(pid, info) {
  text <- info$lost_servers[[format(pid)]]
  if (!is.null(text)) return(text)
  i <- .Call(ffi_server_info, info$server$handle)
  sprintf("its fork server (pid %d) %s, and its nodes with it", pid, server_ended(i))
}

# Plans have this function as their element `end_of_server`. `i`: of ffi_node_info().
fork_server_end_text <- function(i, info) server_end_text(i$server_pid, info)

# For a node of hosts().
host_end_text <- function(i, info) {
  sprintf("its host %s is lost%s, and all of its nodes with it", info$hosts[[i$rank]],
          host_end_reason(info, info$host_of[[i$rank]]))
}

# " (it was cut off for too long)", where that is known.
host_end_reason <- function(info, k) {
  why <- status_of_hosts(info)$why[[k]]
  if (nzchar(why)) sprintf(" (%s)", why) else ""
}

# A host ends by SIGTERM to all its processes, which come to their ends at about the same time.
was_terminated <- function(info, index) {
  i <- .Call(ffi_node_info, info$handles[[index]])
  isTRUE(i$by_signal) && i$code == tools::SIGTERM
}

# How the host of this node has ended, where somebody else has ended it; NULL: it has not, or it is
# not known.
end_of_host <- function(info, rank) {
  if (is.null(info$remote$ends)) return(NULL)
  info$remote$ends[[format(info$host_of[[rank]])]]
}

# Why a node has ended: `i` of ffi_node_info(), `info` of its cluster.
death_text <- function(i, info) {
  if (!is.null(i$refusal)) return(i$refusal)
  end <- end_of_host(info, i$rank)
  if (!is.null(end)) return(end$text)
  if (is.na(i$by_signal) && isTRUE(i$server_ended)) return(info$plan$end_of_server(i, info))
  how <- how_ended(i$by_signal, i$code)
  if (!killed_for_memory(i, info)) return(how)
  paste0(how, "; the system's out-of-memory killer was at work meanwhile")
}

# The state of a node as users read it.
state_text <- function(i) {
  if (i$state != "dead") return(i$state)
  why <- if (!is.null(i$refusal)) {
    i$refusal
  } else if (is.na(i$by_signal) && i$server_ended) {
    if (is.na(i$server_pid)) "its host is lost" else "its fork server ended"
  } else {
    how_ended(i$by_signal, i$code)
  }
  paste("dead:", why)
}

# The nodes' error. `before`: it was dead when it was asked to do something. `i`: of the node that
# has died. `how`: where the session has ended it, why.
throw_node_died <- function(node, before = FALSE, i, how = NULL) {
  if (is.null(how)) {
    if (i$state == "stopped") throw_stopped()
    how <- death_text(i, node$info)
  }
  tell_death_of(node$info, i, how)
  text <- sprintf("node %d of the cluster (pid %d on %s) %s: %s", i$rank, i$pid, node$host,
                  if (before) "is dead" else "died during a call", how)
  throw("node_died", text, node = i$rank, pid = i$pid, host = node$host,
        signal = if (isTRUE(i$by_signal)) i$code else NA_integer_,
        status = if (isFALSE(i$by_signal)) i$code else NA_integer_)
}

throw_stopped <- function() {
  throw("stopped", "this cluster has been stopped: make a new one with make_cluster()")
}

# `i`: of ffi_node_info(); `info`: of its cluster. The answer is kept while the node has no
# successor: it may be asked for again.
killed_for_memory <- function(i, info) {
  if (!isTRUE(i$by_signal) || !identical(i$code, 9L)) return(FALSE)
  if (isTRUE(info$plan$counts_oom)) return(i$oom)
  rank <- format(i$rank)
  if (identical(info$by_killer[[rank]]$pid, i$pid)) return(info$by_killer[[rank]]$was)
  attributed <- max(info$oom_kills, the$oom_kills)
  was <- oom_kills() > attributed
  if (was) the$oom_kills <- attributed + 1
  by_killer <- info$by_killer
  by_killer[[rank]] <- list(pid = i$pid, was = was)
  set_cluster(info, by_killer = by_killer)
  was
}
