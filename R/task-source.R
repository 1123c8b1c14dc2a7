# Nodes are told where copies of packages are that the session has from their source, see
# code-source.R: before a job, or a call of package parallel, if a copy is newer than what they
# know.

has_other_source <- function(cl) {
  if (is.null(the$source)) return(FALSE)
  source <- source_now()
  !is.null(source) && inherits(cl, "clutch_cluster") && length(cl) > 0L &&
    !identical(source$number, info_of(cl)$source)
}

# All nodes of the cluster, of which the job may have a part.
tell_source <- function(info) {
  source <- source_now()
  if (is.null(source) || identical(source$number, info$source)) return(invisible())
  set_cluster(info, source = source$number)
  told <- lapply(source$packages, if (sees_files(info)) library_told else files_told)
  told <- told[lengths(told) > 0L]
  if (!length(told) && !knows_copies(info)) return(invisible())
  for (handle in handles_now(info)) tell_handle(handle, source_here, list(told))
  others <- Filter(function(s) !isTRUE(s$source), setup_of(info))
  set_setup(info, c(list(list(fun = source_here, arg = told, source = TRUE)), others))
  invisible()
}

# Tells whether the nodes were told of copies, or have begun with some.
knows_copies <- function(info) {
  any(vapply(setup_of(info), function(s) isTRUE(s$source), NA)) ||
    any(startsWith(basename(as.character(info$plan$libraries)), SOURCE_LIBRARY))
}

# Tells whether all nodes see the session's temporary folder.
sees_files <- function(info) {
  is.null(info$remote) && all(vapply(unique(info$hosts), is_this_machine, NA))
}

# All copies, with their files, for source_here() in a process that may outlive this session.
source_files <- function() {
  told <- lapply(source_now()$packages, files_told)
  told[lengths(told) > 0L]
}

library_told <- function(package) {
  if (is.null(package$problem)) list(library = package$library)
}

# All files of the copy, what links lead to included.
files_told <- function(package) {
  if (!is.null(package$problem)) return(NULL)
  names <- list.files(package$library, recursive = TRUE, all.files = TRUE)
  files <- lapply(file.path(package$library, names), function(path) {
    list(bytes = readBin(path, "raw", file.size(path)), mode = file.mode(path))
  })
  names(files) <- names
  bytes <- memCompress(serialize(files, NULL, xdr = FALSE), "gzip")
  list(library = basename(package$library), files = bytes)
}

# On a node: the library with the copy. The nodes of a host share a folder; the first that has
# written all of it gives it its name.
library_with_copy <- function(p) {
  if (is.null(p$files)) return(p$library)
  own <- tempdir(TRUE)
  shared <- if (grepl("^node[0-9]+$", basename(own))) dirname(own) else own
  folder <- file.path(shared, p$library)
  if (dir.exists(folder)) return(folder)
  part <- tempfile("clutch-part-", shared)
  files <- unserialize(memDecompress(p$files, "gzip"))
  for (name in names(files)) {
    path <- file.path(part, name)
    dir.create(dirname(path), showWarnings = FALSE, recursive = TRUE)
    writeBin(files[[name]]$bytes, path)
    Sys.chmod(path, files[[name]]$mode)
  }
  if (!suppressWarnings(file.rename(part, folder))) unlink(part, recursive = TRUE)
  folder
}
environment(library_with_copy) <- baseenv()

# On a node. It finds these packages, and no others that an earlier call has told of, before all
# that are installed. What is loaded of another version is unloaded; what was attached is attached
# again.
source_here <- function(told) {
  prefix <- "clutch-source-" # see SOURCE_LIBRARY in R/code-source.R
  from_source <- function(paths) startsWith(basename(paths), prefix)
  library_of <- function(name) dirname(getNamespaceInfo(name, "path"))
  unload <- function(name) {
    tryCatch(unloadNamespace(name), error = function(e) NULL)
    !name %in% loadedNamespaces()
  }
  # R keeps one that another package imports
  forget <- function(name) {
    attached <- paste0("package:", name)
    if (attached %in% search()) detach(attached, character.only = TRUE, force = TRUE)
    eval(as.call(list(as.name(".Internal"), call("unregisterNamespace", name))), baseenv())
  }
  wanted <- vapply(told, library_with_copy, "")
  wanted[] <- normalizePath(wanted)
  paths <- .libPaths()
  .libPaths(c(wanted, paths[!from_source(paths)]))
  loaded <- setdiff(loadedNamespaces(), c("base", "clutch"))
  libraries <- vapply(loaded, library_of, "")
  libraries[] <- normalizePath(libraries, mustWork = FALSE)
  is_other <- loaded %in% names(wanted) & !libraries %in% wanted |
    from_source(libraries) & !libraries %in% wanted
  if (!any(is_other)) return(NULL)
  # one that is as before may import one that is not
  old <- loaded[is_other | from_source(libraries)]
  at <- match(paste0("package:", old), search())
  again <- old[order(at)][seq_len(sum(!is.na(at)))]
  at <- sort(at)
  suppressMessages(suppressWarnings({
    left <- old
    while (length(left)) {
      gone <- vapply(left, unload, NA)
      if (!any(gone)) break
      left <- left[!gone]
    }
    for (name in left) forget(name)
    for (k in seq_along(again)) {
      try(library(again[[k]], pos = at[[k]], character.only = TRUE, warn.conflicts = FALSE),
          silent = TRUE)
    }
  }))
  NULL
}
environment(source_here) <- list2env(list(library_with_copy = library_with_copy),
                                     parent = baseenv())
