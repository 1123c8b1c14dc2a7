#' Large vectors in shared memory
#'
#' Nodes of this host get large atomic vectors by shared memory, and give them back so, wherever in
#' an object they are; nothing has to be asked for. `share()` does in advance, once, what sending an
#' object does each time: it copies its large vectors into shared memory and returns the object with
#' these. To send that to the nodes of any cluster of this host costs a message and no copy.
#'
#' @details
#' A vector is shared from a size on that depends on how many nodes a message goes to: 2.5e6 bytes
#' for one, 1e6 for two to seven, 3e5 for eight and more. Results are from 2.5e6 bytes on in a
#' cluster of one node, and from 1e6 on in others. Where option `clutch.share_from` is set that
#' number holds for all (see [clutch-options]). By `share()` it is from 65,536 bytes on. Vectors of
#' type logical, integer, double, complex and raw are, with all their attributes: so are matrices,
#' factors, dates and the columns of data frames. So are character vectors, which count 8 bytes for
#' each element and those of its text. Lists themselves are copied.
#'
#' The elements of a character vector become R's strings when they are first used, each by itself,
#' and are that process's own from then on. Functions that need all of them (`sort()`, `order()`)
#' make an ordinary vector of it. In a locale that is neither UTF-8 nor Latin-1, a vector with other
#' characters than ASCII in the native encoding travels as others do.
#'
#' On a node it is an ordinary vector, which may be changed in place: the changed pages (of 4 kB)
#' are that node's own from then on, and neither the session nor another node sees the change.
#' `saveRDS()` and `serialize()` write an ordinary vector. Another host is sent a copy, which its
#' nodes share.
#'
#' The memory has no name in any file system. It is freed when the last vector in it is, whoever
#' ends in which way. Where it cannot be had (limits of the process, systems without it), the vector
#' travels as all others do.
#'
#' A vector of `share()` that was changed in place since (R does that where nothing else refers to
#' it, `data.table::set()` always) is copied again when it is sent.
#'
#' What came by shared memory and was not changed goes back and on without a copy, too: a node that
#' returns the table it was sent with a column more writes that column only. That holds where at
#' least three quarters of the block are returned; of less, a copy is returned, which does not keep
#' the whole block.
#' @param x Any object. Environments in it stay the same environments: they are not looked into.
#' @return
#' * `share()`: the object, with large vectors in shared memory.
#' * `is_shared()`: `TRUE` if `x` is a vector in shared memory, or a list with one among its
#'   elements (at any depth).
#' * `share_info()`: a data frame with a row for each block of shared memory that this session or a
#'   node that it has started on this host has mapped: `what` (`"vectors"`), `id` (number), `bytes`
#'   (double) and `pids` (list of integer vectors: the processes that have mapped it, as far as the
#'   system tells). What was sent and is in no row went by the socket. For each node of a cluster
#'   with `preload` there is another row: `what` is `"preload"`, `id` `NA`, `bytes` is what the node
#'   still has in common with the process that has evaluated the expression, R itself included, and
#'   `pids` are these two. No rows where the system has no `/proc`.
#' @section Errors:
#' `clutch_argument`: option `clutch.share_from` is no number.
#' @seealso [cluster_export()]; `make_cluster(preload = )` for objects of other types.
#' @references The memory is Linux's `memfd_create()`, elsewhere a file that is unlinked while it is
#'   open, mapped privately (`mmap()` with `MAP_PRIVATE`); to R the vectors are ALTREP objects (R's
#'   manual *R Internals*).
#' @examples
#' x <- share(runif(1e6))
#' is_shared(x)
#' cl <- make_cluster(2)
#' parallel::clusterCall(cl, sum, x)
#' share_info()$bytes
#' stop_cluster(cl)
#' @export
share <- function(x) {
  out <- .Call(ffi_share, x)
  # with room for columns, as data.table() makes it: data.table::set() can add one
  if (inherits(out, "data.table") && is_shared(out) && isNamespaceLoaded("data.table")) {
    out <- getExportedValue("data.table", "setalloccol")(out)
  }
  out
}

#' @rdname share
#' @export
is_shared <- function(x) {
  if (is.list(x)) return(any(vapply(unclass(x), is_shared, NA)))
  .Call(ffi_is_shared, x)
}

#' @rdname share
#' @export
share_info <- function() {
  rbind(shared_blocks(), preload_shares())
}

shared_blocks <- function() {
  here <- processes_here()
  ours <- c(Sys.getpid(), started_by(Sys.getpid(), here))
  ids <- unique(unlist(lapply(ours, function(pid) shared_maps(pid)$id)))
  all <- lapply(if (length(ids)) here, shared_maps)
  # what has ended meanwhile is in no row
  ids <- ids[ids %in% unlist(lapply(all, `[[`, "id"))]
  bytes <- vapply(ids, function(id) max(unlist(lapply(all, function(m) m$bytes[m$id == id]))), 1)
  pids <- lapply(ids, function(id) here[vapply(all, function(m) id %in% m$id, NA)])
  info_rows("vectors", ids, bytes, pids)
}

# The value is what nodes have in common with the server that has evaluated their `preload`.
preload_shares <- function() {
  servers <- vapply(own_servers(), function(s) .Call(ffi_server_info, s$handle)$pid, 1L)
  here <- if (length(servers)) processes_here()
  pairs <- unlist(lapply(servers, function(server) {
    lapply(children_of(server, here), function(node) c(server, node))
  }), recursive = FALSE)
  bytes <- vapply(pairs, function(pair) common_bytes(pair[[2L]]), 1)
  info_rows("preload", rep(NA_real_, length(pairs)), bytes, pairs)
}

info_rows <- function(what, ids, bytes, pids) {
  data.frame(what = rep(what, length(pids)), id = as.numeric(ids), bytes = as.numeric(bytes),
             pids = I(as.list(pids)))
}

# Pages that are neither a file's nor of shared memory, and that other processes have, too.
common_bytes <- function(pid) {
  lines <- read_lines("/proc", pid, "smaps_rollup")
  kb <- function(name) {
    as.numeric(gsub("[^0-9]", "", grep(paste0("^", name, ":"), lines, value = TRUE)))
  }
  max(0, sum(kb("Anonymous")) - sum(kb("Private_Dirty"))) * 1024
}

processes_here <- function() {
  sort(as.integer(list.files(proc_file(), "^[0-9]+$")))
}

children_of <- function(pid, among) among[parents_of(among) %in% pid]

# Its children, and theirs.
started_by <- function(pid, among) {
  parents <- parents_of(among)
  out <- integer()
  while (length(pid)) {
    pid <- among[parents %in% pid]
    out <- c(out, pid)
  }
  out
}

parents_of <- function(pids) {
  vapply(pids, function(pid) {
    stat <- read_lines(proc_file(pid, "stat"))
    if (!length(stat)) return(NA_integer_)
    as.integer(strsplit(sub("^.*\\) ", "", stat[[1L]]), " ")[[1L]][[2L]])
  }, 1L)
}

# The blocks that a process has mapped: their numbers in the system, and how long the mappings are.
# None of a process that has ended, or is another user's.
shared_maps <- function(pid) {
  ours <- "/(memfd:)?clutch-data\\S* \\(deleted\\)$" # else a file that was removed
  lines <- grep(ours, read_lines("/proc", pid, "maps"), value = TRUE)
  fields <- regmatches(lines, regexec("^([0-9a-f]+)-([0-9a-f]+) \\S+ \\S+ \\S+ ([0-9]+)", lines))
  at <- function(i) vapply(fields, `[`, "", i)
  hex <- function(text) as.numeric(paste0("0x", text, recycle0 = TRUE))
  list(id = as.numeric(at(4L)), bytes = hex(at(3L)) - hex(at(2L)))
}
