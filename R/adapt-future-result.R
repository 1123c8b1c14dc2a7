# This file says what becomes of a future of plan(clutch): whether it has ended, its result, its
# error where a node has died or it was cancelled, and conditions that are relayed while it runs.

future_resolved <- function(x, timeout = getOption("future.resolved.timeout", 0.01),
                            .signalEarly = TRUE, ...) {
  ended <- !is.null(x$result) || is.null(x$task) || has_ended(x, timeout)
  if (ended && .signalEarly) in_future("signalEarly")(x)
  ended
}

has_ended <- function(future, timeout) {
  in_future("assertOwner")(future)
  resolved(future$task, timeout)
}

future_result <- function(future, ...) {
  if (is.null(future$result)) fetch_result(future)
  if (inherits(future$result, "FutureError")) stop(future$result)
  future$result
}

fetch_result <- function(future) {
  in_future("assertOwner")(future)
  result <- if (is.null(future$task)) {
    given_up_error(future)
  } else {
    tryCatch(collect(future$task), clutch_task_error = function(e) lost_error(future, e))
  }
  if (inherits(result, "FutureResult")) {
    if (!is.null(future$task$record)) result$uuid <- future$uuid # it may be that of another session
    result$conditions <- c(future$.signaledConditions, result$conditions)
    future[[".signaledConditions"]] <- NULL
    future[["state"]] <- "finished"
  } else if (future$state == "running") {
    is_interrupt <- inherits(result, "FutureInterruptError")
    future$state <- if (is_interrupt) "interrupted" else "failed"
  }
  future[["result"]] <- result
  forget_future(future)
  future[["task"]] <- NULL
}

# ---- ends that are none of its own ----

give_up_future <- function(backend, future, ...) {
  if (!isTRUE(backend$interrupts)) return(future)
  give_up(future)
  future$state <- "interrupted"
  future
}

# Its node is free for others.
give_up <- function(future) {
  if (!is.null(future$task)) cancel(future$task)
  future$task <- NULL
  forget_future(future)
}

given_up_error <- function(future) {
  is_canceled <- future$state == "canceled"
  text <- sprintf("Future %s of class %s was %s", name_of_future(future), class(future)[[1L]],
                  if (is_canceled) "canceled" else "interrupted")
  e <- in_future("FutureInterruptError")(text, future = future)
  # versions before 1.69 have none, or one that is no FutureInterruptError
  make <- if (is_canceled) asNamespace("future")$FutureCanceledError
  of_its_own <- if (!is.null(make)) make(text, future = future)
  if (inherits(of_its_own, "FutureInterruptError")) of_its_own else e
}

# A future that has failed has a result, which says so: see run_future().
lost_error <- function(future, e) {
  if (inherits(e$parent, "clutch_future_failed")) return(e$parent$result)
  text <- sprintf("Future %s of class %s has no result: %s", name_of_future(future),
                  class(future)[[1L]], conditionMessage(e))
  is_interrupt <- inherits(e, c("clutch_task_died", "clutch_task_timeout", "clutch_task_memory",
                                "clutch_task_cancelled"))
  make <- in_future(if (is_interrupt) "FutureInterruptError" else "FutureError")
  make(text, future = future)
}

# The name is as newer versions of future have it.
name_of_future <- function(future) {
  label <- future$label
  if (!is.null(label) && !is.na(label)) return(sQuote(label))
  uuid <- future$uuid
  sprintf("<unnamed-%s>", uuid[length(uuid)])
}

# ---- conditions that are relayed at once ----

# future hands each to us once, on the node. Whether it then stops it depends on the restarts that
# there are, so the condition itself may come as well: what is relayed has a class of its own.
future_configs <- function(future, ...) {
  if (is.null(future$conditions)) return(list())
  list(capture = list(immediateConditionHandlers = list(immediateCondition = send_condition)))
}

# Runs on a node. It says that future is not to record the condition: the session does.
send_condition <- function(cond) {
  signalCondition(structure(list(message = "", call = NULL, condition = cond),
                            class = c("clutch_live", "condition")))
  FALSE
}

# In the session, whenever that waits for a task of the cluster.
relay_live <- function(future, cond) {
  record <- list(condition = cond, signaled = 1L)
  future$.signaledConditions <- c(future$.signaledConditions, list(record))
  signal_again(cond)
}

signal_again <- function(cond) {
  if (inherits(cond, "warning")) return(warning(cond))
  if (inherits(cond, "message")) return(message(cond))
  signalCondition(cond)
}

# ---- future's list of the futures of a backend ----

# To ask whether a future is there takes as long as to remove it: each future knows the list that it
# is in.
register_future <- function(backend, future) {
  in_future("FutureRegistry")(backend$reg, "add", future = future, earlySignal = FALSE)
  if (is.null(backend$list)) backend$list <- new.env(hash = FALSE, parent = emptyenv())
  future[["registered"]] <- backend$list
}

forget_future <- function(future) {
  backend <- future$backend
  registered <- future$registered
  if (is.null(registered)) return()
  future[["registered"]] <- NULL
  if (!identical(registered, backend$list)) return() # was emptied meanwhile
  in_future("FutureRegistry")(backend$reg, "remove", future = future, earlySignal = FALSE)
}

empty_registry <- function(backend) {
  in_future("FutureRegistry")(backend$reg, "reset")
  backend$list <- NULL
}

# ---- what others need ----

# The package is loaded, and asNamespace() takes several times as long.
in_future <- function(name) get(name, envir = .getNamespace("future"), inherits = FALSE)
