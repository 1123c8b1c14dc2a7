# Objects that are of use in this process only: connections, and external pointers, behind which is
# memory of compiled code. In another process a pointer is nil, and the number of a connection is
# that of another one, or of none.
#
# The search for globals finds out whether there is any that would travel, at little cost
# (src/r/globals/search.c). Where there is, it matters only if code uses it: a frame may have a
# connection that its functions do not touch. So it is followed from code to code then: a closure
# leads to the variables that it names, what is in a variable to all that is in it.

# An error of class "clutch_session_only" where `fun` uses such an object, or `x` or `dots` has one.
refuse_session_only <- function(fun, x, dots) {
  if (option_choice("clutch.session_only", c("refuse", "send")) == "send") return(invisible())
  search <- .Call(ffi_globals_new)
  search_all(search, list(fun, x, dots))
  if (!.Call(ffi_globals_pointer, search)) return(invisible())
  visited <- new.env(parent = emptyenv())
  visited$objects <- list()
  found <- pointer_in(x, "X", visited)
  for (k in seq_along(dots)) {
    name <- if (nzchar(c(names(dots)[k], "")[[1L]])) names(dots)[[k]] else sprintf("..%d", k)
    if (is.null(found)) found <- pointer_in(dots[[k]], name, visited)
  }
  if (is.null(found)) found <- pointer_in(fun, "FUN", visited)
  if (!is.null(found)) throw_session_only(found)
}

throw_session_only <- function(found) {
  what <- if (inherits(found$object, "connection")) {
    "a connection"
  } else {
    sprintf("an object of compiled code (an external pointer%s)",
            if (nzchar(found$class)) paste0(", in an object of class ", found$class) else "")
  }
  text <- paste0("'%s' is or holds %s, which only this session can use: open or make it within ",
                 "the function. If it mends itself where it was copied, set ",
                 "options(clutch.session_only = \"send\").")
  throw("session_only", sprintf(text, found$name, what), name = found$name)
}

# Their packages make a new pointer where it is nil.
mends_itself <- c("data.table", "igraph", "xgb.Booster")

# The first such object that `x`, known as `name`, leads to: list(name, object, class), or NULL.
pointer_in <- function(x, name, visited, class = "") {
  if (is_terminal(x) || inherits(x, mends_itself)) return(NULL)
  if (inherits(x, c("clutch_cluster", "clutch_node", "clutch_task"))) return(NULL) # they say it
  if (.Call(ffi_is_pointer, x) || inherits(x, "connection"))
    return(list(name = name, object = x, class = class))
  if (is.object(x)) class <- class(x)[[1L]]
  parts <- switch(typeof(x),
    closure = variables_of(x, visited),
    environment = variables_in(x, visited),
    list = , expression = , language = , pairlist = as.list(x)
  )
  rest <- attributes(x)
  rest <- rest[!names(rest) %in% attributes_left_out]
  named <- typeof(x) == "closure" && !is.null(names(parts))
  for (k in seq_along(parts)) {
    found <- pointer_in(parts[[k]], if (named) names(parts)[[k]] else name, visited, class)
    if (!is.null(found)) return(found)
  }
  for (part in rest) {
    found <- pointer_in(part, name, visited, class)
    if (!is.null(found)) return(found)
  }
  if (typeof(x) == "closure") pointer_in(body(x), name, visited, class)
}

# `.internal.selfref` is a data.table's, which does without.
attributes_left_out <- c("names", "class", "dim", "srcref", "srcfile", "wholeSrcref",
                         ".Environment", ".internal.selfref")

is_terminal <- function(x) {
  if (is.null(x) || is.symbol(x) || is.primitive(x)) return(TRUE)
  if (!is.atomic(x)) return(FALSE)
  is_standard <- inherits(x, "connection") && x[[1L]] < 3L # as stdout(): every process has them
  is.null(attributes(x)) || is_standard
}

# The variables that a closure names, and does not get as arguments, with their values.
variables_of <- function(f, visited) {
  env <- environment(f)
  if (isNamespace(env) || was_visited(f, visited)) return(NULL)
  top <- topenv(env)
  if (identical(top, globalenv())) top <- parent.env(top)
  code <- as.call(list(as.name("function"), formals(f), body(f)))
  frame <- new.env()
  others <- .Call(ffi_globals_locals, .Call(ffi_globals_new), code, env, top, frame)
  values <- as.list(frame, all.names = TRUE)
  for (name in others) {
    values[name] <- list(tryCatch(get(name, env), error = function(e) NULL))
  }
  values
}

variables_in <- function(env, visited) {
  stays <- identical(env, globalenv()) || identical(env, baseenv()) || isNamespace(env) ||
    identical(env, emptyenv()) || !is.null(attr(env, "path"))
  if (stays || was_visited(env, visited)) return(NULL)
  names <- ls(env, all.names = TRUE)
  active <- vapply(names, bindingIsActive, NA, env)
  lapply(names[!active], function(name) tryCatch(env[[name]], error = function(e) NULL))
}

was_visited <- function(x, visited) {
  for (y in visited$objects) if (identical(x, y)) return(TRUE)
  visited$objects <- c(visited$objects, list(x))
  FALSE
}
