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

# `what`, a function for users, works with this package only, in that version or a newer one.
need_package <- function(package, what, version = NULL) {
  is_there <- without_signals(requireNamespace(package, quietly = TRUE))
  if (is_there && (is.null(version) || utils::packageVersion(package) >= version)) {
    return(invisible())
  }
  install <- switch(package,
    BiocParallel = "BiocManager::install(\"BiocParallel\")",
    sprintf("install.packages(\"%s\")", package)
  )
  lacks <- if (is_there) {
    sprintf("%s or newer, and this is %s", version, utils::packageVersion(package))
  } else {
    "which is not installed"
  }
  text <- sprintf("%s needs package %s %s: %s", what, package, lacks, install)
  throw("package", text, package = package)
}
