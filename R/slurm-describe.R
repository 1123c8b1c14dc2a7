# Nodes on hosts that Slurm allocates: a description as those of hosts-describe.R, and commands of
# Slurm. slurm-kind.R has the kind that they are.

#' Nodes on hosts that Slurm allocates
#'
#' Describes hosts for [make_cluster()]. In an allocation, that is in a session that `salloc`,
#' `sbatch` or `srun` has started, they are those of the allocation, and one `srun` starts one R on
#' each of them. Elsewhere `sbatch` submits a job, and [make_cluster()] waits until Slurm has
#' started it.
#'
#' The R on each host becomes the fork server of that host, as with [hosts()]. It connects back to
#' this session. All nodes there are forked from it and use that one connection. R and this package
#' have to be on the hosts, in the same version of the package.
#'
#' @param hosts Number of hosts, which Slurm calls nodes. In an allocation all of it by default.
#' @param each Number of nodes of the cluster on each host, and of the processors that are asked
#'   for there. In an allocation the processors that it has on each of its hosts by default (where
#'   they differ, the least of them), elsewhere 1.
#' @param time Time limit: number of seconds, or string such as `"90min"`, `"2h"`, `"1d12h"`, or
#'   `"1-12:00:00"` as Slurm writes it.
#' @param ... Not used. What is misspelt is an error.
#' @param nodes Two numbers, `c(10, 200)` or `10:200`: in place of `hosts`, the least and the most
#'   nodes of the cluster, see *A cluster that grows and shrinks*.
#' @param idle Number of seconds, or string as of `time`: with `nodes`, after this time without work
#'   a host ends.
#' @param partition,account,qos String: as for `sbatch`.
#' @param options Character vector: further arguments of `sbatch`, or in an allocation of `srun`.
#' @param name String: name of the job or step, which `squeue` shows.
#' @param submit Logical: whether a job is submitted. `NA`, the default: unless this session is in
#'   an allocation.
#' @param wait Number of seconds, or string as of `time`: how long a job may wait in Slurm's queue.
#'   `setup_timeout` of [make_cluster()] counts from its start on.
#' @param folder String: a folder that this machine and the hosts see, with its full path. For the
#'   time of the cluster there is a folder in it that only this user can read. By default the user's
#'   cache, see [tools::R_user_dir()].
#' @inheritParams hosts
#' @param address Character vector: names of this machine, as the hosts know it. This machine's own
#'   name is tried after them, and before them what Slurm says.
#' @return Object of class `clutch_hosts`, to be given to [make_cluster()] or [launch_plan()].
#'
#' @section In an allocation:
#' The step runs beside others (`srun --overlap`), and has one task on each host with `each`
#' processors. A host that fails is not the end of the others (`--no-kill`). The allocation stays
#' when the cluster is stopped.
#'
#' @section A job:
#' While the job waits, an interactive session shows for how long, and why. Ctrl-C, an error and
#' [stop_cluster()] cancel the job, and so does the end of the session, whatever ends it. It is
#' submitted with `--no-requeue`: a job that is started anew has lost its session.
#'
#' @section A cluster that grows and shrinks:
#' With `nodes = 10:200` each host has a job of its own, which starts, ends and is preempted by
#' itself. It has `each` nodes. The cluster starts when those of the first 10 nodes are there. Hosts
#' that are asked for together are the tasks of one job array, `squeue` shows them as `12_0` to
#' `12_9`: to grow from 1 host to 1,000 takes 10 `sbatch` at most. `scancel 12_3` ends one of them.
#' An array has at most 1,000 tasks, or what Slurm allows (`MaxArraySize`). One host alone is a job
#' without an array.
#'
#' It grows while tasks wait: so many nodes are wanted that each has work for 5 seconds, by the
#' times that tasks have taken, or are taking. A map whose elements take milliseconds does not make
#' it grow. At most 8 jobs, or twice as many as hosts are there, are asked for at a time. The others
#' follow when three quarters of these have started. After one that did not come, one is asked for,
#' as where Slurm limits the number of a user's jobs. This is done in maps, in functions that submit
#' a task, ask for one, as [resolved()], or wait for one, and while R is idle and a promise of a
#' task is awaited.
#'
#' It does not grow while the session does something else, such as a long computation of its own.
#' Then tasks are done by the nodes that are there. A host that was asked for before may come. It
#' waits, and its nodes take part as soon as one of these functions is called. So code that computes
#' for long while tasks wait should call `resolved(task)` now and then.
#'
#' It shrinks by hosts that had nothing to do for `idle`, but for the first ones. A host that is no
#' more needed before its job has started is not waited for. Of an array only its task is cancelled.
#' This is also done while the session does something else: the jobs end, and Slurm has these hosts
#' back. What is on such hosts is lost, as global variables that tasks have made there.
#'
#' Hosts whose job has ended (time limit, preemption, `scancel`) are asked for again when there is
#' work. So are the first ones. Nodes that come get what [cluster_setup()] and [cluster_export()]
#' have given the others.
#'
#' The cluster as a list, and so all functions of \pkg{parallel}, have the first nodes only. Maps
#' and tasks use all nodes; those with a part of the cluster, as `cl[1:3]`, that part. [print()],
#' [cluster_status()] and [cluster_hosts()] show those that are there.
#'
#' A host that does not come is a warning of class `clutch_hosts_missing`, and the next is asked for
#' after a pause. A map that has no node at all fails when three in turn have not come.
#'
#' @section Who may connect:
#' Host and session prove to each other that they know the cluster's secret. In an allocation the
#' hosts get it on the standard input of `srun`. A job reads it from a file in `folder`, which only
#' this user can read, and which is removed when all hosts have connected. It is on no command line
#' and in no environment variable.
#'
#' @section When Slurm ends nodes:
#' Slurm ends a job or step when its time is over, when it is cancelled (`scancel`), when it makes
#' room for another one (preemption), and when a host fails. Then elements and tasks that were on
#' its hosts fail with an error of class `clutch_task_died` that says which of these it was, also as
#' its element `cause`: `"time_limit"`, `"cancelled"`, `"preempted"` or `"host_failed"`. With
#' `.retries` they are started again on other hosts, if any are left, and this start does not count.
#' Too much memory for Slurm (`"memory"`) does.
#'
#' @section Errors: `clutch_argument`: an argument is of no use. [make_cluster()] signals
#'   `clutch_start`, with element `hosts`, when some do not come: it says what was run, what that
#'   printed, and why the job has ended or still waits. All have class `clutch_error`.
#' ```r
#' tryCatch(
#'   make_cluster(slurm(hosts = 4, each = 32, time = "2h", wait = "10min")),
#'   clutch_start = function(e) message(conditionMessage(e))
#' )
#' ```
#' @seealso [make_cluster()], [launch_plan()], [hosts()], [hosts_command()]
#' @examplesIf .Platform$OS.type == "unix"
#' launch_plan(slurm(hosts = 4, each = 32, time = "2h", submit = TRUE))
#' launch_plan(slurm(nodes = 10:200, time = "1h"))
#' launch_plan(slurm(hosts = 1, each = 8, modules = "R/4.4", partition = "long", submit = TRUE))
#' \dontrun{
#' cl <- make_cluster(slurm(hosts = 4, each = 32, time = "2h"))
#' cluster_map(cl, 1:1000, function(i) i^2, .retries = 1)
#' stop_cluster(cl)
#' }
#' @export
slurm <- function(hosts = NULL, each = NULL, time = NULL, ..., nodes = NULL, idle = "1min",
                  partition = NULL, account = NULL, qos = NULL, options = character(),
                  name = "clutch", submit = NA, wait = "1d", folder = NULL, rscript = "Rscript",
                  rscript_args = character(), env = NULL, modules = NULL, setup = NULL,
                  address = NULL, listen = 0L, tls = TRUE) {
  no_others("slurm", list(...), names(formals()))
  check_flag_or_na(submit, "`submit`")
  if (!is.null(nodes)) check_bounds_only(hosts, submit)
  allocation <- if (!isTRUE(submit) && is.null(nodes)) slurm_allocation()
  if (isFALSE(submit) && is.null(allocation)) {
    throw("argument", "`submit = FALSE`, and this session is in no allocation of Slurm's")
  }
  size <- if (is.null(nodes)) {
    slurm_size(hosts, each, allocation)
  } else {
    host_bounds(nodes, each)
  }
  new_hosts(
    "slurm", "slurm", sprintf("host %d of Slurm", seq_len(size$hosts)), rep(size$each, size$hosts),
    remote_r(rscript, rscript_args, env, modules, setup), address, listen, tls,
    least = size$least, idle = if (!is.null(nodes)) check_seconds(idle, "`idle`"),
    job = allocation$job, time = slurm_time(time), wait = check_seconds(wait, "`wait`"),
    options = c(slurm_option("partition", partition), slurm_option("account", account),
                slurm_option("qos", qos), check_strings(options, "`options`")),
    name = check_needed(name, "`name`", is_word, "one word"), folder = check_folder(folder)
  )
}

# Numbers of hosts, and of nodes on each.
slurm_size <- function(hosts, each, allocation) {
  if (is.null(hosts)) hosts <- allocation$hosts
  if (is.null(hosts)) throw("argument", "slurm() needs `hosts` outside of an allocation")
  check_one(hosts, "`hosts`", is_whole, "a number of hosts, 1 or more")
  if (is.null(each)) each <- allocation$cores
  if (is.null(each)) each <- 1L
  check_one(each, "`each`", is_whole, "a number of nodes, 1 or more")
  if (!is.null(allocation$hosts) && hosts > allocation$hosts) {
    text <- "this allocation (job %s) has %d hosts, and `hosts` is %d"
    throw("argument", sprintf(text, allocation$job, allocation$hosts, as.integer(hosts)))
  }
  list(hosts = as.integer(hosts), each = as.integer(each))
}

# With `nodes` each host has a job of its own.
check_bounds_only <- function(hosts, submit) {
  check_no_hosts(hosts)
  if (isFALSE(submit)) {
    text <- "`nodes` is for jobs that are submitted, and `submit = FALSE` is for an allocation"
    throw("argument", text)
  }
}

# The allocation in which this process runs: job, number of hosts, the least number of processors
# that it has on any of them. NULL: none.
slurm_allocation <- function() {
  job <- Sys.getenv("SLURM_JOB_ID")
  if (!nzchar(job)) return(NULL)
  numbers <- function(name) {
    parts <- strsplit(Sys.getenv(name), ",", fixed = TRUE)[[1L]] # "8(x2),4"
    x <- suppressWarnings(as.integer(sub("[^0-9].*", "", parts)))
    if (length(x) && !anyNA(x)) min(x)
  }
  list(job = job, hosts = numbers("SLURM_JOB_NUM_NODES"),
       cores = numbers("SLURM_JOB_CPUS_PER_NODE"))
}

slurm_option <- function(name, value) {
  check_one(value, sprintf("`%s`", name), is_word, "one word")
  if (!is.null(value)) sprintf("--%s=%s", name, value)
}

# A number of seconds, or a text with units, as Slurm writes it: "days-hours:minutes:seconds". A
# text without units is minutes to Slurm, and seconds to most others: it is refused.
slurm_time <- function(time) {
  if (is.null(time)) return(NULL)
  is_time <- function(x) if (is.numeric(x)) x > 0 && is.finite(x) else is.character(x)
  check_one(time, "`time`", is_time, "a number of seconds, or a text such as \"2h\"")
  of_slurm <- "^([0-9]+-)?[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?$"
  if (is.character(time) && grepl(of_slurm, time)) return(time)
  seconds <- if (is.numeric(time)) time else seconds_of(time)
  if (is.na(seconds) || seconds == 0) { # to Slurm that is no limit
    has_to_be("`time`", "a number of seconds, or a text such as '90min', '2h', '1-12:00:00'")
  }
  seconds <- ceiling(seconds)
  days <- seconds %/% 86400
  clock <- sprintf("%02d:%02d:%02d", as.integer(seconds %% 86400 %/% 3600),
                   as.integer(seconds %% 3600 %/% 60), as.integer(seconds %% 60))
  if (days > 0) sprintf("%.0f-%s", days, clock) else clock
}

# ---- commands ----

# The step of an allocation: one task a host, which takes the secret from srun's standard input.
# --overlap: beside steps that have all processors, as that in which this session runs may;
# --no-kill, --kill-on-bad-exit, --wait: a host that fails or ends is not the end of the others,
# whatever is configured; --cpus-per-task: else the step has one processor; --label: output begins
# with the number of the task, and so of the host; --export: also where the job was submitted with
# --export=NONE, for this R's environment is there.
srun_command <- function(x, command) {
  n <- length(x$each)
  c("srun", "--overlap", step_options(x), paste0("--nodes=", n), paste0("--ntasks=", n),
    "--ntasks-per-node=1", paste0("--job-name=", x$name),
    if (!is.null(x$time)) paste0("--time=", x$time), x$options, command)
}

step_options <- function(x) {
  c("--no-kill", paste0("--cpus-per-task=", x$each[[1L]]), "--kill-on-bad-exit=0", "--wait=0",
    "--mpi=none", "--export=ALL", "--label")
}

# A job outside of an allocation. `folder`: with the file of the job, whose name is `job`. `tasks`:
# there are so many such jobs, as an array.
sbatch_command <- function(x, folder, job = "job", tasks = NULL) {
  file <- function(type) file.path(folder, paste0(job, type))
  c("sbatch", "--parsable", paste0("--job-name=", x$name),
    if (!is.null(tasks)) sprintf("--array=0-%d", tasks - 1L), paste0("--nodes=", length(x$each)),
    "--ntasks-per-node=1", paste0("--cpus-per-task=", x$each[[1L]]),
    if (!is.null(x$time)) paste0("--time=", x$time), "--no-requeue",
    paste0("--output=", file(if (is.null(tasks)) ".log" else "-%a.log")), x$options, file(".sh"))
}

# The lines of job.sh.
slurm_script <- function(x, command) {
  c("#!/bin/sh", paste("exec", shell_words(c("srun", step_options(x), command))))
}
