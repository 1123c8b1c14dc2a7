# One turn of the scheduler, and what becomes of nodes that die meanwhile.

# One turn: code of what there is to do, see ffi_tasks_step(). Deaths are seen to.
turn <- function(t, job, seconds, seen = 2^31 - 1) {
  if (length(t$replacements)) {
    see_to_replacements(t)
    seconds <- min(seconds, 0.05)
  }
  code <- .Call(ffi_tasks_step, t$ptr, job, seconds, seen)
  if (code == 2L) for (d in .Call(ffi_tasks_deaths, t$ptr)) node_lost(t, d)
  if (code == 5L) {
    if (await_replacement(t, seconds)) return(0L)
    no_node_left(t, job)
  }
  code
}

TURNS <- c(time = 0L, done = 1L, deaths = 2L, relay = 3L, failed = 4L, no_node = 5L)

node_lost <- function(t, d) {
  i <- d$info
  how <- if (is.null(i)) "it was replaced, since it did not give up what it was told to"
    else if (d$over_memory) memory_text(d)
    else if (d$killed > 0L) killed_text[[d$killed]]
    else if (i$state == "stopped") "the cluster was stopped"
    else death_text(i, t$info)
  kind <- if (d$over_memory || grepl("out-of-memory", how, fixed = TRUE)) "memory" else "died"
  t$latest <- how
  t$deaths[[format(d$cause)]] <- list(how = how, kind = kind, pid = if (is.null(i)) NA_integer_ else i$pid, rank = d$index,
                              signal = if (isTRUE(i$by_signal)) i$code else NA_integer_,
                              status = if (isFALSE(i$by_signal)) i$code else NA_integer_)
  t$latest_kind <- kind
  if (is.null(i)) .Call(ffi_tasks_attach, t$ptr, d$index) # its successor
  else if (d$killed > 0L || i$state == "dead") replace_or_give_up(t, d, how)
}

replace_or_give_up <- function(t, d, how) {
  n <- if (d$began) 0L else t$barren[[d$index]] + 1L
  t$barren[[d$index]] <- n
  if (n < MOST_BARREN) return(replace_dead(t, d$index))
  t$problem <- sprintf("node %d was replaced %d times and each time ended before it had begun anything: %s",
                       d$index, n - 1L, how)
}

# What ends each node before it can begin is not mended by one more of them.
MOST_BARREN <- 3L

no_node_left <- function(t, job) {
  cause <- -1L - length(t$deaths) # those of the scheduler are positive
  why <- if (!is.null(t$problem)) t$problem else if (!is.null(t$latest)) t$latest else "the cluster was stopped"
  kind <- if (identical(t$latest_kind, "memory")) "memory" else "died"
  t$deaths[[format(cause)]] <- list(how = paste("no node is left:", why), kind = kind, pid = NA_integer_, rank = NA_integer_,
                            signal = NA_integer_, status = NA_integer_)
  .Call(ffi_job_strand, job, cause)
}
