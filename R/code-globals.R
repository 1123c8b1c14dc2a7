# This file finds what the code that travels to the nodes needs of this session: variables of the
# workspace, and packages. The search itself is in src/r/globals/search.c.

# The value is what code needs: a list with
#   globals  named list of values for the nodes' workspace
#   attach   packages to attach there
#   load     packages whose methods the objects need
#   order    all packages that are attached here; the first masks the others
#   named    packages that code names by `::`, which loads them
#   has_pointer    there may be what is of use in this process only: see R/code-travel.R
# `roots`: a list of all that travels. `env`: the frame in which names in `globals` are looked up.
find_needs <- function(roots, globals, env) {
  needs <- list(globals = list(), attach = character(), load = character(),
                order = attached_packages())
  given <- if (!isFALSE(globals)) given_globals(globals, env)
  if (!is.null(given)) roots <- c(roots, unname(given))
  has_recipes <- has_registered()
  if (has_recipes) roots <- c(roots, functions_of_recipes(registered_recipes()))
  search <- .Call(ffi_globals_new)
  found <- search_all(search, roots)
  needs$has_pointer <- has_recipes || .Call(ffi_globals_pointer, search)
  if (isFALSE(globals)) return(needs)
  if (is.null(found)) {
    needs$globals <- given
    return(needs)
  }
  needs$globals <- if (is.null(given)) values_of(found$globals) else given
  classes <- if (length(found$classes)) setdiff(found$classes, known_classes())
  by_class <- if (length(classes)) packages_of_classes(classes) else character()
  packages <- c(found$packages, found$s4_packages, by_class)
  needs$named <- found$named # which are loaded when they are called
  if (!length(packages)) return(needs)
  packages <- setdiff(packages, c(default_packages(), ".GlobalEnv"))
  needs$attach <- intersect(needs$order, packages)
  needs$load <- setdiff(packages, needs$attach)
  needs
}

# Tells whether there is an external pointer in what travels besides, which find_needs() has not
# seen.
has_pointer <- function(x) {
  search <- .Call(ffi_globals_new)
  .Call(ffi_globals_search, search, list(x), character())
  .Call(ffi_globals_pointer, search)
}

# The value has the packages that not every R attaches, in the order of the search path.
attached_packages <- function() {
  path <- search()
  if (!identical(path, the$search$path)) {
    packages <- substring(path[startsWith(path, "package:")], 9L)
    the$search <- list(path = path, packages = setdiff(packages, default_packages()))
  }
  the$search$packages
}

# Values of variables of the workspace, or of data that is attached. One that fails is left out, as
# the search has done.
values_of <- function(names) {
  if (!length(names)) return(list())
  or_null <- function(x) tryCatch(x, error = function(e) NULL)
  all <- or_null(mget(names, envir = globalenv(), inherits = TRUE))
  if (!is.null(all)) return(all)
  one_by_one <- lapply(names, function(name) or_null(list(get(name, globalenv()))))
  found <- lengths(one_by_one) > 0L
  structure(lapply(one_by_one[found], `[[`, 1L), names = names[found])
}

# For src/r/globals/search.c, which has promises evaluated: one that fails is none of the
# search's affair. R warns when its evaluation is tried again.
value_or_null <- function(x) suppressWarnings(tryCatch(x, error = function(e) NULL))

# The value is what the user says of globals, checked by task_options(): a named list; NULL: they
# are searched for.
given_globals <- function(globals, env) {
  if (isTRUE(globals)) return(NULL)
  if (is.list(globals)) return(globals)
  variables(globals, env, ".globals")
}

# The values of these variables as seen from `env`.
variables <- function(names, env, argument) {
  there <- vapply(names, exists, NA, envir = env)
  if (all(there)) return(mget(names, envir = env, inherits = TRUE))
  missing <- names[!there][[1L]]
  throw("argument", sprintf("`%s`: there is no variable '%s'", argument, missing))
}

# Searches until nothing new is found. Methods of the workspace are found by the names of generics
# and classes, in rounds. NULL: nothing was found.
search_all <- function(search, roots) {
  new <- .Call(ffi_globals_search, search, roots, character())
  if (is.null(new)) return(NULL)
  all <- list(globals = character(), packages = character(), classes = character(),
              s4_packages = character(), named = character())
  generics <- character()
  texts <- character()
  repeat {
    all$globals <- c(all$globals, vapply(new[[1L]], as.character, ""))
    all$packages <- c(all$packages, unlist(new[[2L]]))
    all$classes <- c(all$classes, unlist(new[[3L]]))
    all$s4_packages <- c(all$s4_packages, unlist(new[[4L]]))
    all$named <- c(all$named, vapply(new[[7L]], as.character, ""))
    generics <- c(generics, unlist(new[[5L]]))
    # may be classes of objects that are made on the node
    texts <- c(texts, vapply(new[[6L]], as.character, ""))
    also <- setdiff(workspace_methods(generics, c(all$classes, texts)), all$globals)
    if (length(also)) new <- .Call(ffi_globals_search, search, list(), also)
    if (!length(also) || is.null(new)) return(lapply(all, unique))
  }
}

# Methods that the workspace has for these generics, and for these classes; and definitions of S4
# classes.
workspace_methods <- function(generics, classes) {
  if (!length(generics) && !length(classes)) return(character())
  names <- ls(globalenv(), all.names = TRUE)
  names <- grep(".", names, fixed = TRUE, value = TRUE)
  if (!length(names)) return(character())
  of_generic <- lapply(generics, function(g) names[startsWith(names, paste0(g, "."))])
  of_class <- lapply(classes, function(c) names[endsWith(names, paste0(".", c))])
  methods <- unique(unlist(c(of_generic, of_class)))
  is_function <- function(name) {
    is.function(tryCatch(globalenv()[[name]], error = function(e) NULL))
  }
  methods <- methods[vapply(methods, is_function, NA)]
  c(methods, intersect(names, paste0(".__C__", classes)), s4_method_tables(names, classes))
}

# The value has the names of the workspace that hold S4 methods for generics of packages, with one
# of these classes in a signature. A generic of the workspace has its methods with it.
s4_method_tables <- function(names, classes) {
  tables <- names[startsWith(names, ".__T__")]
  generics <- sub("^[.]__T__(.*):[^:]*$", "\\1", tables)
  is_there <- vapply(generics, exists, NA, envir = globalenv(), inherits = FALSE)
  of_classes <- function(name) {
    table <- globalenv()[[name]]
    is.environment(table) &&
      any(unlist(strsplit(ls(table, all.names = TRUE), "#", fixed = TRUE)) %in% classes)
  }
  Filter(of_classes, tables[!is_there])
}

# ---- packages that objects need ----

default_packages <- function() {
  c("base", "methods", "datasets", "utils", "grDevices", "graphics", "stats")
}

# Classes for which the packages of every R have methods.
known_classes <- function() {
  if (is.null(the$known_classes)) {
    the$known_classes <- unique(unlist(lapply(default_packages(), s3_classes)))
  }
  the$known_classes
}

# Classes for which a package registers S3 methods.
s3_classes <- function(package) {
  if (package == "base") return(asNamespace("base")$.S3_methods_table[, 2L])
  if (!isNamespaceLoaded(package)) return(character())
  methods <- .getNamespaceInfo(asNamespace(package), "S3methods")
  if (is.matrix(methods) && ncol(methods) >= 2L) methods[, 2L] else character()
}

# The value has the packages that this session has loaded and that have methods for one of these
# classes.
packages_of_classes <- function(classes) {
  loaded <- setdiff(loadedNamespaces(), default_packages())
  Filter(function(p) any(classes %in% s3_classes(p)), loaded)
}

# ---- an expression ----

# The environment for an expression that travels by itself: with the values that its variables have
# now in the frames between `env` and the workspace (or the namespace of the package whose function
# that is).
locals_of <- function(code, env) {
  top <- topenv(env, NULL)
  local <- frame_with_dots(code, env)
  parent.env(local) <- if (isNamespace(top)) top else globalenv()
  locals_into(local, code, env, top)
  local
}

# Gives `frame` the variables that the code takes from `env` and the frames around it, below `top`.
locals_into <- function(frame, code, env, top) {
  if (!is.language(code) || identical(env, top)) return(invisible())
  names <- .Call(ffi_globals_locals, .Call(ffi_globals_new), code, env, top, frame)
  for (name in names) { # those whose value is not there yet
    at <- frame_with(name, env)
    # a missing argument has no value
    tryCatch(assign(name, get(name, at, inherits = FALSE), envir = frame), error = function(e) NULL)
  }
}

# The first environment from `env` on that has a variable of this name. There is one.
frame_with <- function(name, env) {
  while (!exists(name, env, inherits = FALSE)) env <- parent.env(env)
  env
}

# An empty environment, or where the code uses `...`, one that has those of `env`.
frame_with_dots <- function(code, env) {
  if (!is.language(code) || !exists("...", envir = env)) return(new.env(hash = FALSE))
  frame <- function(...) environment()
  names <- all.names(code)
  uses_dots <- any(names == "..." | grepl("^[.][.][0-9]+$", names))
  if (!uses_dots) return(frame())
  values <- tryCatch(eval(quote(list(...)), env), error = function(e) list()) # one may be missing
  do.call(frame, values, quote = TRUE)
}
