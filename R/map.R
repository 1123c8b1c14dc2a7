#' Apply a function to each element of a vector, on the nodes of a cluster
#'
#' `cluster_map()` returns a list, as [lapply()] does, in the order of the elements whatever node does which; its typed
#' kin return vectors; `cluster_map2()` takes its elements from two vectors; `cluster_walk()` is for what the function does and
#' not for its values.
#'
#' @section What travels: The function and its constant arguments go to each node once, not with each element. Variables of
#'   the workspace that the code uses go with them, and are in the workspace of the nodes while the map runs. They are searched in all
#'   functions that travel, and in what these find in turn: the function, those in its environment, in elements and
#'   constants, in lists, attributes, slots and formulas, methods that the workspace has for what travels, and functions that are
#'   named in a string, as in `do.call("f", x)`. Local variables travel with the function's environment, all of it: a warning of class `clutch_large` says when that is more than
#'   `getOption("clutch.max_size", 500e6)` bytes, and what the largest objects are.
#'
#'   Arguments of the functions around it that it uses are evaluated in the session before they travel. S4 methods
#'   that the workspace has for generics of packages do not travel: define them by [cluster_setup()].
#'
#'   What the code finds in an attached package has that package attached on the nodes. A package whose classes the objects have (a
#'   data.table, a tibble) is loaded there.
#' @section Who does what: Elements are handed out in their order as nodes get free, a second one waiting at each node. Where
#'   elements take little time, as many travel together as make about a millisecond of work, by the times measured so far. What waits at
#'   a node and is not begun goes to another one that has nothing to do, so no node is idle while there is work.
#' @section Guarantees: An element is started at most once, or with `.retries = k` at most `k + 1` times, each time on another
#'   node if there is one; an element that was with a node and not begun when that died was not started. It is retried when its node has
#'   died, not when the function has failed or time was up. A node that dies is replaced, and prepared as [cluster_setup()]
#'   says; until its successor is there the others go on. A node of which three in turn have ended before they had begun anything is
#'   given up, for this map. An element that kills every node it meets fails, and no other with it.
#' @section What ends with a node: Processes that an element has started end with its node, that is when the node died or was ended since time was
#'   up or it had too much memory, and when the cluster or the session ends. On Linux with strategies `"fork_server"` and `"spawn"` this
#'   holds also for those in sessions of their own (`system("setsid ... &")`), if they keep the environment variable `CLUTCH_MARK`;
#'   elsewhere those go on. What was started by a node that goes on does so, too.
#' @section What the next map finds: A node is to the next map as it is to a call: options,
#'   environment variables, working directory, locale, sinks, time limits and the kind of random numbers that an element has set are
#'   put back, and the variables of the map are removed from the workspace. What stays: packages that were loaded or attached, with the options
#'   and variables that are new since then; variables that elements have made in the workspace; what calls have done, as by
#'   [parallel::clusterEvalQ()] and [cluster_setup()]. A node whose workspace was locked is replaced.
#' @section Random numbers: Each element has a stream of its own (L'Ecuyer's generator, see [parallel::nextRNGStream()]), so that results
#'   do not depend on the number of nodes, on the order of the work, or on retries. With `.seed = TRUE` the streams follow from
#'   the session's generator, that is from [set.seed()]. The session's generator is left as one draw would leave it.
#' @section Output: What elements print, their messages, warnings and other conditions appear in the session, in the order
#'   of the elements, or with `.relay = "live"` as they come. `options(warn =)` of the session holds on the nodes while the map runs: with 2, a
#'   warning is the error of its element, after the handlers of the session have seen it; but not within [suppressWarnings()]. Of the
#'   call of a condition only the function's name is left where there is much data in it.
#' @section Interrupts: Ctrl-C cancels what has not been begun and interrupts what has, and the cluster can be used at once; so
#'   does an error with `.on_error = "stop"`.
#' @param cl a cluster made by [make_cluster()].
#' @param .x,.y vectors or lists: their elements are the first argument (the first two) of `.f`.
#' @param .f a function; the name of one; a formula such as `~ .x + 1` (with package \pkg{rlang}); or what to extract from each
#'   element: a name, a position, or a list of these and of functions. What is not there is `NULL`, or the value of argument `.default`.
#' @param ...,more constant arguments of `.f`; `more` is a list of them. Those whose names are taken here go into `more`, as in
#'   `more = list(cl = 3)`: names that begin with a dot, names that `cl` begins with (`c`, `cl`), and `more`.
#' @param .seed `TRUE`, a number, a value of `.Random.seed`, or `FALSE`: the nodes' own random numbers.
#' @param .progress whether to show a progress bar: by default in interactive sessions, when the map takes longer than a second.
#'   Where \pkg{progressr} is in use its signals are given instead.
#' @param .timeout seconds that one element may take; then it is interrupted, and its node ended when it does not react in
#'   `getOption("clutch.task_grace", 1)` seconds. It ends with an error of class `clutch_task_timeout`, the others are not affected.
#' @param .retries how often an element is tried again when its node has died.
#' @param .chunk number of elements that travel together; `NULL`: as their times say.
#' @param .globals `TRUE`: variables and packages are found; `FALSE`: none are; names of variables; or a named list of values.
#' @param .packages character: packages to attach on the nodes before.
#' @param .relay `"ordered"` (or `TRUE`), `"live"`, or `"none"` (`FALSE`): output goes where that of the cluster goes.
#' @param .on_error `"stop"`: the first failure is an error and the rest is cancelled (of several elements that fail at about the same time, the
#'   first in order); `"continue"`: in place of a value
#'   there is the error (in typed vectors `NA`), and a warning says how many there are.
#' @param .max_memory bytes: a node that has more than that is ended, and its element fails with an error of class `clutch_task_memory`.
#'   Counted is what `cluster_status()$memory` shows: what a node has written, in memory or swap, and not what it shares with its fork server
#'   and others. What garbage earlier elements left is collected before the next one begins. Where not even a new node can begin
#'   anything, elements fail with that error, too, which says how much a node has by itself. While several maps and tasks are under
#'   way, the least of their limits holds for all. A limit over the machine's memory is none. Of nodes on other machines nobody
#'   here knows the memory: a warning of class `clutch_unlimited` says so.
#' @param .env environment in which a name given as `.f` and names in `.globals` are looked up: the caller's.
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
                        .max_memory = Inf, .env = parent.frame()) {
  force(.env)
  given(cl, "cl")
  given(.x, ".x")
  if (inherits(.x, "clutch_cluster") && !inherits(cl, "clutch_cluster"))
    throw("argument", "an argument whose name begins like `cl` was taken for the cluster: pass it as more = list(name = value)")
  check_cluster(cl)
  f <- as_task_function(.f, .env)
  more <- c(check_dots(list(...), f), as.list(more))
  run_map(cl, .x, f, more, .seed, .progress, .timeout, .retries, .chunk, .globals, .packages, .relay, .on_error,
          .max_memory, .env)
}

# Arguments that begin with a dot are options: one that there is not would else go to the function, unseen.
check_dots <- function(dots, f) {
  if (is.null(names(dots))) return(dots)
  given <- grep("^[.][A-Za-z]", names(dots), value = TRUE)
  options <- grep("^[.]", names(formals(cluster_map)), value = TRUE)
  bad <- setdiff(given, if (inherits(f, "clutch_extractor")) ".default")
  if (!length(bad)) return(dots)
  throw("argument", sprintf("there is no option `%s`%s (an argument of that name for the function goes into `more`)", bad[[1L]],
                            did_you_mean(bad[[1L]], options)))
}

# ---- typed variants ----

# One value an element, as a vector whose type and missing value `empty` has.
typed <- function(values, types, empty, name) {
  is_one <- function(v) is.atomic(v) && length(v) == 1L && typeof(v) %in% types
  out <- rep(empty, length(values))
  for (i in seq_along(values)) {
    v <- values[[i]]
    if (inherits(v, "clutch_task_error")) next
    if (!is_one(v)) {
      throw("value", sprintf("element %d: %s() wants one value of type %s, and this is %s of length %d", i, name,
                             types[[1L]], typeof(v), length(v)), element = i)
    }
    out[[i]] <- v
  }
  names(out) <- names(values)
  out
}

#' @rdname cluster_map
#' @export
cluster_map_dbl <- function(cl, .x, .f, ..., .env = parent.frame()) {
  values <- cluster_map(cl, .x, .f, ..., .env = .env)
  typed(values, c("double", "integer", "logical"), NA_real_, "cluster_map_dbl")
}

#' @rdname cluster_map
#' @export
cluster_map_int <- function(cl, .x, .f, ..., .env = parent.frame()) {
  values <- cluster_map(cl, .x, .f, ..., .env = .env)
  typed(values, c("integer", "logical"), NA_integer_, "cluster_map_int")
}

#' @rdname cluster_map
#' @export
cluster_map_chr <- function(cl, .x, .f, ..., .env = parent.frame()) {
  typed(cluster_map(cl, .x, .f, ..., .env = .env), "character", NA_character_, "cluster_map_chr")
}

#' @rdname cluster_map
#' @export
cluster_map_lgl <- function(cl, .x, .f, ..., .env = parent.frame()) {
  typed(cluster_map(cl, .x, .f, ..., .env = .env), "logical", NA, "cluster_map_lgl")
}

#' @rdname cluster_map
#' @export
cluster_map_dfr <- function(cl, .x, .f, ..., .env = parent.frame()) {
  values <- cluster_map(cl, .x, .f, ..., .env = .env)
  there <- which(!vapply(values, function(v) is.null(v) || inherits(v, "clutch_task_error"), NA))
  bind_rows(unname(values[there]), there)
}

# The rows of data frames, or of lists that are made such, from these elements of a map.
bind_rows <- function(values, elements) {
  if (!length(values)) return(data.frame())
  for (k in seq_along(values)) {
    if (!is.list(values[[k]])) {
      throw("value", sprintf("element %d: cluster_map_dfr() wants a data frame or a list, and this is %s of length %d",
                             elements[[k]], typeof(values[[k]]), length(values[[k]])), element = elements[[k]])
    }
  }
  frames <- lapply(seq_along(values), function(k) {
    if (is.data.frame(values[[k]])) return(values[[k]])
    tryCatch(as.data.frame(values[[k]]), error = function(e) {
      throw("value", sprintf("element %d cannot be made a data frame: %s", elements[[k]], conditionMessage(e)),
            element = elements[[k]])
    })
  })
  columns <- lapply(frames, names)
  wide <- which(lengths(columns) > 0L) # rbind() leaves out what has no columns
  for (k in wide) {
    if (setequal(columns[[k]], columns[[wide[[1L]]]]) && length(columns[[k]]) == length(columns[[wide[[1L]]]])) next
    throw("value", sprintf("element %d has columns %s, and element %d has %s: the rows cannot be bound", elements[[k]],
                           toString(columns[[k]]), elements[[wide[[1L]]]], toString(columns[[wide[[1L]]]])),
          element = elements[[k]])
  }
  tryCatch(do.call(rbind, frames), error = function(e) throw("value", paste("the rows cannot be bound:", conditionMessage(e))))
}

# ---- variants by arguments ----

#' @rdname cluster_map
#' @export
cluster_walk <- function(cl, .x, .f, ..., .env = parent.frame()) {
  force(.env)
  check_cluster(cl)
  cluster_map(cl, .x, function_walk(as_task_function(.f, .env)), ..., .env = .env)
  invisible(.x)
}

# The same function, whose value does not travel back.
function_walk <- function(f) {
  walk <- function(.x, ...) {
    f(.x, ...)
    NULL
  }
  with_functions(walk, f)
}

#' @rdname cluster_map
#' @export
cluster_map2 <- function(cl, .x, .y, .f, ..., .env = parent.frame()) {
  force(.env)
  check_cluster(cl)
  given(.x, ".x")
  given(.y, ".y")
  n <- max(length(.x), length(.y))
  if (length(.x) != length(.y) && !(1L %in% c(length(.x), length(.y))))
    throw("argument", sprintf("`.x` has %d elements and `.y` has %d", length(.x), length(.y)))
  if (0L %in% c(length(.x), length(.y))) n <- 0L
  x <- rep_len(plain_elements(.x), n)
  y <- rep_len(plain_elements(.y), n)
  pairs <- lapply(seq_len(n), function(i) list(x[[i]], y[[i]]))
  names(pairs) <- if (length(.x) == n) names(.x)
  cluster_map(cl, pairs, function_of_two(as_task_function(.f, .env)), ..., .env = .env)
}

function_of_two <- function(f) {
  two <- function(.x, ...) f(.x[[1L]], .x[[2L]], ...)
  with_functions(two, f)
}

# `outer`, which calls `f`, with nothing else of this package's around it.
with_functions <- function(outer, f) {
  environment(outer) <- list2env(list(f = f), parent = globalenv())
  if (inherits(f, "clutch_extractor")) class(outer) <- class(f)
  outer
}

# ---- what `.f` may be ----

# A function; the name of one that is seen from `env`; a formula; or what to extract, as purrr::map() has it.
as_task_function <- function(f, env) {
  given(f, ".f")
  if (is.function(f)) return(f)
  if (is.character(f) && length(f) == 1L && !is.na(f) && nzchar(f)) {
    named <- get0(f, envir = env, mode = "function")
    if (!is.null(named)) return(named)
  }
  if (inherits(f, "formula")) return(function_of_formula(f))
  if (is.list(f) || is.character(f) || is.numeric(f)) return(extractor(f))
  throw("argument", "`.f` has to be a function, a formula, or what to extract: a name, a position, or a list of them")
}

function_of_formula <- function(f) {
  if (!requireNamespace("rlang", quietly = TRUE))
    throw("argument", "a formula as `.f` needs package rlang: install it, or write function(x) ...")
  # without its class: the nodes need not load rlang for that
  tryCatch(unclass(rlang::as_function(f)), error = function(e) throw("argument", paste("`.f`:", conditionMessage(e))))
}

# Takes one thing after the other out of an element: by name, by position, or by a function. What is not there is NULL, or
# the argument `.default`.
extractor <- function(path) {
  path <- as.list(path)
  for (p in path) {
    if (!is.function(p) && !((is.character(p) || is.numeric(p)) && length(p) == 1L && !is.na(p)))
      throw("argument", "`.f`: what is extracted is told by names, positions and functions")
  }
  extract <- function(.x, ..., .default = NULL) {
    for (p in path) {
      if (is.function(p)) {
        .x <- p(.x)
      } else if (is.environment(.x) && is.character(p)) {
        .x <- get0(p, envir = .x, inherits = FALSE)
      } else if (isS4(.x) && is.character(p)) {
        .x <- methods::slot(.x, p)
      } else {
        at <- if (is.character(p)) match(p, names(.x)) else if (p >= 1 && p <= length(.x)) p else NA
        .x <- if (!is.na(at)) .x[[at]]
      }
      if (is.null(.x)) return(.default)
    }
    .x
  }
  environment(extract) <- list2env(list(path = path), parent = baseenv())
  structure(extract, class = "clutch_extractor")
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
