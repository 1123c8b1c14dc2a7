# Which calls the nodes of a cluster are in.

#' The R stack of every busy node
#'
#' Tells which R calls each node is in at this moment, without stopping its work. So it says where a
#' node hangs.
#'
#' A node reports its calls when R looks for interrupts: within milliseconds while R code runs,
#' within 0.06 s while it waits in [Sys.sleep()] or for a socket of base R (longer with more than 64
#' nodes). It is not interrupted, and nothing that it waits for ends early. Compiled code may never
#' look for interrupts. Of such a node the calls are told that it has reported last in this task,
#' and `current` is `FALSE`. Where it has reported nothing in this task, the call that has made the
#' task is told in their place, as `"cluster_map(f)"`, and `note` says so.
#'
#' @param cl Cluster made by [make_cluster()], or some of its nodes, or the handle of a detached
#'   map, see [cluster_jobs()]. `NULL`: the session's own, see [own-cluster].
#' @param wait Number of seconds to wait at most for nodes that do not report. `NULL`: 0.2, with
#'   more than 64 nodes 0.003 for each.
#' @param session `NULL`, or process id of another R session of yours on this machine: of its
#'   clusters, also while it computes or hangs. [cluster_top()] shows which there are. Then there is
#'   a column `cluster`, too, and a submitted task has element 1. Where nobody has looked at its
#'   nodes of other hosts for some seconds, to ask these takes up to a second longer.
#' @return A data frame of class `clutch_stacks` with a row for each node:
#' * `node`: integer, the node's number in the cluster.
#' * `host`: character.
#' * `state`: character, as in [cluster_status()].
#' * `job`, `element`: number of the job (see [cluster_trace()]) and of the element in its map. `NA`
#'   where the node is idle, or at a call of package parallel; tasks of [cluster_submit()] have no
#'   element.
#' * `since`: number of seconds that it is at that. `NA`: idle, or not known.
#' * `current`: logical, whether the calls are those of this moment. `NA` where there are none.
#' * `stack`: list of character vectors, a call each, the innermost last. `at code.R:12` behind a
#'   call is where it is written, if R has kept that (`options(keep.source = TRUE)`). `NULL`: the
#'   node is idle, or its calls are not known.
#' * `note`: character, why they are not known, or of when they are. Else `NA`.
#'
#'   `print()` shows the nodes that are busy or dead.
#' @section Nodes that cannot be asked: Nodes of [hosts()] are asked by the fork server of their
#'   host. Nodes over TCP on other hosts without such a server, and those of base R
#'   (`node = "psock"`), cannot be asked, nor can more than 1,024 nodes of one fork server, or, with
#'   `session`, more than the first 1,024 of a cluster.
#' @section Errors: `clutch_argument`: `cl` is no such cluster, `wait` no such number, or `session`
#'   has no cluster. `clutch_stopped`: the detached map has ended, or has not begun, or is at work
#'   on another machine. Both have class `clutch_error`.
#'   ```
#'   tryCatch(cluster_stacks("cl"), clutch_argument = conditionMessage)
#'   ```
#' @seealso [cluster_status()], [cluster_trace()]
#' @examples
#' cl <- make_cluster(2)
#' slow <- function(s) Sys.sleep(s)
#' task <- cluster_submit(cl, slow(0.5))
#' Sys.sleep(0.1)
#' cluster_stacks(cl)
#' collect(task)
#' stop_cluster(cl)
#' @export
cluster_stacks <- function(cl = NULL, wait = NULL, session = NULL) {
  if (!is.null(wait)) check_number(wait, "`wait`", 0, "a number of seconds, 0 or more")
  if (!is.null(session)) return(stacks_of_session(cl, wait, session))
  if (is_job(cl)) return(stacks_of_clusters(find_clusters_of_job(cl), wait))
  if (is.null(cl)) cl <- own_cluster_as_is()
  check_cluster(cl)
  nodes <- nodes_there(cl)
  if (is.null(wait)) wait <- max(0.2, 0.003 * length(nodes))
  handles <- lapply(nodes, function(nd) .subset2(nd, "handle"))
  stacks <- .Call(ffi_stacks, handles, min(as.double(wait), 3600))
  infos <- lapply(handles, function(h) .Call(ffi_node_info, h))
  is_busy <- vapply(infos, function(i) i$state %in% c("busy", "cancelling"), NA)
  has_stack <- is_busy & !is.na(stacks$text)
  for (n in c("job", "element", "since")) stacks[[n]][!is_busy] <- NA
  x <- data.frame(
    node = vapply(infos, function(i) i$rank, 1L),
    host = vapply(nodes, function(nd) nd$host, ""),
    state = vapply(infos, state_text, ""),
    job = stacks$job,
    element = stacks$element,
    since = stacks$since,
    current = ifelse(has_stack, stacks$current, NA),
    stringsAsFactors = FALSE
  )
  is_named <- is_busy & !has_stack & !is.na(stacks$label) & nzchar(stacks$label)
  x$current[is_named] <- FALSE
  x$stack <- stacks_of_text(ifelse(has_stack, stacks$text, ifelse(is_named, stacks$label, NA)))
  x$note <- notes_of_stacks(is_busy, stacks)
  structure(x, class = c("clutch_stacks", "data.frame"))
}

# The observers of another session say what its clusters do.
stacks_of_session <- function(cl, wait, session) {
  if (!is.null(cl)) throw("argument", "pass `cl` or `session`, not both")
  check_number(session, "`session`", 1, "the process id of an R session")
  of_it <- find_clusters_of(session)
  if (!length(of_it)) {
    throw("argument", sprintf("session %.0f has no cluster that can be seen here", session))
  }
  stacks_of_clusters(of_it, wait)
}

# `observers`: of clusters; they are closed.
stacks_of_clusters <- function(observers, wait) {
  force(observers)
  on.exit(for (o in observers) close_observer(o))
  x <- do.call(rbind, lapply(observers, stacks_by_observer,
                             if (is.null(wait)) 0.2 else min(wait, 5)))
  structure(x, class = c("clutch_stacks", "data.frame"))
}

# `nodes`: numbers of those that are asked; NULL: all.
stacks_by_observer <- function(o, wait, nodes = NULL) {
  answer <- ask_observer(o, "stacks", wait = wait, nodes = nodes)
  n <- answer$nodes
  stacks <- answer$stacks
  stacks$label <- rep(NA_character_, nrow(n))
  is_busy <- n$state == "busy"
  has_stack <- is_busy & !is.na(stacks$text)
  for (column in c("job", "element", "since")) stacks[[column]][!is_busy] <- NA
  x <- data.frame(cluster = n$cluster, node = n$node, host = n$host, state = n$state,
                  job = stacks$job, element = stacks$element, since = stacks$since,
                  current = ifelse(has_stack, stacks$current, NA), stringsAsFactors = FALSE)
  x$stack <- stacks_of_text(ifelse(has_stack, stacks$text, NA))
  x$note <- notes_of_stacks(is_busy, stacks)
  if (is.null(nodes)) x else x[n$node %in% nodes, ]
}

# A list: NULL for NA.
stacks_of_text <- function(text) {
  lapply(text, function(x) if (!is.na(x)) strsplit(x, "\n", fixed = TRUE)[[1L]])
}

# `stacks`: as from ffi_stacks().
notes_of_stacks <- function(is_busy, stacks) {
  note <- rep(NA_character_, length(is_busy))
  old <- is_busy & !is.na(stacks$text) & !stacks$current
  note[old] <- sprintf(paste("the last that it has reported, %.1f s ago: R there has not looked",
                             "for interrupts since"), stacks$age[old])
  silent <- is_busy & is.na(stacks$text)
  note[silent] <- ifelse(
    stacks$known[silent],
    "it has reported nothing in this task: R there has not looked for interrupts",
    "it cannot be asked: it shares no memory with this session, and has no fork server"
  )
  named <- silent & !is.na(stacks$label) & nzchar(stacks$label)
  note[named] <- paste0(note[named], ". This is the call that has made its task")
  note
}

#' @export
print.clutch_stacks <- function(x, ...) {
  n <- nrow(x)
  is_shown <- x$state != "idle" & x$state != "stopped"
  for (i in which(is_shown)) print_stack(x[i, ])
  rest <- table(x$state[!is_shown])
  text <- paste(rest, names(rest), collapse = ", ")
  if (n == 0L) text <- "no nodes"
  if (nzchar(text)) cat(if (any(is_shown)) "others: ", text, "\n", sep = "")
  invisible(x)
}

# `x`: one row.
print_stack <- function(x) {
  at <- c(
    if (!is.na(x$job)) sprintf("job %.0f", x$job),
    if (!is.na(x$element)) sprintf("element %.0f", x$element)
  )
  time <- if (is.na(x$since)) "" else sprintf(" for %s", short_time(x$since))
  cat(sprintf("node %d on %s: %s%s%s\n", x$node, sQuote(x$host, FALSE), x$state, time,
              if (length(at)) paste0(" (", paste(at, collapse = ", "), ")") else ""))
  lines <- x$stack[[1L]]
  if (length(lines)) cat(paste0("  ", lines, "\n"), sep = "")
  if (!is.na(x$note)) cat("  [", x$note, "]\n", sep = "")
}

short_time <- function(s) if (s < 60) sprintf("%.1f s", s) else time_text(s)
