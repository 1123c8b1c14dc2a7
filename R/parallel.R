# The methods by which parallel's functions run on our nodes. Its generics are exported from R 4.4 on and
# internal before: join_parallel() registers the methods with either. Those of package snow have the same names.
#
# clusterCall(), clusterApply() and clusterApplyLB() send through sendCall() and postNode() and take the
# answers before they return. So what was sent from a frame of theirs that is gone was abandoned (the call
# was interrupted, or failed), and must not be taken for an answer to a later call. Others who use the
# generics directly, as package future does, may come for the answer later.

sendData_clutch_node <- function(node, data) {
  if (identical(data$type, "DONE")) {
    stop_nodes(list(node))
    return(invisible())
  }
  if (!identical(data$type, "EXEC")) return(invisible()) # as base R's workers: unknown types are ignored
  frame <- if (sys.nframe() > 4L) sys.frame(-4L) # sendData <- postNode <- sendCall <- frame
  status <- .Call(ffi_node_send, .subset2(node, 1L), .subset2(data, 2L), frame, if (!is.null(frame)) parent.env(frame))
  if (is.null(status)) return(invisible()) # it was sent
  scope <- scope_frame(frame)
  if (is.null(scope) && !is.null(the$callers)) scope <- scope_frame(parent.frame(3L)) # doSNOW sends from within tryCatch()
  if (status == "no_scope") { # neither frame is known as a call scope
    status <- .Call(ffi_node_send, .subset2(node, 1L), .subset2(data, 2L), scope, NULL)
    if (identical(status, "no_scope")) {
      .Call(ffi_call_scope_begin, scope, is_cluster_call(sys.function(-4L)), sys.frames())
      status <- .Call(ffi_node_send, .subset2(node, 1L), .subset2(data, 2L), scope, NULL)
    }
  }
  not_sent(node, data$data, scope, status)
}

# The frame of a function of parallel's, snow's or doSNOW's, or NULL for others. clusterApplyLB() sends from a function
# defined within.
scope_frame <- function(frame) {
  for (i in 1:2) {
    if (is.null(frame) || identical(frame, emptyenv())) return(NULL)
    env <- parent.env(frame)
    if (identical(env, the$parallel)) return(frame)
    for (ns in the$callers) if (identical(env, ns)) return(frame)
    frame <- env
  }
}

is_cluster_call <- function(fun) {
  if (identical(fun, the$parallel$clusterCall)) return(TRUE)
  for (ns in the$callers) if (identical(fun, ns$clusterCall)) return(TRUE)
  FALSE
}

# `status`: why a call could not be sent, as ffi_node_send() says it; NULL: it was sent.
not_sent <- function(node, call, scope, status) {
  if (identical(status, "stuck")) {
    replace_node(node)
    status <- .Call(ffi_node_send, node$handle, call, scope, NULL)
  }
  if (identical(status, "dead") && inherits(node, "clutch_future_node") &&
        .Call(ffi_node_info, .subset2(node, 1L))$state == "dead") {
    clone_node(node) # what is to be done with it is a future of its own
    status <- .Call(ffi_node_send, .subset2(node, 1L), call, scope, NULL)
  }
  if (identical(status, "dead")) throw_node_died(node, before = TRUE)
  invisible()
}

# A node that does not come back from what it was told to give up, deep in compiled code.
replace_node <- function(node) {
  old <- .Call(ffi_node_info, node$handle)
  .Call(ffi_nodes_stop, list(node$handle), 0, 5)
  fresh <- start_nodes(node$info, 1L, function() 30, node$rank)[[1L]]
  .Call(ffi_node_swap, node$handle, fresh)
  warning(warningCondition(sprintf(paste(
    "node %d (pid %d) did not give up an interrupted call within %g seconds and was replaced:",
    "what was exported to it is lost"), node$rank, old$pid, option_number("clutch.cancel_grace", 5)),
    class = "clutch_node_replaced"))
}

recvData_clutch_node <- function(node) {
  answer <- .Call(ffi_node_recv, .subset2(node, 1L))
  if (is.null(answer)) throw_node_died(node)
  if (length(answer) == 1L) throw_node_died(node, i = answer[[1L]])
  answer
}

recvOneData_clutch_cluster <- function(cl) {
  answer <- .Call(ffi_any_recv, cl)
  if (is.null(answer$value)) throw_node_died(cl[[answer$node]])
  answer
}

closeNode_clutch_node <- function(node) stop_nodes(list(node))

stopCluster.clutch_cluster <- function(cl, ...) stop_nodes(cl)

# stopCluster() without a cluster takes the default one, and then dispatches on its missing argument, which
# R takes for NULL. The generic's frame has the cluster.
stopCluster.NULL <- function(cl = NULL, ...) {
  default <- if (sys.nframe() > 1L) get0("cl", sys.frame(-1L), inherits = FALSE)
  if (inherits(default, "clutch_cluster")) return(stop_nodes(default))
  if (inherits(default, "cluster")) return(parallel::stopCluster(default))
  stop("no cluster 'cl' supplied and none is registered", call. = FALSE)
}

#' Copy objects to all nodes
#'
#' As [parallel::clusterExport()], but all variables travel in one message, serialized once and sent to all
#' nodes at the same time. What two of them share stays shared. A node that [cluster_map()] or [cluster_submit()] puts in the place of
#' a dead one gets them, too, so the cluster refers to the values until it is stopped.
#'
#' @param cl a cluster made by [make_cluster()].
#' @param varlist character: names of the variables.
#' @param envir environment to take them from; the caller's by default.
#' @return `NULL`, invisibly.
#' @section Errors: `clutch_argument` when a variable does not exist, `clutch_setup` when a node cannot take it, `clutch_node_died` when
#'   a node has died.
#' @examples
#' cl <- make_cluster(2)
#' base <- 10; offset <- 1
#' cluster_export(cl, c("base", "offset"))
#' parallel::clusterEvalQ(cl, base + offset)
#' stop_cluster(cl)
#' @export
cluster_export <- function(cl, varlist, envir = parent.frame()) {
  check_cluster(cl)
  given(varlist, "varlist")
  varlist <- check_strings(varlist, "varlist")
  values <- variables(varlist, envir, "varlist")
  put <- function(values) list2env(values, globalenv())
  environment(put) <- baseenv()
  call_all_nodes(cl, function_without_value(put), values, "what is exported cannot be stored")
  info <- cl[[1L]]$info # a node that replaces another gets them, too
  others <- Filter(function(s) !identical(s$export, sort(varlist)), setup_of(info))
  set_setup(info, c(others, list(list(fun = function_without_value(put), arg = values, export = sort(varlist)))))
  invisible(NULL)
}

# The values of these variables as seen from `env`.
variables <- function(names, env, argument) {
  there <- vapply(names, exists, NA, envir = env)
  if (!all(there)) throw("argument", sprintf("`%s`: there is no variable '%s'", argument, names[!there][[1L]]))
  mget(names, envir = env, inherits = TRUE)
}

# fun(arg) on all nodes; an error there is one of class clutch_setup, which names the node.
call_all_nodes <- function(cl, fun, arg, what) {
  said <- parallel::clusterCall(cl, tried_here, fun, arg)
  bad <- which(!vapply(said, is.null, NA))
  if (!length(bad)) return(invisible())
  node <- cl[[bad[[1L]]]]$rank
  throw("setup", sprintf("%s on node %d: %s", what, node, said[[bad[[1L]]]]), node = node)
}

# NULL, or the text of the error.
tried_here <- function(fun, arg) {
  tryCatch({
    fun(arg)
    NULL
  }, error = function(e) paste(as.character(conditionMessage(e)), collapse = " "))
}
environment(tried_here) <- baseenv()

# The answer of an export must not carry the values back.
function_without_value <- function(put) {
  body(put) <- call("{", body(put), quote(NULL))
  put
}

# For parallel::makeCluster(type = "CLUTCH"), where R can register types of clusters.
start_for_parallel <- function(spec = available_cores(), ...) make_cluster(spec, ...)
