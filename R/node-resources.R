# This is for what a task was given of its host, in its node. src/r/node/grant.c says when.

#' What the task at hand was given of its host
#'
#' Tells what of the resources that `.needs` asks for the task at hand has: see section *What
#' elements ask for* of [cluster_map()].
#'
#' @return In a task of a map or of [cluster_submit()] with `.needs`: named list. `memory`: number
#'   of bytes that it has asked for. `cores`: integer, its cores, which may be more than it has
#'   asked for, or 1 where it has asked for units only. For each kind of units a character vector:
#'   the names of its units; of a part of a unit the name of that. What else it has not asked for is
#'   not there. Elsewhere an empty list.
#' @seealso [cluster_map()], [make_cluster()]
#' @examples
#' cl <- make_cluster(2, resources = list(gpu = 0:1, cores = 2))
#' cluster_map(cl, 1:2, function(i) clutch::task_resources()$gpu, .needs = list(gpu = 1))
#' stop_cluster(cl)
#' task_resources()
#' @export
task_resources <- function() {
  grant <- the_node$grant
  if (is.null(grant)) list() else grant
}

# Puts this in force: list(text, threads), see core/wire/task-message.h; NULL: all is as without.
node_grant <- function(given) {
  grant_variables(character())
  the_node$grant <- NULL
  if (is.null(given)) {
    set_threads(0L)
    return(NULL)
  }
  the_node$grant <- parse_grant(given[[1L]])
  threads <- given[[2L]]
  of_cores <- if (threads > 0L) variables_of_cores(threads)
  grant_variables(c(variables_of_units(the_node$grant), of_cores))
  set_threads(threads)
  NULL
}

parse_grant <- function(text) {
  lines <- strsplit(text, "\n", fixed = TRUE)[[1L]]
  values <- as.list(sub("^[^=]*=", "", lines))
  names(values) <- sub("=.*", "", lines)
  for (name in names(values)) {
    values[[name]] <- switch(name, memory = as.numeric(values[[name]]),
                             cores = as.integer(values[[name]]),
                             strsplit(values[[name]], ",", fixed = TRUE)[[1L]])
  }
  values
}

# Libraries read these to find the GPUs that they may use. The numbers of nvidia-smi are by the bus.
variables_of_units <- function(grant) {
  if (is.null(grant$gpu)) return(NULL)
  gpus <- paste(grant$gpu, collapse = ",")
  c(CUDA_VISIBLE_DEVICES = gpus, HIP_VISIBLE_DEVICES = gpus, ZE_AFFINITY_MASK = gpus,
    if (is.na(Sys.getenv("CUDA_DEVICE_ORDER", NA))) c(CUDA_DEVICE_ORDER = "PCI_BUS_ID"))
}

# For what is loaded or started from now on.
variables_of_cores <- function(n) {
  names <- c(thread_variables, "R_DATATABLE_NUM_THREADS", "RCPP_PARALLEL_NUM_THREADS",
             "CLUTCH_NODE_CORES")
  structure(rep(as.character(n), length(names)), names = names)
}

# Sets these, after those that were set before are as they were.
grant_variables <- function(set) {
  before <- the_node$grant_before
  if (anyNA(before)) Sys.unsetenv(names(before)[is.na(before)])
  before <- before[!is.na(before)]
  if (length(before)) do.call(Sys.setenv, as.list(before))
  the_node$grant_before <- if (length(set)) Sys.getenv(names(set), NA, names = TRUE)
  if (length(set)) do.call(Sys.setenv, as.list(set))
}

# Threads of the libraries that are loaded: OpenMP, BLAS, data.table. 0: as before.
set_threads <- function(n) {
  .Call(ffi_set_threads, as.integer(n))
  before <- the_node$grant_threads
  if (n == 0L && is.null(before)) return()
  package <- if (isNamespaceLoaded("data.table")) getNamespace("data.table")
  if (n == 0L) {
    the_node$grant_threads <- NULL
    # where it was loaded meanwhile it asks the environment again
    if (!is.null(package)) package$setDTthreads(if (!is.na(before)) before)
    return()
  }
  if (is.null(before)) {
    the_node$grant_threads <- if (is.null(package)) NA_integer_ else package$getDTthreads()
  }
  if (!is.null(package)) package$setDTthreads(n)
}
