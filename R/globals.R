# What the code that travels to the nodes needs of this session: variables of the workspace, and packages.
# The search itself is in glue-globals.c.

# A list: `globals`, a named list of values for the nodes' workspace; `attach`, packages to attach there, in this order;
# `load`, packages whose methods the objects need. `roots`: a list of all that travels. `env`: the frame in which
# names in `globals` are looked up.
find_needs <- function(roots, globals, env) {
  needs <- list(globals = list(), attach = character(), load = character())
  if (isFALSE(globals)) return(needs)
  given <- given_globals(globals, env)
  search <- .Call(ffi_globals_new)
  found <- search_all(search, c(roots, unname(given)))
  needs$globals <- if (is.null(given)) mget(found$globals, envir = globalenv(), inherits = TRUE) else given
  classes <- setdiff(found$classes, known_classes())
  by_class <- if (length(classes)) packages_of_classes(classes) else character()
  packages <- setdiff(c(found$packages, found$s4_packages, by_class), c(default_packages(), ".GlobalEnv"))
  attached <- rev(sub("^package:", "", grep("^package:", search(), value = TRUE))) # the last one masks the others
  needs$attach <- attached[attached %in% packages]
  needs$load <- setdiff(packages, needs$attach)
  needs
}

# For glue-globals.c, which has promises evaluated: one that fails is none of the search's affair. R warns when
# its evaluation is tried again.
value_or_null <- function(x) suppressWarnings(tryCatch(x, error = function(e) NULL))

# What the user says of globals: a named list; NULL: they are searched for.
given_globals <- function(globals, env) {
  if (isTRUE(globals)) return(NULL)
  if (is.list(globals)) {
    if (length(globals) && (is.null(names(globals)) || !all(nzchar(names(globals)))))
      throw("argument", "a list of globals has to be named")
    return(globals)
  }
  if (!is.character(globals) || anyNA(globals))
    throw("argument", "`.globals` has to be TRUE, FALSE, names of variables, or a named list of values")
  variables(globals, env, ".globals")
}

# Searches until nothing new is found. Methods of the workspace are found by the names of generics and classes, in rounds.
search_all <- function(search, roots) {
  all <- list(globals = character(), packages = character(), classes = character(), s4_packages = character())
  generics <- character()
  also <- character()
  repeat {
    new <- .Call(ffi_globals_search, search, roots, also)
    all$globals <- c(all$globals, vapply(new[[1L]], as.character, ""))
    all$packages <- c(all$packages, unlist(new[[2L]]))
    all$classes <- c(all$classes, unlist(new[[3L]]))
    all$s4_packages <- c(all$s4_packages, unlist(new[[4L]]))
    generics <- c(generics, unlist(new[[5L]]))
    also <- setdiff(workspace_methods(generics, all$classes), all$globals)
    if (!length(also)) return(lapply(all, unique))
    roots <- list()
  }
}

# Methods that the workspace has for these generics, and for these classes.
workspace_methods <- function(generics, classes) {
  if (!length(generics) && !length(classes)) return(character())
  names <- ls(globalenv(), all.names = TRUE)
  names <- grep(".", names, fixed = TRUE, value = TRUE)
  if (!length(names)) return(character())
  of_generic <- lapply(generics, function(g) names[startsWith(names, paste0(g, "."))])
  of_class <- lapply(classes, function(c) names[endsWith(names, paste0(".", c))])
  names <- unique(unlist(c(of_generic, of_class)))
  names[vapply(names, function(n) is.function(globalenv()[[n]]), NA)]
}

# ---- packages that objects need ----

default_packages <- function() c("base", "methods", "datasets", "utils", "grDevices", "graphics", "stats")

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

# Of the packages that this session has loaded, those with methods for one of these classes.
packages_of_classes <- function(classes) {
  loaded <- setdiff(loadedNamespaces(), default_packages())
  Filter(function(p) any(classes %in% s3_classes(p)), loaded)
}

# ---- an expression ----

# The environment for an expression that travels by itself: with the values that its variables have now in the frames
# between `env` and the workspace (or the namespace of the package whose function that is).
locals_of <- function(code, env) {
  top <- topenv(env)
  local <- new.env(parent = if (isNamespace(top)) top else globalenv())
  names <- .Call(ffi_globals_names, .Call(ffi_globals_new), code)
  for (name in names) {
    at <- env
    while (!identical(at, top) && !identical(at, emptyenv()) && !exists(name, at, inherits = FALSE)) at <- parent.env(at)
    if (identical(at, top) || identical(at, emptyenv())) next
    tryCatch(assign(name, get(name, at, inherits = FALSE), envir = local), error = function(e) NULL) # a missing argument
  }
  local
}
