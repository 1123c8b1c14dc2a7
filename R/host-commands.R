# The commands that start the fork servers of other hosts, made of a description of hosts.R.

# What starts the fork servers, as a list of
#   argv    command and arguments
#   hosts   numbers of the hosts that it starts
#   secret  "stdin", or "file": `settings` in the folder of the cluster, which hosts see, too
#   watched TRUE: the first line that it gets is WATCHED_START, and its standard input has no end
#           before the session's. Else NULL
#   rank    the variable that has the number of the host there; NULL: there is one host only
#   settings, job  names of files in that folder, with what a host is told, and with a script
#   script  lines of the script, or NULL
#   printed the file there in which is what the job has printed; NULL: job.log
#   cancel  lines of a shell that cancel job "$job", which is what the command has printed; NULL:
#           there is no job that outlives the command
# `folder`, `port`: what is not known yet has the name of what it will be. `of`: numbers of hosts,
# where each has a command of its own.
launches_of <- function(x, methods, folder = "<folder>", port = "<port>",
                        of = seq_along(x$each)) {
  code <- function(file) host_code(if (!is.null(file)) file.path(folder, file), x$r$lib)
  command <- function(file = NULL) remote_command(x$r, code(file), methods)
  all <- seq_along(x$each)
  if (x$kind == "ssh") {
    return(lapply(of, function(k) {
      list(argv = ssh_command(x, k, command(), port), hosts = k, secret = "stdin", watched = TRUE)
    }))
  }
  if (x$kind == "slurm" && !is.null(x$job)) {
    return(list(list(argv = srun_command(x, command()), hosts = all, secret = "stdin",
                     rank = "SLURM_PROCID")))
  }
  if (x$kind == "slurm" && !is.null(x$least)) {
    return(lapply(of, function(k) slurm_job_for(x, k, command, folder)))
  }
  if (x$kind == "slurm") {
    return(list(list(argv = sbatch_command(x, folder), hosts = all, secret = "file",
                     rank = "SLURM_PROCID", settings = "settings", job = "job.sh",
                     script = slurm_script(x, command("settings")), cancel = slurm_cancel)))
  }
  lapply(of, function(k) {
    settings <- if (x$secret == "file") sprintf("settings-%d", k)
    job <- sprintf("job-%d.sh", k)
    run <- command(settings)
    watched <- if (x$secret == "stdin") TRUE
    run <- if (isTRUE(watched)) {
      run_watched(run)
    } else {
      c("sh", file.path(folder, c(WATCHED_FILE, settings)), run)
    }
    script <- if (grepl("{script}", x$template, fixed = TRUE)) {
      c("#!/bin/sh", paste("exec", shell_words(run)))
    }
    line <- template_line(x, k, run, file.path(folder, job))
    cancel <- if (!is.null(x$cancel)) gsub("{job}", "\"$job\"", x$cancel, fixed = TRUE)
    list(argv = c("sh", "-c", line), hosts = k, secret = x$secret, watched = watched,
         settings = settings, job = job, script = script, cancel = cancel)
  })
}

# A job for host `k` alone. `command`: makes that of R, for a file with the settings.
slurm_job_for <- function(x, k, command, folder) {
  name <- sprintf("job-%d", k)
  settings <- sprintf("settings-%d", k)
  x$each <- x$each[[k]]
  list(argv = sbatch_command(x, folder, name), hosts = k, secret = "file", settings = settings,
       job = paste0(name, ".sh"), script = slurm_script(x, command(settings)),
       printed = paste0(name, ".log"), cancel = slurm_cancel)
}

# What R evaluates there. `file`: with the settings; they are on standard input otherwise.
# `lib`: the library there in which this package is; NULL: R there finds it.
host_code <- function(file = NULL, lib = NULL) {
  call <- sprintf("host_main(%s)", if (is.null(file)) "" else deparse1(file))
  if (is.null(lib)) return(paste0("clutch:::", call))
  sprintf("loadNamespace(\"clutch\", lib.loc = %s)$%s", deparse1(lib), call)
}

# -T: no terminal, whatever the user's configuration says. The shell there waits for R, and so ssh
# says how R has ended: of a command that was killed it only says 255, as of a connection that it
# has lost. Every shell knows `exit`. With -R ssh carries connections to the session's port from the
# host itself.
ssh_command <- function(x, k, command, port) {
  tunnel <- if (!isFALSE(x$tunnel)) c("-R", sprintf("%s:127.0.0.1:%s", port, port))
  c(x$ssh, "-T", tunnel, x$hosts[[k]], paste0(shell_words(run_watched(command)), "; exit"))
}
