# One fork server on each of several hosts: by ssh, Slurm, or a command of the user's. See hosts.R
# for the descriptions, node-host.R for what runs there.

hosts_launcher <- function() {
  new_launcher(plan = plan_hosts, show = show_hosts)
}

# Besides what all plans have:
#   launch      the description
#   host_of     for each node the number of its host
#   launches    what is run, see launches_of()
#   methods, node_env, nice  of make_cluster()
plan_hosts <- function(request) {
  if (!request$strategy %in% c("fork_server", "spawn")) {
    text <- "strategy \"%s\" is not for nodes of %s: it is \"fork_server\", or \"spawn\""
    throw("argument", sprintf(text, request$strategy, launch_call(request$launch)))
  }
  info <- new_plan(request, "hosts")
  x <- request$launch
  info$libraries <- NULL # those of this machine
  info$launch <- x
  info$host_of <- rep(seq_along(x$each), x$each)
  info$methods <- request$methods
  info$node_env <- request$env
  info$nice <- request$renice
  info$launches <- launches_of(x, info$methods)
  info
}

launch_call <- function(x) switch(x$kind, ssh = "hosts()", slurm = "slurm()", "launcher()")

# What starts the fork servers, as a list of
#   argv    command and arguments
#   hosts   numbers of the hosts that it starts
#   secret  "stdin", or "file": `settings` in the folder of the cluster, which hosts see, too
#   script  lines of the file job.sh in that folder, or NULL
# `folder`, `port`: what is not known yet has the name of what it will be.
launches_of <- function(x, methods, folder = "<folder>", port = "<port>") {
  by_stdin <- remote_command(x$r, host_code(), methods)
  by_file <- remote_command(x$r, host_code(file.path(folder, "settings")), methods)
  all <- seq_along(x$each)
  if (x$kind == "ssh") {
    return(lapply(all, function(k) {
      list(argv = ssh_command(x, k, by_stdin, port), hosts = k, secret = "stdin")
    }))
  }
  if (x$kind == "slurm" && !is.null(x$job)) {
    return(list(list(argv = srun_command(x, by_stdin), hosts = all, secret = "stdin")))
  }
  if (x$kind == "slurm") {
    script <- slurm_script(x, by_file)
    argv <- sbatch_command(x, folder)
    return(list(list(argv = argv, hosts = all, secret = "file", script = script)))
  }
  command <- if (x$secret == "stdin") by_stdin else by_file
  lapply(all, function(k) {
    script <- if (grepl("{script}", x$template, fixed = TRUE)) {
      c("#!/bin/sh", paste("exec", shell_words(command)))
    }
    list(argv = c("sh", "-c", template_line(x, k, command, folder)), hosts = k, secret = x$secret,
         script = script)
  })
}

# What R evaluates there. `file`: with the settings; they are on standard input otherwise.
host_code <- function(file = NULL) {
  sprintf("clutch:::host_main(%s)", if (is.null(file)) "" else deparse1(file))
}

# -T: no terminal, whatever the user's configuration says. With -R ssh carries connections to the
# session's port from the host itself.
ssh_command <- function(x, k, command, port) {
  tunnel <- if (!isFALSE(x$tunnel)) c("-R", sprintf("%s:localhost:%s", port, port))
  c(x$ssh, "-T", tunnel, x$hosts[[k]], paste("exec", shell_words(command)))
}

# ---- dry run ----

show_hosts <- function(info) {
  x <- info$launch
  listen <- if (identical(x$listen, 0L)) "a free one" else x$listen[[1L]]
  to_file <- any(vapply(info$launches, function(l) l$secret == "file", NA))
  c(
    launch_text(x),
    sprintf("the session listens at port <port>, %s", listen),
    if (to_file) paste("<folder> is a new one in", x$folder),
    if (length(info$node_env)) paste("nodes with", variable_text(info$node_env)),
    if (length(info$packages)) paste("attaches", paste(info$packages, collapse = ", ")),
    unlist(lapply(info$launches, show_launch, x))
  )
}

show_launch <- function(launch, x) {
  hosts <- paste(utils::head(x$hosts[launch$hosts], 3L), collapse = ", ")
  more <- length(launch$hosts) - 3L
  c(
    sprintf("for %s%s:", hosts, if (more > 0L) sprintf(" and %d more", more) else ""),
    paste(" ", if (x$kind == "template") launch$argv[[3L]] else shell_words(launch$argv)),
    if (!is.null(launch$script)) c("  with <folder>/job.sh:", paste("   ", launch$script)),
    if (launch$secret == "stdin") {
      "  gets the secret and the session's addresses on its standard input"
    } else {
      "  gets the secret and the session's addresses from <folder>/settings, readable by this user"
    }
  )
}
