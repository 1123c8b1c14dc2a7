# Descriptions of where the nodes of a cluster run, as plain values: by ssh here; slurm.R and
# template.R have the others. launch-hosts.R makes commands of them.
#
# A description is a list of class "clutch_launch" with
#   kind      "ssh", "slurm" or "template"
#   hosts     names of the hosts, as far as they are known
#   each      number of nodes on each host
#   r         how R starts there, see remote_r()
#   address, listen  this machine's names as the hosts know it, and the ports at which it listens
# and what that kind needs.

# Nodes on other hosts that ssh reaches. `hosts`: names that ssh knows, of the user's configuration,
# too; `each`: number of nodes on each, or one number for each host. One that comes twice has the
# nodes of both.
#   ssh         the command and its first arguments
#   user, port, jump  what else ssh is told, where its configuration does not say it
#   address     names of this machine, as the hosts know it; what ssh tells them is tried first
#   listen      the port at which the session listens, or a range of them; 0: a free one
#   tunnel      whether ssh carries the hosts' connections; NA: where they cannot connect directly
hosts <- function(hosts, each = 1L, ..., rscript = "Rscript", rscript_args = character(),
                  env = NULL, modules = NULL, setup = NULL, ssh = "ssh", user = NULL, port = NULL,
                  jump = NULL, address = NULL, listen = 0L, tunnel = NA) {
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
    remote_r(rscript, rscript_args, env, modules, setup), address, listen,
    ssh = c(ssh, if (!is.null(port)) c("-p", format(port)), if (!is.null(user)) c("-l", user),
            if (!is.null(jump)) c("-J", jump)),
    tunnel = tunnel
  )
}

# ---- what all descriptions have ----

new_launch <- function(kind, hosts, each, r, address, listen, ...) {
  address <- check_strings(address, "address")
  common <- list(kind = kind, hosts = hosts, each = each, r = r, address = address,
                 listen = check_ports(listen, "listen"))
  structure(c(common, list(...)), class = "clutch_launch")
}

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
  if (is.null(x) || (length(x) == 1L && !is.na(x) && ok(x))) return(x)
  throw("argument", sprintf("`%s` has to be %s", name, what))
}

# What begins with "-" would be an option of the command.
is_word <- function(x) is.character(x) && grepl("^[^[:space:]-][^[:space:]]*$", x)

is_whole <- function(x) is.numeric(x) && all(is.finite(x)) && all(x == floor(x) & x >= 1)
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
  variables <- c("CLUTCH_STARTING=1", if (length(r$env)) paste0(names(r$env), "=", r$env))
  command <- c("env", variables, r$rscript, default_packages_argument(methods), r$rscript_args,
               "-e", code)
  before <- c(if (length(r$modules)) paste("module load", shell_words(r$modules)), r$setup)
  if (!length(before)) return(command)
  c("bash", "-lc", paste(c(before, paste("exec", shell_words(command))), collapse = " && "))
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
  named <- if (x$kind == "ssh") paste0(": ", paste(utils::head(x$hosts, 5L), collapse = ", "))
  sprintf("%s by %s%s%s; nodes: %d, %s", if (n == 1L) "1 host" else paste(n, "hosts"), what,
          paste0(named, collapse = ""), if (n > 5L && x$kind == "ssh") ", ..." else "",
          sum(x$each), nodes)
}
