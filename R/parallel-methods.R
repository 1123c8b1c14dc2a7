# The methods by which parallel's functions run on our nodes. Its generics are exported from R 4.4
# on and internal before: join_parallel() registers the methods with either. Those of package snow
# have the same names. Methods of nodes of base R are in parallel-psock.R.
#
# clusterCall(), clusterApply() and clusterApplyLB() send through sendCall() and postNode() and take
# the answers before they return. So what was sent from a frame of theirs that has ended was
# abandoned (the call was interrupted, or failed), and must not be taken for an answer to a later
# call. Others who use the generics directly, as package future does, may come for the answer later.

# Our methods for parallel's generics, which are exported from R 4.4 on and internal before.
join_parallel <- function(...) {
  the$parallel <- asNamespace("parallel")
  register_node_methods(the$parallel)
  registerS3method("stopCluster", "NULL", stopCluster.NULL, envir = the$parallel)
  # newer than R 4.2; seen in 4.5
  register_type <- get0("registerClusterType", the$parallel)
  # R warns where this package was loaded before
  if (!is.null(register_type)) suppressWarnings(register_type("CLUTCH", start_for_parallel))
}

# The methods by which parallel's and snow's functions run on our nodes: their generics have the
# same names.
register_node_methods <- function(ns) {
  register <- function(generic, class, method) registerS3method(generic, class, method, envir = ns)
  register("sendData", "clutch_node", sendData_clutch_node)
  register("recvData", "clutch_node", recvData_clutch_node)
  register("recvOneData", "clutch_cluster", recvOneData_clutch_cluster)
  register("closeNode", "clutch_node", closeNode_clutch_node)
  register("sendData", "clutch_psock_node", sendData_clutch_psock_node)
  register("recvData", "clutch_psock_node", recvData_clutch_psock_node)
  register("recvOneData", "clutch_psock_cluster", recvOneData_clutch_psock_cluster)
  register("stopCluster", "clutch_cluster", stopCluster.clutch_cluster)
}

# For parallel::makeCluster(type = "CLUTCH"), where R can register types of clusters.
start_for_parallel <- function(spec = available_cores(), ...) make_cluster(spec, ...)

# ---- sending ----

sendData_clutch_node <- function(node, data) {
  if (!identical(data$type, "EXEC")) {
    if (identical(data$type, "DONE")) stop_nodes(list(node))
    return(invisible()) # as base R's workers: unknown types are ignored
  }
  if (!is.null(the$source)) tell_source(.subset2(node, "info"))
  frame <- if (sys.nframe() > 4L) sys.frame(-4L) # sendData <- postNode <- sendCall <- frame
  parent <- if (!is.null(frame)) parent.env(frame)
  status <- .Call(ffi_node_send, .subset2(node, 1L), .subset2(data, 2L), frame, parent)
  if (is.null(status)) return(invisible()) # it was sent
  if (status == "no_scope" && identical(parent, the$parallel)) { # a call of parallel's begins
    is_to_all <- identical(sys.function(-4L), the$parallel$clusterCall)
    .Call(ffi_call_scope_begin, frame, if (is_to_all) frame, sys.frames())
    status <- .Call(ffi_node_send, .subset2(node, 1L), .subset2(data, 2L), frame, NULL)
    if (is.null(status)) return(invisible())
  }
  scope <- scope_frame(frame)
  # doSNOW sends from within tryCatch()
  if (is.null(scope) && !is.null(the$callers)) scope <- scope_frame(parent.frame(3L))
  if (status == "no_scope") { # neither frame is known as a call scope
    status <- .Call(ffi_node_send, .subset2(node, 1L), .subset2(data, 2L), scope, NULL)
    if (identical(status, "no_scope")) {
      is_to_all <- is_cluster_call(sys.function(-4L))
      .Call(ffi_call_scope_begin, scope, if (is_to_all) frame, sys.frames())
      status <- .Call(ffi_node_send, .subset2(node, 1L), .subset2(data, 2L), scope, NULL)
    }
  }
  not_sent(node, data$data, scope, status)
}

# The frame of a function of parallel's, snow's or doSNOW's, or NULL for others. clusterApplyLB()
# sends from a function defined within.
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
  if (identical(status, "dead") && is_dead_future_node(node)) {
    clone_node(node) # what is to be done with it is a future of its own
    status <- .Call(ffi_node_send, .subset2(node, 1L), call, scope, NULL)
  }
  if (!identical(status, "dead")) return(invisible())
  i <- .Call(ffi_node_info, .subset2(node, 1L))
  how <- ended_for_task(node, i, is_needed = TRUE)
  if (is.null(how) && comes_back(node)) {
    status <- .Call(ffi_node_send, .subset2(node, 1L), call, scope, NULL)
  }
  if (!is.null(how) && node_alive(node)) {
    warn_replaced(i$rank, i$pid, how)
    status <- .Call(ffi_node_send, .subset2(node, 1L), call, scope, NULL)
  }
  if (identical(status, "dead")) {
    .Call(ffi_call_cancel, scope)
    throw_node_died(node, before = TRUE, i = i, how = how)
  }
  invisible()
}

is_dead_future_node <- function(node) {
  inherits(node, "clutch_future_node") &&
    .Call(ffi_node_info, .subset2(node, 1L))$state == "dead"
}

# ---- receiving ----

recvData_clutch_node <- function(node) {
  answer <- .Call(ffi_node_recv, .subset2(node, 1L))
  if (is.null(answer)) died_in_call(node)
  if (length(answer) == 1L) died_in_call(node, answer[[1L]])
  answer
}

recvOneData_clutch_cluster <- function(cl) {
  answer <- .Call(ffi_any_recv, cl)
  if (is.null(answer$value)) died_in_call(cl[[answer$node]], answer$info)
  answer
}

# `i`: of the node that has died, which may be another one of the same call, or have a successor.
died_in_call <- function(node, i = .Call(ffi_node_info, .subset2(node, 1L))) {
  throw_node_died(node, i = i, how = ended_for_task(node, i))
}

# ---- stopping ----

closeNode_clutch_node <- function(node) stop_nodes(list(node))

stopCluster.clutch_cluster <- function(cl, ...) stop_nodes(cl)

# stopCluster() without a cluster takes the default one, and then dispatches on its missing
# argument, which R takes for NULL. The generic's frame has the cluster.
stopCluster.NULL <- function(cl = NULL, ...) {
  default <- if (sys.nframe() > 1L) get0("cl", sys.frame(-1L), inherits = FALSE)
  if (inherits(default, "clutch_cluster")) return(stop_nodes(default))
  if (inherits(default, "cluster")) return(parallel::stopCluster(default))
  stop("no cluster 'cl' supplied and none is registered", call. = FALSE)
}
