#' A limit on how often tasks do something
#'
#' Tasks on all nodes that call `rate_wait()` go on at most `n` times in a period, all
#' together: for a service that allows so many requests an hour.
#'
#' @details A place in time is reserved at the call, in the order of calls; then the task waits for
#'   it. Where nothing was asked for a while, `burst` calls may go on at once; after that they are
#'   spaced evenly. No period of that length has more than `n + burst` calls.
#' @inheritSection cluster_lock Where it works
#' @inheritParams cluster_lock
#' @param n number above 0: how many in a period. For `rate_wait()`, whole: how many places are
#'   asked for.
#' @param per the period: number of seconds, or one of `"s"`, `"min"`, `"h"`, `"d"`, or a text such
#'   as `"15min"`.
#' @param burst number, whole, 1 or more: how many may go on at once.
#' @param rate object made by `cluster_rate()`.
#' @param timeout number of seconds to wait, at most.
#' @return
#' * `cluster_rate()`: object of class `clutch_rate`. It travels to nodes as any variable does.
#' * `rate_wait()`: number of seconds that it has waited, invisibly.
#' @section Errors: `clutch_timeout`: it would have to wait longer than `timeout`; this is known,
#'   and said, at once, and no place is taken. `clutch_state_gone`: the rate does not exist any
#'   more, or cannot be asked.
#' @references The method is the generic cell rate algorithm, ITU-T recommendation I.371.
#' @seealso [cluster_lock()]
#' @examplesIf .Platform$OS.type == "unix"
#' cl <- make_cluster(2)
#' rate <- cluster_rate(100, per = "s")
#' system.time(cluster_map(cl, 1:20, function(i) {
#'   rate_wait(rate)
#'   i # a request
#' }))
#' stop_cluster(cl)
#' @export
cluster_rate <- function(n, per = "s", burst = 1, cl = NULL) {
  given(n, "n")
  check_number(n, "`n`", 0, "a number above 0", above = TRUE)
  if (is_string(per) && per %in% c("s", "sec", "m", "min", "h", "d")) per <- paste0("1", per)
  each <- check_seconds(per, "`per`") / n
  if (!is_whole(burst) || length(burst) != 1L) has_to_be("`burst`", "a whole number, 1 or more")
  if (each < 1e-9 || each * burst > 1e9) {
    has_to_be("`per`", "a period in which each call has more than 1 ns, and less than 30 years")
  }
  x <- new_state("rate", cl)
  .Call(ffi_rate_begin, x, each, burst)
  x
}

#' @rdname cluster_rate
#' @export
rate_wait <- function(rate, n = 1, timeout = Inf) {
  if (!is_whole(n) || length(n) != 1L || n > 1e6) has_to_be("`n`", "a whole number from 1 to 1e6")
  if (!missing(timeout)) check_timeout(timeout)
  waited <- .Call(ffi_rate_wait, rate, n, timeout)
  if (is.null(waited)) return(ask_forwarded("rate_wait", list(rate, n, timeout)))
  if (waited < 0) throw("timeout", sprintf("no place is free within %g seconds", timeout))
  invisible(waited)
}

#' @export
format.clutch_rate <- function(x, ...) "clutch rate"
