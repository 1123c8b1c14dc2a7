#' Evaluate an expression on a node, and collect its value later
#'
#' `cluster_submit()` returns at once. `resolved()` says whether the task has ended, `collect()` waits for it and returns its value or raises its error,
#' `cancel()` gives it up. `collect_any()` waits for the first of several tasks, `collect_all()` for all of them.
#'
#' A task is sent when a node gets free, which is seen whenever one of these functions is called; where package \pkg{later} is
#' installed, also while R is idle. A task to which nothing refers any more is cancelled. Deaths of nodes, retries, time
#' limits, random numbers and conditions are as in [cluster_map()]; what the task has printed and signalled is relayed
#' when it is collected for the first time.
#'
#' `promises::as.promise()` turns a task into a promise, for \pkg{shiny} and its kin; a task that is returned within `promises::then()` is
#' chained. The functions `value()`, `resolved()` and `cancel()` of package \pkg{future} and `collect()` of \pkg{dplyr} take tasks, too, and
#' those of this package what theirs take, so that it does not matter in which order the packages are attached.
#'
#' @param cl a cluster made by [make_cluster()].
#' @param expr an expression. Its variables have the values that they have now, and travel with the task; so do what these
#'   need in turn, and packages, as in [cluster_map()].
#' @param .globals,.packages,.seed,.timeout,.retries,.relay,.max_memory as in [cluster_map()]; a list of globals is used in place of what would
#'   be found.
#' @param .label a name for the task, in errors and when it is printed.
#' @param x a task.
#' @param ... `collect_any()`, `collect_all()`: tasks, or a list of them; else nothing.
#' @param timeout seconds to wait, at most.
#' @return `cluster_submit()`: an object of class `clutch_task`. `resolved()`: `TRUE` or `FALSE`. `collect()`: the value. `cancel()`: whether it was given up
#'   (`FALSE`: it had ended), invisibly. `collect_any()`: a list with `index`, `task` and `value` of the one that ended first; an error if that one has failed.
#'   `collect_all()`: a list of values.
#' @section Errors: `collect()`: those of [cluster_map()], and `clutch_timeout` when the task has not ended within `timeout` seconds; it goes on then.
#' @examples
#' cl <- make_cluster(2)
#' a <- 20
#' t <- cluster_submit(cl, a + 1)
#' resolved(t)
#' collect(t)
#' race <- collect_any(list(cluster_submit(cl, { Sys.sleep(5); "slow" }), cluster_submit(cl, "quick")))
#' race$value
#' stop_cluster(cl)
#' @export
cluster_submit <- function(cl, expr, .globals = TRUE, .packages = NULL, .seed = TRUE,
                           .timeout = Inf, .retries = 0, .relay = "ordered", .max_memory = Inf,
                           .label = NULL) {
  check_cluster(cl)
  given(expr, "expr")
  code <- substitute(expr)
  env <- parent.frame()
  if (is.null(.label)) .label <- label_of(code)
  o <- task_options(given_options(environment()), submit_options)
  if (o$relay == "live") o$relay <- "ordered"
  fun <- function() NULL
  body(fun) <- code
  environment(fun) <- if (isTRUE(o$globals)) locals_of(code, env) else new.env(parent = globalenv())
  needs <- find_needs(list(fun), o$globals, env) # R code of others may run
  t <- tasks_of(cl)
  task <- new.env(parent = emptyenv())
  task$scheduler <- t
  task$label <- .label
  task$job <- job_new(t, fun, NULL, list(), needs, o)
  task$relayed <- FALSE
  submitted <- FALSE
  on.exit(if (!submitted) .Call(ffi_job_end, task$job, 0))
  job_start(t, task$job)
  turn(t, task$job, 0)
  advance_when_idle(t)
  submitted <- TRUE
  structure(task, class = c("clutch_task", the$task_is_also))
}

# Those of cluster_map() that make sense for one task.
submit_options <- c("globals", "packages", "seed", "timeout", "retries", "relay", "max_memory")

label_of <- function(code) {
  s <- deparse(code, width.cutoff = 60L, nlines = 2L)
  paste0("'", s[[1L]], if (length(s) > 1L) " ...", "'")
}

# list(value =) or list(error =), or NULL: it has not ended.
outcome <- function(x) {
  if (!is.null(x$outcome)) return(x$outcome)
  s <- .Call(ffi_job_state, x$job)
  if (s$left > 0) return(NULL)
  values <- .Call(ffi_job_values, x$job)
  f <- .Call(ffi_job_failures, x$job, 0)
  x$log <- values[[2L]][[1L]]
  x$outcome <- if (isTRUE(x$cancelled)) list(error = error_of("task_cancelled", sprintf("%s was cancelled", x$label)))
    else if (length(f$element)) list(error = task_error(x$scheduler, f, 1L, values[[1L]][[1L]], x$label))
    else list(value = values[[1L]][[1L]])
  if (isTRUE(x$cancelled)) class(x$outcome$error) <- c("clutch_task_cancelled", "clutch_task_error", "clutch_error", "error", "condition")
  .Call(ffi_job_end, x$job, 0)
  x$outcome
}

check_task <- function(x) {
  if (!inherits(x, "clutch_task")) throw("argument", "this is no task made by cluster_submit()")
}

# Works for at most so many seconds, or until there is something new of this task. What its node sends at once
# (conditions of class "immediateCondition") is relayed at once.
turn_for_task <- function(x, seconds) {
  turn(x$scheduler, x$job, seconds, 0)
  relay_queue(x$job)
}

# One turn for any of these tasks: returns when there may be something new.
await <- function(tasks, seconds) {
  open <- Filter(function(x) is.null(outcome(x)), tasks)
  if (!length(open)) return(invisible())
  schedulers <- unique(lapply(open, function(x) x$scheduler))
  # one scheduler, one task: it can wait for just that; else in slices
  if (length(open) == 1L) turn_for_task(open[[1L]], seconds)
  else for (t in schedulers) {
    mine <- Filter(function(x) identical(x$scheduler, t), open)
    for (x in mine) relay_queue(x$job)
    turn_for_task(mine[[1L]], min(seconds, 0.002))
  }
  invisible()
}

#' @rdname cluster_submit
#' @export
resolved <- function(x, ...) UseMethod("resolved")

#' @rdname cluster_submit
#' @export
resolved.clutch_task <- function(x, ...) {
  if (is.null(outcome(x))) turn_for_task(x, 0)
  !is.null(outcome(x))
}

# Others have generics of these names, which this package may hide.
#' @export
resolved.default <- function(x, ...) hidden("resolved", "future", x, ...)

hidden <- function(name, package, x, ...) {
  if (!isNamespaceLoaded(package) || !name %in% getNamespaceExports(package))
    throw("argument", sprintf("%s() wants a task of cluster_submit()", name))
  # as if called in the workspace: seen from here, our own default would be its method, without end
  do.call(getExportedValue(package, name), list(x, ...), quote = TRUE, envir = globalenv())
}

#' @rdname cluster_submit
#' @export
collect <- function(x, ...) UseMethod("collect")

#' @export
collect.default <- function(x, ...) hidden("collect", "dplyr", x, ...)

#' @rdname cluster_submit
#' @export
collect.clutch_task <- function(x, timeout = Inf, ...) {
  finish(x, timeout)
  deliver(x)
}

finish <- function(x, timeout) {
  check_timeout(timeout)
  deadline <- clock() + timeout
  while (is.null(outcome(x))) {
    left <- deadline - clock()
    if (left < 0) throw("timeout", sprintf("%s has not ended within %g seconds", x$label, timeout))
    turn_for_task(x, min(left, 3600))
  }
  if (timeout == Inf) settle_replacements(x$scheduler) # waits for nodes that are on their way
}

deliver <- function(x) {
  if (!x$relayed) {
    x$relayed <- TRUE
    relay_log(x$log)
    x$log <- NULL
  }
  if (!is.null(x$outcome$error)) stop(x$outcome$error)
  x$outcome$value
}

#' @rdname cluster_submit
#' @export
cancel <- function(x, ...) UseMethod("cancel")

#' @export
cancel.default <- function(x, ...) hidden("cancel", "future", x, ...)

#' @rdname cluster_submit
#' @export
cancel.clutch_task <- function(x, ...) {
  if (!is.null(outcome(x))) return(invisible(FALSE))
  x$cancelled <- TRUE
  .Call(ffi_job_end, x$job, 0)
  invisible(TRUE)
}

# Tasks, or one list of them.
task_list <- function(...) {
  tasks <- list(...)
  if (length(tasks) == 1L && !inherits(tasks[[1L]], "clutch_task")) tasks <- tasks[[1L]]
  for (x in tasks) check_task(x)
  tasks
}

check_timeout <- function(timeout) {
  if (!is.numeric(timeout) || length(timeout) != 1L || is.na(timeout) || timeout < 0)
    throw("argument", "`timeout` has to be a number of seconds")
}

#' @rdname cluster_submit
#' @export
collect_any <- function(..., timeout = Inf) {
  tasks <- task_list(...)
  check_timeout(timeout)
  if (!length(tasks)) throw("argument", "there are no tasks to wait for")
  deadline <- clock() + timeout
  repeat {
    done <- which(vapply(tasks, function(x) !is.null(outcome(x)), NA))
    if (length(done)) break
    left <- deadline - clock()
    if (left < 0) throw("timeout", sprintf("none of %d tasks has ended within %g seconds", length(tasks), timeout))
    await(tasks, min(left, 3600))
  }
  i <- done[[1L]]
  list(index = i, task = tasks[[i]], value = deliver(tasks[[i]]))
}

#' @rdname cluster_submit
#' @export
collect_all <- function(..., timeout = Inf) {
  tasks <- task_list(...)
  check_timeout(timeout)
  deadline <- clock() + timeout
  for (x in tasks) finish(x, max(deadline - clock(), 0))
  lapply(tasks, deliver)
}

#' @export
format.clutch_task <- function(x, ...) {
  if (is.null(outcome(x))) turn(x$scheduler, x$job, 0)
  o <- outcome(x)
  state <- if (is.null(o)) { if (.Call(ffi_job_state, x$job)$waiting > 0) "waiting for a node" else "running" }
    else if (is.null(o$error)) "done" else paste0("failed: ", conditionMessage(o$error))
  sprintf("clutch task %s: %s", x$label, state)
}

#' @export
print.clutch_task <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

# ---- while R is idle ----

# With package later, tasks go on at the prompt and in the event loops of others. What waits there does not keep the
# cluster alive.
advance_when_idle <- function(t) {
  if (isTRUE(t$scheduled) || !requireNamespace("later", quietly = TRUE)) return(invisible())
  t$scheduled <- TRUE
  later::later(idle_turn(.Call(ffi_weak_new, t, NULL)), 0.01)
}

idle_turn <- function(ref) {
  force(ref)
  function() {
    t <- .Call(ffi_weak_get, ref)
    if (is.null(t)) return()
    t$scheduled <- FALSE
    open <- tryCatch(.Call(ffi_tasks_open, t$ptr), error = function(e) 0)
    if (open == 0) return()
    tryCatch(turn(t, NULL, 0), clutch_error = function(e) NULL)
    advance_when_idle(t)
  }
}

# promises::as.promise(): looked for at the times that later gives.
as.promise.clutch_task <- function(x) {
  promises::promise(function(resolve, reject) {
    look <- function() {
      if (!resolved(x)) return(later::later(look, 0.01))
      tryCatch(resolve(deliver(x)), error = reject)
    }
    look()
  })
}
