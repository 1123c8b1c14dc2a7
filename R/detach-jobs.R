# Detached maps, as any session of their user sees them.

#' Maps that outlive their session
#'
#' With `.detach = TRUE` a map returns at once, and goes on when the session ends, in whatever way:
#' `q()`, a crash, a closed terminal. Any session of the same user sees it, waits for it, takes its
#' values, or ends it.
#'
#' @details
#' ```r
#' job <- cluster_map(cl, 1:1000, fit, .journal = "fits.journal", .detach = TRUE)
#' q()
#' # the next morning
#' library(clutch)
#' cluster_jobs()
#' fits <- collect(cluster_attach("fits"))
#' ```
#' A *runner*, an R process of its own, does the map. It makes a cluster as `cl` was made, with the
#' same arguments of [make_cluster()], and prepares it with what [cluster_setup()] and
#' [cluster_export()] have told `cl`. What `parallel::clusterExport()` has put on the nodes of `cl`
#' is not there: what the function uses travels with it, as always, and so do packages that
#' `pkgload::load_all()` has made (not with `on`, see below). `cl` is free for other work. The
#' runner ends when the map has ended, and its nodes with it.
#'
#' `.detach` is `TRUE`, or a name for the map, or a list with
#'
#' * `name`: string; by default the name of the journal without its suffix
#' * `time`: for how long it may go on: number of seconds, or a text such as `"12h"`; by default 7
#'   days. Then it ends, and what is done is in the journal.
#' * `memory`: number of bytes that the runner and its nodes on its machine may have together; by
#'   default `Inf`. Above that it ends.
#' * `by`: character vector: a command that starts the runner, given the file of a shell program,
#'   such as `c("sbatch", "--cpus-per-task=8", "--time=12:00:00")`: the map is done within an
#'   allocation of Slurm, and no process stays on the login node. The file system with the home
#'   folder and the journal is that of all of them.
#' * `on`: name of a host, or [hosts()] with one: the map is submitted there, by one ssh. R and this
#'   package are needed there, no port, and no folder that both sides see. `.journal` is a path
#'   there. The runner starts the nodes from there: with `cl = slurm()`, those of a cluster whose
#'   login node it is. Meanwhile this machine may be off. `collect()` fetches the values by ssh.
#'
#' `cl` may be what [hosts()] or [slurm()] describes, too, of which nothing is started here.
#'
#' `.journal` has to be given: values are kept there. See [cluster_map()], section *Journal*. The
#' same script, run again while the map is at work, gets the handle of that map. When it has ended,
#' or the machine was started anew, only what is not in the journal is computed.
#'
#' Where several hosts see the same home folder, each of them lists all maps. `collect()` works from
#' each that sees the journal.
#'
#' @param stop `TRUE` or `FALSE`. `TRUE` ends all maps that are at work and all fork servers that
#'   wait for a session, waits for that, and removes all from the list.
#' @param name string: the name of a map, or of its journal.
#' @param resume `TRUE` or `FALSE`. `TRUE`: where the process of the map has died before its end,
#'   another one goes on with what is left.
#' @param x handle of a detached map: the value of a map with `.detach`, or of `cluster_attach()`.
#' @param timeout number of seconds to wait at most.
#' @param otherwise value where the map has not ended by then. Missing: that is an error.
#' @param partial `TRUE` or `FALSE`. `TRUE`: the values that are there now, `NULL` for others; the
#'   map goes on.
#' @param ... not used.
#' @return
#' * `cluster_jobs()`: data frame of class `clutch_jobs`, with a row for each map:
#'   * `name`: string
#'   * `state`: `"queued"`, `"starting"`, `"running"`, `"done"`, `"failed"`, `"cancelled"`,
#'     `"limit"` (its time or memory was up), `"lost"` (its process has died) or `"unreachable"`
#'     (its host)
#'   * `done`, `failed`, `total`: numbers of elements
#'   * `left`: estimated seconds to its end; `NA`: not known
#'   * `since`, `until`: when it was submitted, and ends at the latest
#'   * `host`, `pid`: of its runner
#'   * `cluster`, `map`, `journal`: strings: its nodes, what was called, the path
#'
#'   Printed, it tells of fork servers, too, that `make_cluster(keep = )` has left. Its attribute
#'   `kept` has them: a data frame with `pid`, `since`, `until` and `packages`.
#' * `cluster_attach()`: handle of class `clutch_job`.
#' * `collect()`: what the map would have returned; output and warnings of its elements appear. Then
#'   the map is listed no more, and its values stay in the journal.
#' * `resolved()`: `TRUE` or `FALSE`: whether it has ended.
#' * `cancel()`: `TRUE`, invisibly, or `FALSE`: it had ended before. What is done is in the journal.
#' @section Errors:
#'   * those of the map: see [cluster_map()]
#'   * `clutch_argument`: there is no such map, or an argument is of no use
#'   * `clutch_job_lost`: its process has died
#'   * `clutch_limit`: its time or memory was up
#'   * `clutch_task_cancelled`: it was cancelled
#'   * `clutch_timeout`: it has not ended within `timeout`
#'   * `clutch_journal`: the journal is gone, or lacks values
#'   * `clutch_host`: a host with a map gives no answer
#'   * `clutch_jobs`: the list cannot be read or written, or others can read it
#'   ```
#'   tryCatch(cluster_attach("no such map"), clutch_argument = conditionMessage)
#'   ```
#' @section Who sees it: The list is a folder that only its user can read (mode 0700):
#'   `tools::R_user_dir("clutch")`, or what the environment variable `CLUTCH_JOBS_FOLDER` says. No
#'   port is open. What the map needs is there until it has ended.
#' @section What it does now: [cluster_top()], [cluster_stacks()] and [cluster_dashboard()] take the
#'   handle in place of a cluster. It is also a promise: `promises::then(job, print)`.
#' @section Nothing is left running: That is so for all that was not asked to stay. What stays is
#'   listed here and by [cluster_top()], ends by itself, and `cluster_jobs(stop = TRUE)` ends it.
#' @seealso [cluster_map()], [journal_read()]; the vignette *Long jobs*
#' @examplesIf .Platform$OS.type == "unix"
#' folder <- tempfile()
#' dir.create(folder, mode = "0700")
#' Sys.setenv(CLUTCH_JOBS_FOLDER = folder)
#' path <- tempfile(fileext = ".journal")
#'
#' cl <- make_cluster(2)
#' job <- cluster_map_dbl(cl, 1:4, function(i) i^2, .journal = path, .detach = "squares")
#' stop_cluster(cl)
#' cluster_jobs()
#' collect(cluster_attach("squares"))
#'
#' unlink(c(folder, path), recursive = TRUE)
#' Sys.unsetenv("CLUTCH_JOBS_FOLDER")
#' @export
cluster_jobs <- function(stop = FALSE) {
  check_flag(stop, "`stop`")
  entries <- all_entries()
  if (stop) {
    stop_all_entries(entries)
    entries <- all_entries()
  }
  rows <- Filter(Negate(is.null), lapply(entries, row_of_entry))
  out <- if (length(rows)) do.call(rbind, rows) else row_of_job(NULL)[0L, ]
  structure(out, class = c("clutch_jobs", "data.frame"), kept = kept_servers())
}

# One that cannot be stopped, as its host gives no answer, is an error when all others have been.
stop_all_entries <- function(entries) {
  failed <- NULL
  note <- function(e) if (is.null(failed)) failed <<- e
  for (entry in entries) tryCatch(stop_and_forget(entry), error = note)
  stop_kept_servers()
  if (!is.null(failed)) stop(failed)
}

stop_and_forget <- function(entry) {
  job <- job_of_entry(entry)
  if (!has_ended_as(status_of(entry, job)$state)) end_map(entry, job)
  forget_entry(entry, job)
}

# NULL: it has just been removed.
row_of_entry <- function(entry) {
  job <- job_of_entry(entry)
  if (is.null(job)) return(NULL)
  status <- tryCatch(status_of(entry, job), clutch_host = function(e) list(state = "unreachable"))
  row_of_job(job, status$state, status$progress, status$owner, status$end)
}

row_of_job <- function(job, state = "", progress = NULL, owner = NULL, end = NULL) {
  at <- function(x, none) if (is.null(x)) none else x
  progress <- at(progress, c(done = 0, failed = 0, time = NA))
  since <- at(job$since, Sys.time())
  data.frame(
    name = at(job$name, ""), state = state,
    done = progress[["done"]], failed = at(end$failed, progress[["failed"]]),
    total = as.double(at(job$n, 0)), left = seconds_left(job, state, progress),
    since = since, until = since + min(at(job$limits$time, 0), 1e10),
    host = host_of_job(job, owner),
    pid = if (is.null(owner) || has_ended_as(state)) NA_integer_ else as.integer(owner$pid),
    cluster = at(job$cluster, ""), map = at(job$label, ""), journal = at(job$record$path, ""),
    stringsAsFactors = FALSE
  )
}

host_of_job <- function(job, owner) {
  if (!is.null(owner) && nzchar(owner$host)) return(owner$host)
  if (!is.null(job$there)) return(job$there$on$hosts[[1L]])
  if (is.null(job$host)) "" else job$host
}

# Elements that the journal had before took no time.
seconds_left <- function(job, state, progress) {
  before <- if (is.null(job$record$kept)) 0 else job$record$kept
  new <- progress[["done"]] - before
  if (state != "running" || new <= 0) return(NA_real_)
  spent <- as.numeric(Sys.time()) - as.numeric(job$since)
  (job$n - progress[["done"]]) * spent / new
}

#' @export
print.clutch_jobs <- function(x, ...) {
  if (!nrow(x)) cat("no detached maps\n") else print_jobs(x)
  print_kept(attr(x, "kept"))
  invisible(x)
}

print_jobs <- function(x) {
  shown <- data.frame(
    name = x$name, state = x$state,
    done = sprintf("%.0f of %.0f%s", x$done, x$total,
                   ifelse(x$failed > 0, sprintf(" (%.0f failed)", x$failed), "")),
    left = vapply(x$left, function(s) if (is.na(s)) "" else time_text(s), ""),
    since = format(x$since, "%Y-%m-%d %H:%M"), host = x$host,
    pid = ifelse(is.na(x$pid), "", x$pid), journal = x$journal
  )
  print(shown, row.names = FALSE, right = FALSE)
}

print_kept <- function(kept) {
  for (i in seq_len(NROW(kept))) {
    packages <- if (nzchar(kept$packages[[i]])) paste(" with", kept$packages[[i]]) else ""
    until <- kept$until[[i]]
    is_today <- as.numeric(until) - as.numeric(Sys.time()) < 43200
    cat(sprintf("a fork server%s waits for the next session until %s, pid %d\n", packages,
                format(until, if (is_today) "%H:%M:%S" else "%Y-%m-%d %H:%M:%S"), kept$pid[[i]]))
  }
}

#' @rdname cluster_jobs
#' @export
cluster_attach <- function(name, resume = FALSE) {
  given(name, "name")
  if (!is_filled(name)) has_to_be("`name`", "the name of a detached map, or of its journal")
  check_flag(resume, "`resume`")
  x <- new_job(entry_named(name))
  state <- state_of_job(x)
  if (state == "lost" && !resume) {
    text <- paste("the process of the map '%s' has ended before the map:",
                  "cluster_attach(\"%s\", resume = TRUE) goes on with what is left")
    say(sprintf(text, x$job$name, x$job$name))
  }
  if (state == "lost" && resume) resume_map(x)
  x
}

resume_map <- function(x) {
  there <- x$job$there
  if (is.null(there)) resume_entry(x$entry) else ask_there(there$on, "resume", there$id)
}

entry_named <- function(name) {
  entries <- all_entries()
  jobs <- lapply(entries, job_of_entry)
  names <- names_of_jobs(jobs)
  at <- which(names == name)
  if (!length(at)) {
    path <- normalizePath(name, mustWork = FALSE)
    at <- which(vapply(jobs, function(job) identical(job$record$path, path), NA))
  }
  if (length(at)) return(entries[[max(at)]])
  known <- if (length(names)) paste("; there are", paste0("'", names, "'", collapse = ", ")) else ""
  throw("argument", sprintf("there is no detached map '%s'%s", name, known))
}
