#' Prepare all nodes, and those that replace them
#'
#' Evaluates an expression in the workspace of every node, and again in that of each node that replaces one which has
#' died, before it gets any work. [cluster_export()] is replayed, too; what [parallel::clusterExport()] and
#' [parallel::clusterEvalQ()] have done is not.
#'
#' @param cl a cluster made by [make_cluster()].
#' @param expr an expression; variables in it are those of the nodes.
#' @return `NULL`, invisibly.
#' @section Errors: `clutch_setup` (with element `node`) when the expression fails on a node; it is not kept then.
#' @examples
#' cl <- make_cluster(2)
#' cluster_setup(cl, { library(stats); offset <- 10 })
#' cluster_map_dbl(cl, 1:3, function(x) x + offset, .globals = FALSE)
#' stop_cluster(cl)
#' @export
cluster_setup <- function(cl, expr) {
  check_cluster(cl)
  given(expr, "expr")
  expr <- substitute(expr)
  call_all_nodes(cl, setup_here, expr, "the expression failed")
  info <- cl[[1L]]$info
  set_setup(info, c(setup_of(info), list(list(fun = setup_here, arg = expr))))
  invisible(NULL)
}

# What a cluster's new nodes get. It may be large: it hangs on the cluster by a weak reference, so that it does not travel
# with functions in whose environment the cluster is.
setup_of <- function(info) if (!is.null(info$setup)) .Call(ffi_weak_value, info$setup)
set_setup <- function(info, setup) info$setup <- .Call(ffi_weak_new, info, setup)

setup_here <- function(expr) {
  eval(expr, globalenv())
  NULL
}
environment(setup_here) <- baseenv()
