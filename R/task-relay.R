# Output and conditions of tasks: relayed to the session.
#
# They are repeated in the order of the elements. A function as `.relay` gets conditions while the
# task goes on and somebody in the session waits for it. src/r/node/relay.c collects them in the
# node.

# Relays what elements have printed and signalled, in order. To establish restarts takes most of the
# time of a condition, so those that follow each other share theirs, until a handler uses it. `t`:
# the tasks of their cluster.
relay_log <- function(t, log) {
  remember_warnings(t, log)
  done <- 0L # how many
  n <- length(log)
  restart_for <- "warning"
  state <- environment()
  go_on <- function() {
    while (done < n) {
      x <- log[[done + 1L]]
      is_of_others <- !is.object(x) || is_simple(x) || restart_of(x) != restart_for
      if (is_of_others && done > before) break
      done <<- done + 1L
      relay_one(x)
    }
  }
  while (done < n) {
    before <- done
    x <- log[[done + 1L]]
    if (!is.object(x)) {
      done <- done + 1L
      cat(x)
      next
    }
    if (inherits(x, "simpleWarning")) relay_warnings(log, done, state)
    if (inherits(x, "simpleMessage")) relay_messages(log, done, state)
    if (done == before) {
      restart_for <- restart_of(x)
      switch(restart_for,
        message = withRestarts(go_on(), muffleMessage = nothing),
        warning = withRestarts(go_on(), muffleWarning = nothing)
      )
    }
  }
}

simple_warning <- c("simpleWarning", "warning", "condition")
simple_message <- c("simpleMessage", "message", "condition")

# Simple conditions are those which warning("text") and message("text") make. They are most, and C
# code relays them.
is_simple <- function(x) {
  (identical(class(x), simple_warning) || identical(class(x), simple_message)) && is.list(x) &&
    identical(names(x), c("message", "call")) && is_text(.subset2(x, 1L))
}

# From the one after `done` on. The restart ends this call; `done` in `state` says how far it came.
relay_warnings <- function(log, done, state) {
  .Call(ffi_relay_simple, log, done, state, show_warning, muffle_warning, environment())
}

relay_messages <- function(log, done, state) {
  .Call(ffi_relay_simple, log, done, state, show_message, muffle_message, environment())
}

nothing <- function() NULL

# The restart is as withRestarts() makes it, but for its place.
new_restart <- function(name) {
  restart <- list(name = name, exit = NULL, handler = nothing, description = "", interactive = NULL)
  structure(restart, class = "restart")
}
muffle_warning <- new_restart("muffleWarning")
muffle_message <- new_restart("muffleMessage")

# Which restart it has. All but messages have that of warnings.
restart_of <- function(x) if (inherits(x, "message")) "message" else "warning"

# How many warnings of each class there were, as remember_error() does. Nearly all are simple.
remember_warnings <- function(t, log) {
  is_simple <- vapply(lapply(log, oldClass), identical, NA, simple_warning)
  count <- function(first, n) t$warnings <- counted(t$warnings, first, n = n)
  if (any(is_simple)) count(log[[which.max(is_simple)]], sum(is_simple))
  if (all(is_simple)) return(invisible())
  others <- log[!is_simple]
  others <- others[vapply(others, inherits, NA, "warning")]
  class <- vapply(others, function(w) class(w)[[1L]], "")
  for (k in which(!duplicated(class))) count(others[[k]], sum(class == class[[k]]))
}

# Signals a condition as message() and warning() do it, within restarts.
relay_one <- function(x) {
  quiet <- inherits(x, "clutch_quiet")
  if (quiet) x <- x[[1L]]
  if (!is.null(attr(x, "clutch_restarts", TRUE))) return(signal_with_restarts(x))
  signalCondition(x)
  if (quiet || !inherits(x, c("message", "warning")) || !is_usable(x)) return()
  if (inherits(x, "message")) {
    show_message(x)
  } else {
    show_warning(x)
  }
}

# Neither message nor warning. What a handler wants to happen on the node cannot happen any more,
# but the restart is there.
signal_with_restarts <- function(x) {
  names <- attr(x, "clutch_restarts", TRUE)
  x <- as_on_node(x)
  if (!length(names)) return(signalCondition(x))
  restarts <- rep(list(function(...) NULL), length(names))
  names(restarts) <- names
  do.call(withRestarts, c(list(quote(signalCondition(x))), restarts))
}

as_on_node <- function(x) {
  if (is.list(x)) attr(x, "clutch_restarts") <- NULL
  x
}

show_message <- function(cond) cat(conditionMessage(cond), file = stderr(), sep = "")

# Tells whether there is something to show.
is_usable <- function(cond) {
  if (is.list(cond) && is_text(.subset2(cond, "message"))) return(TRUE)
  is_text(tryCatch(conditionMessage(cond), error = function(e) NULL))
}

is_text <- function(x) is.character(x) && length(x) == 1L

# Relays what elements have printed and signalled, as far as all before them have ended. The number
# of those that are done with.
relay_ready <- function(t, job, shown, to = Inf, bar) {
  ready <- min(.Call(ffi_job_ready, job), to)
  if (ready <= shown) return(shown)
  logs <- .Call(ffi_job_values, job)$logs
  # all of them as one log, so that they share their restarts
  log <- unlist(logs[(shown + 1):ready], recursive = FALSE, use.names = FALSE)
  if (length(log)) {
    progress_hide(bar)
    relay_log(t, log)
  }
  ready
}

# Relays what nodes have sent to be relayed at once.
relay_queue <- function(t, job, bar = NULL) {
  handler <- .Call(ffi_job_handler, job)
  if (!is.null(handler)) return(hand_over(t, job, handler, bar))
  repeat {
    x <- .Call(ffi_job_relay, job)
    if (is.null(x)) return(answer_waiting(job))
    if (!is.null(bar)) progress_hide(bar)
    if (inherits(x$piece, "clutch_prompt")) take_prompt(t, job, x) else relay_log(t, x["piece"])
  }
}

# Relays up to an element that has failed, and what that one has said, though some before it may not
# have ended.
relay_failed <- function(t, job, shown, element, bar) {
  if (relay_ready(t, job, shown, element, bar) >= element) return(invisible())
  logs <- .Call(ffi_job_values, job)$logs
  if (is.null(logs) || is.null(logs[[element]])) return(invisible())
  progress_hide(bar)
  relay_log(t, logs[[element]])
}

# ---- to a handler ----

# `.relay` was a function. It may wait for tasks itself: what comes meanwhile waits until it has
# returned.
handler_of <- function(fun) list2env(list(fun = fun, is_busy = FALSE), parent = emptyenv())

hand_over <- function(t, job, handler, bar) {
  if (handler$is_busy) return(invisible())
  handler$is_busy <- TRUE
  on.exit({
    handler$is_busy <- FALSE
    .Call(ffi_job_hearing, job, FALSE)
  })
  repeat {
    x <- .Call(ffi_job_relay, job)
    if (is.null(x)) return(invisible())
    .Call(ffi_job_hearing, job, TRUE)
    if (!is.null(bar)) progress_hide(bar)
    cond <- x$piece
    if (inherits(cond, "clutch_quiet")) cond <- cond[[1L]]
    remember_warnings(t, list(cond))
    if (is.object(cond)) handler$fun(as_on_node(cond))
  }
}

# Relays what is queued of all jobs of a cluster.
relay_unheard <- function(t) for (job in .Call(ffi_tasks_unheard, t$ptr)) relay_queue(t, job)
