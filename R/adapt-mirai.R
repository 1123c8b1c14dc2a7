# mirai's daemons on nodes of ours. Package mirai listens in the session, as it does for daemons of
# any host; each node runs mirai::daemon() in place of serving, see launch-programs.R.
#
# nanonext starts threads when it is loaded, so it is loaded after the fork.
#
# Daemons on a cluster are tasks of it: see adapt-tasks.R.
#
# the$daemons: by compute profile, the programs or tasks that were started.

#' Daemons of package mirai that are replaced when they die
#'
#' As `mirai::daemons()`, but the daemons are nodes of a fork server (see [make_cluster()]) instead
#' of an `Rscript` each. All that builds on \pkg{mirai} uses them: `mirai::mirai_map()`,
#' `purrr::in_parallel()`, promises, targets.
#'
#' * They start faster and take less memory: what can be loaded before the fork is shared.
#' * A daemon that dies is replaced by the fork server, whatever the session does meanwhile: also
#'   while it only waits in `mirai::call_mirai()`. The task that it was at is lost, as with
#'   \pkg{mirai}: its value is an error value of class `errorValue`. One that dies within a second
#'   of its start is replaced after a pause, which grows to 5 seconds.
#' * They end with the session, whatever ends it, and with `mirai::daemons(0)`. They also end with
#'   the fork server, should somebody kill that: nobody starts another one then, and tasks wait. The
#'   next `mirai_daemons()` does.
#' * With `url = NULL` they connect by a socket in the session's temporary folder, which other users
#'   cannot reach.
#'
#' A daemon that ends as it was told to (`idletime`, `walltime`, `maxtasks`) is not replaced, and
#' neither is one that cannot connect. A daemon's number of threads is its share of the cores, see
#' section *Cores* of [make_cluster()].
#'
#' Where R has threads before the fork (it loads \pkg{mirai} or \pkg{nanonext} in your profile, say)
#' each daemon is an R of its own start: all of this holds but the first point. On Windows the
#' daemons are started by `mirai::launch_local()`, and nobody replaces them.
#'
#' A task that `mirai::stop_mirai()` stops in the moment in which it was made may run on:
#' \pkg{mirai} 2.7.3 forgets a cancellation that reaches a daemon together with its task, whoever
#' has started the daemon. `Sys.sleep(0.1)` before `stop_mirai()` helps.
#'
#' @section On a cluster: With a cluster as `n` each of its nodes runs a daemon, as a task of the
#'   cluster. So whatever builds on \pkg{mirai} gets nodes of [hosts()], [slurm()] and of templates,
#'   too.
#'   * A cluster that grows is asked for all nodes that it may have: tasks of \pkg{mirai} are done
#'     as soon as the first is there. Daemons with `idletime` end when they have nothing to do, and
#'     then the cluster shrinks.
#'   * A node that dies is replaced as with other tasks, see [cluster_submit()], and runs a daemon
#'     again.
#'   * The nodes are busy for all else until `mirai::daemons(0)`. What waits at them comes before.
#'   * Nodes of this machine connect by a socket in the session's temporary folder. Those of other
#'     hosts connect to a port of the session, by TLS: `url = mirai::host_url(tls = TRUE)`. They
#'     have to reach that, and \pkg{mirai} has to be installed there.
#'
#' In a profile, which nodes read, too, `mirai_daemons()` starts daemons in the session only. In a
#' node or fork server that is starting it says so and returns `FALSE`.
#' @param n Number of daemons, or a cluster of [make_cluster()]. 0 or `NULL`: ends them, as
#'   `mirai::daemons()` does.
#' @param url String: where \pkg{mirai} listens. By default a socket of its own, see above.
#' @param dispatcher `TRUE` or `FALSE`: whether tasks wait in the session until a daemon is free.
#' @param ... More arguments of `mirai::daemons()` and `mirai::daemon()` by name, such as `seed`,
#'   `tls`, `cleanup`, `output`; but not `remote` and `sync`.
#' @param .compute String: the compute profile, as in `mirai::daemons()`.
#' @return As `mirai::daemons()`, invisibly: `TRUE`, of class `miraiDaemons`, or `FALSE` when the
#'   daemons were ended.
#' @section Errors:
#' * `clutch_argument`: arguments are of no use.
#' * `clutch_package`: package \pkg{mirai} is not installed, or is older than 2.5.0.
#' * `clutch_start`: the daemons did not come. Nothing is left running.
#'
#' All have class `clutch_error`. What `mirai::daemons()` objects to is an error of its own.
#' ```r
#' tryCatch(mirai_daemons(4), clutch_package = function(e) message("without mirai"))
#' ```
#' @seealso [make_cluster()]
#' @examples
#' if (requireNamespace("mirai", quietly = TRUE)) {
#'   mirai_daemons(2)
#'   squares <- mirai::mirai_map(1:4, function(i) i^2)
#'   print(squares[.flat])
#'   mirai::daemons(0)
#'
#'   cl <- make_cluster(2)
#'   mirai_daemons(cl)
#'   print(mirai::mirai_map(1:4, function(i) Sys.getpid())[.flat])
#'   mirai::daemons(0)
#'   stop_cluster(cl)
#' }
#' @export
mirai_daemons <- function(n, url = NULL, dispatcher = TRUE, ..., .compute = NULL) {
  if (is_starting()) {
    refuse_while_starting("mirai_daemons()")
    return(invisible(FALSE))
  }
  need_package("mirai", "mirai_daemons()", "2.5.0")
  given(n, "n")
  check_daemon_options(...names())
  ends <- is.null(n) || (is.numeric(n) && identical(as.double(n), 0))
  if (ends) return(reset_daemons(n, .compute))
  cl <- if (inherits(n, "cluster")) cluster_for_tasks(n, "mirai_daemons()")
  if (is.null(cl)) check_daemon_count(n)
  if (is.null(url)) {
    url <- if (is.null(cl) || is_all_here(cl)) private_url() else mirai::host_url(tls = TRUE)
  }
  value <- mirai::daemons(url = url, dispatcher = dispatcher, ..., .compute = .compute)
  profile <- class(value)[[2L]]
  end_daemons(profile) # of the daemons before
  is_up <- FALSE
  on.exit(if (!is_up) reset_daemons(0, profile))
  if (!is.null(cl)) {
    code <- lapply(daemon_calls(most_nodes(cl), profile), changed_code, without_signal)
    the$daemons[[profile]] <- start_as_tasks(cl, code, run_daemon, "mirai::daemon()")
    n <- length(cl)
  } else if (can_fork()) {
    code <- daemon_calls(n, profile)
    the$daemons[[profile]] <- start_programs(code, run_daemon, keep = TRUE, load = "cli")
  } else {
    mirai::launch_local(n, .compute = profile)
  }
  await_daemons(n, profile, clock() + 120)
  is_up <- TRUE
  invisible(value)
}

check_daemon_options <- function(names) {
  wrong <- intersect(names, c("remote", "sync"))
  if (!length(wrong)) return()
  text <- "`%s` is of mirai::daemons(): the daemons of mirai_daemons() are nodes on this machine"
  throw("argument", sprintf(text, wrong[[1L]]))
}

check_daemon_count <- function(n) {
  if (is_number(n, 1) && n == trunc(n)) return()
  has_to_be("`n`", "the number of daemons, 0 to end them, or NULL to signal them")
}

# Only who may read the session's temporary folder can connect, which on a socket in the abstract
# namespace, mirai's own choice, any local user can. The file is gone when nobody listens any more.
private_url <- function() {
  path <- tempfile("mirai-", tempdir(TRUE))
  if (.Platform$OS.type != "unix" || nchar(path, "bytes") > 100L) return(mirai::local_url())
  paste0("ipc://", path)
}

# The calls that mirai wants daemons to make: with their random streams, certificates and options.
# It tells them as lines for a shell.
daemon_calls <- function(n, profile) {
  lines <- mirai::launch_remote(n, mirai::remote_config(rscript = ""), .compute = profile)
  quoted <- sub("^ -e ", "", unclass(lines))
  gsub("'\\''", "'", substr(quoted, 2L, nchar(quoted) - 1L), fixed = TRUE)
}

# See changed_code().
without_signal <- function(call) {
  if (is.null(call$autoexit)) call$autoexit <- NA
  call
}

await_daemons <- function(n, profile, end) {
  pause <- 0.001
  while (mirai::status(.compute = profile)$connections < n) {
    Sys.sleep(pause)
    pause <- min(2 * pause, 0.02)
    started <- the$daemons[[profile]]
    if (!is.null(started) && count_started(started) < n) {
      throw("start", "a daemon has ended while it started; what it printed says why")
    }
    if (clock() > end) throw("start", "the daemons did not connect within 120 seconds")
  }
}

reset_daemons <- function(n, profile) {
  value <- mirai::daemons(n, .compute = profile)
  for (p in names(the$daemons)) if (!mirai::daemons_set(p)) end_daemons(p)
  invisible(value)
}

end_daemons <- function(profile) {
  started <- the$daemons[[profile]]
  the$daemons[[profile]] <- NULL
  if (!is.null(started)) end_started(started)
}

# They are programs, or tasks.
count_started <- function(x) if (is.environment(x)) live_programs(x) else count_open(x)
end_started <- function(x) if (is.environment(x)) stop_programs(x) else end_tasks(x)

# ---- in the node ----

run_daemon <- function(code, again) {
  call <- str2lang(code)
  if (again == 0) return(eval(call, globalenv()))
  # that the session listens no more is why the one before has ended
  path <- sub("^ipc://", "", call[[2L]])
  if (path != call[[2L]] && !file.exists(path)) return()
  call$rs <- daemon_stream(eval(call$rs), again)
  tryCatch(eval(call, globalenv()), error = function(e) if (!is_refused(e)) stop(e))
}

# nanonext's error is known by its number only.
is_refused <- function(e) startsWith(conditionMessage(e), "6 | ")

# A daemon's random numbers are not those of the one whose place it takes. No seed: its numbers come
# with the tasks, or from the dispatcher.
daemon_stream <- function(seed, steps) {
  if (is.null(seed)) return(NULL)
  seed <- as.integer(seed)
  for (i in seq_len(steps)) seed <- parallel::nextRNGSubStream(seed)
  seed
}
