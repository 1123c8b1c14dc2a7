# One fork server on each of several hosts. See hosts-describe.R for their descriptions,
# hosts-kinds.R for by what they are started, node-host.R for what runs there.
#
# hosts-commands.R makes commands of descriptions. hosts-run.R runs and ends them,
# hosts-await.R waits for the hosts. hosts-start.R is the whole start and has nodes
# forked there. hosts-tree.R has 50 hosts and more start each other. hosts-missing.R is
# about hosts that may be missing.

hosts_launcher <- function() {
  new_launcher(plan = plan_hosts, start = start_on_hosts, replace = replace_on_host,
               show = show_hosts, end = end_on_hosts, attend = attend_hosts)
}
add_kind("launcher", "hosts", hosts_launcher)

# Besides what all plans have:
#   launch      the description
#   kind        what is done with it, see hosts-kinds.R
#   host_of     for each node the number of its host
#   first       number of nodes with which it starts, and which `cl` has, if it may have more with
#               the work, see slurm-resize.R; NULL: it has all
#   end_of_server  why a node has ended with its host, see launch-deaths.R
#   counts_oom  TRUE: the nodes' supervisor tells of the out-of-memory killer, see machine-oom.R
#   launches    what is run, see hosts-kinds.R
#   methods, node_env, nice  of make_cluster()
plan_hosts <- function(request) {
  if (!request$strategy %in% c("fork_server", "spawn")) {
    text <- "strategy \"%s\" is not for nodes of %s(): it is \"fork_server\", or \"spawn\""
    throw("argument", sprintf(text, request$strategy, request$launch$call))
  }
  info <- new_plan(request, "hosts")
  x <- request$launch
  info$libraries <- NULL # those of this machine
  info$launch <- x
  info$kind <- host_kind_of(x)
  info$end_of_server <- host_end_text
  info$counts_oom <- TRUE
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

attend_hosts <- function(t) t$info$kind$attend(t)

# ---- dry run ----

show_hosts <- function(info) {
  x <- info$launch
  listen <- if (identical(x$listen, 0L)) "a free one" else x$listen[[1L]]
  shown <- if (is.null(x$least)) info$launches else info$launches[1L]
  c(
    launch_text(x, info$kind),
    tree_text(info$kind$parents(x)),
    sprintf("the session listens at port <port>, %s", listen),
    if (wants_folder(info)) paste("<folder> is a new one in", x$folder),
    if (length(info$node_env)) paste("nodes with", variable_text(info$node_env)),
    if (length(info$packages)) paste("attaches", paste(info$packages, collapse = ", ")),
    if (!is.null(x$least)) "each of them as this one:",
    unlist(lapply(shown, show_launch, info))
  )
}

show_launch <- function(launch, info) {
  hosts <- paste(utils::head(info$launch$hosts[launch$hosts], 3L), collapse = ", ")
  more <- length(launch$hosts) - 3L
  c(
    sprintf("for %s%s:", hosts, if (more > 0L) sprintf(" and %d more", more) else ""),
    paste(" ", info$kind$shown(launch)),
    if (!is.null(launch$script)) {
      c(sprintf("  with <folder>/%s:", launch$job), paste("   ", launch$script))
    },
    paste(" ", launch$delivery$show(launch, info$kind$watch_text(launch)))
  )
}
