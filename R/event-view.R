# Others see this session's clusters by a view: see core/shm/view.h. The view of a cluster is made
# with it, as info$view. Fork servers of the session have it, for the observers that they fork
# (observer-serve.R).
#
# The session writes nodes, jobs, the last tasks and events where it comes by them:
# clu_engine_remember(), clu_task_job_begin(), clu_node_show_state(), tell_event(). The fork server
# is sent the view (message VIEW) and has a Unix-domain socket in a folder that only this user can
# read.
#
# A session without a fork server has no observers. On Linux whoever looks maps the view from the
# session itself (find_views()): it is memory that its process has open, and the kernel lets
# nobody but this user open what is in /proc/PID/fd. So the session has nothing to start, to name
# or to remove. An observer maps the memory that a session shares with nodes that it has started
# itself in the same way.

# After the start of its nodes. Without memory or descriptors for a view there is none.
show_cluster <- function(cl) {
  info <- info_of(cl)
  texts <- c(as.character(getRversion()), Sys.info()[["effective_user"]],
             Sys.info()[["nodename"]], info$strategy, Sys.getenv("CLUTCH_VIEW_FOLDER"))
  cluster_number(info)
  set_cluster(info, view = .Call(ffi_view_new, info$shown_as, length(info$hosts), texts))
  if (is.null(info$view)) return(invisible())
  show_nodes(info, seq_len(nodes_at_start(info)))
  pass_view(info)
}

# These nodes are there from now on.
show_nodes <- function(info, ranks) {
  if (is.null(info$view)) return(invisible())
  .Call(ffi_view_nodes, info$view, info$handles[ranks], ranks, info$hosts[ranks])
}

# The fork server that has it, or is to have it: of this machine, and ready. NULL: there is none.
server_of_view <- function(info) {
  servers <- c(list(info$server, info$remote$link$server), the$servers)
  is_there <- function(s) {
    if (is.null(s$handle)) return(FALSE)
    i <- .Call(ffi_server_info, s$handle)
    i$state == "ready" && !i$remote
  }
  Find(is_there, servers)
}

# To be called again when that server may be another one.
pass_view <- function(info) {
  if (is.null(info$view)) return(invisible())
  pass_view_to_link(info)
  server <- server_of_view(info)
  if (is.null(server) || identical(server$handle, info$view_at)) return(invisible())
  if (.Call(ffi_view_pass, info$view, server$handle, info$shown_as)) {
    set_cluster(info, view_at = server$handle)
  }
  invisible()
}

# The link process tells there of nodes on other hosts: see core/link/views.h.
pass_view_to_link <- function(info) {
  link <- info$remote$link
  if (is.null(link) || identical(link$handle, info$view_link)) return(invisible())
  if (.Call(ffi_link_view, link$handle, info$shown_as, info$view)) {
    set_cluster(info, view_link = link$handle)
  }
  invisible()
}

# The cluster has been stopped. Observers that have its view say so; to new ones it is not shown.
hide_cluster <- function(info) {
  if (is.null(info$view)) return(invisible())
  .Call(ffi_view_stop, info$view)
  if (!is.null(info$view_link)) .Call(ffi_link_view, info$view_link, info$shown_as, NULL)
  set_cluster(info, view_link = NULL)
  if (is.null(info$view_at)) return(invisible())
  .Call(ffi_view_pass, NULL, info$view_at, info$shown_as)
  set_cluster(info, view_at = NULL)
  invisible()
}
