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
#'
#'   Any number of tasks can be submitted. Each takes in the session what is sent to its node, until
#'   it has ended. Option `clutch.queued` bounds that, see [clutch-options]: then these functions
#'   wait where too much is queued.
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
#' @section Values of other tasks: A task can be an argument of another one: as a variable that
#'   `expr` names, or in `args`; also in a plain list, as in `cluster_submit(cl, do.call(rbind,
#'   tasks))`. The task gets its value. `cluster_submit()` returns at once all the same: the task
#'   waits until it has all values, of tasks of this cluster or of others. That needs no word of the
#'   session, and in the session no object is made of a value for that: large vectors go from node
#'   to node in shared memory.
#'
#'   Where one of these tasks fails or is cancelled, that is the error of the task, too: the same
#'   condition. A task keeps those whose values it needs until it was collected, so these are not
#'   cancelled when nothing else refers to them. With `.journal` these tasks have to have ended.
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
#'   evaluated. In place of a task its value is used, see *Values of other tasks*.
#' @param .globals,.packages,.seed,.timeout,.retries,.relay,.max_memory,.priority,.needs as in
#'   [cluster_map()]; the session's options replace the defaults, see [clutch-options]. A list
#'   given as `.globals` is used in place of what would be found. For `.relay`, `"live"` is as
#'   `"ordered"`.
#' @param .fresh,.pointers as in [cluster_map()].
#' @param .journal,.journal_sync,.journal_errors as in [cluster_map()], section *Journal*. The task
#'   is known by its expression and all that travels with it.
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
#'   class `clutch_task_error` and those that [cluster_map()] tells. `clutch_pointer`, of
#'   `cluster_submit()` and `cluster_submit_call()`: see [register_travel()]. `clutch_timeout`: the
#'   task has not ended within `timeout` seconds, and there is no `otherwise`. It goes on, and can
#'   be collected later:
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
#' first <- cluster_submit(cl, { Sys.sleep(0.1); 1:3 })
#' second <- cluster_submit(cl, sum(first))
#' collect(second)
#'
#' slow <- cluster_submit(cl, { Sys.sleep(5); "slow" })
#' race <- collect_any(slow, cluster_submit(cl, "quick"))
#' race$value
#' cancel(slow)
#' stop_cluster(cl)
#' @export
cluster_submit <- new_submit(alist(cl = , expr = ), function() { # nolint: spaces_inside_linter.
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
  check_one(.label, "`.label`", is.atomic, "a string")
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
  after <- tasks_of_code(code, env, frame, o)
  if (!is.null(after)) {
    o <- after$o
    fun <- function_of_values(fun)
  }
  needs <- find_needs(list(fun), o$globals, env) # R code of others may run
  t <- tasks_of(cl)
  submit(t, fun, needs, o, .label, code, after$args)
})

# C code does what nearly always is to be done; NULL: something is out of the ordinary.
submit_plain <- function(cl, code, env) {
  if (has_other_libraries(cl) || has_other_source(cl) || has_registered()) return(NULL)
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
cluster_submit_call <- new_submit(alist(cl = , f = , args = list()), function() { # nolint
  cl <- cluster_or_own(cl)
  given(f, "f")
  check_one(.label, "`.label`", is.atomic, "a string")
  code <- as.call(list(substitute(f), quote(...)))
  env <- parent.frame()
  fun <- function_to_call(f, env)
  if (!is.list(args)) has_to_be("`args`", "a list of arguments")
  called <- called_submit("cluster_submit_call", .label, substitute(f))
  if (is.null(.label) && !.Call(ffi_code_is_short, code)) .label <- text_of(code)
  o <- task_options(given_options(environment(), submit_options), submit_options)
  o$called <- called
  if (o$relay == "live") o$relay <- "ordered"
  after <- tasks_of_args(args)
  if (!is.null(after)) {
    after <- with_gaps_in(after, o)
    args <- after$args
    o <- after$o
  }
  needs <- find_needs(list(fun, args), o$globals, env) # R code of others may run
  submit(tasks_of(cl), fun, needs, o, .label, code, args)
})

# A name is not what a map would extract: a misspelt one is an error.
function_to_call <- function(f, env, what = "`f`") {
  if (is.function(f) || inherits(f, "formula")) return(as_task_function(f, env))
  check_needed(f, what, is.character, "a function, the name of one, or a formula")
  named <- if (nzchar(f)) get0(f, envir = env, mode = "function")
  if (is.null(named)) throw("argument", sprintf("there is no function '%s'", f))
  named
}

# `label`: NULL: one will be made of `code`. `args`: of the function. `known`: what a journal knows
# the task by, where that is not the function with its arguments: list(fun, args, needs).
submit <- function(t, fun, needs, o, label, code, args = NULL, known = NULL) {
  submitted <- FALSE
  task <- new.env(hash = FALSE, parent = emptyenv())
  task$scheduler <- t
  task$label <- label
  if (is.null(label)) task$code <- code
  if (is.null(known)) known <- list(fun = fun, args = args, needs = needs)
  record <- journal_begin_task(o, known$fun, known$args, known$needs,
                               if (is.null(label)) text_of(code) else label)
  if (!is.null(record)) {
    o["seed"] <- list(record$seed)
    task$record <- record
    on.exit(if (!submitted) journal_end(record))
  }
  span <- if (!is.null(the$otel)) submitted_span(label)
  task$job <- job_new(t, traced_function(fun, span), NULL, args, needs, o)
  if (o$relay == "handler") task$is_heard <- TRUE
  on.exit(if (!submitted) .Call(ffi_job_end, task$job, 0), add = TRUE, after = FALSE)
  if (!is.null(record)) journal_attach(record, task$job, NULL)
  if (!is.null(o$after)) await_values(t, task, o)
  if (!is.null(span)) {
    task$span <- span
    span_of_job(span, t, task$job)
  }
  await_room(t, task$job)
  job_start(t, task$job)
  task_step(t, task$job, 0)
  advance_when_idle(t)
  submitted <- TRUE
  class(task) <- c("clutch_task", the$task_is_also)
  task
}

# Option `clutch.queued`: waits until what submitted tasks take in this session leaves so much that
# this one fits, or until it would be the only one.
await_room <- function(t, job) {
  most <- getOption("clutch.queued")
  if (is.null(most)) return(invisible())
  if (!identical(most, Inf)) most <- check_size(most, option_text("clutch.queued"))
  size <- .Call(ffi_job_weight, job)
  repeat {
    oldest <- .Call(ffi_tasks_oldest, t$ptr)
    if (is.null(oldest) || .Call(ffi_tasks_queued, t$ptr) + size <= most) return(invisible())
    task_step(t, oldest, 3600)
  }
}
