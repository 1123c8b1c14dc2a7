# One step of the work of a cluster, and what becomes of nodes that die meanwhile.

# Works for at most so many seconds, or until there is something to do for `job` (NULL: any).
# `known`: how many of its failures the caller knows. Deaths are seen to here. What there is to do
# for the caller, by name: see ffi_tasks_step().
task_step <- function(t, job, seconds, known = Inf) {
  if (length(t$unheard)) hear_of_deaths(t)
  if (length(t$replacements)) {
    see_to_replacements(t)
    seconds <- min(seconds, 0.05)
  }
  manager <- t$manager
  if (!is.null(manager)) seconds <- min(seconds, manager$step(t))
  event <- .Call(ffi_tasks_step, t$ptr, job, seconds, min(known, 2^31 - 1))
  if (event == "unclear") manager$hear_of_ends(t)
  if (event == "deaths") hear_of_deaths(t)
  if (event == "notes") see_to_notes(t)
  if (event == "relay") relay_unheard(t)
  if (event == "no_node") {
    if (bring_back_idle(t)) return("time_up")
    if (await_replacement(t, seconds)) return("time_up")
    if (!is.null(manager) && manager$await(t, seconds)) return("time_up")
    fail_pending(t, job)
  }
  event
}

# Brings back nodes that have ended since nobody needed them, although somebody was about to, or to
# give back memory. Tells whether there are some again.
bring_back_idle <- function(t) {
  any(vapply(.Call(ffi_tasks_idle_nodes, t$ptr), function(rank) attach_node(t, rank), NA))
}

# A thread may have seen some while this one was elsewhere: src/core/tasks/engine.h. Who jumps out
# of a replacement, by an interrupt or a warning that is an error, leaves the other deaths to the
# next.
hear_of_deaths <- function(t) {
  t$unheard <- c(t$unheard, .Call(ffi_tasks_deaths, t$ptr))
  while (length(t$unheard)) {
    d <- t$unheard[[1L]]
    t$unheard <- t$unheard[-1L]
    node_lost(t, d)
  }
  see_to_notes(t)
}

see_to_notes <- function(t) if (hear_of_notes(t)) bring_back_idle(t)

# For calls of package parallel. A node that the session has ended for what it did with a task is
# replaced: why it was ended; NULL: it is not one of those. `i` is of that node, when it was found.
# `is_needed`: something is to be sent to its successor.
ended_for_task <- function(node, i, is_needed = FALSE) {
  t <- .subset2(node, "info")$tasks
  if (is.null(t) || i$state != "stopped") return(NULL)
  while (task_step(t, NULL, 0) == "deaths") NULL
  if (is_needed) settle_needed(t, i$rank) else settle_replacements(t)
  d <- t$ended[[format(i$rank)]]
  if (identical(d$pid, i$pid)) d$how
}

# For calls of package parallel, too: the node had ended to give back memory, and is there again.
# Not where all have ended since nobody needed them.
comes_back <- function(node) {
  info <- .subset2(node, "info")
  ended <- if (!is.null(info$tasks)) .Call(ffi_tasks_idle_nodes, info$tasks$ptr)
  if (length(ended) == length(info$handles)) return(FALSE)
  rank <- .subset2(node, "rank")
  rank %in% ended && attach_node(info$tasks, rank)
}

# The death of which this is the number; NULL: it is not known any more.
death_with <- function(t, cause) {
  key <- format(cause)
  if (is.null(t$deaths[[key]])) hear_of_deaths(t)
  t$deaths[[key]]
}

# `d`: one of ffi_tasks_deaths(). Its cause is remembered for the errors of tasks.
node_lost <- function(t, d) {
  i <- d$info
  t$latest <- death_of(d, t$info)
  remember_death(t, t$latest)
  t$deaths[[format(d$cause)]] <- t$latest
  if (!is.null(d$killed) || d$over_memory) t$ended[[format(d$index)]] <- t$latest
  tell_loss(t, d, t$latest)
  # who comes late to a death may find its successor
  if (is.null(i) || !identical(.Call(ffi_node_info, t$info$handles[[d$index]])$pid, i$pid)) {
    .Call(ffi_tasks_attach, t$ptr, d$index)
  } else if (!is.null(d$killed) || i$state == "dead") {
    replace_or_give_up(t, d, t$latest)
  }
}

# For cluster_trace().
remember_death <- function(t, death) {
  t$death_log <- c(utils::tail(t$death_log, MOST_DEATHS_TOLD - 1L), list(c(death, at = clock())))
}
MOST_DEATHS_TOLD <- 200L

# The value is what errors say of a death. `info` is the cluster's.
death_of <- function(d, info) {
  i <- d$info
  end <- if (is.null(d$killed) && !d$over_memory) end_of_host(info, d$index)
  how <- if (is.null(end)) lost_text(d, info) else end$text
  is_memory <- d$over_memory || ended_for_room(d) || identical(end$cause, "memory") ||
    grepl("out-of-memory", how, fixed = TRUE)
  list(
    how = how,
    kind = if (is_memory) "memory" else "died",
    cause = end$cause,
    pid = if (is.null(i)) NA_integer_ else i$pid,
    rank = d$index,
    job = d$job,
    element = d$element,
    copy = d$copy,
    signal = if (isTRUE(i$by_signal)) i$code else NA_integer_,
    status = if (isFALSE(i$by_signal)) i$code else NA_integer_
  )
}

lost_text <- function(d, info) {
  i <- d$info
  if (is.null(i)) return("it was replaced, since it did not give up what it was told to")
  if (d$over_memory) return(memory_text(d))
  if (ended_for_room(d)) return(room_text(d))
  if (!is.null(d$killed)) return(killed_text(d$killed))
  if (i$state == "stopped") return("the cluster was stopped")
  death_text(i, info)
}

# Why the session has ended a node.
killed_text <- function(why) {
  switch(why,
    no_reaction = "it did not react when time was up and was ended",
    corrupt = "it sent what makes no sense and was ended",
    no_memory = "there was not enough memory for what it was to be sent, and it was ended"
  )
}

memory_text <- function(d) {
  size <- if (d$memory > 0) sprintf(" (%s)", mb(d$memory)) else ""
  text <- sprintf("it took more memory%s than `.max_memory` allows and was ended", size)
  if (d$has_begun) return(text)
  paste0(text, " before it had begun anything: ",
         "this is a node's own size, or what others have left in it")
}

# One more node does not help where each ends before it can begin. A node that takes too much memory
# may have what others have left in it; its successor has not. SIGKILL of unknown origin says
# nothing of the node: on a slow machine, something that kills nodes at random may meet one several
# times before it can begin.
MOST_DEATHS_IN_A_ROW <- 3L
MOST_TOO_LARGE_IN_A_ROW <- 2L
MOST_KILLS_IN_A_ROW <- 10L

most_in_a_row <- function(d, death) {
  if (d$over_memory) return(MOST_TOO_LARGE_IN_A_ROW)
  is_kill <- is.null(d$killed) && identical(death$signal, 9L) && death$kind != "memory"
  if (is_kill) MOST_KILLS_IN_A_ROW else MOST_DEATHS_IN_A_ROW
}

# `death`: of death_of().
replace_or_give_up <- function(t, d, death) {
  if (comes_and_goes(t, d$index)) return(invisible())
  if (is.null(t$deaths_in_a_row)) t$deaths_in_a_row <- integer(length(t$info$handles))
  n <- if (d$has_begun) 0L else t$deaths_in_a_row[[d$index]] + 1L
  t$deaths_in_a_row[[d$index]] <- n
  if (n < most_in_a_row(d, death)) return(replace_dead(t, d$index))
  text <- "node %d ended %d times in a row before it had begun anything: %s"
  t$problem <- sprintf(text, d$index, n, death$how)
}

# No node is left for this job, and none can be had: what waits fails.
fail_pending <- function(t, job) {
  cause <- -1L - length(t$deaths) # those of the scheduler are positive
  why <- c(if (is.null(t$latest$cause)) t$problem, t$latest$how, "the cluster was stopped")[[1L]]
  t$deaths[[format(cause)]] <- list(
    how = paste("no node is left:", why),
    kind = if (identical(t$latest$kind, "memory")) "memory" else "died",
    cause = t$latest$cause,
    pid = NA_integer_,
    rank = NA_integer_,
    signal = NA_integer_,
    status = NA_integer_
  )
  .Call(ffi_job_fail_pending, job, cause)
}
