# R runs this when a node loads a package that the session has from its source: it stands in place
# of the package's code. The copy was made by copy_source() in R/code-source.R of package clutch.
local({
  ns <- parent.env(environment())
  info <- loadingNamespaceInfo()
  folder <- file.path(info$libname, info$pkgname)
  image <- readRDS(file.path(folder, "R", "image.rds"))
  list2env(image$values, ns)
  for (name in names(image$active)) makeActiveBinding(name, image$active[[name]], ns)

  lazydata <- getNamespaceInfo(ns, "lazydata")
  read_later <- function(name, file) delayedAssign(name, readRDS(file), assign.env = lazydata)
  for (k in seq_along(image$lazydata)) {
    read_later(image$lazydata[[k]], file.path(folder, "lazydata", paste0(k, ".rds")))
  }

  libs <- lapply(image$libs, library.dynam, info$pkgname, info$libname)
  names(libs) <- image$libs
  if (length(libs)) ns$.__NAMESPACE__.$DLLs <- libs
  registered <- c(CallRoutine = ".Call", CRoutine = ".C", FortranRoutine = ".Fortran",
                  ExternalRoutine = ".External")
  symbol_of <- function(x) {
    dll <- libs[[x$library]]
    if (is.null(x$name)) return(dll)
    if (!x$type %in% names(registered)) return(getNativeSymbolInfo(x$name, dll))
    getDLLRegisteredRoutines(dll)[[registered[[x$type]]]][[x$name]]
  }
  for (name in names(image$natives)) assign(name, symbol_of(image$natives[[name]]), ns)

  # what it does to the namespace is in the copy: not all of it can be done twice
  hook <- ns$.onLoad
  if (is.function(hook)) {
    ns$.onLoad <- function(libname, pkgname) {
      tryCatch(hook(libname, pkgname), error = function(e) {
        warning(sprintf("`.onLoad` of package '%s', which the session has from its source: %s",
                        pkgname, conditionMessage(e)), call. = FALSE)
      })
    }
  }
})
