# Observers, as who asks them sees them: the session, or another R of this user's. How one comes to
# be: core/supervisor/supervisor.h.

# Seconds for a connection, and for an answer.
OBSERVER_TIME <- 10

# An observer of this cluster's. Its fork server forks it; where the cluster has none, another one
# of this session's, which is started if need be. It ends when the connection is closed.
observer_of <- function(cl) {
  info <- info_of(cl)
  if (is.null(info$view)) throw("limit", "this cluster has no view: there was no memory for it")
  pass_view(info)
  if (is.null(info$view_at)) {
    server_ready(server_for(default_server_spec(), effective_env(NULL)), 60)
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

close_observer <- function(o) close(o$socket)

# What cluster_top() shows: without single tasks.
top_snapshot <- function(o) ask_observer(o, "snapshot", tasks = 0)

# An observer of each cluster of this user's on this machine, which is `about` it, as in a snapshot.
find_clusters <- function() unlist(lapply(find_observers(), by_cluster), recursive = FALSE)

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
    mine <- if (k == 1L) o else connect_observer(o$path)
    if (is.null(mine)) return(NULL) # there are as many as a fork server has at a time
    mine$cluster <- clusters$cluster[[k]]
    mine$about <- clusters[k, ]
    mine
  })
  Filter(Negate(is.null), each)
}
