# cluster_replay(): an element that has failed, once more, in the session.

#' Run a failed element again in this session
#'
#' Does once more what an element of a map, or a task, has failed with, as an ordinary call in this
#' session: so [debug()], [browser()], [traceback()] and `options(error = recover)` work as they
#' do without a cluster.
#'
#' The call has what it had on its node:
#' * the function, the element, and constant arguments
#' * the element's random stream. The session's own generator is as it was afterwards.
#' * the variables of the workspace that went with the map, with the values that they had then.
#'   Those of the workspace that have others now get them back afterwards.
#' * the packages of the map, attached or loaded, and `options(warn = )`.
#'
#' What else the node had is not there: what earlier elements have left, [cluster_export()] and
#' [cluster_setup()]. With `.seed = FALSE` the random numbers are the session's. A part of
#' [cluster_run()] runs by itself: what asks for other parts is an error of class `clutch_no_run`.
#'
#' @section What is held: Nothing is copied. As long as you keep an error, it keeps what its map
#'   worked with. It is not saved with the error, by [saveRDS()]. The last map or task that has
#'   failed is remembered without its error, too, up to 100 MB: so an error at the prompt can be run
#'   again, by `cluster_replay()`, as long as its cluster is known. Else keep the error:
#'   `e <- tryCatch(cluster_map(...), error = identity)`.
#' @param e What has failed: the error, of class `clutch_task_error`, or one that has it as
#'   `parent`; a task of [cluster_submit()]; what [mclapply()] has in place of a value, where all
#'   that its core was given runs again; the error of a future of `plan(clutch)`; or number of an
#'   element of the map that has failed last, also of one that has not failed. `NULL`: the first
#'   element that has failed there. An error of `mclapply()` or of a future is known by its message,
#'   and only until something else has failed; that of a future only where copies are kept, see
#'   [cluster_debug()].
#' @param globals `"then"` or `"now"`: whether the variables of the workspace have the values that
#'   they had in the map, or those that they have now. `"now"` tries a function that was mended.
#' @return The value of the call, if it does not fail this time. Its error is that of the function.
#' @section Errors: `clutch_argument`: nothing has failed, or `e` is no such error or number.
#'   `clutch_gone`: what the map worked with is not there any more: the error was saved and loaded,
#'   or is of another session, or it is larger than what is remembered without the error. Both have
#'   class `clutch_error`.
#'   ```
#'   tryCatch(cluster_replay(simpleError("no")), clutch_argument = conditionMessage)
#'   ```
#' @seealso [cluster_map()], whose `cl = "here"` does a whole map in this session
#' @examples
#' cl <- make_cluster(2)
#' f <- function(x) log(x) + rnorm(1)
#' e <- tryCatch(cluster_map(cl, list(1, "a"), f, .seed = 1), error = identity)
#' tryCatch(cluster_replay(e), error = conditionMessage)
#'
#' # debug(f); cluster_replay(e)
#' f <- function(x) log(as.numeric(x)) + rnorm(1)
#' h <- tryCatch(cluster_map(cl, list(1, -1), function(x) stopifnot(f(x) > 0), .seed = 1),
#'               error = identity)
#' f <- function(x) 1
#' cluster_replay(h, globals = "now")
#' stop_cluster(cl)
#' @export
cluster_replay <- function(e = NULL, globals = c("then", "now")) {
  globals <- check_choice(globals, "`globals`", c("then", "now"))
  at <- failure_of(e)
  replay_work(at$work, at$element, globals == "then")
}

# The failure that `e` is: list(work, element, copy, error, is_any). `element`: its number; the copy
# of its node and the error, if known; whether any failed element will do.
failure_of <- function(e) {
  if (is.null(e) || is.numeric(e)) return(last_failure(e))
  is_value <- inherits(e, "try-error")
  if (is_value) e <- attr(e, "condition")
  if (inherits(e, "clutch_task")) e <- error_of_task(e)
  failure <- NULL
  for (cause in chain_of(e)) if (is.null(failure)) failure <- cause$failure
  if (is.null(failure)) {
    known <- failure_by_text(e)
    if (!is.null(known)) return(known)
    if (is_value) last_failure(NULL) # says why it is not known, if it is gone
  }
  if (!inherits(failure, "clutch_failure"))
    has_to_be("`e`", "an error of an element or task, a task, or the number of an element")
  work <- .Call(ffi_weak_value, failure$work)
  if (is.null(work)) {
    throw("gone", paste("what the map worked with is not there any more:",
                        "the error was saved and loaded, or comes from another session"))
  }
  copy <- if (!is.null(failure$copy)) .Call(ffi_weak_value, failure$copy)
  list(work = work, element = failure$element, copy = copy, error = e, is_any = FALSE)
}

# The value of mclapply() that stands for an error, and the error of a future, have nothing of ours.
# By its message the element of the last failure is known; NULL: it is none of that.
failure_by_text <- function(e) {
  work <- the$failed
  if (!is.null(work) && !is.numeric(work)) work <- tied_value(work)
  if (!is.environment(work)) return(NULL)
  known <- match(vapply(chain_of(e), message_of, ""), work$texts)
  if (all(is.na(known))) return(NULL)
  element <- names(work$texts)[[known[!is.na(known)][[1L]]]]
  list(work = work, element = as.numeric(element), error = e, is_any = FALSE)
}

error_of_task <- function(task) {
  end <- outcome(task)
  if (is.null(end)) throw("argument", paste(label_of(task), "has not ended"))
  if (is.null(end$error)) throw("argument", paste(label_of(task), "has not failed"))
  end$error
}

# `element`: NULL: the first that has failed.
last_failure <- function(element) {
  work <- the$failed
  if (is.null(work)) throw("argument", "no element of a map, and no task, has failed")
  if (is.numeric(work)) {
    text <- paste("what the map worked with that has failed last, %s, is too large to be",
                  "remembered without the error: e <- tryCatch(cluster_map(...), error = identity)")
    throw("gone", sprintf(text, mb(work)))
  }
  work <- tied_value(work)
  if (is.null(work)) {
    throw("gone", paste("what has failed last went with its cluster: keep the error,",
                        "e <- tryCatch(cluster_map(...), error = identity)"))
  }
  if (is.null(element)) return(list(work = work, element = work$first, is_any = TRUE))
  n <- if (is.null(work$elements)) 1L else length(work$elements)
  if (!is_whole(element) || length(element) != 1L || element > n) {
    text <- if (n == 1L) "1, the only element" else sprintf("one of 1 to %d, the elements", n)
    has_to_be("`e`", paste(text, "of the map that has failed last"))
  }
  list(work = work, element = element, is_any = FALSE)
}

# `then`: variables of the workspace are as they were.
replay_work <- function(work, element, then) {
  attach_here(work$packages)
  for (package in work$load) loadNamespace(package)
  old <- options(warn = work$warn)
  on.exit(options(old))
  if (then && length(work$globals)) {
    before <- set_globals(work$globals)
    on.exit(node_restore(before), add = TRUE)
  }
  if (!is.null(work$stream)) {
    seed <- session_seed()
    on.exit(put_session_seed(seed), add = TRUE)
    put_session_seed(c(LECUYER, .Call(ffi_stream_jump, work$stream, element - 1)))
  }
  at <- call_of_work(work, element)
  eval(at$call, at$env)
}

# Variables that have another value now are put into the workspace: what they were before, as
# node_restore() takes it.
set_globals <- function(values) {
  g <- globalenv()
  is_same <- function(name) {
    exists(name, g, inherits = FALSE) && identical(get(name, g, inherits = FALSE), values[[name]])
  }
  others <- values[!vapply(names(values), is_same, NA)]
  before <- mget(names(others), envir = g, inherits = FALSE, ifnotfound = list(the_node))
  put_variables(others)
  before
}
