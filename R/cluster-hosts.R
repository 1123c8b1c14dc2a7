# The hosts of a cluster, as the session sees them.

#' Hosts of a cluster
#'
#' One row for each host of a cluster made with [hosts()].
#'
#' Asks the process of this session that holds the connections. Runs nothing on the hosts.
#'
#' @param cl Cluster made by [make_cluster()] with [hosts()].
#' @return A data frame with these columns:
#' * `host`: character.
#' * `state`: character: `"up"`; `"cut"`, its connection is being made anew; `"waiting"`, it has not
#'   connected yet; `"ended"`.
#' * `nodes`: integer, number of nodes that are there.
#' * `bytes_in`, `bytes_out`: number of bytes that came from there and went there.
#' * `cuts`: number of times that the connection was cut and made anew.
#' * `why`: character, why it has ended.
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
  info <- if (length(cl)) .subset2(.subset2(cl, 1L), "info")
  if (is.null(info$link)) {
    throw("argument", "the nodes of `cl` were not made with hosts(): it has no other hosts")
  }
  s <- link_status(info$link)
  numbers <- vapply(info$servers, function(host) host$number, 1L)
  s <- s[match(numbers, s$rank), ]
  alive <- !vapply(unclass(cl), function(nd) {
    .Call(ffi_node_info, nd$handle)$state %in% c("dead", "stopped")
  }, NA)
  of_node <- info$host_of[vapply(unclass(cl), function(nd) nd$rank, 1L)]
  data.frame(
    host = info$launch$hosts, state = s$state, nodes = tabulate(of_node[alive], length(numbers)),
    bytes_in = s$bytes_in, bytes_out = s$bytes_out, cuts = s$cuts, why = s$why,
    stringsAsFactors = FALSE
  )
}
