# A real Slurm for tests, on this machine: see fixtures/slurm.sh.

# Why there can be none here, or NULL.
why_no_slurm <- function() {
  if (!identical(Sys.info()[["sysname"]], "Linux")) return("Slurm's nodes are made of Linux")
  if (Sys.info()[["effective_user"]] != "root") return("Slurm's nodes are made by root")
  programs <- c("slurmctld", "slurmd", "srun", "sbatch", "salloc", "scancel", "scontrol", "sinfo",
                "unshare", "setpriv", "nsenter", "bash")
  missing <- programs[!nzchar(Sys.which(programs)) & !file.exists(file.path("/usr/sbin", programs))]
  if (length(missing)) return(paste("not installed:", paste(missing, collapse = ", ")))
  NULL
}

slurm_or_skip <- function() {
  outside_checks_only()
  why <- c(no_slurm$why, why_no_slurm())
  if (!is.null(why)) testthat::skip(why[[1L]])
  slurm <- start_slurm()
  if (!is.character(slurm)) return(slurm)
  no_slurm$why <- slurm # to find that out takes half a minute
  testthat::skip(slurm)
}
no_slurm <- new.env()

# list(folder, conf, watcher, inside), or why there is none.
#   conf     Slurm's commands find it by the environment variable SLURM_CONF, which is set
#   watcher  pid of who ends everything, at the latest when this session has ended
#   inside   a process in whose name space of processes all jobs are
start_slurm <- function() {
  folder <- tempfile("slurm-")
  dir.create(folder, mode = "0755")
  ok <- FALSE
  on.exit(if (!ok) unlink(folder, recursive = TRUE))
  f <- function(name) file.path(folder, name)
  for (try in 1:3) { # somebody else may take a port that was free
    write_slurm_conf(folder)
    script <- c(file.path(fixtures, "slurm.sh"), "watch", folder, Sys.getpid())
    # a session of its own: what ends the test's process group ends the test, and then this
    command <- sprintf("setsid bash %s > %s 2>&1 < /dev/null & echo $! > %s",
                       paste(shQuote(script), collapse = " "), shQuote(f("log")), shQuote(f("pid")))
    system(command)
    watcher <- as.integer(readLines(f("pid")))
    eventually(file.exists(f("ready")) || !alive(watcher), 60)
    if (file.exists(f("ready"))) {
      ok <- TRUE
      Sys.setenv(SLURM_CONF = f("slurm.conf"))
      return(list(folder = folder, conf = f("slurm.conf"), watcher = watcher,
                  inside = as.integer(readLines(f("inside.pid")))))
    }
    tools::pskill(watcher)
    eventually(!alive(watcher))
  }
  logs <- unlist(lapply(f(c("log", "slurmctld.log", "slurmd.n1.log")), function(file) {
    if (file.exists(file)) utils::tail(readLines(file, warn = FALSE), 4L)
  }))
  paste(c("no Slurm can be started here:", logs), collapse = "\n")
}

stop_slurm <- function(slurm) {
  tools::pskill(slurm$watcher)
  ended <- eventually(!alive(slurm$watcher))
  Sys.unsetenv("SLURM_CONF")
  unlink(slurm$folder, recursive = TRUE)
  ended
}

# Jobs of partition "low" make room for those of "high".
write_slurm_conf <- function(folder) {
  f <- function(name) file.path(folder, name)
  unlink(list.files(folder, full.names = TRUE), recursive = TRUE)
  for (name in c("state", "spool.n1", "spool.n2")) dir.create(f(name))
  ports <- c(dead_port(), dead_port(), dead_port())
  node <- "NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=8 RealMemory=1000"
  writeLines(c(
    "ClusterName=test", "SlurmctldHost=ctl(127.0.0.1)", sprintf("SlurmctldPort=%d", ports[[1L]]),
    "SlurmUser=root", "AuthType=auth/none", "CredType=cred/none",
    "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none",
    "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none",
    "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU",
    "SlurmdParameters=config_overrides",
    "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny", "ReturnToService=2", "KillWait=2",
    "PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", "MinJobAge=600",
    "SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000", "SlurmctldDebug=info",
    "SlurmdDebug=info", paste0("StateSaveLocation=", f("state")),
    paste0("SlurmdSpoolDir=", f("spool.%n")), paste0("SlurmdPidFile=", f("slurmd.%n.pid")),
    paste0("SlurmctldPidFile=", f("slurmctld.pid")), paste0("SlurmdLogFile=", f("slurmd.%n.log")),
    paste0("SlurmctldLogFile=", f("slurmctld.log")), paste0("TaskProlog=", f("prolog.sh")),
    sprintf(node, c("n1", "n2"), c("n1", "n2"), ports[-1L]),
    "PartitionName=low Nodes=n1,n2 Default=YES MaxTime=60 State=UP PriorityTier=1",
    "PartitionName=high Nodes=n1,n2 MaxTime=60 State=UP PriorityTier=10"
  ), f("slurm.conf"))
  writeLines("CgroupPlugin=cgroup/v1", f("cgroup.conf"))
  # temporary folders of a job: an R that Slurm kills leaves its own
  writeLines(c("#!/bin/sh", sprintf("dir=%s.$SLURM_JOB_ID", f("tmp")), "mkdir -p $dir",
               "echo export TMPDIR=$dir"), f("prolog.sh"))
  Sys.chmod(f("prolog.sh"), "755")
}

# What is left in a job's temporary folder, which is there if it had any task.
temporary_files_of <- function(slurm, job) {
  folder <- file.path(slurm$folder, paste0("tmp.", job))
  if (dir.exists(folder)) list.files(folder) else "there is no such folder"
}

# What one of Slurm's commands says: lines.
of_slurm <- function(command, ...) {
  suppressWarnings(system2(command, shQuote(c(...)), stdout = TRUE, stderr = TRUE))
}

# Processes of jobs on both nodes, as lines. Not of those that have "limit" as their name, or as an
# argument of R.
processes_of_jobs <- function(slurm) {
  lines <- of_slurm("nsenter", "-t", slurm$inside, "-p", "-m", "ps", "-e", "-o", "args=")
  grep("slurm(ctld|d|stepd|scriptd)|slurm\\.sh|^ps -e|limit", lines, value = TRUE, invert = TRUE)
}

# This session is in an allocation from now on, as if salloc had started it, until `env` is left.
# Its number.
in_allocation <- function(..., env = parent.frame()) {
  said <- of_slurm("salloc", "--no-shell", ...)
  job <- sub(".*job allocation ([0-9]+).*", "\\1", grep("job allocation", said, value = TRUE)[1L])
  if (is.na(job)) stop(paste(said, collapse = "\n"))
  size <- of_slurm("squeue", "-h", "-j", job, "-o", "%D %C")
  size <- as.integer(strsplit(trimws(size), " +")[[1L]])
  cpus <- sprintf("%d(x%d)", size[[2L]] %/% size[[1L]], size[[1L]])
  Sys.setenv(SLURM_JOB_ID = job, SLURM_JOB_NUM_NODES = size[[1L]], SLURM_JOB_CPUS_PER_NODE = cpus)
  leave <- function() {
    Sys.unsetenv(c("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_JOB_CPUS_PER_NODE"))
    of_slurm("scancel", job)
    # the next test sees only its own
    gone <- eventually(!length(of_slurm("squeue", "-h", "-j", job)))
    if (!gone) warning("job ", job, " does not end")
  }
  do.call(on.exit, list(as.call(list(leave)), add = TRUE), envir = env)
  job
}

jobs_of_slurm <- function() {
  grep(" limit ", of_slurm("squeue", "-h", "-o", "%i %j %T"), value = TRUE, invert = TRUE)
}
