# Methods of this package for generics of others.

# `adapt` is called with the package's namespace, now or when it gets loaded.
when_loaded <- function(package, adapt) {
  if (isNamespaceLoaded(package)) adapt(asNamespace(package))
  setHook(packageEvent(package, "onLoad"), function(...) adapt(asNamespace(package)))
}

# Versions differ in what generics they have.
add_method <- function(ns, generic, class, method) {
  if (exists(generic, envir = ns, mode = "function", inherits = FALSE))
    registerS3method(generic, class, method, envir = ns)
}

# `what`, a function for users, works with this package only.
need_package <- function(package, what) {
  if (requireNamespace(package, quietly = TRUE)) return(invisible())
  install <- switch(package,
    BiocParallel = "BiocManager::install(\"BiocParallel\")",
    sprintf("install.packages(\"%s\")", package)
  )
  text <- sprintf("%s needs package %s, which is not installed: %s", what, package, install)
  throw("package", text, package = package)
}
