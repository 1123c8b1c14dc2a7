# The hosts of a cluster, as the session sees them.

#' Hosts of a cluster
#'
#' One row for each host of a cluster made with [hosts()], [slurm()] or [hosts_command()].
#'
#' Asks the process of this session that holds the connections, and the fork server of each host
#' that is up. Waits for at most a second. Runs nothing on the nodes, so it also answers while they
#' are busy.
#'
#' @param cl Cluster made by [make_cluster()] with one of them.
#' @return A data frame with these columns. `NA`: not known.
#' * `host`: character.
#' * `state`: character: `"up"`; `"cut"`, its connection is being made anew; `"waiting"`, it has not
#'   connected yet, or its job waits in Slurm's queue; `"ended"`. In a cluster of
#'   `slurm(nodes = )` and `hosts_command(nodes = )` hosts that have ended are not shown.
#' * `since`: date and time, by this machine's clock, since when it has been in that state.
#' * `nodes`: integer, number of nodes that are there.
#' * `load`: number of processes there that ran or waited for a processor, averaged over the last
#'   minute, of all users.
#' * `memory`: number of MB (2^20 bytes) of memory that the machine has, without swap.
#' * `memory_free`: number of MB of it that can be had without swapping.
#' * `bytes_in`, `bytes_out`: number of bytes that came from there and went there since the start,
#'   before they were encrypted.
#' * `round_trip`: number of seconds that the question took to the fork server there, and its answer
#'   back.
#' * `time_left`: number of seconds until Slurm ends its job. `NA` for other hosts.
#' * `cuts`: number of times that the connection was cut.
#' * `why`: character, why it was cut last, or has ended. `""`: it was not.
#' @section Errors: `clutch_argument`: `cl` is no such cluster, or has no other hosts. It has class
#'   `clutch_error`.
#' ```r
#' tryCatch(cluster_hosts(cl), clutch_argument = function(e) NULL)
#' ```
#' @seealso [cluster_status()] for the nodes.
#' @examples
#' \dontrun{
#' cl <- make_cluster(hosts(c("alpha", "beta"), each = 16))
#' cluster_hosts(cl)
#' }
#' @export
cluster_hosts <- function(cl) {
  check_cluster(cl)
  info <- if (length(cl)) info_of(cl)
  if (is.null(info$remote$link)) {
    text <- "`cl` has no other hosts: it was not made with hosts(), slurm() or hosts_command()"
    throw("argument", text)
  }
  s <- status_of_hosts(info)
  shown <- shown_hosts(info, s$state)
  s <- s[shown, ]
  servers <- info$remote$servers[shown]
  machine <- machines_of(servers, s$state == "up")
  data.frame(
    host = names_of_hosts(info)[shown], state = s$state, since = Sys.time() - s$age,
    nodes = nodes_of_hosts(cl, info)[shown], load = machine$load, memory = machine$memory / 2^20,
    memory_free = machine$memory_free / 2^20, bytes_in = s$bytes_in, bytes_out = s$bytes_out,
    round_trip = machine$trip, time_left = ifelse(s$state == "ended", NA, times_left(servers)),
    cuts = s$cuts, why = s$why, stringsAsFactors = FALSE
  )
}

# Numbers of those that are of interest. Where others come in their place, those that have ended are
# not, unless all have.
shown_hosts <- function(info, states) {
  all <- seq_along(info$remote$servers)
  r <- info$tasks$resize
  if (is.null(r)) all else all[r$at[all] != "none" & states != "ended"]
}

# How many nodes are there, on each.
nodes_of_hosts <- function(cl, info) {
  nodes <- nodes_there(cl)
  there <- !node_states(nodes) %in% c("dead", "stopped")
  of_node <- info$host_of[vapply(nodes, function(nd) nd$rank, 1L)]
  tabulate(of_node[there], length(info$remote$servers))
}

# The value is that of ffi_servers_machine(). `is_up`: of which an answer is to be expected.
machines_of <- function(servers, is_up) {
  unknown <- rep(NA_real_, length(servers))
  out <- list(load = unknown, memory = unknown, memory_free = unknown, trip = unknown)
  handles <- lapply(servers[is_up], function(host) host$handle)
  told <- .Call(ffi_servers_machine, handles, FALSE, 1)
  for (name in names(out)) out[[name]][is_up] <- told[[name]]
  out
}

times_left <- function(servers) {
  vapply(servers, function(host) {
    then <- host$report$host$time_left
    if (is.null(then)) NA_real_ else max(then - (clock() - host$came), 0)
  }, 1)
}
