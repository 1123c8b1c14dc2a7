# Hosts that are reached by ssh: their description, and what they are as a kind of hosts-kinds.R.

#' Nodes on other hosts, reached by ssh
#'
#' Describes hosts for [make_cluster()]. One ssh starts one R on each of them, which becomes the
#' fork server of that host. It connects back to this session. All nodes there are forked from it
#' and use that one connection. They are interrupted, limited, replaced and ended as nodes of this
#' machine are.
#'
#' ssh is the user's own, with its configuration, keys, agent, ports and jump hosts.
#' `ssh <host> true` has to work without a question. R and this package have to be on the host, in
#' the same version of the package. What else differs is said in one message: the version of R, the
#' platform, the locale, versions of `packages` and of packages that the session has attached.
#'
#' @param hosts Character vector: names of hosts, as ssh knows them, also `user@host`. One that
#'   comes twice has the nodes of both.
#' @param each Number of nodes on each host, or one number for each.
#' @param ... Not used. What is misspelt is an error.
#' @param rscript String: the program there, found on the PATH, or its full path.
#' @param rscript_args Character vector: more arguments for it.
#' @param env Named character vector: environment variables with which R starts there. They are on
#'   the command line, which other users can read. What is secret goes by `env` of [make_cluster()].
#' @param modules Character vector: environment modules to load before, as by `module load`.
#' @param setup Character vector: lines of shell to run before R, on the command line, too. If one
#'   fails, R is not started.
#' @param ssh Character vector: the program, and its first arguments.
#' @param user,port,jump Login, port and jump host, where ssh's configuration does not say them.
#' @param address Character vector: names of this machine, as the hosts know it. What ssh tells the
#'   host of its client is tried before them, and this machine's own name after them. IPv4 and IPv6.
#' @param listen Number: the port at which the session listens. 0, the default: a free one. Several:
#'   one of these.
#' @param tunnel Logical: whether ssh carries the connection from the host to the session. `NA`, the
#'   default: where the host cannot connect directly. With `TRUE` the session's port is open on this
#'   machine's loopback address only. What ssh carries ends with it: a cut that ssh does not survive
#'   is the loss of the host.
#' @param tls Logical: whether connections are encrypted, by TLS 1.3, with keys made for this
#'   session. Without, who sees the traffic sees all data, and who can change it can run code in the
#'   session and on the nodes.
#' @return Object of class `clutch_hosts`, to be given to [make_cluster()] or [launch_plan()].
#'
#' @section Many hosts:
#' 50 hosts and more are started as a tree. The session starts some of them, as many as the square
#' root of their number. Each of these starts its part of the others, by the same ssh command with
#' `BatchMode=yes`. So hosts should know each other's names, and an ssh key or a forwarded agent. A
#' host that is not there 10 s after the one that should start it is started from the session. With
#' `tunnel = TRUE` there is no tree.
#'
#' @section Who may connect:
#' Host and session prove to each other that they know the cluster's secret. It goes to the host on
#' the standard input of ssh. It is on no command line and in no environment variable.
#' A host that starts others gives it to their ssh by a file that only this user can read, and that
#' is removed when it has been opened.
#'
#' @section A start that fails: ssh runs a small program of the shell there, which starts R and ends
#' it when ssh ends before R is ready. So nothing is left there, also where a profile or `setup`
#' does not end. What these have started ends, too, where the host has the program `setsid`, as
#' Linux has.
#'
#' @section Errors: `clutch_argument`: an argument is of no use. [make_cluster()] signals
#'   `clutch_start`, with element `hosts`, when some do not come. It says what was run, what that
#'   printed, and what to try.
#' ```r
#' tryCatch(
#'   make_cluster(hosts(c("alpha", "beta"), each = 16)),
#'   clutch_start = function(e) message("did not come: ", toString(e$hosts))
#' )
#' ```
#' @seealso [make_cluster()], [launch_plan()], [cluster_hosts()]
#' @examplesIf .Platform$OS.type == "unix"
#' launch_plan(hosts(c("alpha", "beta"), each = 16))
#' launch_plan(hosts("cluster", each = 8, jump = "gate", modules = "R/4.4"))
#' \dontrun{
#' cl <- make_cluster(hosts(c("alpha", "beta"), each = 16))
#' cluster_map(cl, 1:100, function(i) i^2)
#' cluster_hosts(cl)
#' stop_cluster(cl)
#' }
#' @export
hosts <- function(hosts, each = 1L, ..., rscript = "Rscript", rscript_args = character(),
                  env = NULL, modules = NULL, setup = NULL, ssh = "ssh", user = NULL, port = NULL,
                  jump = NULL, address = NULL, listen = 0L, tunnel = NA, tls = TRUE) {
  no_others("hosts", list(...), names(formals()))
  given(hosts, "hosts")
  names <- check_host_names(hosts)
  each <- check_each(each, length(names))
  user <- check_one(user, "`user`", is_user_name, "the name of a user")
  port <- check_one(port, "`port`", is_one_port, "a number from 1 to 65535")
  jump <- check_one(jump, "`jump`", is_word, "a host, as for ssh's option -J")
  check_flag_or_na(tunnel, "`tunnel`")
  ssh <- check_strings(ssh, "`ssh`")
  if (!length(ssh)) has_to_be("`ssh`", "a command")
  new_hosts(
    "ssh", "hosts", unique(names), as.integer(tapply(each, factor(names, unique(names)), sum)),
    remote_r(rscript, rscript_args, env, modules, setup), address, listen, tls,
    ssh = c(ssh, if (!is.null(port)) c("-p", format(port)), if (!is.null(user)) c("-l", user),
            if (!is.null(jump)) c("-J", jump)),
    tunnel = tunnel
  )
}

# ---- the kind, see hosts-kinds.R ----

ssh_kind <- function() {
  new_host_kind(
    by = "ssh",
    commands = ssh_commands,
    has_names = TRUE,
    ends_itself = FALSE,
    parents = launch_parents,
    address = address_by_ssh,
    tunnels = tunnels_of_ssh,
    watch_text = ssh_watch_text
  )
}
add_kind("host", "ssh", ssh_kind)

ssh_commands <- function(x, host_command, folder, port, of) {
  lapply(of, function(k) {
    list(argv = ssh_command(x, k, host_command(), port), hosts = k, delivery = by_input,
         watched = TRUE, tells_end = TRUE)
  })
}

address_by_ssh <- function(x) if (may_tunnel(x)) "127.0.0.1"

tunnels_of_ssh <- function(x) if (may_tunnel(x)) x$hosts

# NA: where nothing else leads there.
may_tunnel <- function(x) !isFALSE(x$tunnel)

ssh_watch_text <- function(launch) watched_by(launch, "ssh")

# -T: no terminal, whatever the user's configuration says. The shell there waits for R, and so ssh
# says how R has ended: of a command that was killed it only says 255, as of a connection that it
# has lost. Every shell knows `exit`. With -R ssh carries connections to the session's port from the
# host itself.
ssh_command <- function(x, k, command, port) {
  tunnel <- if (may_tunnel(x)) c("-R", sprintf("%s:127.0.0.1:%s", port, port))
  c(x$ssh, "-T", tunnel, x$hosts[[k]], paste0(shell_words(run_watched(command)), "; exit"))
}
