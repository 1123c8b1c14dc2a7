# Many hosts are started as a tree: this session starts some of them by ssh, and each of these
# starts others by an ssh of its own, with the same command (node-tree.R). Who starts hundreds of
# programs ssh by itself needs 20 to 40 ms of a processor for each, and keeps them all. Each host
# connects to the session as ever.
#
# A host that the tree does not bring (ssh there knows neither its name nor a key) is started by the
# session itself: hosts-start.R sees to it.

# A tree of two levels, where ssh starts the hosts: for each the number of the one that starts it;
# 0: this session.
launch_parents <- function(x) {
  n <- length(x$each)
  if (isTRUE(x$tunnel) || n < the$tree_from) return(integer(n))
  top <- ceiling(sqrt(n))
  parents <- rep(seq_len(top), length.out = n)
  parents[seq_len(top)] <- 0L
  as.integer(parents)
}

tree_text <- function(parents) {
  if (!any(parents > 0L)) return(NULL)
  sprintf("as a tree: %d of them are started here, and start the others by the same commands",
          sum(parents == 0L))
}

# The value is what host `k` has to know in order to start its part of the tree: for
# host_settings_text().
part_of_tree <- function(info, k) {
  children <- which(info$remote$parents == k)
  if (!length(children)) return(NULL)
  x <- info$plan$launch
  x$tunnel <- FALSE
  x$ssh <- c(x$ssh, "-o", "BatchMode=yes")
  launches <- commands_of(info$plan$kind, x, info$plan$methods, "", "", children)
  list(others = vapply(launches, function(launch) shell_words(launch$argv), ""),
       ranks = vapply(info$remote$servers[children], function(host) host$number, 1L))
}
