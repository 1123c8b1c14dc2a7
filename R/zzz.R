#' @keywords internal
#' @useDynLib clutch, .registration = TRUE
"_PACKAGE"

.onLoad <- function(libname, pkgname) {
  if (interactive()) force_all(asNamespace(pkgname))
  # a node over TCP needs package parallel only if what it is told to do does: 3 ms of its start
  if (isTRUE(getOption("clutch.joins")) && !isNamespaceLoaded("parallel")) setHook(packageEvent("parallel", "onLoad"), join_parallel)
  else join_parallel()
  adapt_to_others()
}

# Functions of a package are promises, read from disk when they are first used. One whose reading is interrupted twice by
# Ctrl-C cannot be used any more (seen with R 4.2): the warning "restarting interrupted promise evaluation" comes
# after the promise was marked as under evaluation, and may be left by a jump. So where there is a keyboard, all are
# read now, in 10 ms.
force_all <- function(env) invisible(eapply(env, is.null, all.names = TRUE))

# Our methods for parallel's generics, which are exported from R 4.4 on and internal before.
join_parallel <- function(...) {
  the$parallel <- asNamespace("parallel")
  register_node_methods(the$parallel)
  registerS3method("stopCluster", "NULL", stopCluster.NULL, envir = the$parallel)
  if (!is.null(register <- get0("registerClusterType", the$parallel))) # newer than R 4.2; seen in 4.5
    register("CLUTCH", start_for_parallel)
}

# The methods by which parallel's and snow's functions run on our nodes: their generics have the same names.
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

.onAttach <- function(libname, pkgname) {
  if (isTRUE(getOption("clutch.prestart"))) try(silent = TRUE, # the first cluster will say what is wrong
    server_for(list(packages = character(), rscript = file.path(R.home("bin"), "Rscript"),
                    rscript_args = character(), methods = TRUE, strategy = "fork_server"), effective_env(NULL)))
}

.onUnload <- function(libpath) {
  if (isTRUE(the_node$serving)) return() # this code runs the node, whatever its tasks unload
  for (key in names(the$servers)) server_drop(key)
  for (k in getAllConnections()[-(1:3)])
    if (inherits(con <- getConnection(k), c("clutch_socket", "clutch_listener"))) close.connection(con)
  close_signals()
  gc() # finalizers are code of the library: it stays while there is an object that has one, or a thread that looks up a name
  if (.Call(ffi_live_handles) == 0L && all(.Call(ffi_socket_count)[2:3] == 0L)) library.dynam.unload("clutch", libpath)
}
