# This file finds what of a foreach loop travels to the nodes.
#
# All that the expression needs travels as foreach's other backends have it: variables of the frames
# around the loop are in one environment, `frame`, in which the iteration variables are set, so that
# local functions see these. Variables of the workspace and packages are found as for a map.

# The function of one iteration, and what it needs.
foreach_code <- function(obj, expr, envir, o) {
  top <- topenv(envir, NULL)
  skipped <- union(obj$noexport, obj$argnames)
  frame <- frame_with_dots(expr, envir)
  parent.env(frame) <- if (isNamespace(top)) top else globalenv()
  add_locals(frame, expr, envir, top, skipped)
  exported <- add_exports(frame, setdiff(obj$export, names(frame)), envir, top)
  if (is.list(o$globals)) exported <- c(exported, o$globals)
  inner <- as.function(c(alist_of(obj$argnames), list(expr)), envir = frame)
  needs <- find_needs(list(inner, exported), if (isFALSE(o$globals)) FALSE else TRUE, envir)
  needs$globals[names(exported)] <- exported
  needs$globals[obj$noexport] <- NULL
  # functions of the workspace that see the iteration variables, as the loop with `%do%` has it
  for (name in setdiff(names(needs$globals), names(frame))) {
    f <- needs$globals[[name]]
    if (is.function(f) && identical(environment(f), globalenv())) adopt(frame, name, f)
  }
  code <- compiler::compile(expr, env = envir, options = list(suppressUndefined = TRUE))
  list(fun = iteration(code, frame, obj$options), needs = needs, finds = !isFALSE(o$globals),
       noexport = obj$noexport)
}

# Arguments without defaults.
alist_of <- function(names) {
  names <- unique(names[nzchar(names)])
  structure(rep(list(substitute()), length(names)), names = names)
}

# Local variables that the code uses, and those of the local functions that these are.
add_locals <- function(frame, expr, envir, top, skipped) {
  if (identical(envir, globalenv()) || identical(envir, top)) return(invisible())
  todo <- list(expr)
  done <- character()
  while (length(todo)) {
    local <- new.env(parent = emptyenv())
    locals_into(local, todo[[1L]], envir, top)
    todo <- todo[-1L]
    for (name in setdiff(names(local), c(done, skipped, "..."))) {
      value <- local[[name]]
      done <- c(done, name)
      assign(name, value, envir = frame)
      if (!is.function(value) || !identical(environment(value), envir)) next
      adopt(frame, name, value)
      todo <- c(todo, list(call("function", formals(value), body(value))))
    }
  }
}

# A function that is to see what is in the frame.
adopt <- function(frame, name, f) {
  environment(f) <- frame
  assign(name, f, envir = frame)
}

# Finds what `.export` names: a local variable goes into the frame. The value has the others.
add_exports <- function(frame, names, envir, top) {
  values <- list()
  for (name in unique(names)) {
    if (!exists(name, envir))
      throw("argument", sprintf("`.export`: there is no variable '%s'", name))
    value <- get(name, envir)
    at <- frame_with(name, envir)
    if (identical(at, globalenv()) || identical(at, top)) {
      values[name] <- list(value)
    } else {
      assign(name, value, envir = frame)
      if (is.function(value) && identical(environment(value), envir)) adopt(frame, name, value)
    }
  }
  values
}

# A function of the list with the iteration variables, with nothing of this package's around it.
iteration <- function(code, frame, options) {
  run <- function(..x) {
    list2env(..x, frame)
    eval(code, ..x, frame)
  }
  if (isTRUE(options$snow$attachExportEnv)) {
    run <- function(..x) {
      list2env(..x, frame)
      attach(frame, name = "exportEnv", warn.conflicts = FALSE)
      on.exit(detach("exportEnv"))
      eval(code, ..x, frame)
    }
  }
  environment(run) <- list2env(list(code = code, frame = frame), parent = baseenv())
  run
}
