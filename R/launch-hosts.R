# One fork server on each of several hosts: by ssh, Slurm, or a command of the user's. See hosts.R
# for the descriptions, node-host.R for what runs there.
#
# host-commands.R makes commands of descriptions. launch-hosts-run.R runs and ends them,
# launch-hosts-await.R waits for the hosts. launch-hosts-start.R is the whole start and has nodes
# forked there. launch-tree.R has 50 hosts and more start each other. launch-hosts-missing.R is
# about hosts that may be missing.

hosts_launcher <- function() {
  new_launcher(plan = plan_hosts, start = start_on_hosts, replace = replace_on_host,
               show = show_hosts, end = end_on_hosts)
}

# Besides what all plans have:
#   launch      the description
#   host_of     for each node the number of its host
#   first       number of nodes with which it starts, and which `cl` has, if it may have more with
#               the work, see resize.R; NULL: it has all
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
  info$min_hosts <- request$min_hosts
  if (is.null(info$min_hosts)) info$min_hosts <- length(first_hosts(x))
  if (!is.null(x$least)) info$first <- sum(x$each[first_hosts(x)])
  info$host_of <- if (is.null(x$by_name)) rep(seq_along(x$each), x$each) else x$by_name
  info$methods <- request$methods
  info$node_env <- request$env
  info$nice <- request$renice
  info$launches <- launches_of(x, info$methods, of = first_hosts(x))
  info
}

launch_call <- function(x) switch(x$kind, ssh = "hosts()", slurm = "slurm()", "launcher()")

# ---- dry run ----

show_hosts <- function(info) {
  x <- info$launch
  listen <- if (identical(x$listen, 0L)) "a free one" else x$listen[[1L]]
  to_file <- any(vapply(info$launches, function(l) l$secret == "file", NA))
  c(
    launch_text(x),
    tree_text(x),
    sprintf("the session listens at port <port>, %s", listen),
    if (to_file) paste("<folder> is a new one in", x$folder),
    if (length(info$node_env)) paste("nodes with", variable_text(info$node_env)),
    if (length(info$packages)) paste("attaches", paste(info$packages, collapse = ", ")),
    if (!is.null(x$least)) "each of them as this one:",
    unlist(lapply(info$launches[if (is.null(x$least)) TRUE else 1L], show_launch, x))
  )
}

show_launch <- function(launch, x) {
  hosts <- paste(utils::head(x$hosts[launch$hosts], 3L), collapse = ", ")
  more <- length(launch$hosts) - 3L
  c(
    sprintf("for %s%s:", hosts, if (more > 0L) sprintf(" and %d more", more) else ""),
    paste(" ", if (x$kind == "template") launch$argv[[3L]] else shell_words(launch$argv)),
    if (!is.null(launch$script)) {
      c(sprintf("  with <folder>/%s:", launch$job), paste("   ", launch$script))
    },
    if (launch$secret == "stdin") {
      c(
        if (isTRUE(launch$watched)) {
          with <- if (x$kind == "ssh") "ssh" else "its standard input"
          paste("  gets a line that the shell runs, and that ends R with", with)
        },
        "  gets the secret and the session's addresses on its standard input"
      )
    } else {
      c(
        sprintf("  gets them from <folder>/%s, which only this user can read", launch$settings),
        if (x$kind == "template") {
          paste0("  and is ended by <folder>/", WATCHED_FILE,
                 " if that goes before it has connected")
        }
      )
    }
  )
}
