# This file gives something to all nodes of a cluster, and to those that replace them.

#' Prepare all nodes, and those that replace them
#'
#' Evaluates an expression in the workspace of every node.
#'
#' A node that [cluster_map()] or [cluster_submit()] puts in the place of a dead one evaluates the
#' expression again, before it gets any work. [cluster_export()] is repeated there, too. What
#' [parallel::clusterExport()] and [parallel::clusterEvalQ()] have done is not.
#'
#' @param cl Cluster made by [make_cluster()]. `NULL`: the session's own, see [own-cluster].
#' @param expr Expression. Variables in it are those of the nodes.
#' @return `NULL`, invisibly.
#' @section Errors:
#' * `clutch_setup`, with element `node`: the expression fails on a node. It is not kept then.
#' * `clutch_node_died`: a node has died.
#'
#' All have class `clutch_error`.
#' ```r
#' tryCatch(
#'   cluster_setup(cl, library(notThere)),
#'   clutch_setup = function(e) message("node ", e$node, ": ", conditionMessage(e))
#' )
#' ```
#' @seealso [cluster_export()] for objects of this session; `packages` and `preload` of
#'   [make_cluster()].
#' @examples
#' cl <- make_cluster(2)
#' cluster_setup(cl, {
#'   library(stats)
#'   offset <- 10
#' })
#' cluster_map_dbl(cl, 1:3, function(x) x + offset, .globals = FALSE)
#' stop_cluster(cl)
#' @export
cluster_setup <- function(cl, expr) {
  cl <- cluster_or_own(cl)
  given(expr, "expr")
  expr <- substitute(expr)
  call_all_nodes(cl, setup_here, expr, "the expression failed")
  info <- cl[[1L]]$info
  set_setup(info, c(setup_of(info), list(list(fun = setup_here, arg = expr))))
  invisible(NULL)
}

setup_here <- function(expr) {
  eval(expr, globalenv())
  NULL
}
environment(setup_here) <- baseenv()

#' Copy objects to all nodes
#'
#' Copies variables to the workspace of every node, as [parallel::clusterExport()] does.
#'
#' All variables travel in one message, serialized once and sent to all nodes at the same time. What
#' two of them share stays shared. A node that [cluster_map()] or [cluster_submit()] puts in the
#' place of a dead one gets them, too. So the cluster refers to the values until it is stopped.
#'
#' @param cl Cluster made by [make_cluster()]. `NULL`: the session's own, see [own-cluster].
#' @param varlist Character vector: names of the variables.
#' @param envir Environment to take them from. By default the caller's.
#' @return `NULL`, invisibly.
#' @section Errors:
#' * `clutch_argument`: a variable does not exist.
#' * `clutch_setup`, with element `node`: a node cannot take the values.
#' * `clutch_node_died`: a node has died.
#'
#' All have class `clutch_error`.
#' ```r
#' tryCatch(
#'   cluster_export(cl, "notThere"),
#'   clutch_argument = function(e) message(conditionMessage(e))
#' )
#' ```
#' @seealso [cluster_setup()] for code that runs on every node.
#' @examples
#' cl <- make_cluster(2)
#' base <- 10
#' offset <- 1
#' cluster_export(cl, c("base", "offset"))
#' parallel::clusterEvalQ(cl, base + offset)
#' stop_cluster(cl)
#' @export
cluster_export <- function(cl, varlist, envir = parent.frame()) {
  cl <- cluster_or_own(cl)
  given(varlist, "varlist")
  varlist <- check_strings(varlist, "`varlist`")
  values <- variables(varlist, envir, "varlist")
  call_all_nodes(cl, export_here, values, "what is exported cannot be stored")
  info <- cl[[1L]]$info
  names <- if (length(varlist) > 1L) sort(varlist) else varlist
  setup <- setup_of(info)
  for (k in rev(seq_along(setup))) if (identical(setup[[k]]$export, names)) setup[[k]] <- NULL
  set_setup(info, c(setup, list(list(fun = export_here, arg = values, export = names))))
  invisible(NULL)
}

# The answer of an export does not carry the values back.
export_here <- function(values) {
  list2env(values, globalenv())
  NULL
}
environment(export_here) <- baseenv()

# ---- calls of all nodes ----

# fun(arg) on all nodes; an error there is one of class clutch_setup, which names the node.
call_all_nodes <- function(cl, fun, arg, what) {
  said <- call_to_set_up(cl, tried_here, fun, arg)
  bad <- which(!vapply(said, is.null, NA))
  if (!length(bad)) return(tell_later_nodes(cl, fun, arg))
  first <- bad[[1L]]
  node <- cl[[first]]$rank
  throw("setup", sprintf("%s on node %d: %s", what, node, said[[first]]), node = node)
}

# Nodes that have come with the work may end at any moment: nobody waits for them.
tell_later_nodes <- function(cl, fun, arg) {
  for (node in nodes_there(cl)[-seq_along(cl)]) tell_handle(node$handle, fun, list(arg))
  invisible()
}

# NULL, or the text of the error.
tried_here <- function(fun, arg) {
  tryCatch({
    fun(arg)
    NULL
  }, error = function(e) paste(as.character(conditionMessage(e)), collapse = " "))
}
environment(tried_here) <- baseenv()
