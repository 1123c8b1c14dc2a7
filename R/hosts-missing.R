# Hosts that do not come, where make_cluster(min_hosts = ) allows that.
#
# In the plan of a cluster:
#   min_hosts  so many have to come
#   missing    numbers of those that have not, once they are given up; they keep their numbers and
#              have no nodes
#   why_missing  lines that say why

check_min_hosts <- function(x, launch) {
  if (is.null(x)) return(NULL)
  if (is.null(launch)) {
    text <- "`min_hosts` is for hosts(), slurm() and hosts_command(), see their help pages"
    throw("argument", text)
  }
  if (!is.null(launch$least)) {
    throw("argument", "`min_hosts` is for a number of hosts that stays, not with slurm(nodes = )")
  }
  n <- length(launch$each)
  if (is_whole(x) && length(x) == 1L && x <= n) return(as.integer(x))
  has_to_be("`min_hosts`", sprintf("a number from 1 to %d, the number of hosts", n))
}

# The cluster has the nodes of those that have come.
forget_missing <- function(info) {
  if (is.null(info$missing)) return(invisible())
  keep <- !info$host_of %in% info$missing
  info$hosts <- info$hosts[keep]
  info$host_of <- info$host_of[keep]
}

hosts_that_came <- function(info) setdiff(seq_along(info$servers), info$missing)

warn_missing <- function(info) {
  names <- info$launch$hosts[info$missing]
  if (!length(names)) return(invisible())
  n <- length(info$servers)
  head <- sprintf("%d of %d hosts did not come, and the cluster has %d nodes on the others",
                  length(names), n, length(info$hosts))
  text <- paste(c(head, info$why_missing), collapse = "\n")
  warning(warningCondition(text, class = "clutch_hosts_missing", hosts = names))
}
