# This file asks Slurm about hosts that are lost, and about nodes that were killed.
#
# Once it is known it stays, see `ends` and `job_ends` in plan-remote.R.
#
# Slurm ends a host by SIGTERM to all its processes. The proxy there says so to the session (BYE),
# for a connection that only ends is a cut. Whether a start counts as a try depends on who has
# ended the node. So a node of such a host that ended by SIGTERM, SIGKILL or with its host is no
# death yet (ffi_tasks_ask()): the step says "unclear", hear_of_ends() asks Slurm (scontrol, what
# srun has printed), and gives its word. Hosts that are cut off are asked about every 2 s: Slurm
# may know that they will not come back.

# Number of the job on whose hosts this one is.
slurm_job_of <- function(info, k) c(slurm_job_at(info, k)$number, info$plan$launch$job)[1L]

# Deaths that wait for Slurm's word, and hosts that are cut off, about which Slurm may know more.
hear_of_ends <- function(t) {
  unclear <- .Call(ffi_tasks_unclear, t$ptr)
  info <- t$info
  for (index in unclear$ended) {
    end <- ask_end_of_host(info, info$host_of[[index]], was_terminated(info, index))
    .Call(ffi_tasks_word, t$ptr, index, is.null(end) || end$cause %in% c("memory", "ended"))
  }
  for (k in unique(info$host_of[unclear$cut])) {
    # nothing more is to be expected of it, and a connection will not be made anew
    if (!is.null(ask_end_of_host(info, k, FALSE))) host_end(info$remote$servers[[k]])
  }
  .Call(ffi_tasks_ask, t$ptr, 2)
}

# `may_be_ending`: one of its nodes has ended as if the host would.
ask_end_of_host <- function(info, k, may_be_ending) {
  key <- format(k)
  if (!is.null(info$remote$ends[[key]])) return(info$remote$ends[[key]])
  began <- clock()
  repeat {
    end <- end_said_by_slurm(info, k)
    is_over <- host_has_ended(info$remote$servers[[k]])
    is_ending <- identical(end, "ending")
    # srun says first that a process was killed, and why it was a moment later
    is_vague <- is.list(end) && end$cause == "ended"
    if (!is.null(end) && !is_ending && !is_vague) break
    # of a job that goes on only a step may have ended, or nothing but this node
    most <- if (is_ending) 5 else if (is_vague || may_be_ending || is_over) 1 else 0
    if (clock() >= began + most) break
    Sys.sleep(0.1)
  }
  if (is_ending) end <- list(cause = "cancelled", text = "Slurm has ended the job")
  if (is.null(end)) return(NULL)
  end$text <- sprintf("%s, and with it host %s", end$text, name_of_host(info, k))
  set_end_of_host(info, key, end)
  end
}

# list(cause, text); "ending": it is about to be known; NULL: all is well, as far as Slurm knows.
end_said_by_slurm <- function(info, k) {
  number <- slurm_job_of(info, k)
  if (is.null(number)) return(NULL)
  # what follows may be our own doing
  if (!is.null(info$remote$job_ends[[number]])) return(info$remote$job_ends[[number]])
  fields <- slurm_job(number)
  # its processes end, and only then Slurm says as what
  if (identical(fields$JobState, "COMPLETING")) return("ending")
  end <- slurm_job_end(number, fields)
  ends <- info$remote$job_ends
  ends[[number]] <- end
  set_remote(info, job_ends = ends)
  was_preempted <- identical(end$cause, "preempted")
  if (was_preempted && fields$JobState == "PENDING" && length(info$remote$jobs)) {
    ask_slurm("scancel", "--quiet", number) # the next one would find no session
  }
  if (!is.null(end)) return(end)
  end <- end_of_node(number, fields, info$remote$servers[[k]]$report$host$slurm_node)
  if (!is.null(end)) return(end)
  command <- command_of(info, k)
  end_in_log(printed_of(info, command, k), task_at(k, command), number)
}

# The job goes on: tells whether this host of it has failed, or was set down.
end_of_node <- function(number, fields, name) {
  if (is.null(fields)) return(NULL)
  its_hosts <- ask_slurm("scontrol", "show", "hostnames", fields$NodeList)
  if (length(its_hosts) && !name %in% its_hosts) {
    text <- "a host failed, or was set down, and Slurm has taken it out of job %s"
    return(list(cause = "host_failed", text = sprintf(text, number)))
  }
  node <- grep("^NodeName=", ask_slurm("scontrol", "show", "node", "-o", name), value = TRUE)
  if (!length(node)) return(NULL)
  state <- fields_of_slurm(node[[1L]])$State
  if (!grepl("^DOWN|NOT_RESPONDING|FAIL", state)) return(NULL)
  text <- sprintf("Slurm says that a host of job %s is %s", number, state)
  list(cause = "host_failed", text = text)
}

# The value is how a step has ended, by what srun has printed. `task`: the host's.
end_in_log <- function(lines, task, number) {
  said <- srun_says(lines, task)
  ended <- grep("\\*\\*\\* (STEP|JOB) .* CANCELLED AT ", lines, value = TRUE)
  if (length(ended)) {
    cause <- if (grepl("DUE TO TIME LIMIT", ended[[1L]])) "time_limit" else "cancelled"
    cause <- if (grepl("DUE TO PREEMPTION", ended[[1L]])) "preempted" else cause
    cause <- if (grepl("DUE TO NODE FAILURE", ended[[1L]])) "host_failed" else cause
    text <- switch(cause,
      time_limit = "Slurm has ended the step of job %s at its time limit",
      preempted = "Slurm has ended the step of job %s to make room for another (preemption)",
      host_failed = "a host of job %s failed, or was set down, and Slurm ended the step",
      cancelled = "the step of job %s of Slurm was cancelled (scancel)"
    )
    return(list(cause = cause, text = sprintf(text, number)))
  }
  if (!length(said)) return(NULL)
  cause <- if (grepl("Out Of Memory", said[[1L]], ignore.case = TRUE)) "memory" else "ended"
  list(cause = cause, text = sprintf("srun says %s", said[[1L]]))
}
