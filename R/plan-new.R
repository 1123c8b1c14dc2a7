# What every launcher has, and what every plan begins with.
#
# A plan is an environment that all nodes of a cluster share, as `info`. It says all that the start
# of a node depends on, now and later, when a node is replaced. To make one starts nothing.

# `request`: of check_request(); `launcher`: its name, see launch-launchers.R.
new_plan <- function(request, launcher) {
  info <- new.env(parent = emptyenv())
  info$launcher <- launcher
  info$strategy <- request$strategy
  info$hosts <- vapply(request$hosts, function(h) h$host, "")
  info$outfile <- path.expand(request$outfile)
  info$packages <- request$packages
  # it may be large, and is not to travel with functions in whose environment the cluster is
  if (!is.null(request$preload)) {
    info$preload <- .Call(ffi_weak_new, info, request$preload)
    info$preload_text <- preload_text(request$preload)
  }
  info$started <- Sys.time()
  info$oom_kills <- oom_kills()
  info$libraries <- libraries_for(request)
  info$session_libraries <- .libPaths()
  info
}

# What is evaluated before the nodes are there, see code-preload.R, or NULL.
preload_of <- function(info) if (!is.null(info$preload)) .Call(ffi_weak_value, info$preload)

# Where this session finds packages, for nodes of this machine: what .libPaths() was told is in no
# environment variable. NULL: they find them by themselves, since another R is asked for, or
# variables that say where.
libraries_for <- function(request) {
  if (isTRUE(request$rscript_given) || any(grepl("^R_LIBS", names(request$env)))) return(NULL)
  # a variable that was set since this session began counts for new processes
  said <- strsplit(Sys.getenv("R_LIBS"), .Platform$path.sep, fixed = TRUE)[[1L]]
  unique(c(.libPaths(), normalizePath(said[dir.exists(said)])))
}

# Number of the nodes with which the cluster starts, and of which `cl` consists: most often all.
nodes_at_start <- function(info) if (is.null(info$first)) length(info$hosts) else info$first

# The nodes of `cl`; of a cluster that grows also those that have come later, if `cl` is all of it.
nodes_there <- function(cl) {
  nodes <- unclass(cl)
  info <- if (length(nodes)) info_of(cl)
  if (is.null(info$first) || length(nodes) < info$first) return(nodes)
  r <- info$tasks$resize
  hosts <- setdiff(which(r$at == "there"), info$host_of[seq_len(info$first)])
  c(nodes, lapply(which(info$host_of %in% hosts), function(rank) node_of_plan(info, rank)))
}

# How many there may be.
most_nodes <- function(cl) {
  info <- if (length(cl) && inherits(cl, "clutch_cluster")) info_of(cl)
  if (is.null(info$first) || length(cl) < info$first) length(cl) else length(info$hosts)
}

# A node of the cluster as an object.
node_of_plan <- function(info, rank) {
  node <- list(handle = info$handles[[rank]], host = info$hosts[[rank]], rank = rank, info = info)
  structure(node, class = "clutch_node")
}
