#' Apply a function to each element of a vector, on the nodes of a cluster
#'
#' `cluster_map()` returns a list, as [lapply()] does, in the order of the elements whatever node does which; its typed
#' kin return vectors; `cluster_map2()` takes its elements from two vectors; `cluster_walk()` is for what the function does and
#' not for its values.
#'
#' @section What travels: The function and its constant arguments go to each node once, not with each element. Variables of
#'   the workspace that the function uses go with it: they are found by package \pkg{globals} where that is installed (else by
#'   the names in the code), and are in the workspace of the nodes while the map runs. Local variables travel with the function's
#'   environment, all of it: a warning of class `clutch_large` says when that is more than
#'   `getOption("clutch.max_size", 500e6)` bytes, and what the largest objects are.
#' @section Who does what: Elements are handed out in their order as nodes get free, a second one waiting at each node. Where
#'   elements take little time, as many travel together as make about a millisecond of work, by the times measured so far. What waits at
#'   a node and is not begun goes to another one that has nothing to do, so no node is idle while there is work.
#' @section Guarantees: An element is started at most once, or with `.retries = k` at most `k + 1` times, each time on another
#'   node if there is one; an element that was with a node and not begun when that died was not started. It is retried when its node has
#'   died, not when the function has failed or time was up. A node that dies is replaced, and prepared as [cluster_setup()]
#'   says. An element that kills every node it meets fails, and no other with it.
#' @section Random numbers: Each element has a stream of its own (L'Ecuyer's generator, see [parallel::nextRNGStream()]), so that results
#'   do not depend on the number of nodes, on the order of the work, or on retries. With `.seed = TRUE` the streams follow from
#'   the session's generator, that is from [set.seed()]. The session's generator is left as one draw would leave it.
#' @section Output: What elements print, their messages, warnings and other conditions appear in the session, in the order
#'   of the elements, or with `.relay = "live"` as they come.
#' @section Interrupts: Ctrl-C cancels what has not been begun and interrupts what has, and the cluster can be used at once; so
#'   does an error with `.on_error = "stop"`.
#' @param cl a cluster made by [make_cluster()].
#' @param .x,.y vectors or lists: their elements are the first argument (the first two) of `.f`.
#' @param .f a function.
#' @param ...,more constant arguments of `.f`; `more` is a list of them.
#' @param .seed `TRUE`, a number, a value of `.Random.seed`, or `FALSE`: the nodes' own random numbers.
#' @param .progress whether to show a progress bar: by default in interactive sessions, when the map takes longer than a second.
#'   Where \pkg{progressr} is in use its signals are given instead.
#' @param .timeout seconds that one element may take; then it is interrupted, and its node ended when it does not react in
#'   `getOption("clutch.task_grace", 1)` seconds. It ends with an error of class `clutch_task_timeout`, the others are not affected.
#' @param .retries how often an element is tried again when its node has died.
#' @param .chunk number of elements that travel together; `NULL`: as their times say.
#' @param .globals `TRUE`: variables are found; `FALSE`: none are sent; names of variables; or a named list of values.
#' @param .packages character: packages to attach on the nodes before.
#' @param .relay `"ordered"` (or `TRUE`), `"live"`, or `"none"` (`FALSE`): output goes where that of the cluster goes.
#' @param .on_error `"stop"`: the first failure is an error and the rest is cancelled (of several elements that fail at about the same time, the
#'   first in order); `"continue"`: in place of a value
#'   there is the error (in typed vectors `NA`), and a warning says how many there are.
#' @param .max_memory bytes: a node that has more than that (not counting what it shares with others) is ended, and its element fails with
#'   an error of class `clutch_task_memory`. What garbage earlier elements left is collected before the next one begins. While
#'   several maps and tasks are under way, the least of their limits holds for all.
#' @return A list with the names of `.x`; `_dbl`, `_int`, `_chr`, `_lgl`: a vector with one value an element; `_dfr`: a data frame of
#'   all rows; `cluster_walk()`: `.x`, invisibly.
#' @section Errors: `clutch_task_error` when an element fails: `element`, `node`, `attempt`, `parent` (the original condition),
#'   `calls` (the stack on the node, as text) and `node_call`. It has also class `clutch_task_died` (`pid`, `signal`, `status`) when its node has
#'   died, with `clutch_task_memory` for want of memory, `clutch_task_timeout`, or `clutch_task_cancelled`. `clutch_value` when a value is not of
#'   the type asked for. `clutch_package` (`package`) when one of `.packages` cannot be attached on a node. `clutch_argument` for arguments of no use. All have class `clutch_error`.
#' @references L'Ecuyer, P., Simard, R., Chen, E. J., Kelton, W. D. (2002) An object-oriented random-number package with many long
#'   streams and substreams. *Operations Research* 50, 1073-1075.
#' @seealso [cluster_submit()], [cluster_setup()], [cluster_trace()], [task_attempt()]
#' @examples
#' cl <- make_cluster(2)
#' cluster_map(cl, 1:3, function(x, power) x^power, power = 2)
#' cluster_map_dbl(cl, 1:3, function(x) rnorm(1, x), .seed = 42)
#' cluster_map2(cl, 1:2, c("a", "b"), paste)
#' tryCatch(cluster_map(cl, list(1, "a"), log), clutch_task_error = function(e) e$element)
#' stop_cluster(cl)
#' @export
cluster_map <- function(cl, .x, .f, ..., more = list(), .seed = TRUE, .progress = NULL, .timeout = Inf, .retries = 0,
                        .chunk = NULL, .globals = TRUE, .packages = NULL, .relay = "ordered", .on_error = "stop",
                        .max_memory = Inf) {
  more <- c(list(...), as.list(more))
  run_map(cl, .x, .f, more, .seed, .progress, .timeout, .retries, .chunk, .globals, .packages, .relay, .on_error, .max_memory,
          parent.frame())
}

run_map <- function(cl, x, f, more, seed, progress, timeout, retries, chunk, globals, packages, relay, on_error, max_memory,
                    env) {
  check_cluster(cl)
  given(x, ".x")
  given(f, ".f")
  f <- if (is.character(f) && length(f) == 1L) get(f, envir = env, mode = "function") else f
  if (!is.function(f)) throw("argument", "`.f` has to be a function")
  on_error <- match_arg(on_error, c("stop", "continue"), ".on_error")
  elements <- plain_elements(x)
  o <- task_options(seed, timeout, retries, chunk, packages, relay, max_memory)
  t <- tasks_of(cl)
  n <- length(elements)
  if (n == 0L) return(structure(list(), names = if (!is.null(names(x))) character()))
  job <- job_new(t, f, elements, more, find_globals(f, more, globals, env), o)
  on.exit(.Call(ffi_job_end, job, 0.08))
  bar <- progress_new(progress, n)
  seen <- 0L
  shown <- 0
  failed <- list()
  repeat {
    code <- turn(t, job, if (bar$on) 0.1 else 0.25, seen)
    if (code == 3L) while (!is.null(piece <- .Call(ffi_job_relay, job))) relay_one(piece[[2L]])
    if (code == 4L || code == 1L) {
      f <- .Call(ffi_job_failures, job, seen)
      if (length(f$element) && (on_error == "stop" || lacks_package(job, f))) {
        f <- all_failures(t, job, f, seen)
        k <- which.min(f$element)
        if (o$relay == "ordered") relay_ready(job, shown, f$element[[k]])
        stop(task_error(t, f, k, .Call(ffi_job_values, job)[[1L]][[f$element[[k]]]]))
      }
      seen <- seen + length(f$element)
      if (length(f$element)) failed <- c(failed, list(f))
    }
    if (o$relay == "ordered") shown <- relay_ready(job, shown)
    if (bar$on) progress_show(bar, n - .Call(ffi_job_state, job)$left)
    if (code == 1L) break
  }
  progress_end(bar)
  values <- .Call(ffi_job_values, job)[[1L]]
  for (f in failed) for (k in seq_along(f$element)) values[[f$element[[k]]]] <- task_error(t, f, k, values[[f$element[[k]]]])
  names(values) <- names(x)
  if (length(failed)) {
    errors <- Filter(function(v) inherits(v, "clutch_task_error"), values)
    warning(warningCondition(sprintf("%d of %d elements failed; the first: %s", sum(lengths(lapply(failed, `[[`, "element"))), n,
                                     conditionMessage(errors[[1L]])), class = "clutch_failed"))
  }
  values
}

# The failures known when all before the first of them has ended, or 20 ms after it was known: which of several is
# told shall not depend on which node was heard first.
all_failures <- function(t, job, f, seen) {
  deadline <- clock() + 0.02
  repeat {
    left <- deadline - clock()
    if (.Call(ffi_job_ready, job) >= min(f$element) - 1 || left <= 0) return(f)
    turn(t, job, min(left, 0.002), seen + length(f$element))
    f <- .Call(ffi_job_failures, job, seen)
  }
}

# Whether a package of `.packages` cannot be attached: no element can be done then.
lacks_package <- function(job, f) {
  values <- .Call(ffi_job_values, job)[[1L]]
  for (k in which(f$why == 0L)) if (isTRUE(values[[f$element[[k]]]]$cond$of_job)) return(TRUE)
  FALSE
}

# As lapply() takes them: whatever is no plain vector becomes a list.
plain_elements <- function(x) {
  if (!is.vector(x) || is.object(x)) x <- as.list(x)
  if (!typeof(x) %in% c("list", "integer", "double", "logical", "character")) x <- as.list(x)
  x
}

# Relays what elements have printed and signalled, as far as all before them have ended. The number of those done.
relay_ready <- function(job, shown, to = Inf) {
  ready <- min(.Call(ffi_job_ready, job), to)
  if (ready <= shown) return(shown)
  logs <- .Call(ffi_job_values, job)[[2L]]
  if (!is.null(logs)) for (i in (shown + 1):ready) if (!is.null(logs[[i]])) relay_log(logs[[i]])
  ready
}

# ---- kin ----

typed <- function(values, type, empty, name) {
  bad <- function(v) is.null(v) || !is.atomic(v) || length(v) != 1L || !(typeof(v) %in% type)
  out <- rep(empty, length(values))
  for (i in seq_along(values)) {
    v <- values[[i]]
    if (inherits(v, "clutch_task_error")) next
    if (bad(v)) throw("value", sprintf("element %d: %s() wants one value of type %s, and this is %s of length %d", i, name,
                                       type[[1L]], typeof(v), length(v)), element = i)
    out[[i]] <- v
  }
  names(out) <- names(values)
  out
}

#' @rdname cluster_map
#' @export
cluster_map_dbl <- function(cl, .x, .f, ...) typed(map_from(cluster_map, cl, .x, .f, ...), c("double", "integer", "logical"), NA_real_, "cluster_map_dbl")

#' @rdname cluster_map
#' @export
cluster_map_int <- function(cl, .x, .f, ...) typed(map_from(cluster_map, cl, .x, .f, ...), c("integer", "logical"), NA_integer_, "cluster_map_int")

#' @rdname cluster_map
#' @export
cluster_map_chr <- function(cl, .x, .f, ...) typed(map_from(cluster_map, cl, .x, .f, ...), "character", NA_character_, "cluster_map_chr")

#' @rdname cluster_map
#' @export
cluster_map_lgl <- function(cl, .x, .f, ...) typed(map_from(cluster_map, cl, .x, .f, ...), "logical", NA, "cluster_map_lgl")

#' @rdname cluster_map
#' @export
cluster_map_dfr <- function(cl, .x, .f, ...) {
  values <- Filter(function(v) !is.null(v) && !inherits(v, "clutch_task_error"), map_from(cluster_map, cl, .x, .f, ...))
  bad <- which(!vapply(values, is.list, NA))
  if (length(bad)) throw("value", sprintf("cluster_map_dfr() wants data frames or lists, and a value is %s", typeof(values[[bad[[1L]]]])))
  out <- do.call(rbind, c(unname(lapply(values, function(v) if (is.data.frame(v)) v else as.data.frame(v, stringsAsFactors = FALSE))),
                          list(stringsAsFactors = FALSE)))
  if (is.null(out)) data.frame() else out
}

map_from <- function(map, ...) map(...)

#' @rdname cluster_map
#' @export
cluster_walk <- function(cl, .x, .f, ...) {
  check_cluster(cl)
  cluster_map(cl, .x, function_walk(.f), ...)
  invisible(.x)
}

# The same function, whose value does not travel back.
function_walk <- function(f) {
  given(f, ".f")
  if (!is.function(f)) return(f)
  walk <- function(.x, ...) {
    f(.x, ...)
    NULL
  }
  environment(walk) <- list2env(list(f = f), parent = globalenv())
  walk
}

#' @rdname cluster_map
#' @export
cluster_map2 <- function(cl, .x, .y, .f, ...) {
  check_cluster(cl)
  given(.x, ".x")
  given(.y, ".y")
  given(.f, ".f")
  n <- max(length(.x), length(.y))
  if (length(.x) != length(.y) && !(1L %in% c(length(.x), length(.y))))
    throw("argument", sprintf("`.x` has %d elements and `.y` has %d", length(.x), length(.y)))
  if (0L %in% c(length(.x), length(.y))) n <- 0L
  x <- rep_len(plain_elements(.x), n)
  y <- rep_len(plain_elements(.y), n)
  pairs <- lapply(seq_len(n), function(i) list(x[[i]], y[[i]]))
  names(pairs) <- if (length(.x) == n) names(.x)
  if (is.character(.f)) .f <- get(.f, envir = parent.frame(), mode = "function")
  cluster_map(cl, pairs, function_of_two(.f), ...)
}

function_of_two <- function(f) {
  if (!is.function(f)) return(f)
  two <- function(.x, ...) f(.x[[1L]], .x[[2L]], ...)
  environment(two) <- list2env(list(f = f), parent = globalenv())
  two
}

#' How often the task at hand was started
#'
#' @return In a task of [cluster_map()] or [cluster_submit()]: an integer, 1 for the first attempt, more when its node has died before and `.retries`
#'   allows that. Elsewhere `NA`.
#' @examples
#' cl <- make_cluster(2)
#' cluster_map(cl, 1:2, function(i) clutch::task_attempt())
#' stop_cluster(cl)
#' task_attempt()
#' @export
task_attempt <- function() .Call(ffi_task_attempt)

# ---- progress ----

progress_new <- function(progress, n) {
  bar <- new.env(parent = baseenv()) # the texts of the bar are evaluated in there
  signals <- uses_progressr()
  bar$on <- if (is.null(progress)) signals || interactive() else isTRUE(progress)
  bar$done <- 0
  if (!bar$on) return(bar)
  if (signals) {
    bar$step <- progressr::progressor(steps = n, envir = bar, on_exit = FALSE)
    return(bar)
  }
  bar$began <- Sys.time()
  bar$n <- n
  bar$after <- if (isTRUE(progress)) 0 else 1
  bar
}

uses_progressr <- function() {
  "progressr" %in% loadedNamespaces() && length(progressr::handlers()) > 0L && isTRUE(tryCatch(progressr::handlers(global = NA), error = function(e) FALSE))
}

progress_show <- function(bar, done) {
  if (!is.null(bar$step)) {
    if (done > bar$done) bar$step(amount = done - bar$done)
    bar$done <- done
    return(invisible())
  }
  if (is.null(bar$id)) {
    if (as.numeric(difftime(Sys.time(), bar$began, units = "secs")) < bar$after) return(invisible())
    old <- options(cli.progress_show_after = 0)
    on.exit(options(old))
    bar$id <- cli::cli_progress_bar(total = bar$n, .auto_close = FALSE, .envir = bar,
      format = "{cli::pb_bar} {cli::pb_current}/{cli::pb_total} | {cli::pb_rate} | {cli::pb_eta_str}")
  }
  cli::cli_progress_update(set = done, id = bar$id, .envir = bar)
}

progress_end <- function(bar) {
  if (!is.null(bar$id)) cli::cli_progress_done(id = bar$id, .envir = bar)
  else if (!is.null(bar$step) && bar$done < Inf) bar$step <- NULL
}
