# Descriptions of where the nodes of a cluster run, as plain values: by ssh here; slurm.R and
# template.R have the others. launch-hosts.R makes commands of them.
#
# A description is a list of class "clutch_launch" with
#   kind      "ssh", "slurm" or "template"
#   hosts     names of the hosts, as far as they are known
#   each      number of nodes on each host
#   r         how R starts there, see remote_r()
#   address, listen  this machine's names as the hosts know it, and the ports at which it listens
#   tls       whether connections are encrypted
#   least     number of hosts, if there may be more with the work, see resize.R; NULL: all stay
# and what that kind needs.

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
#' @return Object of class `clutch_launch`, to be given to [make_cluster()] or [launch_plan()].
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
#' @examples
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
  user <- check_one(user, "user", is_user_name, "the name of a user")
  port <- check_one(port, "port", is_one_port, "a number from 1 to 65535")
  jump <- check_one(jump, "jump", is_word, "a host, as for ssh's option -J")
  if (!is.logical(tunnel) || length(tunnel) != 1L) {
    throw("argument", "`tunnel` has to be TRUE, FALSE or NA")
  }
  ssh <- check_strings(ssh, "ssh")
  if (!length(ssh)) throw("argument", "`ssh` has to be a command")
  new_launch(
    "ssh", unique(names), as.integer(tapply(each, factor(names, unique(names)), sum)),
    remote_r(rscript, rscript_args, env, modules, setup), address, listen, tls,
    ssh = c(ssh, if (!is.null(port)) c("-p", format(port)), if (!is.null(user)) c("-l", user),
            if (!is.null(jump)) c("-J", jump)),
    tunnel = tunnel
  )
}

# ---- what all descriptions have ----

new_launch <- function(kind, hosts, each, r, address, listen, tls, ...) {
  if (!isTRUE(tls) && !isFALSE(tls)) throw("argument", "`tls` has to be TRUE or FALSE")
  common <- list(kind = kind, hosts = hosts, each = each, r = r,
                 address = check_strings(address, "address"),
                 listen = check_ports(listen, "listen"), tls = tls)
  structure(c(common, list(...)), class = "clutch_launch")
}

# Numbers of the hosts with which a cluster starts.
first_hosts <- function(x) if (is.null(x$least)) seq_along(x$each) else seq_len(x$least)

# What is in the dots is a misspelt argument.
no_others <- function(what, dots, arguments) {
  if (!length(dots)) return(invisible())
  name <- names(dots)[1L]
  if (is.null(name) || !nzchar(name)) {
    throw("argument", sprintf("the further arguments of %s() have to be named", what))
  }
  hint <- did_you_mean(name, setdiff(arguments, "..."))
  throw("argument", sprintf("%s() has no argument `%s`%s", what, name, hint))
}

check_one <- function(x, name, ok, what) {
  if (is.null(x)) return(NULL)
  check_needed(x, name, ok, what)
}

# The same where NULL stands for nothing.
check_needed <- function(x, name, ok, what) {
  if (length(x) == 1L && !is.na(x) && ok(x)) return(x)
  throw("argument", sprintf("`%s` has to be %s", name, what))
}

# What begins with "-" would be an option of the command.
is_word <- function(x) is.character(x) && grepl("^[^[:space:]-][^[:space:]]*$", x)

is_whole <- function(x) {
  is.numeric(x) && all(is.finite(x)) && all(x == floor(x) & x >= 1 & x <= .Machine$integer.max)
}
is_one_port <- function(x) is_whole(x) && x <= 65535

check_host_names <- function(hosts) {
  if (!is.character(hosts) || !length(hosts)) {
    throw("argument", "`hosts` has to be a character vector of names of hosts")
  }
  for (name in hosts) check_host_name(name)
  hosts
}

# One number for each host.
check_each <- function(each, n) {
  if (is_whole(each) && length(each) %in% c(1L, n)) return(rep(as.integer(each), length.out = n))
  throw("argument", "`each` has to be a number of nodes, 1 or more, or one for each host")
}

# ---- R there ----

# How R is started on another host: a list. `modules`: names for `module load`; `setup`: lines of
# shell that come before R.
remote_r <- function(rscript, rscript_args, env, modules, setup) {
  is_program <- function(x) is.character(x) && nzchar(x) && !grepl("^[-~]", x)
  what <- "a program on the PATH there, or its full path"
  if (is.null(rscript)) rscript <- "Rscript"
  check_one(rscript, "rscript", is_program, what)
  env <- check_env(env)
  bad <- grep("^[A-Za-z_][A-Za-z0-9_]*$", names(env), value = TRUE, invert = TRUE)
  if (length(bad)) throw("argument", sprintf("`env`: '%s' is no name for a shell", bad[[1L]]))
  modules <- check_strings(modules, "modules")
  bad <- grep("^[A-Za-z0-9_][A-Za-z0-9_./+@=:-]*$", modules, value = TRUE, invert = TRUE)
  if (length(bad)) throw("argument", sprintf("`modules`: '%s' is no name of a module", bad[[1L]]))
  list(rscript = rscript, rscript_args = check_strings(rscript_args, "rscript_args"), env = env,
       modules = modules, setup = check_strings(setup, "setup"))
}

# Arguments of a program that needs no shell. `code`: what R does there. A login shell knows what
# `module` is; a line that fails is the end.
remote_command <- function(r, code, methods = TRUE) {
  # what a node starts inherits its mark, by which the fork server knows whose it is
  env <- c(CLUTCH_STARTING = "1", CLUTCH_MARK = strrep("0", 32L), quick_start_there(r), r$env)
  command <- c("env", paste0(names(env), "=", env), r$rscript, default_packages_argument(methods),
               r$rscript_args, "-e", code)
  before <- c(if (length(r$modules)) paste("module load", shell_words(r$modules)), r$setup)
  if (!length(before)) return(command)
  c("bash", "-lc", paste(c(before, paste("exec", shell_words(command))), collapse = " && "))
}

# What makes an R there start sooner, where the user does not say otherwise. The settings of the
# host name these, too, since what that R starts is not to have them.
quick_start_there <- function(r) {
  quick <- quick_start(character())
  quick[setdiff(names(quick), names(r$env))]
}

# One line for a shell. Quoted is what has to be; by double quotes where that is easier to read, and
# nothing in the word has a meaning within them.
shell_words <- function(words) {
  is_plain <- grepl("^[A-Za-z0-9_@%+=:,./-]+$", words)
  by_double <- grepl("'", words, fixed = TRUE) & !grepl("[\"$`\\\\!\n]", words)
  single <- paste0("'", gsub("'", "'\\''", words, fixed = TRUE), "'")
  quoted <- ifelse(by_double, paste0("\"", words, "\""), single)
  paste(ifelse(is_plain, words, quoted), collapse = " ")
}

#' @export
print.clutch_launch <- function(x, ...) {
  cat(launch_text(x), "\n", sep = "")
  invisible(x)
}

launch_text <- function(x) {
  what <- switch(x$kind, ssh = "ssh", slurm = "Slurm", template = "a command of the user's")
  n <- length(x$each)
  nodes <- if (length(unique(x$each)) == 1L) {
    sprintf("%d on each", x$each[[1L]])
  } else {
    sprintf("%d to %d on each", min(x$each), max(x$each))
  }
  if (!is.null(x$least)) {
    text <- "%d to %d hosts by %s, a job each, as there is work; nodes: %d to %d, %s"
    first <- sum(x$each[first_hosts(x)])
    return(sprintf(text, x$least, n, what, first, sum(x$each), nodes))
  }
  named <- if (x$kind == "ssh") paste0(": ", paste(utils::head(x$hosts, 5L), collapse = ", "))
  sprintf("%s by %s%s%s; nodes: %d, %s", if (n == 1L) "1 host" else paste(n, "hosts"), what,
          paste0(named, collapse = ""), if (n > 5L && x$kind == "ssh") ", ..." else "",
          sum(x$each), nodes)
}
