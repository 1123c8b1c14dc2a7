#' A counter that tasks share
#'
#' A whole number to which processes add at the same time, each addition once: ids that no two tasks
#' get, or how much has been done.
#'
#' @inheritSection cluster_lock Where it works
#' @inheritParams cluster_lock
#' @param start,value number, whole: what it is to be.
#' @param counter object made by `cluster_counter()`.
#' @param by number, whole: what is added.
#' @return
#' * `cluster_counter()`: object of class `clutch_counter`. It travels to nodes as any variable
#'   does.
#' * `counter_add()`: number: the value after the addition. No two calls that add 1 get the same.
#' * `counter_value()`: number.
#' * `counter_set()`: number, invisibly: the value before.
#' @section Errors: `clutch_argument`: a number that is not whole, or beyond 2^53.
#'   `clutch_state_gone`: the counter does not exist any more.
#' @seealso [cluster_lock()]
#' @examplesIf .Platform$OS.type == "unix"
#' cl <- make_cluster(2)
#' ids <- cluster_counter(cl)
#' unlist(cluster_map(cl, 1:6, function(i) counter_add(ids)))
#' counter_value(ids)
#' stop_cluster(cl)
#' @export
cluster_counter <- function(cl = NULL, start = 0) {
  check_count(start, "`start`")
  x <- new_state("counter", cl)
  counter_set(x, start)
  x
}

check_count <- function(x, what) {
  is_one <- is.numeric(x) && length(x) == 1L && is.finite(x) && x == floor(x) && abs(x) <= 2^53
  if (!is_one) has_to_be(what, "a whole number of at most 2^53")
}

#' @rdname cluster_counter
#' @export
counter_add <- function(counter, by = 1) {
  if (!missing(by)) check_count(by, "`by`")
  or_there(.Call(ffi_counter_add, counter, by), "counter_add", counter, by)
}

#' @rdname cluster_counter
#' @export
counter_value <- function(counter) counter_add(counter, 0)

#' @rdname cluster_counter
#' @export
counter_set <- function(counter, value) {
  check_count(value, "`value`")
  found <- .Call(ffi_counter_set, counter, value)
  invisible(or_there(found, "counter_set", counter, value))
}

#' @export
format.clutch_counter <- function(x, ...) sprintf("clutch counter: %.0f", counter_value(x))
