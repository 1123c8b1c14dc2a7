# A task of cluster_submit(): what has become of it, its value, its end before that, and how it
# looks. submit() in map-submit.R makes it.

label_of <- function(task) {
  if (is.null(task$label)) task$label <- text_of(task$code)
  task$label
}

text_of <- function(code) {
  s <- deparse(code, width.cutoff = 60L, nlines = 2L)
  paste0("'", s[[1L]], if (length(s) > 1L) " ...", "'")
}

# ---- what has become of it ----

# list(value =) or list(error =), or NULL: it has not ended.
outcome <- function(x) {
  if (!is.null(x$outcome)) return(x$outcome)
  end <- .Call(ffi_job_outcome, x$job)
  if (is.null(end)) return(NULL)
  why <- if (!is.null(x$record)) end_record(x$record)
  x$outcome <- if (!is.null(why)) {
    list(error = why)
  } else if (is.list(end) && is.null(x$cancelled)) {
    list(value = end[[1L]])
  } else {
    outcome_of(x)
  }
  .Call(ffi_job_drop_value, x$job)
  x$after <- NULL
  hear_of_deaths(x$scheduler) # the thread has seen to the tasks of a dead node, but not to the node
  if (isTRUE(x$is_heard)) relay_queue(x$scheduler, x$job) # what it has said before
  if (the$has_spans) end_submitted_span(x)
  x$outcome
}

# The journal of a task that has ended is given up. NULL, or the error that it has.
end_record <- function(record) {
  on.exit(journal_end(record))
  tryCatch({
    check_journal(record, flush = TRUE)
    NULL
  }, error = identity)
}

# The task has failed, or was cancelled, or has said something: the value says what came of it.
outcome_of <- function(x) {
  answer <- .Call(ffi_job_values, x$job)
  has_value <- .Call(ffi_job_ready, x$job) > 0
  failures <- .Call(ffi_job_failures, x$job, 0)
  value <- answer$values[[1L]]
  x$log <- answer$logs[[1L]]
  work <- if (length(failures$element)) work_of(x$job)
  .Call(ffi_job_end, x$job, 0)
  if (isTRUE(x$cancelled)) return(list(error = cancelled_error(x)))
  if (!length(failures$element)) {
    return(if (has_value) list(value = value) else list(error = value_lost_error(x)))
  }
  if (is.na(failures$cause)) return(list(error = error_of_needed(x$after)))
  list(error = task_error(x$scheduler, failures, 1L, value, label_of(x), work))
}

# Its value was read once, and somebody has jumped out of that: with an interrupt, or in a handler
# of what an object signals that is made again here.
value_lost_error <- function(x) {
  text <- "the value of %s is lost: an interrupt or a handler ended its reading"
  errorCondition(sprintf(text, label_of(x)), call = NULL,
                 class = c("clutch_task_error", "clutch_error"))
}

# Finds out what has become of tasks that have failed: of those that they need in turn before. So
# outcome() of one asks no further than those that it needs itself, since a chain of tasks may be
# longer than R's stack is deep.
hear_of_failed <- function(tasks) {
  walk <- new.env(parent = emptyenv())
  left <- Filter(is_failed_unheard, tasks)
  n <- length(left)
  while (n > 0L) {
    x <- left[[n]]
    before <- if (!identical(x$walk, walk)) Filter(is_failed_unheard, x$after)
    x$walk <- walk
    if (length(before)) {
      left[n + seq_along(before)] <- before
      n <- n + length(before)
    } else {
      outcome(x)
      n <- n - 1L
    }
  }
}

is_failed_unheard <- function(x) {
  is.null(x$outcome) && .Call(ffi_job_state, x$job)$failures > 0
}

# The error of the first of these tasks that has failed.
error_of_needed <- function(after) {
  hear_of_failed(after)
  for (x in after) {
    end <- outcome(x)
    if (!is.null(end$error)) return(end$error)
  }
  errorCondition("the value of another task could not be handed on: there is not enough memory",
                 class = c("clutch_task_memory", "clutch_task_error", "clutch_error"))
}

cancelled_error <- function(x) {
  errorCondition(sprintf("%s was cancelled", label_of(x)), call = NULL,
                 class = c("clutch_task_cancelled", "clutch_task_error", "clutch_error"))
}

check_task <- function(x) {
  if (!inherits(x, "clutch_task")) throw("argument", "this is no task made by cluster_submit()")
}

# Works for at most so many seconds, or until there is something new of this task. What its node
# sends at once (conditions of class "immediateCondition") is relayed at once.
step_for_task <- function(x, seconds) {
  if (isTRUE(x$is_across)) {
    step_for_others(x)
    seconds <- min(seconds, 0.01)
  }
  task_step(x$scheduler, x$job, seconds, 0)
  relay_queue(x$scheduler, x$job)
}

# Works for tasks of other clusters whose values it needs in turn: a step of its own cluster does
# nothing for those.
step_for_others <- function(x) {
  walk <- new.env(parent = emptyenv()) # a task is visited once, although several may need it
  left <- x$after
  stepped <- list(x$scheduler)
  while (length(left)) {
    other <- left[[1L]]
    left <- left[-1L]
    if (identical(other$walk, walk) || !is.null(outcome(other))) next
    other$walk <- walk
    if (isTRUE(other$is_across)) left <- c(left, other$after)
    if (any(vapply(stepped, identical, NA, other$scheduler))) next
    stepped <- c(stepped, list(other$scheduler))
    task_step(other$scheduler, other$job, 0, 0)
    relay_queue(other$scheduler, other$job)
  }
}

# One turn for any of these tasks: returns when there may be something new.
step_for_any <- function(tasks, seconds) {
  open <- Filter(function(x) is.null(outcome(x)), tasks)
  if (!length(open)) return(invisible())
  # one task can be waited for; several are polled, scheduler by scheduler
  if (length(open) == 1L) return(step_for_task(open[[1L]], seconds))
  for (t in unique(lapply(open, function(x) x$scheduler))) {
    mine <- Filter(function(x) identical(x$scheduler, t), open)
    for (x in mine) relay_queue(x$scheduler, x$job)
    step_for_task(mine[[1L]], min(seconds, 0.002))
  }
  invisible()
}

# ---- has it ended? ----

#' @rdname cluster_submit
#' @export
resolved <- function(x, ...) UseMethod("resolved")

#' @rdname cluster_submit
#' @export
resolved.clutch_task <- function(x, timeout = 0, ...) {
  check_timeout(timeout)
  if (!is.null(outcome(x))) return(TRUE)
  if (timeout > 0) return(ends_until(x, clock() + timeout))
  step_for_task(x, 0)
  !is.null(outcome(x))
}

#' @rdname cluster_submit
#' @export
resolved.list <- function(x, timeout = 0, ...) {
  if (length(x) && !has_tasks(x)) return(hidden("resolved", "future", x, ...))
  check_timeout(timeout)
  deadline <- clock() + timeout
  vapply(x, function(one) {
    if (!inherits(one, "clutch_task")) return(resolved(one, ...))
    resolved(one, max(deadline - clock(), 0))
  }, NA)
}

#' @export
resolved.default <- function(x, ...) hidden("resolved", "future", x, ...)

has_tasks <- function(x) any(vapply(x, inherits, NA, "clutch_task"))

# Other packages have generics with the names of ours, which ours may hide: what is no task goes to
# theirs.
hidden <- function(name, package, x, ...) {
  if (!isNamespaceLoaded(package) || !name %in% getNamespaceExports(package))
    throw("argument", sprintf("%s() wants a task of cluster_submit()", name))
  # as if called in the workspace: seen from here, our own default would be its method, without end
  do.call(getExportedValue(package, name), list(x, ...), quote = TRUE, envir = globalenv())
}

# ---- values ----

#' @rdname cluster_submit
#' @export
collect <- function(x, ...) UseMethod("collect")

#' @export
collect.default <- function(x, ...) hidden("collect", "dplyr", x, ...)

#' @rdname cluster_submit
#' @export
collect.clutch_task <- function(x, timeout = Inf, otherwise, ...) {
  if (missing(timeout) && is.null(x$record)) {
    end <- .Call(ffi_task_value, x)
    if (!is.null(end)) return(end[[1L]])
  }
  check_timeout(timeout)
  if (finish(x, timeout)) return(deliver(x))
  if (missing(otherwise)) throw_timeout(x, timeout)
  otherwise
}

# Waits for its end, and tells whether it has come.
finish <- function(x, timeout, deadline = clock() + timeout) {
  if (!ends_until(x, deadline)) return(FALSE)
  if (timeout == Inf) settle_replacements(x$scheduler) # waits for nodes that are on their way
  TRUE
}

ends_until <- function(x, deadline) {
  while (is.null(outcome(x))) {
    left <- deadline - clock()
    if (left < 0) return(FALSE)
    step_for_task(x, min(left, 3600))
  }
  TRUE
}

throw_timeout <- function(x, timeout) {
  throw("timeout", sprintf("%s has not ended within %g seconds", label_of(x), timeout))
}

deliver <- function(x) {
  if (isTRUE(x$is_heard)) relay_queue(x$scheduler, x$job) # its handler may have failed meanwhile
  relay_once(x)
  if (!is.null(x$outcome$error)) stop_in_frames(x$outcome$error)
  x$outcome$value
}

# Relays what it has said, the first time that it is collected.
relay_once <- function(x) {
  if (!is.null(x$relayed)) return(invisible())
  x$relayed <- TRUE
  if (!is.null(x$log)) relay_log(x$scheduler, x$log)
  x$log <- NULL
}

#' @rdname cluster_submit
#' @export
collect_any <- function(..., timeout = Inf, otherwise) {
  tasks <- task_list(...)
  check_timeout(timeout)
  if (!length(tasks)) throw("argument", "there are no tasks to wait for")
  deadline <- clock() + timeout
  step_for_any(tasks, 0) # what has come is known, and of which came first
  repeat {
    done <- which(vapply(tasks, function(x) !is.null(outcome(x)), NA))
    if (length(done)) break
    left <- deadline - clock()
    if (left < 0 && !missing(otherwise)) return(otherwise)
    if (left < 0) {
      text <- "none of %d tasks has ended within %g seconds"
      throw("timeout", sprintf(text, length(tasks), timeout))
    }
    step_for_any(tasks, min(left, 3600))
  }
  i <- done[[order_of_end(tasks[done])[[1L]]]]
  list(index = i, task = tasks[[i]], value = deliver(tasks[[i]]))
}

# The order is that in which tasks have ended. The session may have been busy, so the time at which
# it has read that does not count.
order_of_end <- function(tasks) order(vapply(tasks, function(x) .Call(ffi_job_finished, x$job), 1))

#' @rdname cluster_submit
#' @export
collect_all <- function(..., timeout = Inf, otherwise) {
  tasks <- task_list(...)
  check_timeout(timeout)
  deadline <- clock() + timeout
  ends <- vector("list", length(tasks)) # of those that have said nothing
  for (i in seq_along(tasks)) {
    x <- tasks[[i]]
    end <- if (timeout == Inf && is.null(x$record)) .Call(ffi_task_value, x)
    if (!is.null(end)) {
      ends[[i]] <- end
      next
    }
    if (finish(x, timeout, deadline)) next
    if (missing(otherwise)) throw_timeout(x, timeout)
    return(otherwise)
  }
  value <- function(x, end) if (is.null(end)) deliver(x) else end[[1L]]
  values <- .mapply(value, list(tasks, ends), NULL)
  names(values) <- names(tasks)
  values
}

# Tasks, or one list of them.
task_list <- function(...) {
  tasks <- list(...)
  if (length(tasks) == 1L && !inherits(tasks[[1L]], "clutch_task")) tasks <- tasks[[1L]]
  for (x in tasks) check_task(x)
  tasks
}

# ---- giving up ----

#' @rdname cluster_submit
#' @export
cancel <- function(x, ...) UseMethod("cancel")

#' @rdname cluster_submit
#' @export
cancel.clutch_task <- function(x, ...) {
  if (!is.null(outcome(x))) return(invisible(FALSE))
  x$cancelled <- TRUE
  .Call(ffi_job_end, x$job, 0)
  if (!is.null(x$record)) journal_end(x$record)
  if (the$has_spans) outcome(x) # its span ends
  invisible(TRUE)
}

#' @rdname cluster_submit
#' @export
cancel.list <- function(x, ...) {
  if (length(x) && !has_tasks(x)) return(hidden("cancel", "future", x, ...))
  invisible(vapply(x, cancel, NA, ...))
}

#' @export
cancel.default <- function(x, ...) hidden("cancel", "future", x, ...)

# ---- how a task is printed ----

#' @export
format.clutch_task <- function(x, ...) {
  if (is.null(outcome(x))) task_step(x$scheduler, x$job, 0)
  sprintf("clutch task %s: %s", label_of(x), task_state(x))
}

task_state <- function(x) {
  end <- outcome(x)
  if (!is.null(end$error)) return(paste0("failed: ", conditionMessage(end$error)))
  if (!is.null(end)) return("done")
  if (.Call(ffi_job_state, x$job)$waiting == 0) return("running")
  needs <- any(vapply(x$after, function(other) is.null(outcome(other)), NA))
  if (needs) "waiting for another task" else "waiting for a node"
}

#' @export
print.clutch_task <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

# ---- promises ----

# promises::as.promise(). It is settled by package later, whoever collects the task meanwhile.
as.promise.clutch_task <- function(x) {
  promises::promise(function(resolve, reject) {
    settle <- function() {
      tryCatch({
        if (!resolved(x)) return(FALSE)
        resolve(deliver(x))
      }, error = reject)
      TRUE
    }
    if (!settle()) await_when_idle(x$scheduler, x$job, settle)
  })
}
