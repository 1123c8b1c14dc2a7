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

# The allocation in which this process runs: job, number of hosts, processors of each. NULL: none.
slurm_allocation <- function() {
  job <- Sys.getenv("SLURM_JOB_ID")
  if (!nzchar(job)) return(NULL)
  number <- function(name) {
    x <- suppressWarnings(as.integer(sub("[^0-9].*", "", Sys.getenv(name))))
    if (is.na(x)) NULL else x
  }
  list(job = job, nodes = number("SLURM_JOB_NUM_NODES"), cores = number("SLURM_JOB_CPUS_PER_NODE"))
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
# --overlap: beside steps that have all processors; --no-kill: a host that fails is not the end of
# the others; --cpus-per-task: else the step has one processor.
srun_command <- function(x, command) {
  n <- length(x$each)
  c("srun", paste0("--nodes=", n), paste0("--ntasks=", n), "--ntasks-per-node=1",
    paste0("--cpus-per-task=", x$each[[1L]]), "--overlap", "--no-kill",
    paste0("--job-name=", x$name), if (!is.null(x$time)) paste0("--time=", x$time), x$options,
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
  step <- c("srun", "--no-kill", paste0("--cpus-per-task=", x$each[[1L]]), command)
  c("#!/bin/sh", paste("exec", shell_words(step)))
}
