# The record of a cluster, `info`: an environment that all of its nodes share. No other file writes
# its fields.

# `plan`: see plan-new.R.
new_record <- function(plan) {
  info <- new.env(parent = emptyenv())
  fields <- list(
    plan = plan,
    # the hosts of the cluster, where these are others, see plan-remote.R; else NULL
    remote = if (!is.null(plan$launch)) new_remote(),

    # what the plan says at first, and the start of a node may change:
    strategy = plan$strategy, # "spawn" where a package starts threads
    hosts = plan$hosts, # hosts have a name when they have come, and some may not come
    host_of = plan$host_of,
    spec = plan$spec,
    settings = plan$settings,
    node_env = plan$node_env,

    # its nodes:
    handles = NULL, # of all nodes, by number; NULL: there are none yet, or they do not know tasks
    tasks = NULL, # the environment of its tasks, see task-jobs.R; NULL: there was none yet
    setup = NULL, # what cluster_setup() has said, see setup_of()
    session_libraries = .libPaths(), # of which the nodes were told
    source = NULL, # which copies of packages they were told of, see task-source.R
    resources = NULL, # what its hosts have to hand out, see resources_of()
    stopped = NULL, # numbers of the nodes that were stopped
    is_apart = FALSE, # TRUE: it has one node that is no part of the cluster, see cluster_apart()
    lost_servers = NULL, # how earlier fork servers of its nodes ended, by pid as text
    by_killer = NULL, # by number as text: whether the out-of-memory killer has ended that node
    oom_kills = oom_kills(), # how many kills there were at the start
    started = Sys.time(),
    took = NULL, # seconds of the start

    # its fork server on this machine:
    server = NULL, # NULL: there is none yet
    number = NULL, # which settings it has applied
    sent = NULL, # of a server that starts: which it was sent already

    # nodes over TCP:
    port = NULL, # at which the session listens, or did when the last node came
    sockets = NULL, # of workers of base R, while they start
    epoch = NULL, # of workers of base R: how many calls were given up
    answer_by = NULL, # by clock(): when they have to have answered; NULL: there is no limit

    # what others are told:
    shown_as = NULL, # its number in this session, see cluster_number()
    view = NULL, # see event-view.R
    view_at = NULL, # handle of the fork server that has the view
    view_link = NULL, # handle of the link process that has it
    told = NULL, # by node as text: the process whose death was told
    told_stopped = NULL, # numbers of the nodes whose end was told
    dashboard = NULL, # see serve_page()
    name = NULL # for package future
  )
  list2env(fields, info)
  lockBinding("plan", info)
  lockBinding("remote", info)
  lockEnvironment(info)
  info
}

# Writes these fields. One that a cluster does not have is an error.
set_cluster <- function(info, ...) {
  fields <- list(...)
  for (name in names(fields)) assign(name, fields[[name]], envir = info)
  invisible(info)
}

# The value is the cluster for a node that is no part of it, whose handle is `handle`.
cluster_apart <- function(info, rank, handle) {
  apart <- list2env(as.list(info, all.names = TRUE), parent = emptyenv())
  apart$handles[[rank]] <- handle
  apart$tasks <- apart$view <- NULL
  apart$is_apart <- TRUE
  lockEnvironment(apart)
  apart
}

# The name of host `k`, for all of its nodes.
name_host <- function(info, k, name) {
  hosts <- info$hosts
  hosts[info$host_of == k] <- name
  set_cluster(info, hosts = hosts)
}

# A call of a worker of base R is given up.
next_epoch <- function(info) set_cluster(info, epoch = info$epoch + 1)

# ---- its nodes ----

# Number of the nodes with which the cluster starts, and of which `cl` consists: most often all.
nodes_at_start <- function(info) {
  if (is.null(info$plan$first)) length(info$hosts) else info$plan$first
}

# Tells whether nodes of this machine come and go with its work, by its tasks.
grows_here <- function(info) {
  !is.null(info$plan$first) && is.null(info$remote) && !is.null(info$tasks)
}

# Numbers of the nodes that are there with the work, besides the first ones.
grown_nodes <- function(info) {
  if (grows_here(info)) .Call(ffi_tasks_grown, info$tasks$ptr) else integer()
}

# The handles of all nodes that are there, and of others.
handles_now <- function(info) {
  grown_nodes(info)
  info$handles
}

# The nodes of `cl`; of a cluster that grows also those that have come later, if `cl` is all of it.
nodes_there <- function(cl) {
  nodes <- unclass(cl)
  info <- if (length(nodes)) info_of(cl)
  if (is.null(info$plan$first) || length(nodes) < info$plan$first) return(nodes)
  later <- if (is.null(info$remote)) {
    grown_nodes(info)
  } else {
    there <- which(info$tasks$resize$at == "there")
    which(info$host_of %in% setdiff(there, info$host_of[seq_len(info$plan$first)]))
  }
  c(nodes, lapply(later, function(rank) node_of_plan(info, rank)))
}

# How many there may be.
most_nodes <- function(cl) {
  info <- if (length(cl) && inherits(cl, "clutch_cluster")) info_of(cl)
  if (is.null(info$plan$first) || length(cl) < info$plan$first) length(cl) else length(info$hosts)
}

# A node of the cluster as an object.
node_of_plan <- function(info, rank) {
  node <- list(handle = info$handles[[rank]], host = info$hosts[[rank]], rank = rank, info = info)
  structure(node, class = "clutch_node")
}

# All its nodes that are there, as objects.
nodes_in_plan <- function(info) {
  is_there <- !vapply(handles_now(info), is.null, NA)
  lapply(which(is_there), function(rank) node_of_plan(info, rank))
}
