# The function of a map: what users give as `.f`, made one of a single element.

# ---- what `.f` may be ----

# A function; the name of one that is seen from `env`; a formula; or what to extract, as in purrr:
# by name, by position, or a list of these and of functions.
as_task_function <- function(f, env) {
  if (is.function(f)) return(f)
  if (is_filled(f)) {
    named <- get0(f, envir = env, mode = "function")
    if (!is.null(named)) return(named)
  }
  if (inherits(f, "formula")) return(function_of_formula(f))
  if (is.list(f) || is.character(f) || is.numeric(f)) return(extractor(f))
  has_to_be("`.f`", paste("a function, a formula, or what to extract:",
                          "a name, a position, or a list of them"))
}

function_of_formula <- function(f) {
  if (!requireNamespace("rlang", quietly = TRUE))
    throw("argument", "a formula as `.f` needs package rlang: install it, or write function(x) ...")
  # without its class: the nodes need not load rlang for that
  tryCatch(unclass(rlang::as_function(f)), error = function(e) {
    throw("argument", paste("`.f`:", conditionMessage(e)))
  })
}

# Takes one thing after the other out of an element: by name, by position, or by a function. What is
# not there is NULL, or the argument `.default`.
extractor <- function(path) {
  path <- as.list(path)
  for (p in path) {
    is_place <- (is.character(p) || is.numeric(p)) && length(p) == 1L && !is.na(p)
    if (!is.function(p) && !is_place)
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
        at <- if (is.character(p)) match(p, names(.x)) else p
        .x <- if (!is.na(at) && at >= 1 && at <= length(.x)) .x[[at]]
      }
      if (is.null(.x)) return(.default)
    }
    .x
  }
  environment(extract) <- list2env(list(path = path), parent = baseenv())
  structure(extract, class = "clutch_extractor")
}

# ---- functions of one element ----

# Their argument is `..x`: a constant of the user's may have the name `.x`.

# The value is a function that calls `f`, and whose own value does not travel back.
function_walk <- function(f) {
  walk <- function(..x, ...) NULL
  body(walk) <- quote({
    .f(..x, ...)
    NULL
  })
  with_function(walk, f)
}

# `f` as a function of one list with its arguments; "" stands for an argument without a name. Its
# body is the call .f(a = ..x[[1L]], b = ..x[[2L]], ...).
function_of_row <- function(f, arguments) {
  values <- lapply(seq_along(arguments), function(k) bquote(..x[[.(k)]]))
  names(values) <- arguments
  row <- function(..x, ...) NULL
  body(row) <- as.call(c(quote(.f), values, quote(...)))
  with_function(row, f)
}

# `outer`, which calls `f` as `.f`, with nothing else of this package's around it. By that name a
# profile knows that this is the user's function: see user_frames().
with_function <- function(outer, f) {
  environment(outer) <- list2env(list(.f = f), parent = globalenv())
  outer
}
