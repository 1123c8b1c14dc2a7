# The memory by which the parts of a run send messages.
#
# Nodes of this machine share one mesh, which the session makes (src/core/mesh/mesh.h). Nodes of
# hosts() have one on each host. A node more there, the bridge, makes it and stands for the ranks of
# other hosts; the session's hub is between the bridges (src/core/mesh/bridge.h, hub.h).
#
# Both are a list:
#   paths                       by rank: where its process finds the mesh
#   names                       by rank: the name of its host, for errors
#   died(rank, signal, status)  its process has ended
#   end()                       nobody waits any more
#   keep()                      ranks whose processes may keep memory that they have sent
#   lost()                      text, why the run cannot go on; character(): it can
#   close()                     all of it is given back

run_memory <- function(cl) {
  if (is_all_here(cl)) return(memory_here(length(cl)))
  if (!is.null(info_of(cl)$remote)) return(memory_on_hosts(cl))
  text <- paste("the nodes of a run have to be on this machine, or on hosts of hosts(), slurm() or",
                "hosts_command()")
  throw("argument", text)
}

memory_here <- function(n) {
  mesh <- .Call(ffi_mesh_new, n, tempdir())
  list(
    paths = rep(.Call(ffi_mesh_path, mesh), n),
    names = rep(Sys.info()[["nodename"]], n),
    died = function(rank, signal, status) .Call(ffi_mesh_died, mesh, rank, signal, status),
    end = function() .Call(ffi_mesh_end, mesh),
    keep = function() which(.Call(ffi_mesh_ranks, mesh)$keeps),
    lost = function() character(),
    close = function() .Call(ffi_handle_end, mesh)
  )
}

# ---- several hosts ----

BRIDGE_LIMIT <- 60 # seconds that the bridges may take to come

memory_on_hosts <- function(cl) {
  info <- info_of(cl)
  ranks <- vapply(cl, function(node) node$rank, 1L)
  at <- info$host_of[ranks]
  hosts <- unique(at)
  first <- match(hosts, at) # of each host
  names <- info$hosts[ranks]
  end <- clock() + BRIDGE_LIMIT
  left <- function() max(end - clock(), 0.01)
  bridges <- launcher_of(info)$start(info, ranks[first], left)
  hub <- NULL
  ok <- FALSE
  close <- function() {
    if (!is.null(hub)) .Call(ffi_handle_end, hub)
    .Call(ffi_nodes_stop, bridges, BRIDGE_GRACE, 0)
  }
  on.exit(if (!ok) close())
  hub <- .Call(ffi_hub_new, match(at, hosts), bridges)
  for (k in seq_along(hosts)) tell_handle(bridges[[k]], be_bridge, list(at == hosts[[k]]))
  paths <- paths_there(hub, names[first], end)
  ok <- TRUE
  list(
    paths = paths[match(at, hosts)],
    names = names,
    died = function(rank, signal, status) .Call(ffi_hub_died, hub, rank, signal, status),
    end = function() .Call(ffi_hub_end, hub),
    keep = function() seq_along(cl),
    lost = function() {
      lost <- names[first][.Call(ffi_hub_lost, hub)]
      sprintf("the process that passes messages on host %s has ended", lost)
    },
    close = close
  )
}
BRIDGE_GRACE <- 2000 # milliseconds that a bridge may take to end

paths_there <- function(hub, names, end) {
  said <- .Call(ffi_hub_await, hub, max(end - clock(), 0.01))
  bad <- which(is.na(said$paths))
  if (!length(bad)) return(said$paths)
  why <- said$failures[[bad[[1L]]]]
  if (is.na(why)) why <- "the process that would pass its messages did not come"
  throw("start", sprintf("host %s cannot take part in a run: %s", names[[bad[[1L]]]], why))
}

# In a node more on each host. `is_here`: by rank, whether it is on this host.
be_bridge <- function(is_here) .Call(ffi_bridge_serve, is_here, tempdir())
