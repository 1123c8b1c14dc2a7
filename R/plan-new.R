# The plan of a cluster: all that the start of a node depends on, now and later, when a node is
# replaced. A launcher makes it of a request, see check_request(), which starts nothing. From then
# on it does not change. State that changes is in plan-cluster.R.

# `...`: fields that this launcher has besides. `launcher`: its name, see launch-launchers.R.
new_plan <- function(request, ..., launcher) { # behind the dots: it is not `launch`
  plan <- new.env(parent = emptyenv())
  fields <- list(
    launcher = launcher,
    strategy = request$strategy,
    # what make_cluster() was given, but for `preload`
    made_by = request$made_by,
    # names, one for each node
    hosts = vapply(request$hosts, function(h) h$host, ""),
    # number of nodes with which the cluster starts, and which `cl` has, if it may have more with
    # the work, see resize-size.R and task-grow.R; NULL: it has all
    first = NULL,
    # of nodes on this machine that come and go with the work: seconds without any until they end
    idle = NULL,
    packages = request$packages,
    # what a host has to hand out, as from check_resources(); NULL: nothing was said
    resources = request$resources,
    outfile = path.expand(request$outfile),
    # where nodes of this machine find packages; NULL: they find them by themselves
    libraries = libraries_for(request),
    # environment variables of the nodes; NULL: known once there is a fork server
    node_env = NULL,
    # a function: why a node has ended with its fork server or host, see launch-deaths.R
    end_of_server = NULL,
    # TRUE: the nodes' supervisor tells of the out-of-memory killer, see machine-oom.R
    counts_oom = FALSE,
    # what is evaluated before the nodes are there, see preload_of(), and the same as text
    preload = NULL,
    preload_text = NULL,

    # of nodes of a fork server on this machine:
    spec = NULL, # what that is started with, see server_key()
    session_env = NULL, # the environment variables that it is started with
    settings = NULL, # what it tells its nodes, see apply_settings()
    keep = NULL, # of nodes that run programs, see launch-programs.R

    # of nodes that are processes started by a command: see launch-process.R
    process = NULL,

    # of nodes on other hosts:
    launch = NULL, # the description, see hosts-describe.R
    kind = NULL, # what is done with it, see hosts-kinds.R
    host_of = NULL, # for each node the number of its host
    min_hosts = NULL, # so many have to come
    launches = NULL, # what is run, see hosts-kinds.R
    methods = NULL, # of make_cluster()
    nice = NULL # of make_cluster()
  )
  own <- list(...)
  stopifnot("a plan has no such field" = names(own) %in% names(fields))
  fields[names(own)] <- own
  # it may be large, and is not to travel with functions in whose environment the cluster is
  if (!is.null(request$preload)) {
    fields$preload <- .Call(ffi_weak_new, plan, request$preload)
    fields$preload_text <- preload_text(request$preload)
  }
  list2env(fields, plan)
  lockEnvironment(plan, bindings = TRUE)
  plan
}

# The value is what is evaluated before the nodes are there, see code-preload.R, or NULL.
preload_of <- function(info) {
  if (!is.null(info$plan$preload)) .Call(ffi_weak_value, info$plan$preload)
}

# Where this session finds packages, for nodes of this machine: what .libPaths() was told is in no
# environment variable. NULL: they find them by themselves, since another R is asked for, or
# variables that say where.
libraries_for <- function(request) {
  if (isTRUE(request$rscript_given) || any(grepl("^R_LIBS", names(request$env)))) return(NULL)
  # a variable that was set since this session began counts for new processes
  said <- strsplit(Sys.getenv("R_LIBS"), .Platform$path.sep, fixed = TRUE)[[1L]]
  unique(c(source_libraries(), .libPaths(), normalizePath(said[dir.exists(said)])))
}
