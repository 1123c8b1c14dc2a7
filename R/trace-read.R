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
#' @param n number of tasks to print.
#' @param jobs numbers of the jobs to show; by default all.
#' @param legend logical: whether to draw a legend. `NULL`: where jobs or failures have to be told.
#' @param main,xlab,ylab,... as in [graphics::plot.default()].
#' @return `cluster_trace()`: a data frame of class `clutch_trace` with a row for each task, in the
#'   order in which the session heard of their ends:
#'   * `job`: number of the job; maps and submitted tasks are numbered in turn
#'   * `label`: the call that has made the job, as `"cluster_map(f)"`, of at most 80 bytes; of a
#'     task with a label that label
#'   * `element`: number of the element in the map
#'   * `node`, `attempt`: number of the node, and of the attempt
#'   * `host`: name of the node's host
#'   * `queued`, `sent`, `began`, `ended`, `received`: when the job was begun, the task was sent,
#'     the node began and ended it, and the session had the answer. In seconds since the first task
#'     was sent. A job may be older than that: then `queued` is negative
#'   * `bytes`: size of the answer
#'   * `ok`: `FALSE` when it has failed
#'   * `end`: `"ok"`, `"error"`, `"died"` (its node did), `"timeout"` or `"cancelled"`
#'   * `queue`, `wire`, `run`, `answer`: seconds of its phases, see below
#'
#'   `as.data.frame()`: the same as a plain data frame. Attribute `memory` of a trace is a data
#'   frame of the memory of nodes over time, see below.
#'
#'   `summary()`: a list of class `clutch_trace_summary`: `tasks` and `failed` (numbers), `span`
#'   (seconds), `busy` (share of the span, for each node), `idle` (share of all nodes' time),
#'   `trips` (number of answers), `bytes` (their size), `memory` (a data frame with the first, the
#'   largest and the last of each node, in MB), and `limits`, see below.
#'
#'   `plot()`: the trace, invisibly.
#' @section What limits: Element `limits` of the summary is a data frame with a row for each cause
#'   that the nodes do not get on faster, what loses most first; without rows where there is none:
#'   * `what`: `"small_tasks"`, `"large_payloads"`, `"slow_node"`, `"few_elements"`, `"messages"` or
#'     `"memory"`
#'   * `share`: of the nodes' time that is lost so; `NA` where that is not known
#'   * `measured`: what was measured, in words
#'   * `advice`: what may help
#'
#'   Times in which there was no job do not count. Nothing is said of less than 20 ms.
#' @section Memory: `attr(x, "memory")` has columns `time` (as of the tasks), `node` and `memory`:
#'   MB (2^20 bytes) that are the node's own, as [cluster_status()] measures them. Nodes of this
#'   machine are looked at in turn, one each 20 ms, while the session waits for tasks or submits
#'   some, and all of them when `cluster_trace()` is called. There are no more than 8,192 rows, or
#'   four for each node: of samples near each other the largest is kept. What a task has between two
#'   samples, and gives back, is not seen. Between two measurements a node's own memory is
#'   estimated by what is resident.
#'
#'   `attr(x, "shortage")` is a list of what was measured where tasks did not fit side by side, see
#'   option `clutch.memory` of [clutch-options]: `short`, for how many seconds nodes were stopped or
#'   tasks had to wait; `went`, how many nodes were at work meanwhile, on average; `peak`, the most
#'   that a node had, and `limit`, what there was for all, both in bytes.
#' @section Waits: Parts of [cluster_run()] wait for each other, which is part of their `run`.
#'   `attr(x, "waits")` is a data frame with a row for each of them: `job`, `rank`, and the seconds
#'   that it has waited for a message (`receive`), for room to send one (`send`), and for others in
#'   what all do together (`together`). `NULL`: there are none. Parts of runs that have failed are
#'   not in it.
#' @section Phases: They follow each other: together they last from `queued` to `received`. Those
#'   that a task has not come to are `NA`.
#'   * `queue`: until the task was sent, and its node had no other before it. Of a later attempt the
#'     ones before are part of it.
#'   * `wire`: until its node began it. The task is written, travels, is read.
#'   * `run`: until it ended.
#'   * `answer`: until the session had the answer. That travels, and waits for the session and for
#'     answers before it.
#'
#'   Processes of one machine have the same clock. On other hosts the clocks differ. There `began`
#'   and `ended` are those of the node, moved as if the answer had needed no time for the way. So
#'   `wire` has both ways in it, and `answer` the wait for others there. `run` is right everywhere.
#'
#'   Of tasks of a map that take less than 2 us only each eighth has its time measured. The others
#'   count with the mean.
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
  if (is.null(cl)) {
    cl <- own_cluster_as_is()
    if (!length(cl)) throw("argument", "there is no cluster of the session's own yet: pass `cl`")
  }
  t <- tasks_of(cl)
  raw <- .Call(ffi_tasks_trace, t$ptr)
  x <- data.frame(job = raw$job, label = raw$label, element = raw$element, node = raw$node,
                  host = t$info$hosts[ifelse(raw$node > 0, raw$node, NA_integer_)],
                  attempt = raw$attempt, raw[TIMES],
                  bytes = raw$bytes, ok = raw$ok, end = raw$end, stringsAsFactors = FALSE)
  is_first <- !duplicated(raw$job)
  jobs <- data.frame(job = raw$job, label = raw$label, elements = raw$of, queued = raw$queued,
                     bytes_out = raw$bytes_out, stringsAsFactors = FALSE)[is_first, , drop = FALSE]
  rownames(jobs) <- NULL
  first <- if (nrow(x)) min(x$sent[x$sent > 0], x$began) else clock()
  for (n in TIMES) x[[n]] <- x[[n]] - first
  jobs$queued <- jobs$queued - first
  x$sent[x$sent < 0] <- NA
  structure(with_phases(x), class = c("clutch_trace", "data.frame"),
            nodes = length(t$info$handles), jobs = jobs, deaths = deaths_in_trace(t, first),
            open_since = .Call(ffi_tasks_open_since, t$ptr) - first,
            origin = Sys.time() - (clock() - first), memory = memory_in_trace(t, first),
            machine_memory = machine_memory(), shortage = room_of_tasks(t),
            waits = waits_in(t, raw))
}

# A data frame with a row for each part of a run that is among these tasks; NULL: none is.
waits_in <- function(t, raw) {
  waits <- t$waits[t$waits$job %in% raw$job, , drop = FALSE]
  if (!is.null(waits) && nrow(waits)) {
    rownames(waits) <- NULL
    waits
  }
}

# Columns of a trace that are times.
TIMES <- c("queued", "sent", "began", "ended", "received")

#' @rdname cluster_trace
#' @export
print.clutch_trace <- function(x, n = 10L, ...) {
  cat(sprintf("trace of %d %s of %d %s\n", nrow(x), if (nrow(x) == 1L) "task" else "tasks",
              length(unique(x$job)), if (length(unique(x$job)) == 1L) "job" else "jobs"))
  if (nrow(x)) print(utils::head(as.data.frame(x), n), ...)
  if (nrow(x) > n) cat(sprintf("... and %d more; summary() says what limits\n", nrow(x) - n))
  invisible(x)
}

#' @rdname cluster_trace
#' @export
as.data.frame.clutch_trace <- function(x, ...) {
  plain <- c("names", "row.names")
  attributes(x) <- c(attributes(x)[plain], class = "data.frame")
  as.data.frame(x, ...)
}

# The last deaths of nodes, whatever was remembered of the tasks. `first`: the time that is 0.
deaths_in_trace <- function(t, first) {
  field <- function(name, type) vapply(t$death_log, function(d) d[[name]], type)
  node <- field("rank", 1L)
  data.frame(time = field("at", 1) - first, node = node, host = t$info$hosts[node],
             kind = field("kind", ""), how = field("how", ""), stringsAsFactors = FALSE)
}

# A node has ended what it did before a task when the task began, and while it did that the task
# waited.
with_phases <- function(x) {
  o <- order(x$node, x$began)
  before <- c(-Inf, x$ended[o][-nrow(x)])[seq_len(nrow(x))]
  before[!duplicated(x$node[o])] <- -Inf
  free <- x$began
  free[o] <- pmin(pmax(x$sent[o], before), x$began[o])
  has_begun <- x$ok | x$end == "error" | x$began < x$received
  x$queue <- pmax(ifelse(is.na(free), x$ended, free) - x$queued, 0)
  x$wire <- ifelse(has_begun, x$began - free, NA_real_)
  x$run <- ifelse(has_begun, x$ended - x$began, NA_real_)
  x$answer <- ifelse(has_begun, pmax(x$received - x$ended, 0), NA_real_)
  x
}

#' @rdname cluster_trace
#' @export
plot.clutch_trace <- function(x, jobs = NULL, main = "Tasks by node", xlab = "seconds",
                              ylab = "node", legend = NULL, ...) {
  if (!is.null(jobs)) x <- x[x$job %in% jobs, , drop = FALSE]
  n <- max(1, nodes_of_trace(x))
  if (!nrow(x)) throw("argument", "there are no tasks to draw")
  graphics::plot.default(range(0, x$ended), c(0.5, n + 0.5), type = "n", main = main, xlab = xlab,
                         ylab = ylab, yaxt = "n", ...)
  graphics::axis(2, seq_len(n), las = 1)
  x <- x[x$node > 0, , drop = FALSE]
  shown <- sort(unique(x$job))
  if (is.null(legend)) legend <- length(shown) > 1L || !all(x$ok)
  if (legend) trace_legend(shown, x$label[match(shown, x$job)], all(x$ok))
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

# Above the plot, below its title. `labels`: of the jobs; NULL: there are none.
trace_legend <- function(jobs, labels, all_ok) {
  most <- utils::head(jobs, 6L)
  text <- paste("job", most)
  if (!is.null(labels)) {
    named <- shortened(utils::head(labels, 6L), max(60L %/% length(most) - 4L, 12L))
    text <- paste0(text, ifelse(nzchar(named), ": ", ""), named)
  }
  text <- c(text, if (length(jobs) > 6L) "...", if (!all_ok) "failed")
  fill <- c(trace_colours(most, jobs), if (length(jobs) > 6L) NA, if (!all_ok) "black")
  graphics::legend("bottom", text, fill = fill, border = NA, bty = "n", horiz = TRUE, xpd = NA,
                   inset = c(0, 1), cex = 0.8)
}

shortened <- function(text, most) {
  is_long <- nchar(text) > most
  text[is_long] <- paste0(substr(text[is_long], 1L, most - 3L), "...")
  text
}
