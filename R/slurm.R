# Nodes on hosts that Slurm allocates: a description as those of hosts.R.

# In an allocation (salloc, sbatch): a step of it, by srun. Elsewhere a job, by sbatch.
#   nodes     number of hosts, Slurm's "nodes"; in an allocation all of it by default
#   each      number of nodes of the cluster on each host; there its processors by default
#   time      time limit: seconds, or as "90min", "2h", "1d12h", or as Slurm writes it
#   workers   a range: a job array of at least and at most so many hosts; in place of `nodes`
#   partition, account, qos  as for sbatch
#   options   further arguments of sbatch, or of srun in an allocation
#   name      what squeue shows
#   folder    a folder that this machine and the hosts see, for the file that has the secret
slurm <- function(nodes = NULL, each = NULL, time = NULL, workers = NULL, ..., partition = NULL,
                  account = NULL, qos = NULL, options = character(), name = "clutch",
                  folder = NULL, rscript = "Rscript", rscript_args = character(), env = NULL,
                  modules = NULL, setup = NULL, address = NULL, listen = 0L, tls = TRUE) {
  no_others("slurm", list(...), names(formals()))
  allocation <- slurm_allocation()
  if (is.null(nodes) && is.null(workers)) nodes <- allocation$nodes
  if (is.null(nodes) == is.null(workers)) {
    throw("argument", "slurm() needs either `nodes` or `workers` outside of an allocation")
  }
  check_one(nodes, "nodes", is_whole, "a number of hosts, 1 or more")
  range <- check_job_range(workers)
  if (is.null(each)) each <- allocation$cores
  if (is.null(each)) each <- 1L
  check_one(each, "each", is_whole, "a number of nodes, 1 or more")
  if (!is.null(allocation$nodes) && !is.null(nodes) && nodes > allocation$nodes) {
    text <- "this allocation (job %s) has %d hosts, and `nodes` is %d"
    throw("argument", sprintf(text, allocation$job, allocation$nodes, as.integer(nodes)))
  }
  n <- if (is.null(range)) as.integer(nodes) else range[[1L]]
  new_launch(
    "slurm", sprintf("host %d of Slurm", seq_len(n)), rep(as.integer(each), n),
    remote_r(rscript, rscript_args, env, modules, setup), address, listen, tls,
    job = allocation$job, workers = range, time = slurm_time(time),
    options = c(slurm_option("partition", partition), slurm_option("account", account),
                slurm_option("qos", qos), check_strings(options, "options")),
    name = check_one(name, "name", is_word, "one word"), folder = check_folder(folder)
  )
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
  list(job = job, nodes = numbers("SLURM_JOB_NUM_NODES"),
       cores = numbers("SLURM_JOB_CPUS_PER_NODE"))
}

slurm_option <- function(name, value) {
  check_one(value, name, is_word, "one word")
  if (!is.null(value)) sprintf("--%s=%s", name, value)
}

check_job_range <- function(workers) {
  if (is.null(workers)) return(NULL)
  if (is_whole(workers) && length(workers)) return(as.integer(range(workers)))
  throw("argument", "`workers` has to be a range of numbers of hosts, such as 10:200")
}

check_folder <- function(folder) {
  what <- "one folder, with its full path, that this machine and the hosts see"
  is_path <- function(x) is.character(x) && grepl("^[/~]", x)
  check_one(folder, "folder", is_path, what)
  if (is.null(folder)) tools::R_user_dir("clutch", "cache") else path.expand(folder)
}

# A number of seconds, or a text with units, as Slurm writes it: "days-hours:minutes:seconds". A
# text without units is minutes to Slurm, and seconds to most others: it is refused.
slurm_time <- function(time) {
  if (is.null(time)) return(NULL)
  is_time <- function(x) if (is.numeric(x)) x > 0 else is.character(x)
  check_one(time, "time", is_time, "a number of seconds, or a text such as \"2h\"")
  of_slurm <- "^([0-9]+-)?[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?$"
  if (is.character(time) && grepl(of_slurm, time)) return(time)
  seconds <- if (is.numeric(time)) time else seconds_of(time)
  if (is.na(seconds)) {
    text <- "`time` has to be a number of seconds, or a text such as '90min', '2h', '1-12:00:00'"
    throw("argument", text)
  }
  seconds <- ceiling(seconds)
  days <- seconds %/% 86400
  clock <- sprintf("%02d:%02d:%02d", as.integer(seconds %% 86400 %/% 3600),
                   as.integer(seconds %% 3600 %/% 60), as.integer(seconds %% 60))
  if (days > 0) sprintf("%.0f-%s", days, clock) else clock
}

# "1d12h", "90 min": seconds, or NA.
seconds_of <- function(text) {
  text <- gsub("[[:space:]]", "", text)
  units <- c(d = 86400, h = 3600, m = 60, min = 60, s = 1, sec = 1)
  if (!grepl("^([0-9.]+(d|h|min|m|sec|s))+$", text)) return(NA_real_)
  parts <- regmatches(text, gregexpr("[0-9.]+[a-z]+", text))[[1L]]
  numbers <- suppressWarnings(as.numeric(sub("[a-z]+$", "", parts)))
  sum(numbers * units[sub("^[0-9.]+", "", parts)])
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
  c("srun", "--overlap", "--no-kill", paste0("--cpus-per-task=", x$each[[1L]]),
    paste0("--nodes=", n), paste0("--ntasks=", n), "--ntasks-per-node=1",
    paste0("--job-name=", x$name), if (!is.null(x$time)) paste0("--time=", x$time),
    "--kill-on-bad-exit=0", "--wait=0", "--mpi=none", "--export=ALL", "--label", x$options,
    command)
}

# A job outside of an allocation. `folder`: with the file of the job.
sbatch_command <- function(x, folder) {
  n <- length(x$each)
  size <- if (is.null(x$workers)) paste0("--nodes=", n) else c(paste0("--array=1-", n), "--nodes=1")
  c("sbatch", "--parsable", paste0("--job-name=", x$name), size, "--ntasks-per-node=1",
    paste0("--cpus-per-task=", x$each[[1L]]), if (!is.null(x$time)) paste0("--time=", x$time),
    paste0("--output=", file.path(folder, "%j.log")), x$options, file.path(folder, "job.sh"))
}

# The lines of job.sh.
slurm_script <- function(x, command) {
  step <- c("srun", "--no-kill", paste0("--cpus-per-task=", x$each[[1L]]), "--kill-on-bad-exit=0",
            "--wait=0", "--mpi=none", "--export=ALL", "--label", command)
  c("#!/bin/sh", paste("exec", shell_words(step)))
}

# ---- what srun prints ----

# Of a task that has ended: on which hosts, which tasks, how.
task_ended <- "^srun: error: ([^ ]+): tasks? ([0-9,-]+): (.*)"

# `lines` of a step with --label: those of task `number`, from 0 on, and those of no task. Not how
# tasks have ended, see srun_says().
printed_by_task <- function(lines, number) {
  lines <- grep(task_ended, lines, value = TRUE, invert = TRUE)
  of_task <- grepl("^ *[0-9]+: ", lines)
  mine <- grepl(sprintf("^ *%d: ", number), lines)
  sub("^ *[0-9]+: ", "", lines[mine | !of_task])
}

# How that task has ended on its host, in srun's words; none: it has not, as far as srun says.
srun_says <- function(lines, number) {
  ends <- grep(task_ended, lines, value = TRUE)
  tasks <- sub(task_ended, "\\2", ends)
  own <- vapply(tasks, function(range) number %in% numbers_of_range(range), NA)
  sub(task_ended, "on \\1: \\3", ends[own])
}

exit_code_of <- function(said) {
  if (!grepl("exit code [0-9]+", said[[1L]])) return(-1L)
  as.integer(sub(".*exit code ([0-9]+).*", "\\1", said[[1L]]))
}

# "0-2,5"
numbers_of_range <- function(range) {
  ends <- lapply(strsplit(strsplit(range, ",", fixed = TRUE)[[1L]], "-", fixed = TRUE), as.integer)
  unlist(lapply(ends, function(e) seq(e[[1L]], e[[length(e)]])))
}
