# Packages that a fork server loads before it forks the nodes of the session's own cluster.
#
# Nodes that load a package each take the time of one, on a machine with enough cores; but the
# memory and the processor time of all. Where the cluster is made for a map, what that map needs is
# known before the nodes are forked. A package that starts threads is loaded by the nodes, as ever:
# see without_load() in launch-fork.R.

# Bytes of code from which on that is done: 0.1 s. Less is loaded sooner by the nodes of a fork
# server that runs already than by another one.
LOAD_FROM <- 1e6

# The value has those packages of `needs`, as find_needs() tells them, that are worth it.
packages_ahead <- function(needs) {
  if (!option_flag("clutch.load_ahead", TRUE)) return(character())
  packages <- Filter(is_installed_one, unique(c(needs$attach, needs$load, needs$named)))
  if (bytes_of_code(packages) >= LOAD_FROM) packages else character()
}

# Every R has these.
packages_of_r <- c("base", "compiler", "datasets", "grDevices", "graphics", "grid", "methods",
                   "parallel", "splines", "stats", "stats4", "tcltk", "tools", "utils")

# Tells whether it is what a new R would load: not one that load_all() has made of its source.
is_installed_one <- function(package) {
  if (package %in% packages_of_r) return(FALSE)
  folder <- folder_of(package)
  nzchar(folder) && file.exists(file.path(folder, "Meta", "package.rds"))
}

folder_of <- function(package) {
  if (isNamespaceLoaded(package)) return(getNamespaceInfo(package, "path"))
  system.file(package = package)
}

# The value counts the code of these packages and of all that they import.
bytes_of_code <- function(packages) {
  seen <- character()
  bytes <- 0
  while (length(packages)) {
    package <- packages[[1L]]
    packages <- packages[-1L]
    if (package %in% c(seen, packages_of_r)) next
    seen <- c(seen, package)
    folder <- folder_of(package)
    bytes <- sum(bytes, file.size(file.path(folder, "R", paste0(package, ".rdb"))), na.rm = TRUE)
    about <- file.path(folder, "Meta", "package.rds")
    if (file.exists(about)) packages <- c(packages, names(readRDS(about)$Imports))
  }
  bytes
}
