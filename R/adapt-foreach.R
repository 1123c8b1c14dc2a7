# foreach loops on a cluster: registerDoClutch().
#
# The iterations are read from the loop's iterator in blocks, and each block is a job of the
# scheduler. A block ends when the iterator does, or when it has got large or has taken long to
# read: so a loop over an iterator that never ends begins, too. While nodes work at one block the
# next one is read, and the results of the one before are combined. Most loops are one block.

#' Run loops of `%dopar%` on a cluster
#'
#' After `registerDoClutch()`, the loops of package \pkg{foreach} that are written with
#' `foreach::%dopar%` run on the nodes of a cluster.
#'
#' @section Loops: All of [foreach::foreach()] works: nested loops with `%:%` and `when()`,
#'   `.combine` with its companions, `.errorhandling`, `.packages`, `.export` and `.noexport`.
#'   Variables of the workspace, local variables of all enclosing functions, and packages are found
#'   as in [cluster_map()]. What iterations print and signal appears in the session, in their order.
#'
#'   Each iteration has an environment of its own: a variable that one assigns is not there for the
#'   next. In an iteration, further loops with `%dopar%` run one iteration after another.
#'
#'   An iterator is read while nodes work, and not all at once: what it yields need not fit into
#'   memory, and it need not end.
#' @section Errors: With `.errorhandling = "stop"` the first iteration that fails ends the loop, and
#'   what has not begun is cancelled. The error has the usual text (`task 2 failed - "..."`) and
#'   class, and class `clutch_task_error` with `element`, `parent` and the others of
#'   [cluster_map()]. With `"pass"` and `"remove"` an iteration whose node has died, or whose time
#'   was up, is one that has failed.
#'   ```
#'   tryCatch(
#'     foreach(i = list(1, "a")) %dopar% log(i),
#'     clutch_task_error = function(e) e$element
#'   )
#'   #> 2
#'   ```
#'   An error of the function `.combine` is the error of the loop.
#'
#'   Other errors:
#'   * `clutch_argument`: `cl` is neither a cluster nor a number of nodes, an option is of no use,
#'     or a variable of `.export` does not exist.
#'   * `clutch_package` (`package`): \pkg{foreach} is not installed, or one of `.packages` cannot be
#'     attached on a node.
#' @section Options: `.options.clutch` of a loop is a list with any of
#'   * `chunk`, `retries`, `timeout`, `progress`, `pointers`: as `.chunk`, `.retries`, `.timeout`,
#'     `.progress` and `.pointers` in [cluster_map()]. Here, too, the session's options replace the
#'     defaults, see [clutch-options].
#'   * `seed`: as `.seed` there, but by default `FALSE`: each node has random numbers of its own, as
#'     with other backends. With `TRUE`, each iteration has a stream that follows from
#'     [set.seed()]. Or use package \pkg{doRNG}, whose numbers are the same with all backends.
#'
#'   `attachExportEnv` of `.options.snow` is known, too, for loops written for \pkg{doParallel}.
#' @param journal string: the file of a journal in which all loops record their iterations, see
#'   [cluster_map()], section *Journal*. `NULL`: there is none.
#' @param cl cluster made by [make_cluster()], or whole number of nodes, 1 or more: a cluster of so
#'   many is made for the loops. It ends when `registerDoClutch()` is called again, and some time
#'   after another backend has taken its place. `NULL`: the session's own, see [own-cluster].
#' @return `NULL`, invisibly. `foreach::getDoParName()` gives `"clutch"` from now on,
#'   `foreach::getDoParWorkers()` the number of nodes.
#' @seealso [cluster_map()]
#' @examples
#' if (requireNamespace("foreach", quietly = TRUE)) {
#'   library(foreach)
#'   cl <- make_cluster(2)
#'   registerDoClutch(cl)
#'   x <- foreach(i = 1:4, .combine = c) %dopar% sqrt(i)
#'   y <- foreach(i = 1:4, .options.clutch = list(seed = 1, retries = 2)) %dopar% rnorm(i)
#'   registerDoSEQ()
#'   stop_cluster(cl)
#'   x
#' }
#' @export
registerDoClutch <- function(cl = NULL, journal = NULL) {
  need_package("foreach", "registerDoClutch()")
  check_option("journal", journal, "`journal`")
  is_number_of_nodes <- is_number(cl, 1) && is_whole(cl)
  if (!is.null(cl) && !is_number_of_nodes && !inherits(cl, "clutch_cluster"))
    has_to_be("`cl`", "a cluster made by make_cluster(), or a whole number of nodes")
  foreach::setDoPar(do_clutch, if (is_number_of_nodes) make_cluster(cl) else cl, about_do_clutch)
  if (isTRUE(the$made_for_loops)) gc() # nobody knows the cluster that was made before: it ends
  the$made_for_loops <- is_number_of_nodes
  the$journal_of_loops <- journal
  invisible()
}

about_do_clutch <- function(data, item) {
  switch(item,
    name = "clutch",
    workers = if (is.null(data)) size_of_own() else most_nodes(data),
    version = as.character(utils::packageVersion("clutch"))
  )
}

# `%dopar%` calls this function. `data`: what registerDoClutch() was given.
do_clutch <- function(obj, expr, envir, data) {
  if (!inherits(obj, "foreach"))
    throw("argument", "the left side of `%dopar%` has to be made by foreach()")
  cl <- cluster_or_own(data)
  # an error in an inner loop may be handled there
  stops <- identical(obj$errorHandling, "stop")
  o <- foreach_options(obj, stop_early = stops && identical(class(obj), "foreach"))
  loop <- new.env(parent = emptyenv())
  loop$it <- iterators::iter(obj)
  loop$accumulate <- foreach::makeAccum(loop$it)
  loop$expr <- expr
  code <- foreach_code(obj, expr, envir, o)
  in_job_span("foreach", NULL, function(span) run_loop(loop, cl, code, o, span))
  failed <- foreach::getErrorValue(loop$it)
  if (stops && !is.null(failed))
    stop(foreach_error(failed, foreach::getErrorIndex(loop$it), expr))
  foreach::getResult(loop$it)
}

# ---- options ----

foreach_options <- function(obj, stop_early) {
  given <- as.list(obj$options$clutch)
  known <- c("chunk", "retries", "timeout", "seed", "progress", "pointers")
  for (name in setdiff(names(given), known)) {
    text <- "`.options.clutch` has no element `%s`%s"
    throw("argument", sprintf(text, name, did_you_mean(name, known)))
  }
  if (length(given) && (is.null(names(given)) || !all(nzchar(names(given)))))
    has_to_be("`.options.clutch`", "a list with names")
  for (name in names(given))
    check_option(name, given[[name]], sprintf("`.options.clutch$%s`", name))
  if (!"seed" %in% names(given) && is.null(getOption("clutch.seed"))) given$seed <- FALSE
  given$packages <- unique(as.character(obj$packages))
  if (!is.null(the$journal_of_loops)) given$journal <- the$journal_of_loops
  given$on_error <- if (stop_early) "stop" else "continue"
  task_options(given)
}

# ---- the loop ----

# Limits of a block.
BLOCK_LENGTH <- 1e5
BLOCK_SIZE <- 64e6
BLOCK_SECONDS <- 0.25 # of the first; each later one may take twice as long as the one before

run_loop <- function(loop, cl, code, o, span) {
  began <- clock()
  t <- tasks_of(cl)
  o$called <- list("foreach", loop$expr)
  blocks <- list()
  record <- journal_begin(o, code$fun, NULL, code$needs, NA)
  code$fun <- traced_function(code$fun, span)
  if (!is.null(record)) {
    on.exit(journal_end(record))
    o["seed"] <- list(record$seed)
    o$record <- record
  }
  on.exit(for (b in blocks) .Call(ffi_job_end, b$job, 0.08), add = TRUE, after = FALSE)
  read <- 0
  seconds <- BLOCK_SECONDS
  at_end <- FALSE
  repeat {
    while (!at_end && wants_more(blocks, most_nodes(cl))) {
      block <- read_block(loop$it, seconds)
      at_end <- block$at_end
      if (!length(block$elements)) break
      b <- list(first = read, n = length(block$elements))
      needs <- with_needs_of(block$elements, code)
      b$job <- job_new(t, code$fun, block$elements, NULL, needs, o)
      blocks <- c(blocks, list(b))
      if (!is.null(record)) {
        journal_attach(record, b$job, block$elements, o$seed, isTRUE(needs$has_pointer))
      }
      read <- read + b$n
      seconds <- if (block$slow) BLOCK_SECONDS else 2 * seconds
      if (!is.null(o$seed)) o$seed <- .Call(ffi_stream_jump, o$seed, b$n)
      span_of_job(span, t, b$job)
      job_start(t, b$job)
      task_step(t, b$job, 0)
    }
    if (!length(blocks)) break
    b <- blocks[[1L]]
    values <- block_values(loop, t, b, o, began)
    .Call(ffi_job_end, b$job, 0)
    span_job_ended(span, b$job)
    blocks <- blocks[-1L]
    loop$accumulate(values, as.integer(b$first) + seq_along(values))
  }
  if (!is.null(record)) {
    check_journal(record, flush = TRUE)
    tell_kept(record)
    count_run(record)
  }
  settle_replacements(t)
}

# The needs of a block: of the code, and of its elements, which may be functions, or objects with
# methods.
with_needs_of <- function(elements, code) {
  needs <- code$needs
  own <- find_needs(list(elements), if (code$finds) TRUE else FALSE, globalenv())
  needs$has_pointer <- needs$has_pointer || own$has_pointer
  new <- setdiff(names(own$globals), c(names(needs$globals), code$noexport))
  needs$globals[new] <- own$globals[new]
  needs$attach <- intersect(needs$order, union(needs$attach, own$attach))
  needs$load <- union(needs$load, own$load)
  needs
}

# Tells whether another block is read before the first is waited for: one more than that is, or more
# where an iterator is so slow that nodes would have nothing to do.
wants_more <- function(blocks, nodes) {
  if (length(blocks) < 2L) return(TRUE)
  left <- vapply(blocks, function(b) .Call(ffi_job_state, b$job)$left, 1)
  left[[1L]] > 0 && sum(left) < 2 * nodes
}

# Iterations: lists with their variables.
read_block <- function(it, seconds) {
  elements <- vector("list", 64L)
  n <- 0L
  size <- 0
  at_end <- FALSE
  deadline <- clock() + seconds
  next_element <- iterators::nextElem
  # in this frame, and under one tryCatch(): a call and a handler for each iteration would cost more
  # than all else here
  tryCatch(while (n < BLOCK_LENGTH && size < BLOCK_SIZE && clock() < deadline) {
    element <- next_element(it)
    n <- n + 1L
    if (n > length(elements)) length(elements) <- 2L * n
    elements[[n]] <- element
    size <- size + utils::object.size(element)
  }, error = function(e) {
    if (!identical(conditionMessage(e), "StopIteration")) stop(e)
    at_end <<- TRUE
  })
  length(elements) <- n
  list(elements = elements, at_end = at_end, slow = n < 16L)
}

# In place of the value of an iteration that has failed there is its error.
block_values <- function(loop, t, b, o, began) {
  bar <- progress_new(o$progress, b$n, began)
  on.exit(progress_end(bar))
  values <- tryCatch(drive_map(t, b$job, b$n, o, bar), clutch_task_error = function(e) {
    stop(foreach_error(e, b$first + e$element, loop$expr))
  })
  if (!is.null(values)) return(values)
  failures <- .Call(ffi_job_failures, b$job, 0)
  values <- map_values(t, b$job, b$n, failures)
  for (k in failures$element) {
    if (!is.null(values[[k]]$parent)) values[[k]] <- values[[k]]$parent
  }
  values
}

# The condition has what foreach's other backends give it, and what an error of a task has.
foreach_error <- function(e, index, expr) {
  cause <- if (is.null(e$parent)) e else e$parent
  text <- sprintf("task %.0f failed - \"%s\"", index, message_of(cause))
  class <- unique(c(setdiff(class(e), c("error", "condition")), "simpleError"))
  if (!inherits(e, "clutch_task_error")) class <- c("clutch_task_error", "clutch_error", class)
  fields <- e[setdiff(names(e), c("message", "call", "element", "parent"))]
  call <- if (is.call(expr)) expr # try() of base R fails where it is a symbol
  parts <- list(text, class = unique(class), call = call, element = index, parent = cause)
  do.call(errorCondition, c(parts, fields), quote = TRUE)
}
