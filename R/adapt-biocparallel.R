# BiocParallel: ClutchParam(), and clusters as a SnowParam.
#
# BiocParallel cuts what there is to do into its tasks, has the streams of random numbers, the logs,
# the progress bar and the results. Of us it wants a manager: adapt-biocparallel-work.R.
#
# Classes and methods are defined when BiocParallel is loaded, in the$s4: in the session, and in the
# nodes, where a task is run by BiocParallel's own loop of a worker.

#' A cluster for package BiocParallel
#'
#' Makes a parameter object for `BiocParallel::bplapply()` and its relatives, which then run on the
#' nodes of a cluster: `bplapply()`, `bpmapply()`, `bpvec()`, `bpiterate()` and others, with
#' `BPREDO`, logs, progress bars and random numbers as \pkg{BiocParallel} defines them. The same
#' `RNGseed` gives the same results as with its other parameter objects.
#'
#' @section Start and end: As with `BiocParallel::SnowParam()`, `bpstart()` makes the cluster and
#'   `bpstop()` ends it. A function that finds it not started does both. The nodes are forked from
#'   an R that has loaded \pkg{BiocParallel}, so that a start takes milliseconds from the second
#'   on. A cluster given as `workers` is used as it is, and not ended.
#' @section Variables: With `exportvariables = TRUE` variables of the workspace and attached
#'   packages are found as in [cluster_map()]: those that the function uses, and those that these
#'   use in turn. `BiocParallel::SnowParam()` sends the first only.
#' @section When a node dies: It is replaced. Its elements are tried again if `retries` allows that;
#'   else they have failed with an error of class `worker_comm_error`, as all else that goes wrong
#'   outside of the function. The others are not affected, and `BPREDO` computes only what is
#'   missing.
#' @section Errors: `clutch_package` (`package`): \pkg{BiocParallel} is not installed.
#'   `clutch_argument`: `workers` is of no use. Errors of the function are those of
#'   \pkg{BiocParallel}, with its classes:
#'   ```
#'   tryCatch(
#'     BiocParallel::bplapply(list(1, "a"), log, BPPARAM = ClutchParam(2)),
#'     bplist_error = function(e) BiocParallel::bpok(BiocParallel::bpresult(e))
#'   )
#'   #> TRUE FALSE
#'   ```
#' @param workers number of nodes; names of hosts, as for [make_cluster()]; a cluster made by
#'   [make_cluster()]; or `NULL`: the session's own cluster, see [own-cluster].
#' @param tasks number of tasks into which the elements are divided. 0: as many as there are nodes,
#'   or with a progress bar as many as there are elements.
#' @param stop.on.error,progressbar,exportglobals,exportvariables,log,force.GC,fallback `TRUE` or
#'   `FALSE`: as in `BiocParallel::SnowParam()`.
#' @param RNGseed number or `NULL`: the seed of the random numbers.
#' @param timeout number of seconds that one element may take, or `NA`.
#' @param threshold,logdir,resultdir,jobname string: as in `BiocParallel::SnowParam()`.
#' @param retries number: how often a task is tried again when its node has died.
#' @return Object of the reference class `ClutchParam`, which is a `BiocParallelParam`.
#' @seealso [make_cluster()], [cluster_map()]
#' @examples
#' if (requireNamespace("BiocParallel", quietly = TRUE)) {
#'   library(BiocParallel)
#'   param <- ClutchParam(2, RNGseed = 1)
#'   x <- bplapply(1:4, rnorm, BPPARAM = param)
#'   identical(x, bplapply(1:4, rnorm, BPPARAM = SerialParam(RNGseed = 1)))
#' }
#' @export
ClutchParam <- function(workers = available_cores(), tasks = 0L, stop.on.error = TRUE,
                        progressbar = FALSE, RNGseed = NULL, timeout = NA_integer_,
                        exportglobals = TRUE, exportvariables = TRUE, log = FALSE,
                        threshold = "INFO", logdir = NA_character_, resultdir = NA_character_,
                        jobname = "BPJOB", force.GC = FALSE, fallback = TRUE, retries = 0) {
  need_package("BiocParallel", "ClutchParam()")
  if (missing(tasks) && isTRUE(progressbar)) tasks <- .Machine$integer.max
  given <- NULL
  if (is.null(workers)) {
    workers <- size_of_own()
    given <- list(NULL)
  } else if (inherits(workers, "clutch_cluster")) {
    given <- list(workers)
    workers <- length(workers)
  }
  prototype <- BiocParallel::.prototype_update(
    c(list(cluster = NULL, given = NULL, retries = 0), BiocParallel::.BiocParallelParam_prototype),
    given = given, retries = check_option("retries", retries, "`retries`"),
    workers = check_workers(workers), tasks = as.integer(tasks), stop.on.error = stop.on.error,
    progressbar = progressbar, RNGseed = if (!is.null(RNGseed)) as.integer(RNGseed),
    timeout = as.integer(timeout), exportglobals = exportglobals,
    exportvariables = exportvariables, log = log, threshold = threshold, logdir = logdir,
    resultdir = resultdir, jobname = jobname, force.GC = force.GC, fallback = fallback
  )
  param <- do.call(the$s4$new_param, prototype)
  methods::validObject(param)
  param
}

check_workers <- function(workers) {
  if (is.character(workers) && length(workers) && !anyNA(workers)) return(workers)
  if (is_number(workers, 0)) return(as.integer(workers))
  has_to_be("`workers`", "a number of nodes, names of hosts, a cluster, or NULL")
}

# ---- what BiocParallel asks for, defined when it is loaded ----

adapt_to_biocparallel <- function(ns) {
  the$s4 <- new.env(parent = ns) # where the definitions are: namespaces are locked
  define_snow_param(the$s4)
  define_param(the$s4)
  define_manager(the$s4)
  define_worker(the$s4)
}

# A cluster made elsewhere: BiocParallel neither starts nor stops it. Its own coercion wants a class
# of base R's, whose objects are lists of nodes, too.
define_snow_param <- function(where) {
  methods::setOldClass(c("clutch_cluster", "cluster"), where = where)
  methods::setOldClass(c("clutch_psock_cluster", "clutch_cluster", "cluster"), where = where)
  coerce <- function(from) {
    to <- methods::as(structure(unclass(from), class = c("SOCKcluster", "cluster")), "SnowParam")
    to$cluster <- from
    to
  }
  methods::setAs("clutch_cluster", "SnowParam", coerce, where = where)
  methods::setAs("clutch_psock_cluster", "SnowParam", coerce, where = where)
}

# `cluster`: NULL: it is not started. `given`: list(the cluster that is used), or NULL: one is made.
define_param <- function(where) {
  where$new_param <- methods::setRefClass(
    "ClutchParam", contains = "BiocParallelParam", where = where,
    fields = list(cluster = "ANY", given = "ANY", retries = "numeric")
  )
  method <- function(generic, f, ...) {
    methods::setMethod(generic, c("ClutchParam", ...), f, where)
  }
  method("bpstart", param_start)
  method("bpstop", param_stop)
  method("bpisup", function(x) !is.null(x$cluster))
  method("bpbackend", function(x) x$cluster)
  set <- function(field, convert = identity) {
    function(x, value) {
      x[[field]] <- convert(value)
      x
    }
  }
  method("bpbackend<-", set("cluster"), "ANY")
  method("bpworkers<-", set("workers", check_workers), "numeric")
  method("bpworkers<-", set("workers", check_workers), "character")
  method("bplog<-", set("log"), "logical")
  method("bpthreshold<-", set("threshold"), "character")
}

param_start <- function(x, lenX = BiocParallel::bpnworkers(x)) {
  if (BiocParallel::bpisup(x)) throw("argument", "the cluster is already started")
  x$cluster <- if (!is.null(x$given)) {
    cluster_or_own(x$given[[1L]])
  } else {
    start_for_biocparallel(x$workers, lenX)
  }
  BiocParallel::.bpstart_impl(x)
}

# Its nodes come from a fork server that has loaded BiocParallel, which takes a second. As workers
# of BiocParallel they have it loaded, and not attached.
start_for_biocparallel <- function(workers, most) {
  n <- if (is.character(workers)) utils::head(workers, most) else max(1L, min(workers, most))
  cl <- make_cluster(n, packages = "BiocParallel")
  cluster_setup(cl, detach("package:BiocParallel"))
  cl
}

param_stop <- function(x) {
  if (!BiocParallel::bpisup(x)) return(invisible(x))
  x <- BiocParallel::.bpstop_impl(x)
  # in a forked child it is not this process's to stop
  if (is.null(x$given)) tryCatch(stop_cluster(x$cluster), clutch_forked = function(e) NULL)
  x$cluster <- NULL
  invisible(x)
}
