# This file has what Slurm says of a job, and jobs that wait in a queue.
#
# A job is list(number, began, started, fields). `number`: text, of a task of an array as "12_3", as
# Slurm's commands take it; `began`: when it was submitted, by clock();
# `started`: when it was first seen not to wait any more; `fields`: as of slurm_job(), of the last
# time.

# Fields of `scontrol show job` for this job, as a list. Slurm forgets jobs some minutes after their
# end. Then the accounting knows, if there is one; else JobState is "UNKNOWN". NULL: Slurm cannot be
# asked now.
slurm_job <- function(number) {
  said <- ask_slurm("scontrol", "show", "job", "-o", number)
  known <- grep("^JobId=", said, value = TRUE)
  if (length(known)) return(fields_of_slurm(known[[1L]]))
  if (!any(grepl("Invalid job id", said))) return(NULL)
  kept <- ask_slurm("sacct", "-n", "-X", "-P", "-j", number, "-o", "State,Timelimit")
  kept <- strsplit(grep("^[A-Z_]+.*[|]", kept, value = TRUE), "|", fixed = TRUE)
  if (!length(kept)) return(list(JobState = "UNKNOWN"))
  list(JobState = kept[[1L]][[1L]], TimeLimit = kept[[1L]][2L])
}

fields_of_slurm <- function(line) {
  fields <- strsplit(line, " +(?=[^ =]+=)", perl = TRUE)[[1L]]
  as.list(structure(sub("^[^=]*=", "", fields), names = sub("=.*", "", fields)))
}

# The value is what one of Slurm's commands prints, as lines. The command is not run by system(), in
# which an interrupt of the user's is lost.
ask_slurm <- function(command, ..., seconds = 10) {
  if (!nzchar(Sys.which(command)[[1L]])) return(character())
  log <- tempfile("clutch-slurm-")
  on.exit(unlink(log))
  handle <- run_command(c(command, ...), effective_env(NULL), log)
  on.exit(.Call(ffi_nodes_stop, list(handle), 0, 2), add = TRUE, after = FALSE)
  end <- clock() + seconds
  while (.Call(ffi_node_info, handle)$state == "starting" && clock() < end) Sys.sleep(0.005)
  log_lines(log)
}

# ---- a job in the queue ----

queued_states <- c("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
running_states <- c("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING",
                    "STAGE_OUT")

# Asks about several jobs by one question: a list with JobState and Reason of each. Jobs that Slurm
# does not name there are asked for by themselves, a few at a time; NULL: not now.
slurm_jobs <- function(numbers) {
  if (length(numbers) == 1L) return(list(slurm_job(numbers)))
  arrays <- unique(sub("_.*", "", numbers))
  said <- ask_slurm("squeue", "--noheader", "--states=all", "--array", "--format=%i|%T|%r",
                    paste0("--jobs=", paste(arrays, collapse = ",")))
  rows <- strsplit(grep("^[0-9]+(_[0-9]+)?[|]", said, value = TRUE), "|", fixed = TRUE)
  at <- match(numbers, vapply(rows, `[[`, "", 1L))
  out <- lapply(rows[at], function(row) list(JobState = row[2L], Reason = row[3L]))
  out[is.na(at)] <- list(NULL)
  few <- utils::head(which(is.na(at)), ASKED_ALONE)
  out[few] <- lapply(numbers[few], slurm_job)
  out
}
ASKED_ALONE <- 10L

# So many tasks an array has at most, as of `MaxArraySize` of Slurm; 1: it has none.
MOST_IN_ARRAY <- 1000L # its default is one more

most_in_slurm_array <- function() {
  key <- paste0("at ", Sys.getenv("SLURM_CONF"))
  if (!is.null(the$slurm_arrays[[key]])) return(the$slurm_arrays[[key]])
  said <- grep("^MaxArraySize", ask_slurm("scontrol", "show", "config"), value = TRUE)
  size <- suppressWarnings(as.integer(sub(".*= *", "", said[1L])))
  if (is.na(size)) return(MOST_IN_ARRAY)
  the$slurm_arrays[[key]] <- max(1L, min(size, MOST_IN_ARRAY))
}

# Asks Slurm now and then for the jobs of this plan whose hosts have not come yet.
poll_slurm_jobs <- function(info) {
  note_slurm_jobs(info)
  open <- open_slurm_jobs(info)
  if (!length(open) || clock() < info$remote$ask_at) return(invisible())
  numbers <- vapply(info$remote$jobs[open], function(job) job$number, "")
  told <- slurm_jobs(unname(numbers))
  for (i in seq_along(open)) {
    job <- info$remote$jobs[[open[[i]]]]
    if (!is.null(told[[i]])) job$fields <- told[[i]]
    if (is.null(job$fields)) job$fields <- list(JobState = "PENDING", Reason = "None")
    if (!is_queued(job) && is.null(job$started)) job$started <- clock()
    set_job(info, open[[i]], job)
  }
  # Slurm is to be asked seldom by those who wait
  latest <- max(vapply(info$remote$jobs[open], function(job) job$began, 1))
  set_remote(info, ask_at = clock() + min(15, max(0.3, (clock() - latest) / 10)))
  invisible()
}

# While the cluster starts: a job that waits for too long is an error.
await_slurm_jobs <- function(info) {
  if (!is.null(info$plan$launch$job)) return(invisible())
  poll_slurm_jobs(info)
  queued <- Filter(is_queued, info$remote$jobs[open_slurm_jobs(info)])
  show_waiting(info, queued)
  limit <- info$plan$launch$wait
  late <- Filter(function(job) clock() - job$began > limit, queued)
  if (length(late)) throw_still_queued(info, late[[1L]], limit)
}

note_slurm_jobs <- function(info) {
  for (command in info$remote$commands) {
    keys <- keys_of_slurm_jobs(command)
    if (!command$keeps_job || !is.null(info$remote$jobs[[keys[[1L]]]])) next
    number <- grep("^[0-9]+(;.*)?$", log_lines(command$log), value = TRUE)
    if (!length(number)) next
    number <- sub(";.*", "", number[[1L]])
    numbers <- if (is.null(command$tasks)) number else paste0(number, "_", command$tasks)
    new <- lapply(numbers, function(number) list(number = number, began = clock()))
    jobs <- info$remote$jobs
    jobs[keys] <- new
    set_remote(info, jobs = jobs, ask_at = 0)
  }
}

# Each task of an array is a job of its own; else all hosts of a command are in one.
keys_of_slurm_jobs <- function(command) {
  as.character(if (is.null(command$tasks)) command$hosts[[1L]] else command$hosts)
}

# The job on which host `k` is, or is to be; NULL: none is known.
slurm_job_at <- function(info, k) {
  command <- if (length(info$remote$jobs)) command_of(info, k)
  if (is.null(command)) return(NULL)
  info$remote$jobs[[as.character(if (is.null(command$tasks)) command$hosts[[1L]] else k)]]
}

# The number of the host's task, as srun counts. In an array each host has an srun of its own.
task_at <- function(k, command) {
  if (is.null(command$tasks)) match(k, command$hosts) - 1L else 0L
}

# Keys of those whose hosts have not all come.
open_slurm_jobs <- function(info) {
  keys <- lapply(info$remote$commands, function(command) {
    is_open <- has_not_come(info, command$hosts)
    keys_of_slurm_jobs(command)[if (is.null(command$tasks)) any(is_open) else is_open]
  })
  intersect(unlist(keys), names(info$remote$jobs))
}

is_queued <- function(job) isTRUE(job$fields$JobState %in% queued_states)

# Seconds for which they have waited in the queue.
queued_for <- function(info) {
  if (!length(info$remote$jobs)) return(0)
  max(vapply(info$remote$jobs, seconds_queued, 1))
}

seconds_queued <- function(job) (if (is.null(job$started)) clock() else job$started) - job$began

# While the cluster is there: that host `k` has waited for too long, in words, or NULL.
waits_too_long <- function(info, k) {
  job <- slurm_job_at(info, k)
  limit <- info$plan$launch$wait
  if (is.null(job) || !is_queued(job) || seconds_queued(job) <= limit) return(NULL)
  sprintf("job %s of Slurm still waits after %s", job$number, time_text(limit))
}

# When it was seen that its job does not wait any more, or NULL.
slurm_job_began <- function(info, k) slurm_job_at(info, k)$started

has_slurm_job_ended <- function(info, k) {
  state <- slurm_job_at(info, k)$fields$JobState
  !is.null(state) && !state %in% c(queued_states, running_states)
}

throw_still_queued <- function(info, job, limit) {
  text <- paste("job %s of Slurm still waits after %s (%s); it was cancelled, and nothing was left",
                "running")
  text <- sprintf(text, job$number, time_text(limit), job$fields$Reason)
  advice <- sprintf("try: a longer `wait`, or less `%s`, `each` or `time`",
                    if (is.null(info$plan$launch$least)) "hosts" else "nodes")
  hosts <- info$plan$launch$hosts[seq_along(info$remote$servers)]
  throw("start", paste(text, advice, sep = "\n"), hosts = hosts)
}

# Only for users who look on. `queued`: the jobs that wait.
show_waiting <- function(info, queued) {
  if (!interactive()) return(invisible())
  if (!length(queued)) return(end_waiting(info))
  if (is.null(info$remote$waiting)) set_remote(info, waiting = new.env(parent = baseenv()))
  bar <- info$remote$waiting
  bar$text <- waiting_text(info, queued)
  if (is.null(bar$id)) {
    old <- options(cli.progress_show_after = 0)
    on.exit(options(old))
    bar$id <- cli::cli_progress_bar(total = NA, format = "{text}", clear = TRUE,
                                    .auto_close = FALSE, .envir = bar)
  }
  tryCatch(cli::cli_progress_update(id = bar$id, .envir = bar, force = TRUE),
           error = function(e) NULL)
  invisible()
}

waiting_text <- function(info, queued) {
  first <- queued[[1L]]
  reason <- first$fields$Reason
  why <- if (length(reason) && !reason %in% c("None", NA)) sprintf(" (%s)", reason) else ""
  since <- time_text(clock() - first$began)
  name <- info$plan$launch$name
  if (is.null(info$plan$launch$least)) {
    return(sprintf("Job %s of Slurm (%s) waits%s: %s", first$number, name, why, since))
  }
  came <- sum(vapply(info$remote$servers, function(host) !is.null(host$report), NA))
  sprintf("%d of %d hosts are there, %s of Slurm (%s) %s%s: %s", came, length(info$remote$servers),
          if (length(queued) == 1L) "1 job" else paste(length(queued), "jobs"), name,
          if (length(queued) == 1L) "waits" else "wait", why, since)
}

end_waiting <- function(info) {
  bar <- info$remote$waiting
  if (!is.null(bar$id)) {
    tryCatch(cli::cli_progress_done(id = bar$id, .envir = bar), error = function(e) NULL)
  }
  set_remote(info, waiting = NULL)
  invisible()
}

# ---- how a job has ended ----

# list(cause, text): `cause` is "time_limit", "cancelled", "preempted", "host_failed", "memory",
# "ended" or NULL: it has not, as far as is known. `fields`: as of slurm_job().
slurm_job_end <- function(number, fields) {
  end <- function(cause, text) list(cause = cause, text = sprintf(text, number))
  if (is.null(fields)) return(NULL)
  state <- sub(" .*", "", fields$JobState)
  was_preempted <- !isTRUE(fields$PreemptTime %in% c("None", "Unknown")) &&
    !is.null(fields$PreemptTime)
  if (was_preempted && !identical(state, "RUNNING")) {
    return(end("preempted", "Slurm has ended job %s to make room for another (preemption)"))
  }
  limit <- paste0("Slurm has ended job %s at its time limit (", fields$TimeLimit, ")")
  switch(state,
    TIMEOUT = end("time_limit", limit),
    DEADLINE = end("time_limit", "Slurm has ended job %s at its deadline"),
    CANCELLED = end("cancelled", "job %s of Slurm was cancelled (scancel)"),
    PREEMPTED = end("preempted", "Slurm has ended job %s to make room for another (preemption)"),
    NODE_FAIL = ,
    BOOT_FAIL = end("host_failed", "a host of job %s failed, or was set down, and Slurm ended it"),
    OUT_OF_MEMORY = end("memory", "job %s took more memory than Slurm allows"),
    PENDING = ,
    REQUEUED = end("preempted", paste("Slurm has put job %s back into its queue, to make room for",
                                      "another (preemption) or since a host failed")),
    RUNNING = ,
    SUSPENDED = NULL,
    FAILED = end("ended", "job %s of Slurm has failed"),
    COMPLETED = end("ended", "job %s of Slurm has ended"),
    UNKNOWN = end("ended", "job %s of Slurm has ended, and Slurm does not say why"),
    NULL
  )
}

slurm_job_end_text <- function(number, fields) slurm_job_end(number, fields)$text
