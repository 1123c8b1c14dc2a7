#' clutch: clusters of R processes
#'
#' [make_cluster()] starts a cluster. The functions of package \pkg{parallel} work on it, and
#' [cluster_map()] and [cluster_submit()] with their relatives. `browseVignettes("clutch")` has the
#' introduction. [clutch()] is the backend for package \pkg{future}.
#' @name clutch-package
#' @docType package
#' @keywords internal
#' @useDynLib clutch
NULL

.onLoad <- function(libname, pkgname) {
  bind_entry_points(asNamespace(pkgname))
  if (interactive()) force_all(asNamespace(pkgname))
  joins <- isTRUE(getOption("clutch.joins")) || is_host_start()
  if (joins && !isNamespaceLoaded("parallel")) {
    # a fork server or node needs package parallel only if what it is told to do does: 10 ms of its
    # start, and 10,000 objects
    setHook(packageEvent("parallel", "onLoad"), join_parallel)
  } else {
    join_parallel()
  }
  listen("log", log_event, log_is_on)
  listen("otel", trace_event, is_tracing)
  detect_tracing()
  setHook(packageEvent("otel", "onLoad"), function(...) the$otel <- otel_unknown)
  adapt_to_others()
  watch_source()
}

# A variable for each entry point of the library. `.registration = TRUE` of useDynLib() makes the
# same by a loop of R, which takes 10 ms of each start of a fork server.
bind_entry_points <- function(ns) {
  library <- getNamespaceInfo(ns, "DLLs")[["clutch"]]
  list2env(getDLLRegisteredRoutines(library)$.Call, ns)
}

# Functions of a package are promises, read from disk when they are first used. One whose reading is
# interrupted twice by Ctrl-C cannot be used any more (seen with R 4.2): the warning "restarting
# interrupted promise evaluation" comes after the promise was marked as under evaluation, and may be
# left by a jump. So where there is a keyboard, all are read now, in 10 ms.
force_all <- function(env) invisible(eapply(env, is.null, all.names = TRUE))

.onAttach <- function(libname, pkgname) {
  if (!is_prestart_wanted()) return()
  # what is wrong, the first cluster will say
  try(default_server(), silent = TRUE)
}

# A wrong value is a warning: an error would keep the package from being attached.
is_prestart_wanted <- function() {
  tryCatch(option_flag("clutch.prestart", FALSE), clutch_argument = function(e) {
    warning(warningCondition(conditionMessage(e), class = "clutch_argument"))
    FALSE
  })
}

.onUnload <- function(libpath) {
  # this code runs the node, whatever its tasks unload; a package that one of them has unloaded and
  # loaded again does not know that it serves
  if (isTRUE(the_node$serving) || .Call(ffi_is_node)) return()
  for (key in names(the$servers)) server_drop(key)
  for (s in own_servers()) server_end(s)
  the$own_servers <- list() # clean_at_end() may come when the library is gone
  forget_watches()
  close_our_connections()
  close_signals()
  # finalizers are code of the library: it stays while there is an object that has one, or a thread
  # that looks up a name
  gc()
  sockets <- .Call(ffi_socket_count)[2:3]
  if (.Call(ffi_live_handles) > 0L || any(sockets > 0L)) return()
  .Call(ffi_end_thread)
  library.dynam.unload("clutch", libpath)
}

close_our_connections <- function() {
  for (k in getAllConnections()[-(1:3)]) {
    con <- connection_at(k)
    if (inherits(con, c("clutch_socket", "clutch_listener"))) close.connection(con)
  }
}
