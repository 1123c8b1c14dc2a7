# What cluster_setup() and cluster_export() have given the nodes of a cluster, kept for new ones.

# It may be large: it hangs on the cluster by a weak reference, so that it does not travel with
# functions in whose environment the cluster is.
setup_of <- function(info) if (!is.null(info$setup)) .Call(ffi_weak_value, info$setup)
set_setup <- function(info, setup) info$setup <- .Call(ffi_weak_new, info, setup)

# For a node with a new process.
set_up_again <- function(node) {
  alone <- structure(list(node), class = c("clutch_cluster", "cluster"))
  for (s in setup_of(.subset2(node, "info"))) parallel::clusterCall(alone, s$fun, s$arg)
}
