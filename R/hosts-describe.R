# Descriptions of where the nodes of a cluster run, as plain values: what those of all kinds have in
# common, see hosts-kinds.R.
#
# A description is a list of class "clutch_hosts" with
#   kind      its name, see hosts-kinds.R: "ssh", "slurm" or "template"
#   call      name of the function that has made it
#   hosts     names of the hosts, as far as they are known
#   each      number of nodes on each host
#   r         how R starts there, see hosts-there.R
#   address, listen  this machine's names as the hosts know it, and the ports at which it listens
#   tls       whether connections are encrypted
#   least     number of hosts, if there may be more with the work, see resize-size.R; NULL: all
#             stay
# and what that kind needs.

new_hosts <- function(kind, call, hosts, each, r, address, listen, tls, ...) {
  check_flag(tls, "`tls`")
  common <- list(kind = kind, call = call, hosts = hosts, each = each, r = r,
                 address = check_strings(address, "`address`"),
                 listen = check_ports(listen, "listen"), tls = tls)
  structure(c(common, list(...)), class = "clutch_hosts")
}

# Numbers of the hosts with which a cluster starts.
first_hosts <- function(x) if (is.null(x$least)) seq_along(x$each) else seq_len(x$least)

# An argument in the dots is a misspelt one.
no_others <- function(what, dots, arguments) {
  if (!length(dots)) return(invisible())
  name <- names(dots)[1L]
  if (is.null(name) || !nzchar(name)) {
    throw("argument", sprintf("the further arguments of %s() have to be named", what))
  }
  hint <- did_you_mean(name, setdiff(arguments, "..."))
  throw("argument", sprintf("%s() has no argument `%s`%s", what, name, hint))
}

# A word that begins with "-" would be an option of the command.
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
