# The workspace of an actor that lives in a node of a cluster. Tasks must not see its variables, nor
# the packages that its code needs, and these do not come and go with each call. So functions whose
# environment is the workspace, or is within it, are given another one in its place: an environment
# with the variables, behind it one with what the packages export, and behind that the workspace of
# the node. All that is changed here has just come to this process and is nobody else's.

# `needs`: list(globals, packages).
move_to_own_workspace <- function(x, needs) {
  if (!length(needs$globals) && !length(needs$packages)) return(x)
  own <- new.env(parent = attached_copy(needs$packages))
  seen <- utils::hashtab()
  globals <- move_to(needs$globals, own, seen)
  list2env(globals, own)
  move_to(x, own, seen)
}

# The exports of these packages: those of the first one come before the others, as with library().
attached_copy <- function(packages) {
  env <- new.env(parent = globalenv())
  for (p in rev(with_depends(packages))) {
    ns <- tryCatch(loadNamespace(p), error = function(e) {
      stop(error_of("package", conditionMessage(e), package = p, of_job = TRUE))
    })
    exports <- intersect(getNamespaceExports(ns), ls(ns, all.names = TRUE))
    importIntoEnv(env, exports, ns, exports)
    data <- getNamespaceInfo(ns, "lazydata")
    for (name in ls(data, all.names = TRUE)) lazy_copy(name, data, env)
  }
  env
}

# With the packages that these attach in turn, which come behind them.
with_depends <- function(packages) {
  found <- character()
  while (length(packages)) {
    p <- packages[[1L]]
    found <- c(found, p)
    meta <- system.file("Meta", "package.rds", package = p)
    more <- if (nzchar(meta)) names(readRDS(meta)$Depends)
    packages <- setdiff(c(packages, more), c(found, default_packages()))
  }
  found
}

lazy_copy <- function(name, from, to) {
  delayedAssign(name, get(name, from), environment(), to)
}

# `seen`: environments that were visited.
move_to <- function(x, own, seen) {
  if (is.function(x) && !is.primitive(x)) return(move_function(x, own, seen))
  if (is.environment(x)) {
    move_environment(x, own, seen)
  } else if (inherits(x, "formula")) {
    if (identical(environment(x), globalenv())) environment(x) <- own
    else if (!is.null(environment(x))) move_environment(environment(x), own, seen)
  } else if (is.list(x) && !inherits(x, "data.frame")) {
    for (i in seq_along(x)) {
      value <- .subset2(x, i)
      if (may_have_functions(value)) x <- put_element(x, i, move_to(value, own, seen))
    }
  }
  x
}

may_have_functions <- function(x) {
  is.function(x) || is.environment(x) || is.list(x) || inherits(x, "formula")
}

put_element <- function(x, i, value) {
  class <- oldClass(x)
  x <- unclass(x)
  x[i] <- list(value)
  oldClass(x) <- class
  x
}

move_function <- function(f, own, seen) {
  env <- environment(f)
  if (identical(env, globalenv())) environment(f) <- own else move_environment(env, own, seen)
  f
}

# It, and those around it, up to the workspace.
move_environment <- function(env, own, seen) {
  while (!stays_as_it_is(env, own) && is.null(utils::gethash(seen, env))) {
    utils::sethash(seen, env, TRUE)
    move_variables(env, own, seen)
    around <- parent.env(env)
    if (identical(around, globalenv())) parent.env(env) <- own
    env <- around
  }
}

stays_as_it_is <- function(env, own) {
  identical(env, globalenv()) || identical(env, baseenv()) || identical(env, emptyenv()) ||
    identical(env, own) || isNamespace(env) || inherits(env, "clutch_actor") ||
    !is.null(attr(env, "path"))
}

move_variables <- function(env, own, seen) {
  for (name in ls(env, all.names = TRUE)) {
    if (bindingIsActive(as.name(name), env)) next
    value <- tryCatch(get(name, env, inherits = FALSE), error = function(e) NULL)
    # as R6 keeps it for the classes that are defined in the workspace
    moved <- if (identical(value, globalenv())) own
             else if (may_have_functions(value)) move_to(value, own, seen)
             else next
    if (identical(value, moved)) next
    is_locked <- bindingIsLocked(name, env)
    put_binding(name, moved, env)
    if (is_locked) lockBinding(name, env)
  }
}
