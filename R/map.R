#' Apply a function to each element of a vector, on the nodes of a cluster
#'
#' `cluster_map()` returns a list, as [lapply()] does, in the order of the elements whatever node does which; its typed
#' variants return vectors; `cluster_walk()` is for what the function does and
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
#' @param .x vector or list.
#' @param .f a function; the name of one; a formula such as `~ .x + 1` (with package \pkg{rlang}); or what to extract from each
#'   element: a name, a position, or a list of these and of functions. What is not there is `NULL`, or the value of argument `.default`.
#' @param ...,.more constant arguments of `.f`; `.more` is a list of them. Those whose names are taken here go into `.more`, as in
#'   `.more = list(cl = 3)`: names that begin with a dot, and names that `cl` begins with (`c`, `cl`).
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
#' tryCatch(cluster_map(cl, list(1, "a"), log), clutch_task_error = function(e) e$element)
#' stop_cluster(cl)
#' @export
cluster_map <- function(cl, .x, .f, ..., .more = list(), .seed = TRUE, .progress = NULL,
                        .timeout = Inf, .retries = 0, .chunk = NULL, .globals = TRUE,
                        .packages = NULL, .relay = "ordered", .on_error = "stop", .max_memory = Inf,
                        .env = parent.frame()) {
  map_one(environment())
}

#' @rdname cluster_map
#' @export
cluster_walk <- function(cl, .x, .f, ..., .more = list(), .seed = TRUE, .progress = NULL,
                         .timeout = Inf, .retries = 0, .chunk = NULL, .globals = TRUE,
                         .packages = NULL, .relay = "ordered", .on_error = "stop",
                         .max_memory = Inf, .env = parent.frame()) {
  map_one(environment(), walk = TRUE)
  invisible(.x)
}

#' Apply a function to elements of two vectors, on the nodes of a cluster
#'
#' @inheritParams cluster_map
#' @param .x,.y vectors or lists of the same length; one element is repeated.
#' @return as in [cluster_map()]; names are those of `.x`.
#' @export
cluster_map2 <- function(cl, .x, .y, .f, ..., .more = list(), .seed = TRUE, .progress = NULL,
                         .timeout = Inf, .retries = 0, .chunk = NULL, .globals = TRUE,
                         .packages = NULL, .relay = "ordered", .on_error = "stop",
                         .max_memory = Inf, .env = parent.frame()) {
  map_two(environment())
}

#' @rdname cluster_map2
#' @export
cluster_walk2 <- function(cl, .x, .y, .f, ..., .more = list(), .seed = TRUE, .progress = NULL,
                          .timeout = Inf, .retries = 0, .chunk = NULL, .globals = TRUE,
                          .packages = NULL, .relay = "ordered", .on_error = "stop",
                          .max_memory = Inf, .env = parent.frame()) {
  map_two(environment(), walk = TRUE)
  invisible(.x)
}

#' Apply a function to elements of several vectors, on the nodes of a cluster
#'
#' @inheritParams cluster_map
#' @param .l a list of vectors; a data frame.
#' @return as in [cluster_map()]; names are those of the first vector in `.l`.
#' @export
cluster_pmap <- function(cl, .l, .f, ..., .more = list(), .seed = TRUE, .progress = NULL,
                         .timeout = Inf, .retries = 0, .chunk = NULL, .globals = TRUE,
                         .packages = NULL, .relay = "ordered", .on_error = "stop",
                         .max_memory = Inf, .env = parent.frame()) {
  map_list(environment())
}

#' @rdname cluster_pmap
#' @export
cluster_pwalk <- function(cl, .l, .f, ..., .more = list(), .seed = TRUE, .progress = NULL,
                          .timeout = Inf, .retries = 0, .chunk = NULL, .globals = TRUE,
                          .packages = NULL, .relay = "ordered", .on_error = "stop",
                          .max_memory = Inf, .env = parent.frame()) {
  map_list(environment(), walk = TRUE)
  invisible(.l)
}

#' Apply a function to elements and their names, on the nodes of a cluster
#'
#' @inheritParams cluster_map
#' @return as in [cluster_map()].
#' @export
cluster_imap <- function(cl, .x, .f, ..., .more = list(), .seed = TRUE, .progress = NULL,
                         .timeout = Inf, .retries = 0, .chunk = NULL, .globals = TRUE,
                         .packages = NULL, .relay = "ordered", .on_error = "stop",
                         .max_memory = Inf, .env = parent.frame()) {
  map_indexed(environment())
}

#' @rdname cluster_imap
#' @export
cluster_iwalk <- function(cl, .x, .f, ..., .more = list(), .seed = TRUE, .progress = NULL,
                          .timeout = Inf, .retries = 0, .chunk = NULL, .globals = TRUE,
                          .packages = NULL, .relay = "ordered", .on_error = "stop",
                          .max_memory = Inf, .env = parent.frame()) {
  map_indexed(environment(), walk = TRUE)
  invisible(.x)
}

# ---- how they run ----

# Each takes the frame of the function that the user has called: its arguments are there, and
# is_given() tells which of them the call has. `walk`: the values do not travel back.

map_one <- function(frame, walk = FALSE) {
  check_call(frame, ".x")
  map_elements(frame, vector_of(frame$.x, "`.x`"), identity, walk)
}

map_two <- function(frame, walk = FALSE) {
  check_call(frame, c(".x", ".y"))
  vectors <- list(vector_of(frame$.x, "`.x`"), vector_of(frame$.y, "`.y`"))
  map_rows(frame, vectors, c("`.x`", "`.y`"), walk)
}

map_list <- function(frame, walk = FALSE) {
  check_call(frame, ".l")
  vectors <- frame$.l
  if (!is.list(vectors))
    throw("argument", sprintf("`.l` has to be a list of vectors, and this is %s", kind_of(vectors)))
  labels <- sprintf("`.l[[%d]]`", seq_along(vectors))
  columns <- lapply(seq_along(vectors), function(k) vector_of(.subset2(vectors, k), labels[[k]]))
  names(columns) <- names(vectors)
  map_rows(frame, columns, labels, walk)
}

map_indexed <- function(frame, walk = FALSE) {
  check_call(frame, ".x")
  x <- vector_of(frame$.x, "`.x`")
  index <- if (is.null(names(x))) seq_along(x) else names(x)
  map_rows(frame, list(x, index), c("`.x`", "its index"), walk)
}

# Elements of several vectors: the first of each, the second of each, ... `labels`: what errors
# call the vectors. Names of vectors are those of arguments of `.f`.
map_rows <- function(frame, vectors, labels, walk) {
  n <- common_length(lengths(vectors), labels)
  columns <- lapply(vectors, rep_len, n)
  rows <- if (n > 0L) .mapply(list, unname(columns), NULL) else list()
  if (length(vectors) && !is.null(names(vectors[[1L]])))
    names(rows) <- rep_len(names(vectors[[1L]]), n)
  arguments <- names(vectors)
  if (is.null(arguments)) arguments <- character(length(vectors))
  map_elements(frame, rows, function(f) function_of_row(f, arguments), walk)
}

# `adapt` makes of the user's function one of a single element.
map_elements <- function(frame, elements, adapt, walk) {
  f <- as_task_function(frame$.f, frame$.env)
  constants <- check_dots(eval(quote(list(...)), frame), f)
  constants <- c(constants, as.list(frame$.more))
  o <- task_options(given_options(frame))
  f <- adapt(f)
  if (walk) f <- function_walk(f)
  run_map(frame$cl, elements, f, constants, o, frame$.env)
}

# ---- checks ----

# `vectors`: the arguments that are gone through.
check_call <- function(frame, vectors) {
  for (name in c("cl", vectors, ".f")) {
    if (!is_given(name, frame)) throw("argument", sprintf("argument `%s` is missing", name))
  }
  if (inherits(frame[[vectors[[1L]]]], "clutch_cluster") && !inherits(frame$cl, "clutch_cluster")) {
    throw("argument", paste("an argument whose name begins like `cl` was taken for the cluster:",
                            "pass it as .more = list(name = value)"))
  }
  check_cluster(frame$cl)
}

# What lapply() would go through. `label`: what errors call it.
vector_of <- function(x, label) {
  if (is.function(x) || is.symbol(x)) {
    text <- "%s has to be a vector or a list, and this is %s"
    throw("argument", sprintf(text, label, kind_of(x)))
  }
  plain_elements(x)
}

kind_of <- function(x) {
  if (is.function(x)) return("a function")
  if (is.null(x)) return("NULL")
  if (is.atomic(x)) return(sprintf("a vector of type %s", typeof(x)))
  sprintf("an object of class %s", class(x)[[1L]])
}

# As lapply() takes them: whatever is no plain vector becomes a list.
plain_elements <- function(x) {
  if (!is.vector(x) || is.object(x)) x <- as.list(x)
  if (!typeof(x) %in% c("list", "integer", "double", "logical", "character")) x <- as.list(x)
  x
}

# One element is as good as many; zero elements go with one or zero.
common_length <- function(sizes, labels) {
  if (!length(sizes)) return(0L)
  longer <- which(sizes != 1L)
  if (!length(longer)) return(1L)
  first <- longer[[1L]]
  other <- Find(function(k) sizes[[k]] != sizes[[first]], longer)
  if (is.null(other)) return(sizes[[first]])
  throw("argument", sprintf("%s has %d elements and %s has %d", labels[[first]], sizes[[first]],
                            labels[[other]], sizes[[other]]))
}

# Arguments that begin with a dot are options: one that there is not would else go to the
# function, unseen.
check_dots <- function(dots, f) {
  if (is.null(names(dots))) return(dots)
  given <- grep("^[.][A-Za-z]", names(dots), value = TRUE)
  bad <- setdiff(given, if (inherits(f, "clutch_extractor")) ".default")
  if (length(bad)) {
    options <- grep("^[.]", names(formals(cluster_map)), value = TRUE)
    text <- paste("there is no option `%s`%s",
                  "(an argument of that name for the function goes into `.more`)")
    throw("argument", sprintf(text, bad[[1L]], did_you_mean(bad[[1L]], options)))
  }
  if ("more" %in% names(dots) && !takes_argument(f, "more")) {
    throw("argument", paste("the function has no argument `more`:",
                            "a list of further constant arguments is `.more`"))
  }
  dots
}

takes_argument <- function(f, name) {
  arguments <- names(formals(args(f)))
  is.null(arguments) || any(c(name, "...") %in% arguments)
}

# ---- functions of one element ----

# The same function, whose value does not travel back.
function_walk <- function(f) {
  walk <- function(.x, ...) {
    f(.x, ...)
    NULL
  }
  with_function(walk, f)
}

# `f` as a function of one list with its arguments; "" stands for an argument without a name. Its
# body is the call f(a = .x[[1L]], b = .x[[2L]], ...).
function_of_row <- function(f, arguments) {
  values <- lapply(seq_along(arguments), function(k) bquote(.x[[.(k)]]))
  names(values) <- arguments
  row <- function(.x, ...) NULL
  body(row) <- as.call(c(quote(f), values, quote(...)))
  with_function(row, f)
}

# `outer`, which calls `f`, with nothing else of this package's around it.
with_function <- function(outer, f) {
  environment(outer) <- list2env(list(f = f), parent = globalenv())
  outer
}

# ---- what `.f` may be ----

# A function; the name of one that is seen from `env`; a formula; or what to extract, as purrr::map() has it.
as_task_function <- function(f, env) {
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
