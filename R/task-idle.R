# Tasks go on while R is idle: at the prompt, and in the event loops of others. Package later calls
# this file's functions then.
#
# Since version 1.4.0 later waits for descriptors, in a thread of its own. Two are given to it: that
# of the event loop, readable when something has come from a node, and one that is signalled when a
# task that somebody awaits has ended, or a node, whoever has found that out
# (src/core/tasks/wake.h).
# So nothing is polled. With earlier versions, and where the event loop has no descriptor, all is
# looked at every 10 ms.
#
# While R is at work, and not at top level, later (1.4.6 to 1.4.8) looks a thousand times a second
# whether it may do what is due. So nothing is waited for unless somebody awaits a task. The
# package's thread does what is urgent.
#
# A watch is what is waited for in one of later's loops: an environment with
#   loop            the loop
#   waits           the two descriptors are waited for
#   until, cancel   when a step comes at the latest, by clock(); how to call that off
#   gone            the package was unloaded
#   served          the clusters whose tasks go on: a list of list(ref, held). `ref` is weak: tasks
#                   that wait do not keep their cluster. `held`: the environment of the cluster's
#                   tasks, while somebody awaits one of them; NULL otherwise.
# In the environment of a cluster's tasks:
#   watch           the watch that was told of them last; NULL: nothing is to come
#   awaited         by number of the job, list(settle, watch): see await_when_idle()
#   unsettled       not all that has ended was settled

POLL_PAUSE <- 0.01 # seconds

# The tasks of this cluster go on while R is idle.
advance_when_idle <- function(t) {
  if (is.null(t$watch) && !requireNamespace("later", quietly = TRUE)) return(invisible())
  w <- watch_of(later::current_loop())
  if (identical(t$watch, w)) {
    arm_watch(w, idle_wait(t)) # what is new may have a time limit
  } else {
    serve_when_idle(w, t)
  }
}

# `settle` is called in the loop that is later's now, when this job has ended, and perhaps before.
# It answers whether it has done what it has to.
await_when_idle <- function(t, job, settle) {
  w <- watch_of(later::current_loop())
  if (is.null(t$awaited)) t$awaited <- new.env(parent = emptyenv())
  key <- job_key(.Call(ffi_job_await, job))
  t$awaited[[key]] <- list(settle = settle, watch = w)
  serve_when_idle(w, t)
}

job_key <- function(number) sprintf("%.0f", number)

# ---- watches ----

watch_of <- function(loop) {
  # the same as the last time, nearly always: to make a key takes several times as long
  if (identical(the$watch$loop, loop)) return(the$watch)
  the$watch <- find_watch(loop)
  the$watch
}

find_watch <- function(loop) {
  key <- job_key(loop$id)
  if (!is.null(the$watches[[key]])) return(the$watches[[key]])
  w <- new.env(parent = emptyenv())
  w$loop <- loop
  w$gone <- FALSE
  w$waits <- FALSE
  w$until <- Inf
  w$served <- list()
  # loops come and go
  the$watches <- Filter(function(w) later::exists_loop(w$loop), the$watches)
  the$watches[[key]] <- w
  w
}

serve_when_idle <- function(w, t) {
  is_this <- vapply(w$served, function(s) identical(.Call(ffi_weak_get, s$ref), t), NA)
  if (is.null(t$ref)) t$ref <- .Call(ffi_weak_new, t, NULL)
  w$served <- c(w$served[!is_this], list(served(t$ref, t)))
  t$watch <- w
  arm_watch(w, idle_wait(t))
}

served <- function(ref, t) list(ref = ref, held = if (length(t$awaited)) t)

# Seconds until there is something to do although nothing is heard.
idle_wait <- function(t) {
  if (isTRUE(t$unsettled)) return(0)
  wait <- if (length(t$awaited) || !later_waits()) .Call(ffi_tasks_wait, t$ptr) else Inf
  if (length(t$replacements)) wait <- min(wait, 0.05)
  if (length(t$awaited) && !is.null(t$resize)) wait <- min(wait, 0.2)
  wait
}

# The next step comes when something is heard, or after so many seconds.
arm_watch <- function(w, seconds) {
  if (!later_waits()) {
    seconds <- min(seconds, POLL_PAUSE)
  } else if (is_awaited(w)) {
    await_descriptors(w)
  }
  until <- clock() + seconds
  if (w$until <= until) return(invisible())
  forget_timer(w)
  w$cancel <- without_signals(later::later(function() step_by_timer(w), seconds, w$loop))
  w$until <- until
  invisible()
}

is_awaited <- function(w) {
  for (s in w$served) {
    if (!is.null(s$held)) return(TRUE)
  }
  FALSE
}

# Tells whether later can wait for the descriptors.
later_waits <- function() {
  exists("later_fd", asNamespace("later"), inherits = FALSE) &&
    length(.Call(ffi_wake_descriptors)) > 0L
}

# later_fd() is not called off, and so has no time limit: when it was called off, later (1.4.0 to
# 1.4.8) releases the R function in a thread of its own, which destroys R's lists of objects.
await_descriptors <- function(w) {
  if (w$waits) return(invisible())
  w$waits <- TRUE
  later_fd <- getExportedValue("later", "later_fd") # not in versions before 1.4.0
  without_signals(later_fd(function(ready) step_by_descriptor(w), .Call(ffi_wake_descriptors),
                           loop = w$loop))
  invisible()
}

step_by_descriptor <- function(w) {
  if (w$gone) return(invisible())
  w$waits <- FALSE
  idle_step(w)
}

# Nobody awaits anything any more. While later waits, its loop counts as one that is not empty, and
# there are programs that run it until it is. So the wait is ended by a signal.
end_wait <- function(w) {
  if (w$waits && !is_awaited(w)) .Call(ffi_wake)
}

step_by_timer <- function(w) {
  w$until <- Inf
  idle_step(w)
}

forget_timer <- function(w) {
  if (w$until < Inf) w$cancel()
  w$until <- Inf
}

# The package is about to be unloaded.
forget_watches <- function() {
  for (w in the$watches) {
    forget_timer(w)
    w$gone <- TRUE
  }
  the$watches <- list()
  the$watch <- NULL
}

# ---- a step ----

idle_step <- function(w) {
  on.exit(go_on(w)) # also when the user interrupts
  clusters <- clusters_served()
  .Call(ffi_wake_hold) # what this step finds out itself need not be signalled
  for (t in clusters) advance(t)
  .Call(ffi_wake_seen) # not before: what was found out just now is a signal, too
  for (t in clusters) settle_news(t, w)
}

# In all loops: the signal that a step takes back may be for another. (Loops are quicker than
# lapply(), and somebody waits.)
clusters_served <- function() {
  clusters <- list()
  for (w in the$watches) {
    for (s in w$served) clusters[[length(clusters) + 1L]] <- .Call(ffi_weak_get, s$ref)
  }
  clusters
}

# Something is to come of those that are left.
go_on <- function(w) {
  wait <- Inf
  left <- list()
  for (s in w$served) {
    t <- .Call(ffi_weak_get, s$ref)
    if (is.null(t)) next
    if (is_over(t)) {
      if (identical(t$watch, w)) t$watch <- NULL
      next
    }
    left <- c(left, list(served(s$ref, t)))
    wait <- min(wait, idle_wait(t))
  }
  w$served <- left
  if (length(left)) arm_watch(w, wait)
  end_wait(w)
}

is_over <- function(t) {
  open <- tryCatch(.Call(ffi_tasks_open, t$ptr), clutch_error = function(e) 0)
  open == 0 && length(t$awaited) == 0L
}

advance <- function(t) {
  # what is to be done about a death is done in the step after it
  tryCatch(while (task_step(t, NULL, 0) == "deaths") NULL, clutch_error = function(e) NULL)
}

settle_news <- function(t, w) {
  news <- tryCatch(.Call(ffi_tasks_news, t$ptr), clutch_error = function(e) 0)
  if (length(t$awaited) == 0L) return()
  all <- 0 %in% news || isTRUE(t$unsettled) || length(t$replacements)
  t$unsettled <- TRUE
  for (key in if (all) names(t$awaited) else job_key(news)) settle_awaited(t, key, w)
  t$unsettled <- FALSE
}

# `w`: the watch of the loop that is at work.
settle_awaited <- function(t, key, w) {
  a <- t$awaited[[key]]
  if (is.null(a)) return()
  if (identical(a$watch, w)) {
    if (a$settle()) rm(list = key, envir = t$awaited)
  } else if (later::exists_loop(a$watch$loop)) {
    without_signals(later::later(function() settle_awaited(t, key, a$watch), 0, a$watch$loop))
  } else {
    rm(list = key, envir = t$awaited)
  }
}
