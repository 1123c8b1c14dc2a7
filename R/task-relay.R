# Output and conditions of tasks: relayed to the session.

# What elements have printed and signalled, in order. To establish restarts takes most of the time of a condition, so those
# that follow each other share theirs, until a handler uses it.
relay_log <- function(log) {
  i <- 0L
  n <- length(log)
  as <- "warning" # what the restart is for
  go_on <- function() {
    while (i < n) {
      x <- log[[i + 1L]]
      if (is.object(x) && inherits(x, "message") != (as == "message")) break
      i <<- i + 1L
      relay_one(x)
    }
  }
  while (i < n) {
    as <- if (inherits(log[[i + 1L]], "message")) "message" else "warning"
    if (as == "message") withRestarts(go_on(), muffleMessage = nothing)
    else withRestarts(go_on(), muffleWarning = nothing)
  }
}

nothing <- function() NULL

# As message() and warning() do it, within restarts.
relay_one <- function(x) {
  if (!is.object(x)) return(cat(x))
  if (quiet <- inherits(x, "clutch_quiet")) x <- x[[1L]]
  signalCondition(x)
  if (quiet || !inherits(x, c("message", "warning")) || !is_usable(x)) return()
  if (inherits(x, "message")) cat(conditionMessage(x), file = stderr(), sep = "")
  else show_warning(x)
}

# Whether there is something to show.
is_usable <- function(cond) {
  if (is.list(cond) && is.character(.subset2(cond, "message")) && length(.subset2(cond, "message")) == 1L) return(TRUE)
  text <- tryCatch(conditionMessage(cond), error = function(e) NULL)
  is.character(text) && length(text) == 1L
}

# One that was no error on the node is none here: options(warn = 2) of the session held there, unless the element has set it
# itself, or suppressWarnings() is around the map.
show_warning <- function(cond) {
  if (getOption("warn") >= 2) {
    old <- options(warn = 1)
    on.exit(options(old))
  }
  .Call(ffi_show_warning, conditionMessage(cond), conditionCall(cond))
}

# Relays what elements have printed and signalled, as far as all before them have ended. The number of those done.
relay_ready <- function(job, shown, to = Inf, bar) {
  ready <- min(.Call(ffi_job_ready, job), to)
  if (ready <= shown) return(shown)
  logs <- .Call(ffi_job_values, job)[[2L]]
  # all of them as one log, so that they share their restarts
  log <- unlist(logs[(shown + 1):ready], recursive = FALSE, use.names = FALSE)
  if (length(log)) {
    progress_hide(bar)
    relay_log(log)
  }
  ready
}

# What nodes have sent to be relayed at once.
relay_queue <- function(job, bar = NULL) {
  while (!is.null(piece <- .Call(ffi_job_relay, job))) {
    if (!is.null(bar)) progress_hide(bar)
    relay_log(piece[2L])
  }
}

# The same up to an element that has failed, and what that one has said, though some before it may not have ended.
relay_failed <- function(job, shown, element, bar) {
  if (relay_ready(job, shown, element, bar) >= element) return(invisible())
  logs <- .Call(ffi_job_values, job)[[2L]]
  if (is.null(logs) || is.null(logs[[element]])) return(invisible())
  progress_hide(bar)
  relay_log(logs[[element]])
}
