# Calls of actors, from any process.

#' @rdname cluster_actor
#' @export
actor_call <- function(actor, method, ..., .timeout = Inf) {
  check_method(method)
  if (!missing(.timeout)) check_timeout(.timeout)
  if (is_actor_there(actor)) {
    args <- list(actor, method, ..., .timeout = .timeout)
    return(ask_forwarded("actor_call", args, .timeout))
  }
  call <- .Call(ffi_actor_ask, actor, list(method, list(...)), "c")
  on.exit(.Call(ffi_actor_drop, call))
  # nearly always there is an answer at once, and nothing else to do meanwhile
  answer <- .Call(ffi_actor_await, call, min(.timeout, ACTOR_PAUSE))
  if (!is.list(answer)) answer <- await_answer(call, actor, answer, .timeout)
  answer <- answer[[1L]]
  if (length(answer$said)) relay_said(answer$said)
  if (is.null(answer$error)) return(if (answer$visible) answer$value else invisible(answer$value))
  stop(method_error(actor, method, answer$error))
}

#' @rdname cluster_actor
#' @export
actor_cast <- function(actor, method, ...) {
  check_method(method)
  if (is_actor_there(actor)) {
    the$forward_stays <- TRUE # until the actor has taken a large value it is the caller's
    return(ask_forwarded("actor_cast", list(actor, method, ...)))
  }
  call <- .Call(ffi_actor_ask, actor, list(method, list(...)), "t")
  on.exit(.Call(ffi_actor_drop, call))
  answer <- .Call(ffi_actor_await, call, ACTOR_PAUSE)
  if (!is.list(answer)) await_answer(call, actor, answer, Inf)
  invisible()
}

#' @rdname cluster_actor
#' @export
actor_stop <- function(actor, timeout = Inf) {
  if (!missing(timeout)) check_timeout(timeout)
  if (!inherits(actor, "clutch_actor")) has_to_be("`actor`", "an object made by cluster_actor()")
  if (is_actor_there(actor)) {
    return(invisible(ask_forwarded("actor_stop", list(actor, timeout), timeout)))
  }
  if (.Call(ffi_actor_info, actor)$state == ACTOR_ENDED) return(invisible(FALSE))
  call <- .Call(ffi_actor_ask, actor, NULL, "s")
  on.exit(.Call(ffi_actor_drop, call))
  no <- function(e) FALSE
  stopped <- tryCatch({
    await_answer(call, actor, NULL, timeout)
    TRUE
  }, clutch_actor_stopped = no, clutch_actor_died = no)
  record <- the$actors[[actor$name]]
  while (!is.null(record$task) && record$pid == Sys.getpid()) {
    step_for_task(record$task, 0.05)
    see_to_actor(record)
  }
  if (!is.null(record$home) && record$pid == Sys.getpid()) {
    # the node says so only when it has answered
    if (stopped) .Call(ffi_actor_set, actor$name, ACTOR_ENDED, NULL)
    see_to_actor(record)
  }
  invisible(stopped)
}

check_method <- function(x) {
  if (!is_string(x) || !nzchar(x)) has_to_be("`method`", "the name of a method")
}

# ---- waiting ----

DEADLOCK_AFTER <- 0.5 # seconds of waiting after which one is looked for

# `answer`: what has come so far, see ffi_actor_await().
await_answer <- function(call, actor, answer, timeout) {
  began <- clock()
  deadline <- began + timeout
  serves <- .Call(ffi_actor_served)
  if (!is.null(serves)) {
    .Call(ffi_actor_waits, actor$name)
    on.exit(.Call(ffi_actor_waits, NULL))
  }
  repeat {
    if (is.character(answer)) stop(no_answer(actor, answer))
    if (is.list(answer)) return(answer)
    if (clock() >= deadline) {
      throw("timeout", sprintf("actor %s has not answered within %g seconds", actor$label, timeout))
    }
    see_to_actors()
    if (!is.null(serves) && clock() > began + DEADLOCK_AFTER) check_circle(serves, actor)
    answer <- .Call(ffi_actor_await, call, min(ACTOR_PAUSE, max(deadline - clock(), 0)))
  }
}

# An actor waits for another, which waits for another, and so on, up to this one.
check_circle <- function(me, actor) {
  names <- character()
  name <- actor$name
  while (nzchar(name) && !name %in% names) {
    if (name == me) {
      throw("deadlock", sprintf("actor %s waits for this one: none of them can go on",
                                actor$label))
    }
    names <- c(names, name)
    name <- tryCatch(.Call(ffi_actor_info, name)$waits, clutch_error = function(e) "")
  }
}

# ---- errors ----

CAUSE_WAIT <- 0.5 # seconds until it is known how a process has ended, at most

# `why`: of ffi_actor_await().
no_answer <- function(actor, why) {
  is <- .Call(ffi_actor_info, actor)
  begun <- why[[1L]] == "died"
  goes_on <- function() begun && as.numeric(why[[2L]]) < is$generation # another process has come
  until <- clock() + CAUSE_WAIT
  while (is$died && !nzchar(is$why) && !goes_on() && clock() < until) {
    see_to_actors()
    Sys.sleep(0.002)
    is <- .Call(ffi_actor_info, actor)
  }
  if (goes_on()) is[c("pid", "why")] <- is[c("pid_before", "why_before")]
  if (!begun && !is$died) {
    return(errorCondition(sprintf("actor %s was stopped", actor$label), call = NULL,
                          class = c("clutch_actor_stopped", "clutch_error")))
  }
  how <- if (nzchar(is$why)) is$why else "it is gone"
  at <- if (begun) ", with this call at work" else ""
  text <- sprintf("the process of actor %s (pid %d) has died%s: %s", actor$label, is$pid, at, how)
  errorCondition(text, how = how, pid = is$pid, begun = begun, call = NULL,
                 class = c("clutch_actor_died", "clutch_error"))
}

method_error <- function(actor, method, e) {
  if (inherits(e, "clutch_no_method")) {
    return(errorCondition(conditionMessage(e), call = NULL,
                          class = c("clutch_argument", "clutch_error")))
  }
  text <- sprintf("actor %s, method %s: %s", actor$label, method, conditionMessage(e))
  errorCondition(text, parent = e, method = method, call = NULL,
                 class = c("clutch_actor_error", "clutch_error"))
}
