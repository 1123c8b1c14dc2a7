#' What the nodes of a cluster did when
#'
#' A record of the last tasks of [cluster_map()] and [cluster_submit()]. `plot()` draws it: a line
#' for each node and a bar for each task, coloured by job, neighbours lighter and darker. Failed
#' tasks are black and taller. `summary()` tells how much of the time the nodes were idle.
#'
#' How many tasks are kept is option `clutch.trace` (default 1e5) when the cluster is first used for
#' tasks, see [clutch-options].
#'
#' @param cl cluster made by [make_cluster()]. `NULL`: the session's own, see [own-cluster].
#' @param x,object trace: value of `cluster_trace()`.
#' @param jobs numbers of the jobs to show; by default all.
#' @param legend logical: whether to draw a legend. `NULL`: where jobs or failures have to be told.
#' @param main,xlab,ylab,... as in [graphics::plot.default()].
#' @return `cluster_trace()`: a data frame of class `clutch_trace` with a row for each task:
#'   * `job`: number of the job; maps and submitted tasks are numbered in turn
#'   * `element`: number of the element in the map
#'   * `node`, `attempt`: number of the node, and of the attempt
#'   * `host`: name of the node's host
#'   * `sent`, `began`, `ended`: seconds since the first was sent; `ended` is by the node's clock
#'   * `bytes`: size of the answer
#'   * `ok`: `FALSE` when it has failed
#'
#'   `summary()`: a list of class `clutch_trace_summary`: `tasks` and `failed` (numbers), `span`
#'   (seconds), `busy` (share of the span, for each node), `idle` (share of all nodes' time),
#'   `trips` (number of answers) and `bytes` (their size).
#'
#'   `plot()`: the trace, invisibly.
#' @section Errors: `clutch_argument`: there are no tasks to draw. `clutch_stopped`: the cluster has
#'   been stopped:
#'   ```
#'   tryCatch(cluster_trace(cl), clutch_stopped = function(e) NULL)
#'   ```
#' @seealso [cluster_map()], [cluster_status()]
#' @examples
#' cl <- make_cluster(2)
#' cluster_walk(cl, c(0.1, 0.02, 0.05, 0.03), Sys.sleep)
#' summary(cluster_trace(cl))
#' plot(cluster_trace(cl))
#' stop_cluster(cl)
#' @export
cluster_trace <- function(cl = NULL) {
  t <- tasks_of(if (is.null(cl)) own_cluster_as_is() else cl)
  x <- as.data.frame(.Call(ffi_tasks_trace, t$ptr))
  x$host <- t$info$hosts[ifelse(x$node > 0, x$node, NA_integer_)]
  x <- x[append(setdiff(names(x), "host"), "host", match("node", names(x)))]
  if (nrow(x)) {
    first <- min(x$sent[x$sent > 0], x$began)
    for (n in c("sent", "began", "ended")) x[[n]] <- x[[n]] - first
    x$sent[x$sent < 0] <- NA
  }
  structure(x, class = c("clutch_trace", "data.frame"), nodes = length(t$info$handles))
}

#' @rdname cluster_trace
#' @export
summary.clutch_trace <- function(object, ...) {
  x <- object
  n <- attr(object, "nodes")
  if (is.null(n)) n <- max(c(0, x$node))
  span <- if (nrow(x)) max(x$ended) - min(x$began) else 0
  seconds <- vapply(seq_len(n), function(k) sum((x$ended - x$began)[x$node == k]), 1)
  busy <- seconds / max(span, 1e-9)
  idle <- if (n) 1 - mean(pmin(busy, 1)) else NA_real_
  about <- list(tasks = nrow(x), failed = sum(!x$ok), span = span, busy = busy, idle = idle,
                trips = nrow(x), bytes = sum(x$bytes))
  structure(about, class = "clutch_trace_summary")
}

#' @export
print.clutch_trace_summary <- function(x, ...) {
  cat(sprintf("%d tasks, %d failed, in %.3f s on %d nodes\n", x$tasks, x$failed, x$span,
              length(x$busy)))
  cat(sprintf("idle: %.1f %% of the nodes' time; %.0f answers with %s\n", 100 * x$idle, x$trips,
              mb(x$bytes)))
  invisible(x)
}

#' @rdname cluster_trace
#' @export
plot.clutch_trace <- function(x, jobs = NULL, main = "Tasks by node", xlab = "seconds",
                              ylab = "node", legend = NULL, ...) {
  if (!is.null(jobs)) x <- x[x$job %in% jobs, , drop = FALSE]
  n <- attr(x, "nodes")
  if (is.null(n)) n <- max(c(1, x$node))
  if (!nrow(x)) throw("argument", "there are no tasks to draw")
  graphics::plot.default(range(0, x$ended), c(0.5, n + 0.5), type = "n", main = main, xlab = xlab,
                         ylab = ylab, yaxt = "n", ...)
  graphics::axis(2, seq_len(n), las = 1)
  x <- x[x$node > 0, , drop = FALSE]
  shown <- sort(unique(x$job))
  if (is.null(legend)) legend <- length(shown) > 1L || !all(x$ok)
  if (legend) trace_legend(shown, all(x$ok))
  draw_tasks(x[order(x$node, x$began), , drop = FALSE], shown)
  invisible(x)
}

# The palette of Okabe and Ito, which the colour-blind can tell apart, without what is too near to
# black or to white.
trace_colours <- function(job, jobs) {
  palette <- c("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
  palette[(match(job, jobs) - 1L) %% length(palette) + 1L]
}

# A white edge needs some pixels. Neighbours differ in lightness, too, so that they are told at any
# number. Failed ones are drawn last, at least a line wide: they may be few among many.
draw_tasks <- function(x, jobs) {
  colours <- trace_colours(x$job, jobs)
  odd <- stats::ave(seq_len(nrow(x)), x$node, FUN = seq_along) %% 2L == 1L
  colours[!odd] <- lighter(colours[!odd])
  end <- pmax(x$ended, x$began)
  inches <- function(at) graphics::grconvertX(at, "user", "inches")
  wide <- inches(end) - inches(x$began) > 0.04
  bar <- function(which, height, ...) {
    if (!any(which)) return()
    graphics::rect(x$began[which], x$node[which] - height, end[which], x$node[which] + height, ...)
  }
  bar(x$ok & !wide, 0.35, col = colours[x$ok & !wide], border = NA)
  bar(x$ok & wide, 0.35, col = colours[x$ok & wide], border = "white")
  bar(!x$ok, 0.45, col = "black", border = "black")
}

lighter <- function(colours) {
  rgb <- grDevices::col2rgb(colours)
  grDevices::rgb(t(rgb + (255 - rgb) * 0.45), maxColorValue = 255)
}

# Above the plot, below its title.
trace_legend <- function(jobs, all_ok) {
  most <- utils::head(jobs, 6L)
  text <- c(paste("job", most), if (length(jobs) > 6L) "...", if (!all_ok) "failed")
  fill <- c(trace_colours(most, jobs), if (length(jobs) > 6L) NA, if (!all_ok) "black")
  graphics::legend("bottom", text, fill = fill, border = NA, bty = "n", horiz = TRUE, xpd = NA,
                   inset = c(0, 1), cex = 0.8)
}
