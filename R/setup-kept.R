# What cluster_setup() and cluster_export() have given the nodes of a cluster, kept for new ones.

# It may be large: it hangs on the cluster by a weak reference, so that it does not travel with
# functions in whose environment the cluster is.
setup_of <- function(info) if (!is.null(info$setup)) .Call(ffi_weak_value, info$setup)
set_setup <- function(info, setup) info$setup <- .Call(ffi_weak_new, info, setup)

# Where the session finds packages may change while nodes are there: they are told before the next
# job, whose functions may be of such a package. Not those of other machines.
has_other_libraries <- function(cl) {
  inherits(cl, "clutch_cluster") && length(cl) > 0L &&
    !identical(.libPaths(), info_of(cl)$session_libraries)
}

tell_libraries <- function(cl, info) {
  paths <- .libPaths()
  info$session_libraries <- paths
  if (is.null(info$libraries)) return(invisible())
  for (node in unclass(cl)) {
    tryCatch(.Call(ffi_node_tell, node$handle, libraries_here, list(paths)),
             clutch_error = function(e) FALSE)
  }
  others <- Filter(function(s) !isTRUE(s$libraries), setup_of(info))
  set_setup(info, c(list(list(fun = libraries_here, arg = paths, libraries = TRUE)), others))
  invisible()
}

libraries_here <- function(paths) {
  .libPaths(c(paths, .libPaths()))
  NULL
}
environment(libraries_here) <- baseenv()

# For a node with a new process.
set_up_again <- function(node) {
  alone <- structure(list(node), class = c("clutch_cluster", "cluster"))
  for (s in setup_of(.subset2(node, "info"))) parallel::clusterCall(alone, s$fun, s$arg)
}
