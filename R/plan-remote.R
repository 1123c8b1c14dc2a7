# `info$remote` is what the session knows of the other hosts of a cluster: an environment. No other
# file writes its fields. Hosts are known by their numbers, and by these as text.

new_remote <- function() {
  remote <- new.env(parent = emptyenv())
  fields <- list(
    link = NULL, # the session's link process, see hosts-link.R; NULL: not started
    servers = list(), # the hosts behind it, see hosts-link.R, with what each has reported
    given_up = NULL, # numbers of lost hosts that are not started again

    # the commands that start them, see hosts-run.R:
    # what was run: list(handle, log, hosts, argv, tasks, settings, keeps_job, printed, began) each
    commands = NULL,
    folder = NULL, # of files that hosts read, or NULL
    cleanup = NULL, # list of one handle, or NULL: who removes it when the session has ended
    parents = NULL, # for each host who starts it, see launch_parents()
    pending = NULL, # what is still to be run here, launches of hosts-kinds.R
    of_tree = NULL, # what other hosts run, by the number of the host as text
    began = NULL, # when this began, by clock()
    patience = NULL, # number of seconds that these had
    until = NULL, # when all hosts have to be there, by clock()

    # those that do not come, see hosts-missing.R:
    missing = NULL, # their numbers, once they are given up; they have no nodes
    why_missing = NULL, # lines that say why

    # jobs of a queue, see slurm-job.R and slurm-ends.R:
    jobs = list(), # those that were submitted, by the number of their first host as text; each
    # task of an array is a job
    ask_at = 0, # when Slurm is asked next, by clock()
    waiting = NULL, # the progress line
    job_ends = list(), # by number of the job: how that has ended, as of slurm_job_end()
    ends = list() # by number of the host as text: how that has ended, list(cause, text)
  )
  list2env(fields, remote)
  lockEnvironment(remote)
  remote
}

# Writes these fields. One that there is not is an error.
set_remote <- function(info, ...) {
  fields <- list(...)
  for (name in names(fields)) assign(name, fields[[name]], envir = info$remote)
  invisible(info)
}

# Host `k` is this one from now on, see hosts-link.R.
set_host <- function(info, k, host) {
  servers <- info$remote$servers
  servers[[k]] <- host
  set_remote(info, servers = servers)
}

# Sets what is known of a host, or of a job, in one of the lists; NULL: nothing any more.
set_job <- function(info, key, job) {
  jobs <- info$remote$jobs
  jobs[[key]] <- job
  set_remote(info, jobs = jobs)
}

set_end_of_host <- function(info, key, end) {
  ends <- info$remote$ends
  ends[[key]] <- end
  set_remote(info, ends = ends)
}
