# What goes on while R is idle: at the prompt, and in the event loops of others. Package later gives
# turns then.
#
# Since version 1.4.0 later waits for descriptors, in a thread of its own. Two are given to it: that
# of the event loop, readable when something has come from a node, and one that is signalled when a
# task that somebody awaits has ended, or a node, whoever has found that out (src/r/tasks/wake.h).
# So nothing is polled. With earlier versions, and where the event loop has no descriptor, all is
# looked at every 10 ms.
#
# A watch is what is waited for in one of later's loops: an environment with
#   loop            the loop
#   armed, cancel   a turn is to come; how to call it off
#   until           when it comes at the latest, by clock()
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
  key <- job_key(loop$id)
  if (!is.null(the$watches[[key]])) return(the$watches[[key]])
  w <- new.env(parent = emptyenv())
  w$loop <- loop
  w$armed <- FALSE
  w$served <- list()
  # loops come and go
  the$watches <- Filter(function(w) later::exists_loop(w$loop), the$watches)
  the$watches[[key]] <- w
  w
}

serve_when_idle <- function(w, t) {
  others <- Filter(function(s) !identical(.Call(ffi_weak_get, s$ref), t), w$served)
  w$served <- c(others, list(served(.Call(ffi_weak_new, t, NULL), t)))
  t$watch <- w
  arm_watch(w, idle_wait(t))
}

served <- function(ref, t) list(ref = ref, held = if (length(t$awaited)) t)

# Seconds until there is something to do although nothing is heard.
idle_wait <- function(t) {
  if (isTRUE(t$unsettled)) return(0)
  wait <- .Call(ffi_tasks_wait, t$ptr)
  if (length(t$replacements)) wait <- min(wait, 0.05)
  wait
}

# The next turn comes when something is heard, or after so many seconds.
arm_watch <- function(w, seconds) {
  until <- clock() + seconds
  if (w$armed && w$until <= until) return(invisible())
  if (w$armed) w$cancel()
  w$armed <- FALSE
  fn <- function(ready) idle_turn(w)
  wait_for <- later_descriptors()
  if (is.null(wait_for)) {
    seconds <- min(seconds, POLL_PAUSE)
    w$cancel <- later::later(function() idle_turn(w), seconds, w$loop)
  } else {
    w$cancel <- wait_for(fn, .Call(ffi_wake_descriptors), timeout = seconds, loop = w$loop)
  }
  w$until <- clock() + seconds
  w$armed <- TRUE
  invisible()
}

# later::later_fd(), or NULL: it cannot be used.
later_descriptors <- function() {
  later <- asNamespace("later")
  if (!exists("later_fd", later, inherits = FALSE)) return(NULL)
  if (length(.Call(ffi_wake_descriptors)) == 0L) return(NULL)
  get("later_fd", later, inherits = FALSE)
}

forget_watches <- function() {
  for (w in the$watches) {
    if (w$armed) w$cancel()
  }
  the$watches <- list()
}

# ---- a turn ----

idle_turn <- function(w) {
  w$armed <- FALSE
  on.exit(go_on(w)) # also when the user interrupts
  clusters <- clusters_served()
  for (t in clusters) advance(t)
  .Call(ffi_wake_seen) # not before: what was found out just now is a signal, too
  for (t in clusters) settle_news(t, w)
}

# In all loops: the signal that a turn takes back may be for another. (Loops are quicker than
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
}

is_over <- function(t) {
  open <- tryCatch(.Call(ffi_tasks_open, t$ptr), clutch_error = function(e) 0)
  open == 0 && length(t$awaited) == 0L
}

advance <- function(t) {
  # what is to be done about a death is done in the turn after it
  tryCatch(while (turn(t, NULL, 0) == "deaths") NULL, clutch_error = function(e) NULL)
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
    later::later(function() settle_awaited(t, key, a$watch), 0, a$watch$loop)
  } else {
    rm(list = key, envir = t$awaited)
  }
}
