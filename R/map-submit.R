#' Evaluate an expression on a node, and collect its value later
#'
#' `cluster_submit()` returns a task at once.
#' * `cluster_submit_call()` does the same for the call of a function.
#' * `resolved()` tells whether a task has ended.
#' * `collect()` waits for a task and returns its value, or raises its error.
#' * `cancel()` gives a task up.
#' * `collect_any()` waits for the first of several tasks, `collect_all()` for all of them.
#'
#' @section When it runs: A task is sent to a node when one gets free, whatever the session does
#'   meanwhile: also while it computes in compiled code, or waits at the prompt. A task to which
#'   nothing refers any more is cancelled.
#'
#'   Random numbers and conditions are as in [cluster_map()]. What the task has printed and
#'   signalled is relayed when it is collected for the first time. With a function as `.relay` that
#'   gets its conditions while it goes on: whenever the session waits in one of these functions, or
#'   in a map of the same cluster; and all of them before the task counts as ended. An error in the
#'   function is an error of who waits.
#' @section Guarantees: A task is started at most once, or with `.retries = k` at most `k + 1`
#'   times, as in [cluster_map()]. While the session is elsewhere, in code that calls none of these
#'   functions:
#'   * Tasks are sent, their results are read, and time limits are in force.
#'   * A node that dies is noticed. Its task is tried again by another node, if it has retries left.
#'     The node itself is replaced when one of these functions is called, or when R is idle, where
#'     package \pkg{later} is installed and a promise of a task is awaited.
#'   * Results wait in bounded memory: when 256 MB have come, no more is read before one of these
#'     functions is called. Until then nodes wait with their results, and time limits are not in
#'     force.
#'
#'   This is the work of a thread of the package in the session, which never calls R. It sleeps
#'   while there is nothing to do, and is not in a forked child of the session. On systems other
#'   than Linux it looks every 2 ms whether something has come, while tasks are under way.
#' @section Other packages: `promises::as.promise()` turns a task into a promise, for \pkg{shiny}
#'   and others. A task that is returned within `promises::then()` is chained. With \pkg{later}
#'   1.4.0 or newer on Linux, a handler is called about a millisecond after the task has ended, and
#'   nothing is polled until then; else every 10 ms.
#'
#'   Package \pkg{future} has generics `resolved()`, `value()` and `cancel()`, and \pkg{dplyr} has
#'   `collect()`. They take tasks, and the functions of this package take what theirs take. So the
#'   order in which the packages are attached does not matter.
#' @param cl cluster made by [make_cluster()]. `NULL`: the session's own, see [own-cluster].
#' @param expr expression. Its variables have the values that they have now, and travel with it. So
#'   do the variables and packages that these need in turn, as in [cluster_map()].
#' @param f function, or the name of one, or a formula as in [cluster_map()]. The variables and
#'   packages that it needs travel with it.
#' @param args list: the arguments of `f`. They travel as values: an expression in it is not
#'   evaluated.
#' @param .globals,.packages,.seed,.timeout,.retries,.relay,.max_memory,.fresh as in
#'   [cluster_map()]; the session's options replace the defaults, see [clutch-options]. A list given
#'   as `.globals` is used in place of what would be found. For `.relay`, `"live"` is as
#'   `"ordered"`.
#' @param .label string: a name for the task, in errors and when it is printed. By default the
#'   expression.
#' @param x task; for `resolved()` and `cancel()` also a list of tasks.
#' @param ... for `collect_any()` and `collect_all()`: tasks, or one list of tasks. Else nothing.
#' @param timeout number of seconds to wait, at most.
#' @param otherwise any value: what is returned when `timeout` is over. Where it is not given, that
#'   is an error.
#' @return
#' * `cluster_submit()`, `cluster_submit_call()`: object of class `clutch_task`.
#' * `resolved()`: `TRUE` or `FALSE`, for each task.
#' * `collect()`: the value of the expression or call.
#' * `cancel()`: `TRUE` when the task was given up, `FALSE` when it had ended; invisibly.
#' * `collect_any()`: list with `index`, `task` and `value` of the task that ended first.
#' * `collect_all()`: list of the values, with the names of the tasks.
#' @section Errors: `collect()`, `collect_any()` and `collect_all()` raise the error of a task, of
#'   class `clutch_task_error` and those that [cluster_map()] tells. `clutch_timeout`: the task has
#'   not ended within `timeout` seconds, and there is no `otherwise`. It goes on, and can be
#'   collected later:
#'   ```
#'   tryCatch(collect(task, timeout = 1), clutch_timeout = function(e) "not yet")
#'   collect(task, timeout = 1, otherwise = "not yet")
#'   ```
#' @seealso [cluster_map()], [cluster_free()], [clutch-options]
#' @examples
#' cl <- make_cluster(2)
#' collect(cluster_submit_call(cl, rnorm, list(2, mean = 10)))
#' a <- 20
#' task <- cluster_submit(cl, a + 1)
#' resolved(task)
#' collect(task)
#'
#' failing <- cluster_submit(cl, log("a"))
#' tryCatch(collect(failing), clutch_task_error = conditionMessage)
#'
#' slow <- cluster_submit(cl, { Sys.sleep(5); "slow" })
#' race <- collect_any(slow, cluster_submit(cl, "quick"))
#' race$value
#' cancel(slow)
#' stop_cluster(cl)
#' @export
cluster_submit <- function(cl, expr, .globals = TRUE, .packages = NULL, .seed = TRUE,
                           .timeout = Inf, .retries = 0, .relay = "ordered", .max_memory = Inf,
                           .fresh = FALSE, .label = NULL) {
  # nearly always so: what is checked below is not checked here, for that takes as long as the rest
  is_plain <- nargs() == 2L && !missing(cl) && !missing(expr)
  traces <- !is.null(otel <- the$otel) && !is.list(otel$tracer_provider) && is_tracing_now()
  if (is_plain && !traces) {
    if (is.null(cl)) cl <- own_cluster()
    task <- submit_plain(cl, substitute(expr), parent.frame())
    if (!is.null(task)) return(task)
  }
  cl <- cluster_or_own(cl)
  given(expr, "expr")
  code <- substitute(expr)
  env <- parent.frame()
  # to make a text of code takes as long as all else: where it is short, not before it is wanted
  called <- called_submit("cluster_submit", .label, code)
  if (is.null(.label) && !.Call(ffi_code_is_short, code)) .label <- text_of(code)
  given <- if (nargs() > 2L) given_options(environment(), submit_options)
  o <- task_options(given, submit_options)
  o$called <- called
  if (o$relay == "live") o$relay <- "ordered"
  frame <- if (isTRUE(o$globals)) locals_of(code, env) else new.env(parent = globalenv())
  if (is.expression(code)) code <- code[[1L]] # as do.call() passes one
  fun <- eval(call("function", NULL, code), frame)
  needs <- find_needs(list(fun), o$globals, env) # R code of others may run
  t <- tasks_of(cl)
  submit(t, fun, needs, o, .label, code)
}

# What nearly always is to be done, done in C; NULL: something is out of the ordinary.
submit_plain <- function(cl, code, env) {
  if (has_other_libraries(cl)) return(NULL)
  fun <- .Call(ffi_code_alone, code, env)
  if (is.null(fun)) return(NULL)
  task <- .Call(ffi_submit, cl, fun, code, the$task_is_also)
  if (is.null(task)) return(NULL)
  t <- .subset2(task, "scheduler")
  # else a task without a time limit changes nothing there
  if (is.null(t$watch)) advance_when_idle(t)
  task
}

#' @rdname cluster_submit
#' @export
cluster_submit_call <- function(cl, f, args = list(), .globals = TRUE, .packages = NULL,
                                .seed = TRUE, .timeout = Inf, .retries = 0, .relay = "ordered",
                                .max_memory = Inf, .fresh = FALSE, .label = NULL) {
  cl <- cluster_or_own(cl)
  given(f, "f")
  code <- as.call(list(substitute(f), quote(...)))
  env <- parent.frame()
  fun <- function_to_call(f, env)
  if (!is.list(args)) has_to_be("`args`", "a list of arguments")
  called <- called_submit("cluster_submit_call", .label, substitute(f))
  if (is.null(.label) && !.Call(ffi_code_is_short, code)) .label <- text_of(code)
  o <- task_options(given_options(environment(), submit_options), submit_options)
  o$called <- called
  if (o$relay == "live") o$relay <- "ordered"
  needs <- find_needs(list(fun, args), o$globals, env) # R code of others may run
  submit(tasks_of(cl), fun, needs, o, .label, code, args)
}

# Not what a map would extract: a misspelt name is an error.
function_to_call <- function(f, env) {
  if (is.function(f) || inherits(f, "formula")) return(as_task_function(f, env))
  check_needed(f, "`f`", is.character, "a function, the name of one, or a formula")
  named <- get0(f, envir = env, mode = "function")
  if (is.null(named)) throw("argument", sprintf("there is no function '%s'", f))
  named
}

# `label`: NULL: one will be made of `code`. `args`: of the function.
submit <- function(t, fun, needs, o, label, code, args = NULL) {
  task <- new.env(hash = FALSE, parent = emptyenv())
  task$scheduler <- t
  task$label <- label
  if (is.null(label)) task$code <- code
  span <- if (!is.null(the$otel)) submitted_span(label)
  task$job <- job_new(t, traced_function(fun, span), NULL, args, needs, o)
  if (o$relay == "handler") task$is_heard <- TRUE
  submitted <- FALSE
  on.exit(if (!submitted) .Call(ffi_job_end, task$job, 0))
  if (!is.null(span)) {
    task$span <- span
    span_of_job(span, t, task$job)
  }
  job_start(t, task$job)
  task_step(t, task$job, 0)
  advance_when_idle(t)
  submitted <- TRUE
  class(task) <- c("clutch_task", the$task_is_also)
  task
}

# Those of cluster_map() that make sense for one task.
submit_options <- options_taken(c("globals", "packages", "seed", "timeout", "retries", "relay",
                                  "max_memory", "fresh"))

label_of <- function(task) {
  if (is.null(task$label)) task$label <- text_of(task$code)
  task$label
}

text_of <- function(code) {
  s <- deparse(code, width.cutoff = 60L, nlines = 2L)
  paste0("'", s[[1L]], if (length(s) > 1L) " ...", "'")
}

# ---- a task ----

# list(value =) or list(error =), or NULL: it has not ended.
outcome <- function(x) {
  if (!is.null(x$outcome)) return(x$outcome)
  end <- .Call(ffi_job_outcome, x$job)
  if (is.null(end)) return(NULL)
  x$outcome <- if (is.list(end) && is.null(x$cancelled)) list(value = end[[1L]]) else outcome_of(x)
  .Call(ffi_job_drop_value, x$job)
  hear_of_deaths(x$scheduler) # the thread has seen to the tasks of a dead node, but not to the node
  if (isTRUE(x$is_heard)) relay_queue(x$scheduler, x$job) # what it has said before
  if (the$has_spans) end_submitted_span(x)
  x$outcome
}

# Of a task that has failed, or was cancelled, or has said something.
outcome_of <- function(x) {
  answer <- .Call(ffi_job_values, x$job)
  failures <- .Call(ffi_job_failures, x$job, 0)
  value <- answer$values[[1L]]
  x$log <- answer$logs[[1L]]
  .Call(ffi_job_end, x$job, 0)
  if (isTRUE(x$cancelled)) return(list(error = cancelled_error(x)))
  if (!length(failures$element)) return(list(value = value))
  list(error = task_error(x$scheduler, failures, 1L, value, label_of(x)))
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
  task_step(x$scheduler, x$job, seconds, 0)
  relay_queue(x$scheduler, x$job)
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
  if (missing(timeout)) {
    end <- .Call(ffi_task_value, x)
    if (!is.null(end)) return(end[[1L]])
  }
  check_timeout(timeout)
  if (finish(x, timeout)) return(deliver(x))
  if (missing(otherwise)) throw_timeout(x, timeout)
  otherwise
}

# Waits for its end. Whether it has come.
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
  if (is.null(x$relayed)) {
    x$relayed <- TRUE
    if (!is.null(x$log)) relay_log(x$scheduler, x$log)
    x$log <- NULL
  }
  if (!is.null(x$outcome$error)) stop(x$outcome$error)
  x$outcome$value
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

# Of tasks that have ended: not the session's reading of it counts, which may have been busy.
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
    end <- if (timeout == Inf) .Call(ffi_task_value, x)
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

check_timeout <- function(timeout) check_number(timeout, "`timeout`", 0, "a number of seconds")

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
  if (.Call(ffi_job_state, x$job)$waiting > 0) "waiting for a node" else "running"
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
