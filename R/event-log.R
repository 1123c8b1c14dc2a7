# The log of events: a line of JSON for each, to the file or connection that option clutch.log
# names. JSON lines are read by jsonlite::stream_in(), as a data frame, and by most programs that
# gather logs; no package reads logfmt.

#' Log of what happens to clusters
#'
#' `options(clutch.log = "clusters.log")` writes a line for each event of this session's clusters to
#' a file: nodes that die, and why, tasks that are tried again, limits that are exceeded, hosts that
#' are cut off. Nothing is written while tasks go well, and no node takes part.
#'
#' The value of the option is the name of a file or an open connection, for example [stderr()].
#' `NULL`, the default: there is no log. A file is opened for each line and appended to by one
#' write. So several sessions may have the same one, it may be moved away meanwhile (`logrotate`),
#' and it is complete whatever ends the session. A relative name holds from the working directory in
#' which it was first used. A connection that is not open is opened, by mode `"at"`.
#'
#' @section Lines: A line is an object of JSON. Its elements, where they are known:
#'   * `time`: when it happened, by UTC: `"2026-01-31T12:00:00.123Z"`
#'   * `kind`: see below
#'   * `session`, `session_host`: process id of the session, and its host
#'   * `cluster`: number of the cluster in its session, from 1 on
#'   * `node`: number of the node in its cluster
#'   * `host`, `pid`: of the node
#'   * `text`: what happened, or why, for people
#'   * `cause`: of a death, one word: `"signal"`, `"exit"`, `"max_memory"`, `"out_of_memory"`,
#'     `"no_reaction"`, `"corrupt"`, `"no_memory"`, what a scheduler says (as `"preempted"`), or
#'     `"unknown"`
#'   * `job`, `element`: the task, as [cluster_trace()] numbers them; a submitted task has no
#'     element
#'   * `attempt`: number of the start of the task
#' @section Kinds:
#'   * `"start"`: a cluster has started, with `nodes`, `pids`, `strategy` and `seconds`; or could
#'     not be, with `ok` `false` and why. With `host`: a host that was lost has started again.
#'   * `"death"`: a node has died, or was ended, with `cause`, `signal` or `status`, and with the
#'     task that it was at.
#'   * `"replacement"`: another is in its place; with `ok` `false`: that failed, and why.
#'   * `"retry"`: a task whose node has died was given to this node.
#'   * `"limit"`: a task has exceeded `limit`, `"time"` or `"memory"`.
#'   * `"cut"`, `"resume"`: the connection to a host, with this number of `nodes`, is cut; is there
#'     again.
#'   * `"stop"`: a cluster, or one node of it, was stopped.
#'
#'   What ends with the session, and a cluster that is garbage, is not told. What is found out while
#'   the session computes something else is written when it next calls a function of this package,
#'   with the time at which it was found out. A node that dies while nobody waits for it is found
#'   out then.
#' @section Failures: That a line cannot be written never is an error, and breaks no call. The first
#'   time it is shown as a warning (it is not signalled, so that no handler sees it). Later lines
#'   are tried all the same.
#' @section Errors: [make_cluster()]: `clutch_argument` where the option is neither a name nor an
#'   open connection:
#'   ```
#'   options(clutch.log = 1)
#'   tryCatch(make_cluster(2), clutch_argument = conditionMessage)
#'   #> option 'clutch.log' has to be NULL, the name of a file, or a connection
#'   ```
#' @seealso [cluster_trace()] for what goes well, [clutch-options]
#' @examples
#' file <- tempfile()
#' old <- options(clutch.log = file)
#' cl <- make_cluster(2)
#' die_once <- function(i) if (i == 2 && clutch::task_attempt() == 1) tools::pskill(Sys.getpid(), 9)
#' cluster_walk(cl, 1:3, die_once, .retries = 1)
#' stop_cluster(cl)
#' options(old)
#' writeLines(readLines(file))
#' if (requireNamespace("jsonlite", quietly = TRUE)) {
#'   log <- jsonlite::stream_in(file(file), verbose = FALSE)
#'   log[c("time", "kind", "node", "text")]
#' }
#' unlink(file)
#' @name clutch-log
NULL

log_is_on <- function() !is.null(getOption("clutch.log"))

# Before anything is started. Later a value of no use is no error: events come in the midst of other
# work.
check_log <- function() {
  problem <- log_problem(getOption("clutch.log"))
  if (!is.null(problem)) throw("argument", problem)
}

# The text says what is wrong with a value of the option; NULL: nothing.
log_problem <- function(to) {
  if (is.null(to)) return(NULL)
  if (inherits(to, "connection")) {
    if (is_connection_there(to)) return(NULL)
    return("option 'clutch.log' is a connection that was closed")
  }
  if (is_filled(to)) return(NULL)
  "option 'clutch.log' has to be NULL, the name of a file, or a connection"
}

# The number of one that was closed is given to the next that is opened.
is_connection_there <- function(con) {
  there <- connection_at(con)
  if (is.null(attr(there, "conn_id"))) return(identical(class(there), class(con)))
  identical(attr(there, "conn_id"), attr(con, "conn_id"))
}

# `event`: see event-tell.R.
log_event <- function(event) {
  to <- getOption("clutch.log")
  problem <- log_problem(to)
  if (is.null(problem)) {
    problem <- tryCatch(write_log(to, log_line(event)), error = conditionMessage)
  }
  if (!is.null(problem)) show_log_problem(to, problem)
}

# NULL, or why it cannot be written.
write_log <- function(to, line) {
  if (is.character(to)) return(.Call(ffi_output_append, log_path(to), paste0(line, "\n")))
  suppressWarnings({
    if (!isOpen(to)) open(to, "at")
    writeLines(line, to, useBytes = TRUE)
    flush(to)
  })
  NULL
}

# The session may change its working directory.
log_path <- function(name) {
  if (!identical(the$log$name, name)) {
    path <- path.expand(name)
    if (!grepl("^([/\\\\]|[A-Za-z]:)", path)) path <- file.path(getwd(), path)
    the$log <- list(name = name, path = path)
  }
  the$log$path
}

# The problem is not signalled: a handler of the user's would end the call.
show_log_problem <- function(to, problem) {
  key <- if (is.character(to)) to[1L] else "a connection"
  if (identical(the$log_failed, key)) return(invisible())
  the$log_failed <- key
  text <- sprintf("the log of events (option 'clutch.log') is not written: %s", problem)
  show_warning(warningCondition(text, class = "clutch_log"))
}

log_line <- function(event) {
  about <- c(
    list(time = format_utc(event$time), kind = event$kind, session = Sys.getpid(),
         session_host = Sys.info()[["nodename"]]),
    event[setdiff(names(event), c("time", "kind"))]
  )
  if (!nzchar(about$text)) about$text <- NULL
  is_known <- vapply(about, function(x) !is.null(x) && !anyNA(x), NA)
  if (!is.null(about$pids)) about$pids <- I(about$pids)
  to_json(about[is_known])
}

format_utc <- function(time) {
  format(as.POSIXct(floor(time * 1000) / 1000 + 1e-4, origin = "1970-01-01"),
         "%Y-%m-%dT%H:%M:%OS3Z", tz = "UTC")
}
