# The dashboard of a cluster: asks the cluster's observer to serve it, and opens it. The other side
# is in observer-serve.R and observer-dashboard.R.

#' See in a browser what a cluster does
#'
#' Serves a page that shows, twice a second: each node with its state, its task and since when it
#' has it, its processor time, memory and host; who did what, when; how far each map is, and how
#' long it will still take; deaths with their causes, retries and other events; what has been sent;
#' its actors, and the other hosts.
#'
#' The page does not come from the session, but from an *observer*: a process of its own, which
#' reads what session and nodes leave in shared memory. So it goes on while the session computes,
#' hangs or is stopped by a signal, and no task waits for it. It ends with the cluster's last use in
#' the session, or with the session. An open page then keeps the last state, and says so.
#'
#' A second call opens the same page again. Where the observer was killed, it starts a new one at
#' the same address.
#'
#' @param cl cluster made by [make_cluster()], or the handle of a detached map, see
#'   [cluster_jobs()]. `NULL`: the session's own, see [own-cluster].
#' @param open `TRUE` or `FALSE`. Whether to open the page: in the pane of an IDE which has one
#'   (`getOption("viewer")`), else in the browser of [browseURL()]. Where there is no browser the
#'   address is shown instead. By default pages open in interactive sessions.
#' @param port whole number, 0 to 65535. 0: a free one.
#' @return Object of class `clutch_dashboard`, invisibly: a list with `url`, a string, and `port`,
#'   an integer. To print it shows the address.
#' @section Security: The page is served on 127.0.0.1 only, to who has the address with its token of
#'   128 random bits, see `vignette("security")`. To see it from another machine, forward the port
#'   under the same number: `ssh -L 8080:127.0.0.1:8080 host`, after `cluster_dashboard(cl, port =
#'   8080)`. It can only be read: there is nothing that a page could start or stop.
#' @section Errors: All have class `clutch_error`.
#' * `clutch_package`: package \pkg{httpuv} is not installed. [cluster_top()] needs none.
#' * `clutch_socket_in_use`: another program listens at `port`.
#' * `clutch_argument`: an argument is of no use.
#' * `clutch_stopped`: the cluster was stopped, or the detached map has ended, has not begun, or is
#'   at work on another machine.
#' * `clutch_limit`: there is no memory, or no private folder, for an observer; or a detached map
#'   has no fork server.
#'   ```
#'   tryCatch(cluster_dashboard(cl, port = 8080), clutch_socket_in_use = conditionMessage)
#'   ```
#' @seealso [cluster_top()] for the same in a terminal, [cluster_status()], [cluster_trace()],
#'   `vignette("view")`
#' @examplesIf .Platform$OS.type == "unix"
#' if (requireNamespace("httpuv", quietly = TRUE)) {
#'   cl <- make_cluster(2)
#'   page <- cluster_dashboard(cl, open = FALSE)
#'   page$port
#'   stop_cluster(cl)
#' }
#' @export
cluster_dashboard <- function(cl = NULL, open = interactive(), port = 0) {
  check_flag(open, "`open`")
  is_port <- function(x) is.numeric(x) && x %in% 0:65535
  check_needed(port, "`port`", is_port, "a whole number from 0 to 65535; 0: a free one")
  need_httpuv()
  page <- if (is_job(cl)) page_of_job(cl, port) else page_of_cluster(cluster_or_own(cl), port)
  x <- structure(list(url = page$url, port = page$port), class = "clutch_dashboard")
  if (open) open_page(x, page$ticket)
  invisible(x)
}

page_of_cluster <- function(cl, port) {
  if (cluster_is_stopped(cl)) throw("stopped", "this cluster was stopped: there is nothing to see")
  info <- info_of(cl)
  page <- serve_page(function() observer_of(cl), info$dashboard, port)
  set_cluster(info, dashboard = page$kept)
  page
}

# The page ends with the runner, or when this session has no use of the handle any more.
page_of_job <- function(job, port) {
  page <- serve_page(function() observer_of_job(job), job$dashboard, port)
  job$dashboard <- page$kept
  page
}

observer_of_job <- function(job) {
  found <- find_clusters_of_job(job)
  for (o in found[-1L]) close_observer(o)
  if (is.null(found[[1L]]$socket)) {
    throw("limit", sprintf("the map '%s' has no fork server to serve a page: see cluster_top()",
                           job$job$name))
  }
  found[[1L]]
}

# Asks the observer that was asked before, if it is there and at that port, or a new one.
# `observer`: a function that makes one. `kept`: list(observer, port, token) of the call before, or
# NULL.
serve_page <- function(observer, kept, port) {
  if (!is.null(kept) && port %in% c(0, kept$port)) {
    page <- tryCatch(ask_observer(kept$observer, "dashboard"), clutch_error = function(e) NULL)
    if (!is.null(page)) return(c(page, list(kept = kept)))
    close_observer(kept$observer)
    # pages that are open find the new one
    again <- tryCatch(new_page(observer, kept$port, kept$token),
                      clutch_socket_in_use = function(e) NULL)
    if (!is.null(again)) return(again)
  }
  page <- new_page(observer, port, new_token())
  if (!is.null(kept)) close_observer(kept$observer)
  page
}

# The connection is kept: the observer ends when it is closed.
new_page <- function(observer, port, token) {
  o <- observer()
  ok <- FALSE
  on.exit(if (!ok) close_observer(o))
  title <- sprintf("clutch on %s", Sys.info()[["nodename"]])
  page <- ask_observer(o, "dashboard", port = port, token = token, title = title)
  ok <- TRUE
  c(page, list(kept = list(observer = o, port = page$port, token = token)))
}

# `ticket`: an address that is good for once. What opens a browser shows it to all users in the list
# of processes.
open_page <- function(x, ticket) {
  viewer <- getOption("viewer")
  if (is.function(viewer)) {
    viewer(x$url)
    return(invisible())
  }
  browser <- getOption("browser")
  if (is.function(browser) || (is.character(browser) && nzchar(browser[[1L]]))) {
    opened <- tryCatch({
      utils::browseURL(ticket)
      TRUE
    }, error = function(e) FALSE)
    if (opened) return(invisible())
  }
  say(paste("No browser is known here. The dashboard is at", x$url))
}

#' @export
print.clutch_dashboard <- function(x, ...) {
  cat("dashboard of a clutch cluster:", x$url, "\n")
  invisible(x)
}
