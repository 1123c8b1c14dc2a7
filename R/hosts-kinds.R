# Kinds of hosts: by what the fork servers on other hosts are started, and how another kind is
# added.
#
# A kind is a list of functions and values, made by new_host_kind(), which has the defaults: a kind
# says what is different. `x` is a description of hosts-describe.R, `info` a cluster, whose plan has
# this list as `kind`, `k` the number of a host, `launch` one of commands(), `command` what was run
# for the host, an element of info$remote$commands.
#
#   by                  what starts the hosts, for people
#   has_names           TRUE: the hosts are known by their names before they have come
#   leaves              TRUE: what the command starts may go on when the command has ended
#   ends_itself         TRUE: the command sees to the end of what it has started, and gets time for
#                       that; FALSE: it is ended when its hosts were told to end
#
# These say what is run:
#   commands(x, host_command, folder, port, of)  the commands that start these hosts, a list of
#                       launches as below. `host_command(file)` makes that of R there, for a file
#                       with settings, or for none. `folder` and `port`: what is not known yet has
#                       the name of what it will be. `of`: numbers of hosts, where each has a
#                       command of its own
#   parents(x)          for each host the number of the one that starts it; 0: this session
#   address(x)          where hosts find this session, besides x$address and its name
#   tunnels(x)          hosts to which ssh may carry connections
#   environment(x, env) the variables of the command; `env`: those of the session
#   prepare(info, launch)  writes further files that the command needs
#   shown(launch)       the command, as a line of a dry run
#   watch_text(launch)  what ends an R that cannot connect, as a line of a dry run
#
# While hosts are awaited:
#   poll(info)          finds out about jobs. An error where they wait for too long
#   queued(info)        seconds for which jobs have waited in a queue: they do not count as start
#   started(info)       the start is over, however it has ended
#   will_not_come(info, k, command)   whether the command says so, while it runs
#   may_print(info, k, command)       whether it may still print why a host has failed
#   failure(info, k, command, printed)  list(why, i, printed), or less of it: what is known besides
#                       how the command has ended
#
# While the cluster is there:
#   attend(t)           the cluster gets its scheduler: what hosts want of each of its steps, see
#                       manager_of() in task-jobs.R; NULL: nothing
# and where it may grow, see resize-size.R:
#   ask(info)           finds out about the jobs of hosts that were asked for
#   waits_too_long(info, k)  says so, where a host has waited in a queue for too long; or NULL
#   began(info, k)      when the host's job was seen not to wait any more, by clock(); or NULL
#   asks_together       TRUE: one command can ask for many hosts, and to run it is dear
#
# A launch is a list of
#   argv      command and arguments
#   hosts     numbers of the hosts that it starts
#   delivery  by_input or by_file of hosts-delivery.R: how hosts get their settings
#   watched   TRUE: the first line that it gets is watched_start(), and its standard input has no
#             end before the session's. Else NULL
#   tells_end TRUE: it ends when all that it has started has ended. Else NULL
#   rank      the variable that has the number of the host there; NULL: there is one host only
#   settings, job  names of files in the folder of the cluster, with what a host is told, and with a
#             script
#   script    lines of the script, or NULL
#   printed   the file there in which is what the job has printed; NULL: job.log
#   cancel    lines of a shell that cancel job "$job", which is what the command has printed; NULL:
#             there is no job that outlives the command
#   cancel_some  lines of a shell that cancel the tasks "$some" of array "$job", where each host is
#             a task of it, from 0 on; "%a" in `printed` is its number. NULL: it is no array
#
# To write one: a room <name>-*.R with a function for users, which makes a description by
# new_hosts("<name>", ...), and with these functions. It adds the kind by add_kind(), and gets a
# row in tools/lint-r.R: no other room names it.

host_kind_of <- function(x) kind_named("host", x$kind)

# The value is what is run for a description, see commands() above.
launches_of <- function(x, methods, folder = "<folder>", port = "<port>",
                        of = seq_along(x$each)) {
  commands_of(host_kind_of(x), x, methods, folder, port, of)
}

# ---- how descriptions are printed ----

#' @export
print.clutch_hosts <- function(x, ...) {
  cat(hosts_text(x, host_kind_of(x)), "\n", sep = "")
  invisible(x)
}

hosts_text <- function(x, kind) {
  n <- length(x$each)
  nodes <- paste(range_text(min(x$each), max(x$each)), "on each")
  if (!is.null(x$least)) {
    first <- sum(x$each[first_hosts(x)])
    text <- "%s by %s, a job each, as there is work; nodes: %s, %s"
    return(sprintf(text, hosts_count(x$least, n), kind$by, range_text(first, sum(x$each)), nodes))
  }
  names <- if (kind$has_names) named_hosts(x$hosts) else ""
  sprintf("%s by %s%s; nodes: %d, %s", hosts_count(n, n), kind$by, names, sum(x$each), nodes)
}

range_text <- function(from, to) if (from == to) to else paste(from, "to", to)
hosts_count <- function(from, to) paste(range_text(from, to), if (to == 1L) "host" else "hosts")

# ": alpha, beta", the first five.
named_hosts <- function(names) {
  text <- paste0(": ", paste(utils::head(names, 5L), collapse = ", "))
  if (length(names) > 5L) paste0(text, ", ...") else text
}
