# Events of the work of a cluster: what is told when its nodes die, and what compiled code has found
# out. `t` is the environment of a cluster's tasks.

# `d`: one of ffi_tasks_deaths(), `death`: what was made of it. Nothing is told of a node in whose
# place another has been put: that was told then.
tell_loss <- function(t, d, death) {
  if (is.null(d$info)) return(invisible())
  if (d$over_memory || ended_for_room(d)) {
    tell_event("limit", t$info, d$index, death$how, pid = death$pid, at = d$at, limit = "memory",
               job = d$job, element = d$element)
  }
  tell_death(t$info, d$index, death$pid, death$how, at = d$at, cause = death_cause(d, death),
             signal = death$signal, status = death$status, job = d$job, element = d$element)
}

death_cause <- function(d, death) {
  if (d$over_memory) return("max_memory")
  if (death$kind == "memory") return("out_of_memory")
  if (!is.null(d$killed)) return(d$killed)
  if (!is.null(death$cause)) return(death$cause)
  cause_of_end(d$info, death$how)
}

# Hears what else compiled code has found out, perhaps while the session was elsewhere. Tells
# whether nodes have ended to give back memory, and others are wanted in their places.
hear_of_notes <- function(t) {
  notes <- .Call(ffi_tasks_notes, t$ptr)
  if (is.null(notes)) return(invisible(FALSE))
  if ("grown" %in% notes$kind) handles_now(t$info)
  is_of_host <- notes$kind %in% c("cut", "resume")
  for (k in which(!is_of_host)) tell_note(t, lapply(notes, `[[`, k))
  if (any(is_of_host)) tell_cuts(t, lapply(notes, `[`, is_of_host))
  if ("grown" %in% notes$kind) warn_of_growth(t)
  invisible("renew" %in% notes$kind)
}

tell_note <- function(t, n) {
  switch(n$kind,
    idle = tell_event("stop", t$info, text = "nobody has used its nodes", at = n$at,
                      nodes = nodes_at_start(t$info)),
    grown = tell_event("start", t$info, n$node, "a node has come", at = n$at),
    shrunk = tell_event("stop", t$info, n$node, "there was nothing to do for it", at = n$at),
    renew = tell_event("stop", t$info, n$node, "memory is short, and it had nothing to do",
                       at = n$at),
    not_grown = tell_event("start", t$info, n$node, "it could not start", at = n$at, ok = FALSE),
    limit = tell_event("limit", t$info, n$node, "took longer than `.timeout` allows", at = n$at,
                       limit = "time", job = n$job, element = n$element, attempt = n$attempt),
    retry = tell_event("retry", t$info, n$node, retry_text(t, n), at = n$at, job = n$job,
                       element = n$element, attempt = n$attempt)
  )
}

# Why it is tried again: the latest death that was at it.
retry_text <- function(t, n) {
  is_its <- function(d) identical(d$job, n$job) && identical(d$element, n$element)
  causes <- Filter(is_its, as.list(t$deaths))
  if (!length(causes)) return("its node has died")
  latest <- causes[[which.max(as.numeric(names(causes)))]]
  sprintf("node %d (pid %d) died while it was at it: %s", latest$rank, latest$pid, latest$how)
}

# One event a host, and not one a node: those of one kind that follow each other.
tell_cuts <- function(t, notes) {
  host <- t$info$host_of[notes$node]
  for (ks in split(seq_along(host), host)) {
    kind <- notes$kind[ks]
    run <- cumsum(c(TRUE, kind[-1L] != kind[-length(kind)]))
    for (these in split(ks, run)) tell_cut(t, notes$kind[[these[[1L]]]], notes, these)
  }
}

tell_cut <- function(t, kind, notes, these) {
  first <- these[[1L]]
  text <- if (kind == "cut") "its connection is cut" else "it is there again"
  tell_event(kind, t$info, text = text, host = t$info$hosts[[notes$node[[first]]]],
             at = notes$at[[first]], nodes = length(these))
}

# A node that has died while it had nothing to do. What was told to end is no death.
tell_found_dead <- function(t, rank) {
  i <- .Call(ffi_node_info, t$info$handles[[rank]])
  if (i$state == "dead") tell_death_of(t$info, i, death_text(i, t$info))
}
