# The handle of a detached map: an environment of class "clutch_job".
#   entry   its folder, see R/detach-folder.R; NULL: it was collected, and is listed no more
#   job     what its file job.rds has
#   after   what is made of the values: list(name, arguments ...), of the function that is known by
#           this name as kind "values"; or NULL
#   end     as of read_end(), once it is known

new_job <- function(entry) {
  x <- new.env(parent = emptyenv())
  x$entry <- entry
  x$job <- job_of_entry(entry)
  if (is.null(x$job)) throw("jobs", sprintf("'%s' is no detached map", entry))
  x$after <- read_object(entry_file(entry, "after.rds"))
  class(x) <- c("clutch_job", the$task_is_also)
  x
}

is_job <- function(x) inherits(x, "clutch_job")

# The values of the map are to go through the function of this name.
job_after <- function(x, name, ...) {
  x$after <- list(name, ...)
  write_object(x$after, entry_file(x$entry, "after.rds"))
  x
}

# The value is that of status_of_entry(). `wait`: seconds that a host may wait for the end of a map
# there.
status_of_job <- function(x, wait = 0) {
  if (!is.null(x$end)) return(list(state = x$end$state, end = x$end))
  status <- status_of(x$entry, x$job, wait)
  # another session has collected it, and its entry is gone
  if (has_ended_as(status$state) && is.null(status$end) && !dir.exists(x$entry)) {
    status <- list(state = "gone", end = list(state = "gone"))
  }
  x$end <- status$end
  status
}

status_of <- function(entry, job, wait = 0) {
  if (is.null(job$there)) return(status_of_entry(entry))
  ask_there(job$there$on, "status", list(id = job$there$id, wait = wait))
}

state_of_job <- function(x) status_of_job(x)$state

# The process id of its runner on this machine. Errors of class "clutch_stopped": there is none to
# look at.
runner_of_job <- function(x) {
  state <- state_of_job(x)
  if (!is.null(x$job$there)) {
    host <- x$job$there$on$hosts[[1L]]
    throw("stopped", sprintf("the map '%s' is on host %s: cluster_top() there shows it", x$job$name,
                             host))
  }
  owner <- if (!has_ended_as(state)) owner_of_entry(x$entry)
  if (is_owner_here(owner)) return(as.numeric(owner$pid))
  if (!is.null(owner)) state <- paste("at work on host", owner$host)
  throw("stopped", sprintf("there is nothing to see of the map '%s': it is %s", x$job$name, state))
}

# ---- has it ended? ----

#' @rdname cluster_jobs
#' @export
resolved.clutch_job <- function(x, timeout = 0, ...) {
  check_timeout(timeout)
  await_job(x, clock() + timeout, no_bar)
}

# Waits for the end of the map. FALSE: it has not come by then.
await_job <- function(x, deadline, bar) {
  nap <- 0.01
  wait <- 0 # the first answer is not waited for
  on.exit(progress_end(bar))
  repeat {
    status <- status_of_job(x, wait)
    if (has_ended_as(status$state)) return(TRUE)
    left <- deadline - clock()
    if (left <= 0) return(FALSE)
    if (bar$on && !is.null(status$progress)) progress_show(bar, status$progress[["done"]])
    wait <- if (bar$on) min(left, 2) else min(left, THERE_WAIT)
    if (!is.null(x$job$there)) next
    Sys.sleep(min(nap, left))
    nap <- min(1.5 * nap, 0.2)
  }
}

# ---- values ----

#' @rdname cluster_jobs
#' @export
collect.clutch_job <- function(x, timeout = Inf, otherwise, partial = FALSE, ...) {
  check_timeout(timeout)
  check_flag(partial, "`partial`")
  if (partial) return(values_so_far(x))
  bar <- if (timeout > 1) progress_new(NULL, x$job$n, clock()) else no_bar
  if (!await_job(x, clock() + timeout, bar)) {
    if (!missing(otherwise)) return(otherwise)
    throw("timeout", sprintf("the map '%s' has not ended within %g seconds", x$job$name, timeout))
  }
  deliver_job(x)
}

deliver_job <- function(x) {
  switch(state_of_job(x),
    done = NULL,
    failed = ,
    limit = {
      forget_job(x)
      stop(x$end$error)
    },
    cancelled = {
      forget_job(x)
      stop(errorCondition(sprintf("the map '%s' was cancelled", x$job$name), call = NULL,
                          class = c("clutch_task_cancelled", "clutch_task_error", "clutch_error")))
    },
    gone = throw("jobs", sprintf(paste("the map '%s' was collected before, by another handle:",
                                       "its values are in journal '%s'"), x$job$name,
                                 x$job$record$path)),
    throw_lost(x)
  )
  has <- values_of_job(x)
  failed <- as.integer(names(x$end$errors))
  missing <- setdiff(which(has$states == 0), failed)
  if (length(missing)) {
    text <- "element %d of the map '%s' is not in journal '%s': run the map again"
    throw("journal", sprintf(text, missing[[1L]], x$job$name, x$job$record$path))
  }
  if (x$job$relay != "none") relay_logs(has$logs)
  values <- has$values
  values[failed] <- unname(x$end$errors)
  names(values) <- x$job$names
  forget_job(x)
  if (length(failed)) warn_failed(values, failed, x$job$n)
  after_map(x, values)
}

relay_logs <- function(logs) {
  log <- unlist(logs, recursive = FALSE, use.names = FALSE)
  if (length(log)) relay_log(new.env(parent = emptyenv()), log)
}

after_map <- function(x, values) {
  after <- x$after
  if (is.null(after)) return(values)
  do.call(kind_named("values", after[[1L]]), c(list(values), after[-1L]), quote = TRUE)
}

# The values of the elements that are done; NULL in place of others.
values_so_far <- function(x) {
  has <- values_of_job(x)
  values <- has$values
  values[has$states != 1] <- list(NULL)
  names(values) <- x$job$names
  values
}

values_of_job <- function(x) {
  there <- x$job$there
  has <- if (is.null(there)) journal_has(x$job) else ask_there(there$on, "values", there$id)
  packed <- which(vapply(has$values, inherits, NA, "clutch_packed"))
  has$values[packed] <- lapply(has$values[packed], unpack_result)
  has
}

throw_lost <- function(x) {
  text <- paste("the process of the map '%s' has ended before the map. What was done is in journal",
                "'%s'. cluster_attach(\"%s\", resume = TRUE) goes on%s")
  throw("job_lost", sprintf(text, x$job$name, x$job$record$path, x$job$name,
                            last_lines(entry_file(x$entry, "log"))))
}

# It was collected, and is listed no more.
forget_job <- function(x) {
  if (is.null(x$entry)) return(invisible())
  forget_entry(x$entry, x$job)
  x$entry <- NULL
}

forget_entry <- function(entry, job) {
  if (!is.null(job$there)) ask_there(job$there$on, "forget", job$there$id)
  remove_entry(entry)
}

# promises::as.promise(). Package later asks every so often whether the map has ended: a host by
# ssh, this machine by a look at a file.
as.promise.clutch_job <- function(x) {
  pause <- if (is.null(x$job$there)) 0.2 else 10 # seconds
  promises::promise(function(resolve, reject) {
    poll <- function() {
      tryCatch({
        if (!resolved.clutch_job(x)) return(without_signals(later::later(poll, pause)))
        resolve(deliver_job(x))
      }, error = reject)
    }
    poll()
  })
}

# ---- giving up ----

#' @rdname cluster_jobs
#' @export
cancel.clutch_job <- function(x, ...) {
  if (has_ended_as(state_of_job(x))) return(invisible(FALSE))
  end_map(x$entry, x$job)
  invisible(state_of_job(x) == "cancelled")
}

end_map <- function(entry, job) {
  if (is.null(job$there)) return(end_entry(entry))
  ask_there(job$there$on, "cancel", job$there$id)
}

# ---- how it is printed ----

#' @export
format.clutch_job <- function(x, ...) {
  status <- tryCatch(status_of_job(x), clutch_host = function(e) list(state = "unreachable"))
  so_far <- if (has_ended_as(status$state) || is.null(status$progress)) {
    sprintf("%s, %.0f elements", status$state, x$job$n)
  } else {
    sprintf("%s, %.0f of %.0f elements done", status$state, status$progress[["done"]], x$job$n)
  }
  on <- if (is.null(x$job$there)) "" else sprintf(" on %s", x$job$there$on$hosts[[1L]])
  sprintf("clutch detached map '%s' (%s)%s: %s", x$job$name, x$job$label, on, so_far)
}

#' @export
print.clutch_job <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}
