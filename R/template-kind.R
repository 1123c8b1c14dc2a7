# Nodes on hosts that a command of the user's starts: SGE, PBS, LSF, Kubernetes, docker. A
# description as those of hosts-describe.R, and a kind as those of hosts-kinds.R.

#' Nodes on hosts that a command of yours starts
#'
#' Describes hosts for [make_cluster()] that some scheduler or tool starts: SGE, PBS, LSF,
#' Kubernetes, docker. A line for a shell is run once for each host. The R that it starts becomes
#' the fork server of that host, as with [hosts()], and connects back to this session.
#'
#' In the template these are replaced:
#' * `{command}`: the command that is to run there, as words for a shell.
#' * `{script}`: the name of a file in `folder` that runs it, for schedulers that take a script.
#' * `{host}`: the number of the host, from 1 on.
#' * `{each}`: number of nodes there.
#' * `{name}`: a name for the job.
#'
#' The template's command may end at once, as `qsub` does, and one that starts the other in the
#' background. If it ends with another status than 0, that host does not come. For Slurm there is
#' [slurm()].
#'
#' R there may not get as far as to connect, as in a profile that does not end. It is ended when the
#' session is, within 2 s as a rule: with `secret = "stdin"` when its standard input ends, else when
#' the file that it is to read is gone.
#'
#' @param template String: a line for a shell with `{command}` or `{script}` in it.
#' @param hosts Number of hosts: so often it is run.
#' @param each Number of nodes on each host, or one number for each. With `nodes` one number.
#' @param ... Not used. What is misspelt is an error.
#' @param nodes Two numbers, `c(2, 100)` or `2:100`: in place of `hosts`, the least and the most
#'   nodes of the cluster, see *A cluster that grows and shrinks*.
#' @param idle Number of seconds, or string such as `"10min"`: with `nodes`, after this time without
#'   work a host ends.
#' @param secret `"file"`: what the host has to know to connect is in a file in `folder`, which only
#'   this user can read and which is removed when all hosts have connected. `"stdin"`: it is on the
#'   standard input of the template's command, which passes it on and stays, as `srun` and
#'   `docker exec -i` do; no file is needed. When that ends before R there has connected, as it does
#'   with the session, R there is ended, too, within 2 s.
#' @param cancel String: a line for a shell that cancels a job, such as `"qdel {job}"`. `{job}` is
#'   the last line that the template's command has printed. `{host}`, `{each}` and `{name}` are
#'   replaced as in the template. It is run when the cluster is stopped, when its start fails, when
#'   a host is not needed any more, and when the session has ended.
#' @param name String: what `{name}` is.
#' @param wait Number of seconds, or string such as `"2h"`: how much longer than `setup_timeout` of
#'   [make_cluster()] the hosts may take, because their jobs wait in a queue.
#' @inheritParams slurm
#' @return Object of class `clutch_hosts`, to be given to [make_cluster()] or [launch_plan()].
#'
#' @section A cluster that grows and shrinks:
#' With `nodes = c(2, 100)` the template is run for a host when there is work for it, and the host
#' ends when it had nothing to do for `idle`. The rules are those of [slurm()] with `nodes`, in its
#' section of the same name, but that there is no array: the template is run for each host, for 8 at
#' a time, or for as many as hosts are there. A host that does not come within `setup_timeout` and
#' `wait` is given up: its job is cancelled, and the next one is asked for after a pause.
#'
#' @section When a host is ended from outside:
#' Schedulers end a job at its time limit, or to make room for another one, by SIGTERM to its
#' processes. Then elements and tasks that were on that host fail with an error of class
#' `clutch_task_died` whose `cause` is `"terminated"`. With `.retries` they are started again on
#' other hosts, and this start does not count. With `nodes` another host is asked for. What ends R
#' there in another way (SIGKILL, a host that is switched off) is a death as any other.
#'
#' @section Recipes:
#' Lines for tools that many people have. Each has to be adapted to the place: the image needs R and
#' this package, and hosts have to reach this machine, see `address` and `listen`.
#'
#' ```r
#' # SGE
#' hosts_command("qsub -terse -cwd -N {name} -pe smp {each} {script}", cancel = "qdel {job}",
#'               nodes = c(8, 80), each = 8, wait = "1h", folder = "/shared/me")
#' # PBS
#' hosts_command("qsub -N {name} -l ncpus={each} {script}", cancel = "qdel {job}",
#'               nodes = c(8, 80), each = 8, wait = "1h", folder = "/shared/me")
#' # Kubernetes
#' hosts_command(paste("kubectl run {name}-{host} --image=my/image --restart=Never --rm -i -q",
#'                     "-- {command}"),
#'               cancel = "kubectl delete pod {name}-{host} --wait=false",
#'               nodes = c(2, 40), each = 2, secret = "stdin")
#' # podman, or docker
#' hosts_command("podman run --rm -i --network=host --name {name}-{host} my/image {command}",
#'               cancel = "podman rm -f {name}-{host}", hosts = 2, each = 4, secret = "stdin")
#' # AWS Batch
#' hosts_command(paste("aws batch submit-job --job-name {name}-{host} --job-queue my-queue",
#'                     "--job-definition my-definition",
#'                     "--container-overrides command=sh,{script} --query jobId --output text"),
#'               cancel = "aws batch terminate-job --job-id {job} --reason idle",
#'               nodes = c(2, 40), each = 2, wait = "15min", folder = "/efs/me")
#' ```
#'
#' Those with `-i` pass standard input on: they take `secret = "stdin"`. The others need a `folder`
#' that their hosts see.
#'
#' @section Errors: `clutch_argument`: an argument is of no use. [make_cluster()] signals
#'   `clutch_start`, with element `hosts`, when some do not come: it says what was run, what that
#'   printed, and what to try. All have class `clutch_error`.
#' ```r
#' tryCatch(
#'   make_cluster(hosts_command("qsub -cwd {script}", hosts = 4, cancel = "qdel {job}")),
#'   clutch_start = function(e) message(conditionMessage(e))
#' )
#' ```
#' @seealso [make_cluster()], [launch_plan()], [hosts()], [slurm()]
#' @examplesIf .Platform$OS.type == "unix"
#' launch_plan(hosts_command("qsub -N {name} -pe smp {each} {script}", hosts = 2, each = 8,
#'                           cancel = "qdel {job}"))
#' launch_plan(hosts_command("docker exec -i box{host} {command}", hosts = 2, secret = "stdin"))
#' launch_plan(hosts_command("qsub -terse -pe smp {each} {script}", nodes = c(8, 80), each = 8,
#'                           cancel = "qdel {job}", wait = "1h"))
#' \dontrun{
#' # on this machine, in the background
#' cl <- make_cluster(hosts_command("nohup {command} > /dev/null 2>&1 &", each = 2))
#' stop_cluster(cl)
#' }
#' @export
hosts_command <- function(template, hosts = 1L, each = 1L, ..., nodes = NULL, idle = "1min",
                          secret = c("file", "stdin"), cancel = NULL, name = "clutch", wait = 0,
                          folder = NULL, rscript = "Rscript", rscript_args = character(),
                          env = NULL, modules = NULL, setup = NULL, address = NULL, listen = 0L,
                          tls = TRUE) {
  no_others("hosts_command", list(...), names(formals()))
  given(template, "template")
  is_template <- function(x) is.character(x) && grepl("{command}|{script}", x, perl = TRUE)
  what <- "one string that has {command} or {script} in it"
  check_needed(template, "`template`", is_template, what)
  check_one(cancel, "`cancel`", is.character, "one string")
  if (!is.null(nodes) && !missing(hosts)) check_no_hosts(hosts)
  size <- template_size(hosts, nodes, each)
  new_hosts(
    "template", "hosts_command", sprintf("host %d", seq_along(size$each)), size$each,
    remote_r(rscript, rscript_args, env, modules, setup), address, listen, tls,
    least = size$least, idle = if (!is.null(nodes)) check_seconds(idle, "`idle`"),
    template = template, secret = check_choice(secret, "`secret`", c("file", "stdin")),
    cancel = cancel, name = check_needed(name, "`name`", is_word, "one word"),
    wait = if (identical(wait, 0)) 0 else check_seconds(wait, "`wait`"),
    folder = check_folder(folder)
  )
}

# list(each, least): number of nodes on each host, and of hosts at first, if there may be more.
template_size <- function(hosts, nodes, each) {
  if (!is.null(nodes)) {
    size <- host_bounds(nodes, each)
    return(list(each = rep(size$each, size$hosts), least = size$least))
  }
  check_needed(hosts, "`hosts`", is_whole, "a number of hosts, 1 or more")
  list(each = check_each(each, hosts))
}

# The line for host number `k`. What is put in for one word is not looked at for others. `...`:
# words besides those of the host.
template_line <- function(line, x, k, ...) {
  values <- c(host = format(k), each = format(x$each[[k]]), name = x$name, ...)
  at <- gregexpr(sprintf("[{](%s)[}]", paste(names(values), collapse = "|")), line)
  words <- regmatches(line, at)[[1L]]
  regmatches(line, at) <- list(unname(values[substr(words, 2L, nchar(words) - 1L)]))
  line
}

# ---- the kind, see hosts-kinds.R ----

template_kind <- function() {
  new_host_kind(
    by = "a command of the user's",
    commands = template_commands,
    leaves = TRUE,
    prepare = write_watched_script,
    shown = template_shown,
    watch_text = template_watch_text,
    queued = template_wait,
    will_not_come = template_will_not_come,
    began = template_waited,
    attend = attend_template
  )
}
add_kind("host", "template", template_kind)

template_commands <- function(x, host_command, folder, port, of) {
  launch_for <- switch(x$secret, file = template_by_file, stdin = template_by_input)
  lapply(of, function(k) launch_for(x, k, host_command, folder))
}

template_by_input <- function(x, k, host_command, folder) {
  launch <- template_launch(x, k, run_watched(host_command()), folder)
  c(launch, list(delivery = by_input, watched = TRUE))
}

template_by_file <- function(x, k, host_command, folder) {
  settings <- sprintf("settings-%d", k)
  run <- c("sh", file.path(folder, c(WATCHED_FILE, settings)), host_command(settings))
  launch <- template_launch(x, k, run, folder)
  c(launch, list(delivery = by_file, settings = settings))
}

# `run`: what starts R there.
template_launch <- function(x, k, run, folder) {
  job <- sprintf("job-%d.sh", k)
  script <- if (grepl("{script}", x$template, fixed = TRUE)) {
    c("#!/bin/sh", paste("exec", shell_words(run)))
  }
  path <- file.path(folder, job)
  if (!startsWith(path, "<folder>")) path <- shell_words(path) # else not known yet
  line <- template_line(x$template, x, k, command = shell_words(run), script = path)
  cancel <- if (!is.null(x$cancel)) template_line(x$cancel, x, k, job = "\"$job\"")
  list(argv = c("sh", "-c", line), hosts = k, job = job, script = script, cancel = cancel)
}

# By file R there has a watcher, too.
write_watched_script <- function(info, launch) {
  if (is.null(launch$settings)) return(invisible())
  writeLines(watched_script(), file.path(info$remote$folder, WATCHED_FILE))
}

template_shown <- function(launch) launch$argv[[3L]]

template_watch_text <- function(launch) {
  if (isTRUE(launch$watched)) return(watched_by(launch, "its standard input"))
  paste0("and is ended by <folder>/", WATCHED_FILE, " if that goes before it has connected")
}

# Nobody can be asked for how long they have waited.
template_wait <- function(info) info$plan$launch$wait

# When it counts as late from, in a cluster that grows.
template_waited <- function(info, k) command_of(info, k)$began + info$plan$launch$wait

# The command may be srun.
template_will_not_come <- function(info, k, command) {
  length(srun_says(printed_of(info, command, k), 0L)) > 0L
}

# ---- while the cluster is there ----

attend_template <- function(t) {
  .Call(ffi_tasks_ask, t$ptr, 0)
  manage_hosts(t, hear_of_terminated)
}

# Nodes that have ended as if their host would: when that was told to, their starts do not count.
hear_of_terminated <- function(t) {
  info <- t$info
  for (index in .Call(ffi_tasks_unclear, t$ptr)$ended) {
    is_excused <- is_terminated(info, info$host_of[[index]], was_terminated(info, index))
    .Call(ffi_tasks_word, t$ptr, index, !is_excused)
  }
  .Call(ffi_tasks_ask, t$ptr, 2)
}

TOLD_TO_END <- "it was told to end (SIGTERM)" # what src/core/link/far.h has the host say

# `may_be_ending`: one of its nodes has ended as if the host would.
is_terminated <- function(info, k, may_be_ending) {
  may_end <- may_be_ending || host_has_ended(info$remote$servers[[k]])
  until <- clock() + if (may_end) 1 else 0
  repeat {
    why <- status_of_hosts(info)$why[[k]]
    if (nzchar(why) || clock() >= until) break
    Sys.sleep(0.02)
  }
  if (!identical(why, TOLD_TO_END)) return(FALSE)
  text <- sprintf("host %s was told to end (SIGTERM)", name_of_host(info, k))
  set_end_of_host(info, format(k), list(cause = "terminated", text = text))
  TRUE
}
