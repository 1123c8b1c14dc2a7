# mclapply() and its relatives of package parallel, on nodes in place of forks of the session.
#
# Values, names, errors, warnings and random numbers are those of package parallel. Where that forks
# a child, there is an element of a map here. adapt-mclapply-work.R does the work.

#' mclapply() without forking the session
#'
#' Functions of package \pkg{parallel} with the same arguments, values and errors. They work on
#' nodes of a clean R, and not on forks of the session. So they can be used where the session must
#' not be forked: in an IDE that forbids it, with graphics devices, and in a session with threads
#' (of \pkg{data.table}, OpenMP or Java).
#'
#' @section What differs from package parallel:
#'   * What the code needs is found and sent to the nodes, as in [cluster_map()]: variables,
#'     packages, the options of the session that are plain values, working directory and environment
#'     variables. What only the session has is an error, see *Errors*.
#'   * Messages and warnings of `FUN` are seen in the session, and output, too. Package parallel
#'     loses warnings, and has output written by the children themselves.
#'   * `.GlobalEnv` is empty on a node but for the variables that the code uses. Code that finds a
#'     variable by other means than its name (`ls()`, `get(paste0())`) does not find it.
#'   * With `mc.preschedule = FALSE` elements that come to the same node share environments that are
#'     changed by other means than `<<-` in `FUN` itself, as those of R6 objects.
#'   * The nodes stay for the next call. After `clutch.idle_seconds` (see [clutch-options]) without
#'     one they end.
#'   * Ctrl-C ends the work at once, and there is nothing to be cleaned up: `mc.cleanup` has no
#'     meaning.
#'   * The session's options for maps hold, as `clutch.timeout` and `clutch.max_memory`.
#'
#' @section Random numbers: As in package parallel. With `RNGkind("L'Ecuyer-CMRG")` and
#'   [set.seed()], `mc.set.seed = TRUE` gives the same numbers as there, which depend on `mc.cores`.
#'   With another generator they cannot be repeated. With `mc.set.seed = FALSE` each core begins
#'   with the state that the session's generator has. The session's generator is left as it was.
#'   What [parallel::mcparallel()] does is not affected.
#'
#' @param X,v vector or list, as for [lapply()]; `v`: a vector.
#' @param FUN,f function, or its name.
#' @param ... for `mclapply()` and `pvec()`: constant arguments of `FUN`. For `mcmapply()` and
#'   `mcMap()`: vectors whose elements are its arguments.
#' @param .journal string: the file of a journal, see [cluster_map()]. Each element is a call of its
#'   own then, as with `mc.preschedule = FALSE`.
#' @param MoreArgs list of constant arguments of `FUN`.
#' @param SIMPLIFY logical or string, as for [mapply()].
#' @param USE.NAMES logical, as for [mapply()].
#' @param mc.preschedule logical. `TRUE`: the elements are divided among the cores before. `FALSE`:
#'   each is given to a core when that is free.
#' @param mc.set.seed logical, see *Random numbers*.
#' @param mc.silent logical: whether output is dropped. Messages are not.
#' @param mc.cores number of nodes to use. With 1 all is done in the session.
#' @param mc.cleanup,mc.allow.recursive as in package parallel; `mc.cleanup` has no meaning here.
#'   With `mc.allow.recursive = FALSE` a call on a node is done by that node alone.
#' @param affinity.list list of integer vectors, the processors on which each element may run, see
#'   [parallel::mcaffinity()].
#' @return As in package parallel.
#' * `mclapply()`: list with one value for each element, and the names of `X`.
#' * `pvec()`: the values of `FUN` for pieces of `v`, joined by [c()].
#' * `mcmapply()`: list, or what [simplify2array()] makes of it.
#' * `mcMap()`: list.
#' @section Errors: An error of `FUN` is an object of class `"try-error"` in place of a value, and a
#'   warning, as in package parallel: with `mc.preschedule = TRUE` in place of all values of that
#'   core. When a node has died they are `NULL`, and there is a warning, of class `clutch_died`,
#'   whose element `parent` is the error of [cluster_map()] that tells how.
#'
#'   [cluster_debug()] takes such an object of class `"try-error"`, and opens the frames in which
#'   the error was.
#'
#'   Errors of these functions:
#'   * `clutch_session_only`, with element `name`: what `FUN` uses cannot be sent to another
#'     process: a connection, or an object of compiled code (an external pointer), as a database
#'     connection or a model of some packages. Open or load it in `FUN`. On a node it would be
#'     `NULL`, or another file.
#'   * `clutch_argument`: an argument is of no use.
#'
#'   All have class `clutch_error`.
#'   ```r
#'   con <- file("data.txt")
#'   tryCatch(mclapply(1:2, function(i) readLines(con)), clutch_session_only = conditionMessage)
#'   ```
#' @seealso [cluster_map()], which has more guarantees; [own-cluster]
#' @examples
#' clutch::mclapply(1:4, function(i) i^2, mc.cores = 2)
#' clutch::mcmapply(function(x, y) x + y, c(a = 1, b = 2), 3:4)
#' clutch::pvec(1:10, sqrt)
#' stop_cluster()
#' @export
mclapply <- function(X, FUN, ..., mc.preschedule = TRUE, mc.set.seed = TRUE, mc.silent = FALSE,
                     mc.cores = getOption("mc.cores", 2L), mc.cleanup = TRUE,
                     mc.allow.recursive = TRUE, affinity.list = NULL, .journal = NULL) {
  called <- list("mclapply", substitute(FUN))
  cores <- check_cores(mc.cores, affinity.list)
  if (!is.vector(X) || is.object(X)) X <- as.list(X)
  if (!is.null(affinity.list) && length(affinity.list) < length(X))
    throw("argument", "affinity.list and X must have the same length")
  if (!isTRUE(mc.allow.recursive) && is_child()) return(lapply(X = X, FUN = FUN, ...))
  if (!is.null(.journal)) mc.preschedule <- FALSE # each element is known by itself
  records <- !is.null(.journal)
  if (length(X) < 2L && !records)
    return(with_affinity(affinity.list, lapply(X = X, FUN = FUN, ...)))
  cores <- min(cores, length(X))
  if (cores < 2L && is.null(affinity.list) && !records) return(lapply(X = X, FUN = FUN, ...))
  FUN <- match.fun(FUN)
  dots <- dots_in(environment())
  refuse_session_only(FUN, X, dots)
  if (!mc.preschedule) {
    elements <- mc_elements(as.list(X), mc.set.seed, affinity.list)
    answers <- mc_map(elements, mc_call, FUN, dots, cores, mc.silent, called, .journal)
    return(one_by_one(X, answers, cores, affinity.list))
  }
  if (!is.null(affinity.list))
    warning("'mc.preschedule' must be false if 'affinity.list' is used")
  index <- lapply(seq_len(cores), function(core) seq(core, length(X), by = cores))
  elements <- mc_elements(lapply(index, function(at) X[at]), mc.set.seed)
  prescheduled(X, index, mc_map(elements, mc_core, FUN, dots, cores, mc.silent, called))
}

#' @rdname mclapply
#' @export
pvec <- function(v, FUN, ..., mc.set.seed = TRUE, mc.silent = FALSE,
                 mc.cores = getOption("mc.cores", 2L), mc.cleanup = TRUE) {
  called <- list("pvec", substitute(FUN))
  if (!is.vector(v)) throw("argument", "'v' must be a vector")
  cores <- check_cores(mc.cores, NULL)
  FUN <- match.fun(FUN)
  if (cores == 1L) return(FUN(v, ...))
  if (!length(v)) return(NULL)
  dots <- dots_in(environment())
  refuse_session_only(FUN, v, dots)
  elements <- mc_elements(pieces_of(v, cores), mc.set.seed)
  answers <- mc_map(elements, mc_piece, FUN, dots, length(elements), mc.silent, called)
  warn_undelivered(answers, "%d parallel job did not deliver a result",
                   "%d parallel jobs did not deliver results")
  values <- do.call(c, lapply(answers, delivered))
  if (length(values) != length(v))
    warning("some results may be missing, folded or caused an error")
  values
}

#' @rdname mclapply
#' @export
mcmapply <- function(FUN, ..., MoreArgs = NULL, SIMPLIFY = TRUE, USE.NAMES = TRUE,
                     mc.preschedule = TRUE, mc.set.seed = TRUE, mc.silent = FALSE,
                     mc.cores = getOption("mc.cores", 2L), mc.cleanup = TRUE,
                     affinity.list = NULL) {
  called <- list("mcmapply", substitute(FUN))
  FUN <- match.fun(FUN)
  vectors <- list(...)
  if (!length(vectors)) return(list())
  n <- max(lengths(vectors))
  if (n > 0L && min(lengths(vectors)) == 0L)
    throw("argument", "Zero-length inputs cannot be mixed with those of non-zero length")
  if (n < 2L) {
    values <- with_affinity(affinity.list, .mapply(FUN, vectors, MoreArgs))
  } else {
    recycled <- lapply(vectors, function(x) if (length(x) == n) x else rep(x, length.out = n))
    rows <- lapply(seq_len(n), function(i) lapply(recycled, function(x) x[i]))
    the$called <- called
    on.exit(the$called <- NULL)
    answers <- mclapply(rows, of_row, FUN, MoreArgs, mc.preschedule = mc.preschedule,
                        mc.set.seed = mc.set.seed, mc.silent = mc.silent, mc.cores = mc.cores,
                        affinity.list = affinity.list)
    failed <- vapply(answers, inherits, NA, "try-error")
    if (any(failed)) SIMPLIFY <- FALSE
    answers[failed] <- lapply(answers[failed], list)
    values <- do.call(c, answers)
  }
  if (USE.NAMES) values <- named_as(values, vectors[[1L]])
  if (isFALSE(SIMPLIFY)) return(values)
  simplify2array(values, higher = (SIMPLIFY == "array"))
}

#' @rdname mclapply
#' @export
mcMap <- function(f, ...) {
  f <- match.fun(f)
  mcmapply(f, ..., SIMPLIFY = FALSE, mc.silent = TRUE)
}

# ---- arguments ----

check_cores <- function(mc.cores, affinity.list) {
  cores <- as.integer(mc.cores)
  if (!is.null(affinity.list)) cores <- max(unlist(affinity.list), 1L)
  if (length(cores) != 1L || is.na(cores) || cores < 1L)
    throw("argument", "'mc.cores' must be >= 1")
  cores
}

# So many pieces of a vector, as equal as may be, the larger ones first.
pieces_of <- function(v, cores) {
  if (length(v) <= cores) return(unname(as.list(v)))
  sizes <- length(v) %/% cores + (seq_len(cores) <= length(v) %% cores)
  unname(split(v, rep(seq_len(cores), sizes)))
}

# Names the values as mapply() does.
named_as <- function(values, first) {
  if (!is.null(names(first))) {
    names(values) <- names(first)
  } else if (is.character(first)) {
    names(values) <- first
  }
  values
}

# A node, or a child that package parallel has forked.
is_child <- function() {
  if (isTRUE(the_node$serving)) return(TRUE)
  isNamespaceLoaded("parallel") && isTRUE(get0("isChild", asNamespace("parallel"))())
}

with_affinity <- function(affinity.list, code) {
  if (is.null(affinity.list)) return(code)
  before <- parallel::mcaffinity()
  on.exit(parallel::mcaffinity(before))
  parallel::mcaffinity(affinity.list[[1L]])
  code
}
