# This file has what the session knows of its links and of the hosts behind them.
#
# cluster_hosts() and cluster_status() ask the fork server of a host by MACHINE, which it answers
# whatever its nodes do.

# Data frame: rank (number of the host), state ("waiting", "up", "cut", "ended"), bytes_in,
# bytes_out, cuts, why, age (for how many seconds it has been in that state).
link_status <- function(link) as.data.frame(.Call(ffi_link_hosts, link$handle))

# The value has a row with this for each host of a cluster. `info`: of the cluster.
status_of_hosts <- function(info) {
  s <- link_status(info$remote$link)
  s[match(vapply(info$remote$servers, function(host) host$number, 1L), s$rank), ]
}

host_has_ended <- function(host) .Call(ffi_server_info, host$handle)$state == "ended"

# The value is what the host calls itself; NULL: it has not come.
name_of_host <- function(info, k) info$remote$servers[[k]]$report$host$name
