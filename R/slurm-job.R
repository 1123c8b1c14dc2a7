# What Slurm says of a job, and jobs that wait in a queue.
#
# In the plan of a cluster, besides what launch-hosts-start.R says:
#   job       list(number, began, state, ask_at) of the job that was submitted; NULL: none is known.
#             `began`: when it was submitted, by clock(); `started`: when it was first seen not to
#             wait any more; `fields`: as of slurm_job(), of the last time; `ask_at`: next time
#   waiting   the progress line

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

# Lines that one of Slurm's commands prints. Not by system(), in which an interrupt of the user's is
# lost.
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

# Lines of a shell that cancel job "$job": at once while it waits. One that runs gets a moment to
# end by itself.
slurm_cancel <- c(
  "job=${job%%;*}",
  "scancel --quiet --state=PENDING \"$job\" 2>/dev/null",
  "for k in 1 2 3 4 5 6 7 8 9 10; do",
  "  [ -n \"$(squeue -h -j \"$job\" -t RUNNING -o %i 2>/dev/null)\" ] || break",
  "  sleep 0.2",
  "done",
  "scancel --quiet \"$job\" 2>/dev/null"
)

# Asks Slurm now and then for the job of this plan, if there is one.
see_to_job <- function(info) {
  if (info$launch$kind != "slurm" || !is.null(info$launch$job)) return(invisible())
  if (is.null(info$job)) begin_job(info)
  job <- info$job
  if (is.null(job) || clock() < job$ask_at) return(invisible())
  fields <- slurm_job(job$number)
  if (is.null(fields)) fields <- job$fields
  if (is.null(fields)) fields <- list(JobState = "PENDING", Reason = "None")
  is_queued <- isTRUE(fields$JobState %in% queued_states)
  if (!is_queued && is.null(job$started)) job$started <- clock()
  job$fields <- fields
  # Slurm is to be asked seldom by those who wait
  job$ask_at <- clock() + min(15, max(0.3, (clock() - job$began) / 10))
  info$job <- job
  show_waiting(info, is_queued)
  limit <- info$launch$wait
  if (is_queued && clock() - job$began > limit) throw_still_queued(info, fields, limit)
}

begin_job <- function(info) {
  number <- grep("^[0-9]+(;.*)?$", log_lines(info$commands[[1L]]$log), value = TRUE)
  if (!length(number)) return(invisible())
  info$job <- list(number = sub(";.*", "", number[[1L]]), began = clock(), ask_at = 0)
}

# Seconds for which it has waited in the queue; or may have, where nobody is asked.
queued_for <- function(info) {
  if (info$launch$kind == "template") return(info$launch$wait)
  job <- info$job
  if (is.null(job)) return(0)
  (if (is.null(job$started)) clock() else job$started) - job$began
}

has_job_ended <- function(info) {
  if (is.null(info$job)) return(FALSE)
  state <- info$job$fields$JobState
  !is.null(state) && !state %in% c(queued_states, running_states)
}

throw_still_queued <- function(info, fields, limit) {
  text <- paste("job %s of Slurm still waits after %s (%s); it was cancelled, and nothing was left",
                "running")
  text <- sprintf(text, info$job$number, time_text(limit), fields$Reason)
  advice <- "try: a longer `wait`, or less `nodes`, `each` or `time`"
  throw("start", paste(text, advice, sep = "\n"), hosts = info$launch$hosts)
}

# Only for users who look on.
show_waiting <- function(info, is_queued) {
  if (!interactive()) return(invisible())
  if (!is_queued) return(end_waiting(info))
  if (is.null(info$waiting)) info$waiting <- new.env(parent = baseenv())
  bar <- info$waiting
  bar$text <- waiting_text(info)
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

waiting_text <- function(info) {
  job <- info$job
  reason <- job$fields$Reason
  why <- if (length(reason) && reason != "None") sprintf(" (%s)", reason) else ""
  sprintf("Job %s of Slurm (%s) waits%s: %s", job$number, info$launch$name, why,
          time_text(clock() - job$began))
}

end_waiting <- function(info) {
  bar <- info$waiting
  if (!is.null(bar$id)) {
    tryCatch(cli::cli_progress_done(id = bar$id, .envir = bar), error = function(e) NULL)
  }
  info$waiting <- NULL
  invisible()
}

time_text <- function(s) {
  if (s < 60) return(sprintf("%.0f s", s))
  if (s < 3600) return(sprintf("%.0f min", s / 60))
  sprintf("%.1f h", s / 3600)
}

# ---- how a job has ended ----

# list(cause, text): `cause` is "time_limit", "cancelled", "preempted", "host_failed", "memory",
# "ended" or NULL: it has not, as far as is known. `fields`: as of slurm_job().
job_end <- function(number, fields) {
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

job_end_text <- function(number, fields) job_end(number, fields)$text
