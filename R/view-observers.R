# Observers, as who asks them sees them: the session, or another R of this user's. How one comes to
# be: core/supervisor/supervisor.h.

# Seconds for a connection, and for an answer.
OBSERVER_TIME <- 10

# An observer of this cluster's. Its fork server forks it; where the cluster has none, another one
# of this session's, which is started if need be. It ends when the connection is closed.
observer_of <- function(cl) {
  need_fork("an observer of this cluster", "see cluster_status() and cluster_stacks()")
  info <- info_of(cl)
  if (is.null(info$view)) throw("limit", "this cluster has no view: there was no memory for it")
  pass_view(info)
  if (is.null(info$view_at)) {
    server_ready(default_server(), 60)
    pass_view(info)
  }
  pid <- .Call(ffi_server_info, info$view_at)$pid
  path <- view_path(Sys.getpid(), pid)
  if (is.null(path)) throw("limit", "there is no folder that only this user can read for observers")
  o <- connect_observer(path)
  if (is.null(o)) throw("limit", "the fork server has no observer to give")
  o$cluster <- info$shown_as
  o
}

# NULL: nobody is there. The file of a fork server that was killed goes.
connect_observer <- function(path) {
  socket <- tryCatch(
    suppressWarnings(socket_connect(path = path, blocking = TRUE, open = "r+b",
                                    timeout = OBSERVER_TIME, slot = FALSE)),
    error = identity
  )
  if (inherits(socket, "clutch_socket_refused")) remove_view_socket(path)
  if (inherits(socket, "error")) return(NULL)
  numbers <- as.integer(strsplit(basename(path), "-", fixed = TRUE)[[1L]])
  structure(list(socket = socket, path = path, session = numbers[[1L]], server = numbers[[2L]]),
            class = "clutch_observer")
}

# Its value; an error of it is an error here.
ask_observer <- function(o, command, ...) {
  arguments <- list(...)
  if (is.null(arguments$cluster)) arguments$cluster <- o$cluster
  if (!is.null(o$views)) return(ask_views(o, command, arguments))
  socket_send(o$socket, list(command = command, arguments = arguments))
  answer <- socket_receive(o$socket)
  if (inherits(answer, "error")) stop(answer)
  answer
}

# One for each fork server of this user's on this machine.
find_observers <- function() {
  folder <- view_folder()
  paths <- if (!is.null(folder)) list.files(folder, "^[0-9]+-[0-9]+$", full.names = TRUE)
  Filter(Negate(is.null), lapply(paths, connect_observer))
}

close_observer <- function(o) if (!is.null(o$socket)) close(o$socket)

# The snapshot is what cluster_top() shows: it is without single tasks.
top_snapshot <- function(o) ask_observer(o, "snapshot", tasks = 0)

# ---- views without an observer ----

# Clusters of sessions without a fork server. A view is memory that its session has open: on Linux
# who may read what the session's process has can map it, that is, this user. So nothing has to be
# started for it, nor to be left in a folder. What an observer does is done here then.
find_views <- function() {
  if (!system_can("proc")) return(list())
  processes <- list.files("/proc", "^[0-9]+$", full.names = TRUE)
  processes <- processes[file.info(processes)$uid %in% file.info(tempdir())$uid]
  fds <- list.files(file.path(processes, "fd"), full.names = TRUE)
  fds <- fds[startsWith(c(Sys.readlink(fds), character()), "/memfd:clutch ")]
  views <- .Call(ffi_views_of, as.integer(sub("^/proc/([0-9]+)/.*", "\\1", fds)),
                 as.integer(basename(fds)))
  # as for sockets: a folder that was named is for those who name it, too
  named <- vapply(views, function(v) .Call(ffi_view_folder, v), "")
  views <- views[named == enc2utf8(Sys.getenv("CLUTCH_VIEW_FOLDER"))]
  session <- vapply(views, function(v) .Call(ffi_view_numbers, v)[[2L]], 1)
  lapply(split(views, session), function(of_it) {
    pid <- as.integer(.Call(ffi_view_numbers, of_it[[1L]])[[2L]])
    structure(list(views = of_it, session = pid), class = "clutch_observer")
  })
}

# By this process. The clusters of a session that has ended are no more.
ask_views <- function(o, command, arguments) {
  if (is.na(.Call(ffi_process_letter, as.double(o$session)))) {
    throw("lost", sprintf("session %.0f has ended", o$session))
  }
  before <- the_observer$views
  on.exit(the_observer$views <- before)
  the_observer$views <- o$views
  observer_command(command, arguments)
}

# ---- clusters ----

# An observer of each cluster of this user's on this machine, which is `about` it, as in a snapshot.
find_clusters <- function() {
  found <- unlist(lapply(find_observers(), by_cluster), recursive = FALSE)
  more <- unlist(lapply(find_views(), by_cluster), recursive = FALSE)
  # the fork server's know more
  number <- function(o) paste(o$session, o$cluster)
  known <- vapply(found, number, "")
  c(found, Filter(function(o) !number(o) %in% known, more))
}

# The clusters of the session with this process id.
find_clusters_of <- function(session) {
  force(session) # it may be an error: before there is anything to close
  all <- find_clusters()
  is_its <- vapply(all, function(o) o$session == session, NA)
  for (o in all[!is_its]) close_observer(o)
  all[is_its]
}

# The clusters of a detached map's runner.
find_clusters_of_job <- function(job) {
  found <- find_clusters_of(runner_of_job(job))
  if (length(found)) return(found)
  throw("stopped", sprintf("the map '%s' has no cluster that can be seen: it has ended, or begins",
                           job$job$name))
}

# One for each cluster that this observer has in view.
by_cluster <- function(o) {
  clusters <- tryCatch(top_snapshot(o)$clusters, error = function(e) NULL)
  # NULL: a fork server without one
  if (!is.null(clusters)) clusters <- clusters[!clusters$stopped, , drop = FALSE]
  if (!NROW(clusters)) {
    close_observer(o)
    return(NULL)
  }
  each <- lapply(seq_len(nrow(clusters)), function(k) {
    mine <- if (k == 1L || is.null(o$path)) o else connect_observer(o$path)
    if (is.null(mine)) return(NULL) # there are as many as a fork server has at a time
    mine$cluster <- clusters$cluster[[k]]
    mine$about <- clusters[k, ]
    mine
  })
  Filter(Negate(is.null), each)
}
