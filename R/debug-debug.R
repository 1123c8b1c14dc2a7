# cluster_debug(): the frames of an element that has failed, or of a node that is busy, seen from
# the session.

#' Look into the frames of a failed element, or of a busy node
#'
#' Where an element of a map or a task fails, its node forks: the copy keeps all frames and sleeps,
#' and the node goes on. `cluster_debug()` opens the menu of [utils::recover()] for these frames,
#' in this console. In a frame R's [browser()] evaluates what you type, there, and its output comes
#' here; what is plotted is drawn here. `c` or an empty line goes back to the menu, `Q` leaves,
#' Ctrl-C interrupts what is being evaluated.
#'
#' With a task that is running, or with a node that is busy, the same is done now: the node forks,
#' its work goes on, and the copy shows where it was at that moment. So it can be seen what an
#' element that takes too long works on.
#'
#' @section Busy nodes: A copy is made anew by each call, and ends when it was looked at, whatever
#'   `options(clutch.frozen = )` says. A node makes it when R there looks for interrupts: within
#'   milliseconds while R code runs, within 0.06 s in [Sys.sleep()]. Compiled code may not look for
#'   interrupts; it is waited for 5 seconds. On other hosts a second node there has to be idle: the
#'   copy is asked by way of that.
#' @section Which are kept: Copies are made in interactive sessions, and elsewhere with
#'   `options(clutch.frozen = 4)`: that many on each machine, and the first of each message. `0`:
#'   none. A later map with failures takes the place of an earlier one. A copy ends with its node
#'   (with [stop_cluster()], with the session, or when the node dies), and when memory gets short.
#'   Elements that take longer than `.timeout` leave one, too, if they could be interrupted. Nodes
#'   of the session's own cluster, see [own-cluster], stay for half an hour when there are copies.
#'
#'   The first element of a map that takes more memory than `.max_memory` leaves one, too. The node
#'   makes it when R there heeds interrupts, or collects garbage, and ends. It has a second for
#'   that, and may take as much memory again meanwhile; compiled code may be too late. This copy
#'   outlives its node and has its memory. So it is made only where that is there twice more. It
#'   ends when nobody has the error any more (on other hosts with [stop_cluster()]), and when less
#'   than an eighth of the memory is left. An element that the system's out-of-memory killer ends,
#'   or the session since memory is short, leaves none, nor does one on a TCP node.
#'
#'   Errors of [mclapply()] and of futures of `plan(clutch)` leave one, too. Errors that are handled
#'   on the node leave none; nor does recursion without end, for which R calls no handlers.
#'
#'   On other hosts the copy is asked by way of its node, when that is at no task.
#'
#'   A copy answers only this session, which has a secret that it wants to hear, and only a process
#'   of the same user.
#' @section Which frames: From the map's function to that which has called [stop()],
#'   [stopifnot()], [warning()] (with `options(warn = 2)`), or `abort()` of packages \pkg{rlang} and
#'   \pkg{cli}.
#'   Where a calling handler has failed, or has signalled an error of its own, its frame is there,
#'   too. [sys.call()], [match.call()], [parent.frame()] and [nargs()] are those of the frame.
#' @section What is different in a copy: It is another process than the node: what is changed there
#'   changes nothing elsewhere. Files, connections and sockets that were open lead nowhere. Threads
#'   of other packages are not there: code that needs them may wait for ever, until Ctrl-C. What
#'   earlier evaluations in a copy have done is there as long as it lives. Where an evaluation leads
#'   to a garbage collection, finalizers of objects that nobody holds any more run there, and again
#'   on the node.
#' @param e What has failed, as in [cluster_replay()]. An error whose message is that of another
#'   element that is kept leads to that. Or what is busy: a task of [cluster_submit()] that has not
#'   ended, or one node, as `cl[2]`.
#' @param frame `NULL`, or number of a frame, as in the menu; 1 is the map's function.
#' @param expr `NULL`, or an expression (as by [quote()]) that is evaluated in the frame, by default
#'   in the innermost.
#' @return With `expr` its value, and an error of it is an error here. Else, in an interactive
#'   session, `NULL`, invisibly; elsewhere a character vector with the frames, as in the menu.
#' @section Errors: `clutch_argument`: nothing has failed, or `e` is no such error, or a task that
#'   waits, or a node that is idle, or there is no such frame. `clutch_gone`: no copy was made, or
#'   it has ended. Both have class `clutch_error`.
#'   ```
#'   tryCatch(cluster_debug(e), clutch_gone = function(g) cluster_replay(e))
#'   ```
#' @seealso [cluster_replay()], which runs the element again here; [cluster_stacks()] for nodes that
#'   are busy
#' @examples
#' old <- options(clutch.frozen = 4)
#' cl <- make_cluster(2)
#' f <- function(x) {
#'   n <- nchar(x)
#'   g(n)
#' }
#' g <- function(y) if (y > 3) stop("too long") else y
#' e <- tryCatch(cluster_map(cl, c("a", "abcd"), f), error = identity)
#' cluster_debug(e, frame = 1, expr = quote(x))
#' cluster_debug(e, expr = quote(y + 1))
#'
#' count <- function() {
#'   n <- 0
#'   repeat n <- n + 1
#' }
#' task <- cluster_submit_call(cl, count)
#' Sys.sleep(0.1)
#' cluster_debug(task, 1, quote(n > 0))
#' cancel(task)
#' stop_cluster(cl)
#' options(old)
#' @export
cluster_debug <- function(e = NULL, frame = NULL, expr = NULL) {
  copy <- copy_of_busy(e)
  link <- if (!is.null(copy)) connect_copy(copy)
  if (is.null(copy)) {
    found <- first_copy(e)
    copy <- found$copy
    link <- found$link
  }
  on.exit(link$close())
  labels <- ask_copy(link, list(ask = "frames"))$labels
  if (!is.null(frame) && !(is_whole(frame) && length(frame) == 1L && frame <= length(labels)))
    has_to_be("`frame`", sprintf("a number from 1 to %d", length(labels)))
  if (!is.null(expr)) {
    at <- if (is.null(frame)) length(labels) else as.integer(frame)
    answer <- ask_copy(link, list(ask = "value", frame = at, code = expr))
    for (w in answer$warnings) warning(w)
    if (!is.null(answer$error)) stop(answer$error)
    return(answer$value)
  }
  if (!interactive()) return(labels)
  cat(sprintf("%s: %s\n", name_of_copy(copy), copy$text))
  if (is.null(frame)) recover_in_copy(link, labels) else browse_copy(link, labels, frame)
  invisible()
}

# The copy of this error, and a connection to it. Of a run, whose parts may be more than the copies
# that are kept, that of another part is as good.
first_copy <- function(e) {
  parts <- list(e)
  if (inherits(e, "clutch_run_error"))
    parts <- c(parts, Filter(function(x) !is.null(x$failure), e$errors))
  gone <- NULL
  for (one in parts) {
    found <- tryCatch({
      copy <- copy_to_debug(failure_of(one))
      list(copy = copy, link = connect_copy(copy))
    }, clutch_gone = identity)
    if (inherits(found, "clutch_gone")) {
      gone <- c(gone, list(found))
      next
    }
    if (length(gone)) {
      rank <- which(vapply(e$errors, identical, NA, one))[[1L]]
      message(sprintf("rank %d was not kept; this is rank %d", e$rank, rank))
    }
    return(found)
  }
  stop(gone[[1L]])
}

# `at`: of failure_of(). The copy of this failure, else that of one with the same message.
copy_to_debug <- function(at) {
  if (!is.null(at$copy)) return(at$copy)
  copies <- at$work$copies
  mine <- Find(function(copy) copy$element == at$element, copies)
  if (!is.null(mine)) return(mine)
  text <- cause_text(at$error)
  same <- Find(function(copy) at$is_any || identical(copy$text, text), copies)
  if (!is.null(same)) {
    message(sprintf("element %.0f was not kept; this is %s", at$element, name_of_copy(same)))
    return(same)
  }
  throw("gone", paste("no copy of the failed element's node was kept: see ?cluster_debug, and",
                      "cluster_replay() to run it again here"))
}

cause_text <- function(e) {
  if (inherits(e, "clutch_task_timeout")) return(TIME_IS_UP)
  if (inherits(e, "clutch_task_memory")) return(OVER_MEMORY)
  if (!is.null(e)) message_of(if (is.null(e$parent)) e else e$parent)
}
