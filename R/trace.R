#' What the nodes of a cluster did when
#'
#' A record of the last tasks (as many as `getOption("clutch.trace", 1e5)` said when the cluster was first used for tasks), by [cluster_map()] and
#' [cluster_submit()]. `plot()` draws it, a line for each node and a bar for each task, coloured by job, failed ones in red; `summary()` tells
#' how much of the time the nodes were idle.
#'
#' @param cl a cluster made by [make_cluster()].
#' @param x,object a trace.
#' @param jobs numbers of the jobs to show; by default all.
#' @param main,xlab,ylab,... as in [graphics::plot.default()].
#' @return `cluster_trace()`: a data frame of class `clutch_trace`, a row for each task: `job` (maps and submitted tasks are numbered), `element`, `node`, `attempt`,
#'   `sent`, `began` and `ended` (seconds since the first was sent; `ended` is by the node's clock), `bytes` of the answer, and `ok`.
#'   `summary()`: a list of class `clutch_trace_summary`: `tasks`, `failed`, `span` (s), `busy` (share of the span, by node), `idle` (share of all), `bytes`
#'   and `trips` (messages with answers).
#' @examples
#' cl <- make_cluster(2)
#' invisible(cluster_map(cl, c(0.1, 0.02, 0.05, 0.03), Sys.sleep))
#' summary(cluster_trace(cl))
#' plot(cluster_trace(cl))
#' stop_cluster(cl)
#' @export
cluster_trace <- function(cl) {
  t <- tasks_of(cl)
  x <- as.data.frame(.Call(ffi_tasks_trace, t$ptr))
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
  busy <- vapply(seq_len(n), function(k) sum((x$ended - x$began)[x$node == k]), 1) / max(span, 1e-9)
  structure(list(tasks = nrow(x), failed = sum(!x$ok), span = span, busy = busy, idle = if (n) 1 - mean(pmin(busy, 1)) else NA_real_,
                 trips = nrow(x), bytes = sum(x$bytes)), class = "clutch_trace_summary")
}

#' @export
print.clutch_trace_summary <- function(x, ...) {
  cat(sprintf("%d tasks, %d failed, in %.3f s on %d nodes\n", x$tasks, x$failed, x$span, length(x$busy)))
  cat(sprintf("idle: %.1f %% of the nodes' time; %.0f answers with %s\n", 100 * x$idle, x$trips, mb(x$bytes)))
  invisible(x)
}

#' @rdname cluster_trace
#' @export
plot.clutch_trace <- function(x, jobs = NULL, main = "Tasks by node", xlab = "seconds", ylab = "node", ...) {
  if (!is.null(jobs)) x <- x[x$job %in% jobs, , drop = FALSE]
  n <- attr(x, "nodes")
  if (is.null(n)) n <- max(c(1, x$node))
  if (!nrow(x)) throw("argument", "there are no tasks to draw")
  graphics::plot.default(range(0, x$ended), c(0.5, n + 0.5), type = "n", main = main, xlab = xlab, ylab = ylab, yaxt = "n", ...)
  graphics::axis(2, seq_len(n), las = 1)
  x <- x[x$node > 0, , drop = FALSE]
  colours <- grDevices::hcl.colors(max(2L, length(unique(x$job))), "Dark 3")[match(x$job, sort(unique(x$job)))]
  colours[!x$ok] <- "red"
  graphics::rect(x$began, x$node - 0.35, pmax(x$ended, x$began), x$node + 0.35, col = colours,
                 border = if (nrow(x) <= 2000) "white" else NA)
  invisible(x)
}
