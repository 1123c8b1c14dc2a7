# Descriptions of where the nodes of a cluster run, as plain values: what those of all kinds have in
# common, see hosts-kinds.R.
#
# A description is a list of class "clutch_launch" with
#   kind      its name, see hosts-kinds.R: "ssh", "slurm" or "template"
#   call      name of the function that has made it
#   hosts     names of the hosts, as far as they are known
#   each      number of nodes on each host
#   r         how R starts there, see remote_r()
#   address, listen  this machine's names as the hosts know it, and the ports at which it listens
#   tls       whether connections are encrypted
#   least     number of hosts, if there may be more with the work, see slurm-resize.R; NULL: all
#             stay
# and what that kind needs.

new_launch <- function(kind, call, hosts, each, r, address, listen, tls, ...) {
  check_flag(tls, "`tls`")
  common <- list(kind = kind, call = call, hosts = hosts, each = each, r = r,
                 address = check_strings(address, "`address`"),
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

# What begins with "-" would be an option of the command.
is_word <- function(x) is.character(x) && grepl("^[^[:space:]-][^[:space:]]*$", x)

is_one_port <- function(x) is_whole(x) && x <= 65535

check_host_names <- function(hosts) {
  if (!is.character(hosts) || !length(hosts)) {
    has_to_be("`hosts`", "a character vector of names of hosts")
  }
  for (name in hosts) check_host_name(name)
  hosts
}

# One number for each host.
check_each <- function(each, n) {
  if (is_whole(each) && length(each) %in% c(1L, n)) return(rep(as.integer(each), length.out = n))
  has_to_be("`each`", "a number of nodes, 1 or more, or one for each host")
}

# Where the cluster may have a folder that hosts see; NULL: the user's cache.
check_folder <- function(folder) {
  what <- "one folder, with its full path, that this machine and the hosts see"
  is_path <- function(x) is.character(x) && grepl("^[/~]", x)
  check_one(folder, "`folder`", is_path, what)
  if (is.null(folder)) tools::R_user_dir("clutch", "cache") else path.expand(folder)
}

# ---- R there ----

# How R is started on another host: a list. `modules`: names for `module load`; `setup`: lines of
# shell that come before R.
remote_r <- function(rscript, rscript_args, env, modules, setup) {
  is_program <- function(x) is.character(x) && nzchar(x) && !grepl("^[-~]", x)
  what <- "a program on the PATH there, or its full path"
  if (is.null(rscript)) rscript <- "Rscript"
  check_one(rscript, "`rscript`", is_program, what)
  env <- check_env(env)
  bad <- grep("^[A-Za-z_][A-Za-z0-9_]*$", names(env), value = TRUE, invert = TRUE)
  if (length(bad)) throw("argument", sprintf("`env`: '%s' is no name for a shell", bad[[1L]]))
  modules <- check_strings(modules, "`modules`")
  bad <- grep("^[A-Za-z0-9_][A-Za-z0-9_./+@=:-]*$", modules, value = TRUE, invert = TRUE)
  if (length(bad)) throw("argument", sprintf("`modules`: '%s' is no name of a module", bad[[1L]]))
  list(rscript = rscript, rscript_args = check_strings(rscript_args, "`rscript_args`"), env = env,
       modules = modules, setup = check_strings(setup, "`setup`"))
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
