# This file keeps what cluster_setup() and cluster_export() have given the nodes of a cluster, for
# new ones.

# It may be large: it hangs on the cluster by a weak reference, so that it does not travel with
# functions in whose environment the cluster is.
setup_of <- function(info) if (!is.null(info$setup)) tied_value(info$setup)
set_setup <- function(info, setup) {
  set_cluster(info, setup = tie_value(info$setup, info, setup))
  if (grows_here(info)) tell_calls(info)
}

# New nodes call this first, where they come without R: see core/tasks/grow.c.
tell_calls <- function(info) {
  calls <- lapply(setup_of(info), function(s) list(s$fun, list(s$arg)))
  .Call(ffi_tasks_calls, info$tasks$ptr, calls)
}

# Has a node call a function when it has done what it is at, whatever comes of it. FALSE: it is not
# there.
tell_handle <- function(handle, fun, args) {
  tryCatch(.Call(ffi_node_tell, handle, fun, args), clutch_error = function(e) FALSE)
}

# Tells whether .libPaths() has changed since the nodes were told.
has_other_libraries <- function(cl) {
  inherits(cl, "clutch_cluster") && length(cl) > 0L &&
    !identical(.libPaths(), info_of(cl)$session_libraries)
}

# Before the next job, whose functions may be of a package that is found there only: all nodes of
# the cluster, of which the job may have a part. Nodes of other machines are not told.
tell_libraries <- function(info) {
  paths <- .libPaths()
  set_cluster(info, session_libraries = paths, source = NULL) # whose libraries come first
  if (is.null(info$plan$libraries)) return(invisible())
  for (handle in handles_now(info)) tell_handle(handle, libraries_here, list(paths))
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
  one_node <- structure(list(node), class = c("clutch_cluster", "cluster"))
  for (s in setup_of(.subset2(node, "info"))) call_to_set_up(one_node, s$fun, s$arg)
}

# clusterCall() for what a new node would be called for, too: what it leaves is nothing for which
# the node has to stay, see src/core/tasks/attach.c.
call_to_set_up <- function(cl, ...) {
  if (is.null(info_of(cl)$handles)) return(parallel::clusterCall(cl, ...)) # workers of base R
  handles <- lapply(cl, function(node) .subset2(node, 1L))
  was_called <- vapply(handles, function(h) .Call(ffi_node_was_called, h), NA)
  on.exit(for (h in handles[!was_called]) .Call(ffi_node_forget_calls, h))
  parallel::clusterCall(cl, ...)
}
