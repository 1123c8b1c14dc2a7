# Events say what happens to clusters. The log, the view and OpenTelemetry are told of them.
#
# An event is a list with
#   time      seconds since the epoch: when it happened, as far as that is known
#   kind      "start", "death", "replacement", "retry", "limit", "cut", "resume", "stop"
#   cluster   number of the cluster in this session, from 1 on
#   node      number of the node in the cluster; NA: it is about all, or about a host
#   host      name of the host; NA: several
#   pid       of the node; NA: none, or not known
#   text      what happened, or why, in words
# and what else is known, as strings, numbers or logicals. Of some or all kinds:
#   job, element   as cluster_trace() numbers them: what the node was at; NA: nothing
#   attempt   "retry", "limit": number of the start of the task
#   limit     "limit": "time" or "memory"
#   ok        FALSE: it failed, as `text` says
#   nodes     "start", "stop", "cut", "resume": how many nodes it is about
#   pids      "start": of all nodes
#
# Events are told where they are found out, which is never on the way of a task that goes well. The
# view of the cluster (event-view.R) has them all.

# `hear`: function of an event. What it raises is not the affair of who tells, so it is dropped: a
# listener sees to its own errors. `is_on`: function that tells whether there is somebody behind it
# now; NULL: always.
listen <- function(name, hear, is_on = NULL) {
  the$listeners[[name]] <- list(hear = hear, is_on = is_on)
  invisible()
}

unlisten <- function(name) {
  the$listeners[[name]] <- NULL
  invisible()
}

# `info`: what the nodes of a cluster share. `node`: its number. `at`: by clock(), when it happened;
# NULL: now. `...`: further fields, named.
tell_event <- function(kind, info, node = NA_integer_, text = "", pid = NA_integer_,
                       host = host_of_event(info, node), at = NULL, ...) {
  heard <- Filter(function(l) is.null(l$is_on) || isTRUE(l$is_on()), the$listeners)
  if (!length(heard) && is.null(info$view)) return(invisible())
  time <- as.numeric(Sys.time()) - if (is.null(at)) 0 else clock() - at
  event <- list(time = time, kind = kind, cluster = cluster_number(info), node = as.integer(node),
                host = host, pid = as.integer(pid), text = text, ...)
  if (!is.null(info$view)) {
    .Call(ffi_view_tell, info$view, kind, if (is.na(node)) 0L else event$node, text)
  }
  for (l in heard) tryCatch(l$hear(event), error = function(e) NULL)
  invisible()
}

host_of_event <- function(info, node) {
  host <- if (is.na(node)) unique(info$hosts) else info$hosts[[node]]
  if (length(host) == 1L) host else NA_character_
}

# Clusters are numbered as they are made. Its views have the same number.
cluster_number <- function(info) {
  if (is.null(info$shown_as)) {
    the$clusters <- the$clusters + 1
    set_cluster(info, shown_as = the$clusters)
  }
  as.integer(info$shown_as)
}

# The death of a process is found out in several places, and told once.
tell_death <- function(info, node, pid, text, ...) {
  key <- format(node)
  told <- as.list(info$told)
  if (!is.na(pid) && identical(told[[key]], pid)) return(invisible())
  told[[key]] <- pid
  set_cluster(info, told = told)
  tell_event("death", info, node, text, pid = pid, ...)
}

# Tells of a death of which only the end of the process is known: `i` of ffi_node_info().
tell_death_of <- function(info, i, text, cause = cause_of_end(i, text)) {
  tell_death(info, i$rank, i$pid, text, cause = cause,
             signal = if (isTRUE(i$by_signal)) i$code else NA_integer_,
             status = if (isFALSE(i$by_signal)) i$code else NA_integer_)
}

# One word, for programs. `text`: the same for people.
cause_of_end <- function(i, text) {
  if (grepl("out-of-memory", text, fixed = TRUE)) return("out_of_memory")
  if (isTRUE(i$by_signal)) return("signal")
  if (isFALSE(i$by_signal)) return("exit")
  "unknown"
}

# There is a new process where one has ended, or was ended. `text`: why, or what was wrong.
tell_replacement <- function(info, node, text = "") {
  pid <- function() .Call(ffi_node_info, info$handles[[node]])$pid
  tell_event("replacement", info, node, text, pid = pid())
}

# These nodes were stopped, and none of them before.
tell_stop <- function(info, ranks, text = "") {
  new <- setdiff(ranks, info$told_stopped)
  if (!length(new)) return(invisible())
  set_cluster(info, told_stopped = c(info$told_stopped, new))
  one <- length(new) == 1L && length(info$hosts) > 1L
  tell_event("stop", info, if (one) new else NA_integer_, text, nodes = length(new))
}
