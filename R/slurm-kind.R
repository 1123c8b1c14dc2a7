# Hosts that Slurm allocates, as a kind of hosts-kinds.R. slurm-describe.R has their description and
# Slurm's commands, slurm-job.R the jobs, slurm-ends.R what Slurm says of hosts that are lost.

slurm_kind <- function() {
  new_host_kind(
    by = "Slurm",
    commands = slurm_commands,
    environment = slurm_environment,
    poll = await_slurm_jobs,
    queued = queued_for,
    started = end_waiting,
    will_not_come = slurm_will_not_come,
    may_print = may_task_print,
    failure = slurm_failure,
    ask = poll_slurm_jobs,
    waits_too_long = waits_too_long,
    began = slurm_job_began,
    asks_together = TRUE,
    attend = attend_slurm
  )
}
add_kind("host", "slurm", slurm_kind)

# ---- what is run ----

slurm_commands <- function(x, host_command, folder, port, of) {
  if (!is.null(x$job)) return(list(slurm_step(x, host_command)))
  if (is.null(x$least)) return(list(slurm_job_for_all(x, host_command, folder)))
  # a dry run asks nobody
  most <- if (startsWith(folder, "<")) MOST_IN_ARRAY else most_in_slurm_array()
  lapply(split(of, (seq_along(of) - 1L) %/% most), function(hosts) {
    launch_for <- if (length(hosts) == 1L) slurm_job_for else slurm_array_for
    launch_for(x, hosts, host_command, folder)
  })
}

# In the allocation in which this session is: a task on each host.
slurm_step <- function(x, host_command) {
  list(argv = srun_command(x, host_command()), hosts = seq_along(x$each), delivery = by_input,
       tells_end = TRUE, rank = "SLURM_PROCID")
}

slurm_job_for_all <- function(x, host_command, folder) {
  list(argv = sbatch_command(x, folder), hosts = seq_along(x$each), delivery = by_file,
       rank = "SLURM_PROCID", settings = "settings", job = "job.sh",
       script = slurm_script(x, host_command("settings")), cancel = shell_lines("slurm-cancel"))
}

# A job for host `k` alone.
slurm_job_for <- function(x, k, host_command, folder) {
  name <- sprintf("job-%d", k)
  settings <- sprintf("settings-%d", k)
  x$each <- x$each[[k]]
  list(argv = sbatch_command(x, folder, name), hosts = k, delivery = by_file, settings = settings,
       job = paste0(name, ".sh"), script = slurm_script(x, host_command(settings)),
       printed = paste0(name, ".log"), cancel = shell_lines("slurm-cancel"))
}

# One array of jobs, one for each of these hosts.
slurm_array_for <- function(x, hosts, host_command, folder) {
  name <- sprintf("array-%d", hosts[[1L]])
  settings <- sprintf("settings-%d", hosts[[1L]])
  x$each <- x$each[[hosts[[1L]]]]
  list(argv = sbatch_command(x, folder, name, length(hosts)), hosts = hosts, delivery = by_file,
       rank = "SLURM_ARRAY_TASK_ID", settings = settings, job = paste0(name, ".sh"),
       script = slurm_script(x, host_command(settings)), printed = paste0(name, "-%a.log"),
       cancel = shell_lines("slurm-cancel"), cancel_some = shell_lines("slurm-cancel-tasks"))
}

# A step in which this session runs may be bound to some processors, which holds for that step. A
# new job has nothing to do with an allocation in which this session is.
slurm_environment <- function(x, env) {
  bound <- if (is.null(x$job)) "^SLURM_(?!CONF$)" else "^SLURM_(CPU_BIND|MEM_BIND)"
  env[!grepl(bound, names(env), perl = TRUE)]
}

# ---- what it says while hosts are awaited ----

slurm_will_not_come <- function(info, k, command) {
  if (has_slurm_job_ended(info, k)) return(TRUE)
  length(srun_says(printed_of(info, command, k), task_at(k, command))) > 0L
}

# The output of a task of srun's may come after the line that says how the task has ended.
may_task_print <- function(info, k, command) {
  !has_task_printed(printed_of(info, command, k), task_at(k, command))
}

slurm_failure <- function(info, k, command, printed) {
  known <- list(printed = printed_by_task(printed, task_at(k, command)))
  said <- srun_says(printed, task_at(k, command))
  if (length(said)) {
    known$why <- said
    known$i <- ended_with(exit_code_of(said))
  } else if (has_slurm_job_ended(info, k)) {
    job <- slurm_job_at(info, k)
    known$why <- slurm_job_end_text(job$number, job$fields)
    known$i <- ended_with(-1L)
  }
  known
}

# The value has what ffi_node_info() says of a command.
ended_with <- function(code) list(state = "dead", by_signal = FALSE, code = code)

# ---- while the cluster is there ----

attend_slurm <- function(t) {
  info <- t$info
  if (length(info$remote$jobs) || !is.null(info$plan$launch$job)) .Call(ffi_tasks_ask, t$ptr, 0)
  manage_hosts(t, hear_of_ends)
}
