# make_cluster(c("alpha", "alpha", "beta")), as base R takes it: a name of a host for each node, and
# base R's options. That is hosts(), wherever what is asked for can be had so: a fork server on each
# host, reached by ssh, and a connection that is encrypted.

# `request`: of check_request().
with_hosts_by_name <- function(request) {
  if (!is.null(request$launch) || !can_be_hosts(request)) return(request)
  if (request$by_default) request$strategy <- "fork_server"
  request$launch <- hosts_by_name(request)
  request
}

# A request that cannot be had by hosts() has nodes of launch-tcp.R or launch-psock.R.
can_be_hosts <- function(request) {
  o <- request$process
  if (!request$by_default && !request$strategy %in% c("fork_server", "spawn")) return(FALSE)
  for_others <- c("timeout", "manual", "backlog", "secret", "node")
  if (length(intersect(request$given, for_others)) || !o$tls || !can_watch()) return(FALSE)
  # a loopback address: the user's own ssh -R carries the connection
  if (!is_ssh(o$rshcmd) || (!is.null(o$master) && is_loopback(o$master))) return(FALSE)
  has_own <- vapply(request$hosts, function(node) length(node) > 1L, NA)
  !any(has_own) && !any(vapply(unique(host_names(request$hosts)), is_this_machine, NA))
}

# The description, with `by_name`: for each node the number of its host.
hosts_by_name <- function(request) {
  o <- request$process
  names <- host_names(request$hosts)
  here <- o$homogeneous
  x <- hosts(
    names, rscript = if (here || request$rscript_given) request$rscript else "Rscript",
    rscript_args = request$rscript_args, ssh = strsplit(o$rshcmd, " +")[[1L]], user = o$user,
    address = o$master, listen = o$port
  )
  if (here) x$r$lib <- dirname(getNamespaceInfo("clutch", "path"))
  x$by_name <- match(names, x$hosts)
  x
}
