# Packages that the session has from their source, by pkgload::load_all().
#
# No other R finds them as they are in this session: the source may have been edited since, and an
# installed version is another one. So nodes get a copy of the namespace in the form of an installed
# package, alone in a library of its own. They find it there before all other libraries, and R loads
# and attaches it, when something needs it, as any package. A copy is made again when load_all() was
# called again, or a function has another value.
#
# The copy has the variables of the namespace with their values (inst/node/source-package.R puts
# them there), the exports, imports and methods that are registered now, data, what system.file()
# finds, and the compiled code that is loaded here: the session's own file of it. What is attached
# here is attached there: load_all() attaches variables that are not exported, too.
#
# the$source: NULL until package pkgload is loaded; then list(number, packages): how often there was
# a change, and by name what is known of each package, see copy_source().

# Called when this package is loaded.
watch_source <- function() {
  begin <- function(...) if (is.null(the$source)) the$source <- list(number = 0, packages = list())
  if (isNamespaceLoaded("pkgload")) begin()
  setHook(packageEvent("pkgload", "onLoad"), begin)
}

# This package itself is not copied: nodes have begun with another one.
source_packages <- function() setdiff(.Call(ffi_source_packages), "clutch")

# The copies of all of them as they are now: list(number, packages), or NULL: there is none and
# there was none.
source_now <- function() {
  if (is.null(the$source)) return(NULL)
  names <- source_packages()
  before <- the$source$packages
  if (!length(names) && the$source$number == 0) return(NULL)
  is_known <- function(name) is_same_source(before[[name]], name)
  if (identical(sort(names), sort(names(before))) && all(vapply(names, is_known, NA)))
    return(the$source)
  packages <- lapply(names, function(name) {
    if (is_known(name)) before[[name]] else try_copy_source(name, before[[name]])
  })
  names(packages) <- names
  the$source <- list(number = the$source$number + 1, packages = packages)
  the$source
}

# The libraries of these copies, by package.
source_libraries <- function() {
  unlist(lapply(source_now()$packages, function(p) if (is.null(p$problem)) p$library))
}

is_same_source <- function(known, name) {
  ns <- asNamespace(name)
  !is.null(known) && identical(known$ns, ns) && dir.exists(known$library) &&
    identical(known$closures, .Call(ffi_closures_in, ns)) &&
    identical(known$attached, attached_names(name))
}

# Without a copy nodes take the installed package, and errors say why: see hint_for_source().
try_copy_source <- function(name, before) {
  tryCatch(copy_source(name, before), error = function(e) {
    ns <- asNamespace(name)
    list(ns = ns, closures = .Call(ffi_closures_in, ns), attached = attached_names(name),
         library = tempdir(), problem = conditionMessage(e))
  })
}

# The value is what is known of a package: list(ns, closures, attached, library, lazydata): its
# namespace; to see whether it has changed; the library that has the copy; the values of its data.
# `before`: the same of an earlier copy.
copy_source <- function(name, before) {
  ns <- asNamespace(name)
  library <- tempfile(SOURCE_LIBRARY, tempdir(TRUE))
  folder <- file.path(library, name)
  for (f in file.path(folder, c("R", "Meta"))) dir.create(f, recursive = TRUE)
  known <- list(ns = ns, closures = .Call(ffi_closures_in, ns), attached = attached_names(name),
                library = library)
  source <- getNamespaceInfo(ns, "path")
  image <- image_of(ns, name)
  image$libs <- copy_compiled(ns, folder)
  known$lazydata <- image$lazydata
  copy_data(image$lazydata, folder, before)
  image$lazydata <- names(image$lazydata)
  saveRDS(image, file.path(folder, "R", "image.rds"), compress = FALSE)
  file.copy(system.file("node", "source-package.R", package = "clutch"),
            file.path(folder, "R", name))
  write_about(ns, name, source, folder, length(image$libs) > 0L)
  saveRDS(namespace_file(ns, image), file.path(folder, "Meta", "nsInfo.rds"))
  link_files(source, folder)
  known
}

# The names of libraries with a copy begin so.
SOURCE_LIBRARY <- "clutch-source-"

# ---- what the namespace has ----

not_in_image <- c(".__NAMESPACE__.", ".__S3MethodsTable__.", ".__DEVTOOLS__", ".packageName")

# pkgload puts its own versions of these among the imports.
of_pkgload <- c("system.file", "library.dynam", "library.dynam.unload")

# The names that load_all() has attached; NULL: it has not.
attached_names <- function(name) {
  at <- match(paste0("package:", name), search())
  if (!is.na(at)) ls(as.environment(at), all.names = TRUE)
}

# list(values, active, natives, extra, lazydata): variables; functions of active ones; symbols of
# compiled code, as list(name, library, type); names that are attached, and are neither the
# namespace's nor imported; data.
image_of <- function(ns, name) {
  names <- setdiff(ls(ns, all.names = TRUE), not_in_image)
  is_active <- vapply(names, bindingIsActive, NA, ns)
  values <- values_in(names[!is_active], ns)
  is_native <- vapply(values, inherits, NA, c("NativeSymbolInfo", "DLLInfo"))
  active <- lapply(names[is_active], activeBindingFunction, ns)
  names(active) <- names[is_active]
  data <- ns$.__NAMESPACE__.$lazydata
  data <- if (is.environment(data)) values_in(ls(data, all.names = TRUE), data) else list()
  extra <- extra_values(ns, name, names(data))
  list(values = c(values[!is_native], extra), active = active,
       natives = lapply(values[is_native], about_native), extra = names(extra), lazydata = data)
}

# One that fails is left out.
values_in <- function(names, env) {
  found <- lapply(names, function(n) {
    tryCatch(list(get(n, env, inherits = FALSE)), error = function(e) NULL)
  })
  names(found) <- names
  unlist(found[lengths(found) > 0L], recursive = FALSE)
}

about_native <- function(x) {
  if (inherits(x, "DLLInfo")) return(list(library = x[["name"]]))
  list(name = x$name, library = x$dll[["name"]], type = class(x)[[1L]])
}

# Helpers of tests are attached only. Their functions see the namespace on the nodes.
extra_values <- function(ns, name, data) {
  attached <- attached_names(name)
  if (is.null(attached)) return(list())
  there <- c(ls(ns, all.names = TRUE), ls(parent.env(ns), all.names = TRUE), data, not_in_image,
             of_pkgload)
  env <- as.environment(paste0("package:", name))
  lapply(values_in(setdiff(attached, there), env), function(x) {
    if (typeof(x) == "closure" && identical(environment(x), env)) environment(x) <- ns
    x
  })
}

# ---- files ----

# Has the same file under another name, or a copy of it.
link_or_copy <- function(from, to) {
  if (!suppressWarnings(file.link(from, to)) && !file.copy(from, to)) {
    stop("cannot copy ", from)
  }
}

# The libraries that are loaded for this namespace, by name. load_all() has loaded a file that no
# compiler writes to.
copy_compiled <- function(ns, folder) {
  libraries <- ns$.__NAMESPACE__.$DLLs
  if (!length(libraries)) return(character())
  dir.create(file.path(folder, "libs", .Platform$r_arch), recursive = TRUE)
  vapply(libraries, function(dll) {
    file <- file.path(folder, "libs", .Platform$r_arch, basename(dll[["path"]]))
    link_or_copy(dll[["path"]], file)
    dll[["name"]]
  }, "", USE.NAMES = FALSE)
}

# A file for each object. Those that have not changed have the file of the copy before.
copy_data <- function(data, folder, before) {
  if (!length(data)) return(invisible())
  dir.create(file.path(folder, "lazydata"))
  for (k in seq_along(data)) {
    file <- file.path(folder, "lazydata", paste0(k, ".rds"))
    name <- names(data)[[k]]
    at <- match(name, names(before$lazydata))
    is_same <- !is.na(at) && identical(before$lazydata[[at]], data[[k]])
    old <- if (is_same) file.path(before$library, basename(folder), "lazydata", paste0(at, ".rds"))
    if (is_same && file.exists(old)) link_or_copy(old, file) else saveRDS(data[[k]], file, FALSE)
  }
}

# system.file() and data() find these: links to the source, where the system has such.
link_files <- function(source, folder) {
  inst <- list.files(file.path(source, "inst"), all.files = TRUE, no.. = TRUE)
  paths <- c(file.path(source, "inst", inst), file.path(source, c("data", "NEWS.md")))
  for (path in paths[file.exists(paths)]) {
    to <- file.path(folder, basename(path))
    if (file.exists(to)) next
    if (!suppressWarnings(file.symlink(normalizePath(path), to)))
      file.copy(path, folder, recursive = TRUE)
  }
}

# ---- what R reads before it loads a package ----

write_about <- function(ns, name, source, folder, has_libs) {
  file <- file.path(source, "DESCRIPTION")
  fields <- if (file.exists(file)) read.dcf(file)[1L, ] else c(Package = name)
  fields["Version"] <- getNamespaceVersion(ns)
  built <- list(R = getRversion(), Platform = if (has_libs) R.version$platform else "",
                Date = format(Sys.time()), OStype = .Platform$OS.type)
  fields["Built"] <- paste(c(paste("R", built$R), built$Platform, built$Date, built$OStype),
                           collapse = "; ")
  depends <- packages_in(fields["Depends"])
  about <- list(DESCRIPTION = fields, Built = built, Rdepends = list(), Rdepends2 = list(),
                Depends = depends, Suggests = list(), Imports = list(), LinkingTo = list())
  saveRDS(structure(about, class = "packageDescription2"), file.path(folder, "Meta", "package.rds"))
  write.dcf(t(fields), file.path(folder, "DESCRIPTION"), keep.white = names(fields))
  writeLines(character(), file.path(folder, "NAMESPACE"))
  if (has_libs) {
    own <- file.path(R.home("library"), "stats", "Meta", "features.rds") # the same for all
    file.copy(own, file.path(folder, "Meta"))
  }
}

# The packages of a field of DESCRIPTION, as R has them in package.rds, but for versions.
packages_in <- function(field) {
  if (is.na(field)) return(list())
  names <- trimws(sub("[(].*", "", strsplit(field, ",", fixed = TRUE)[[1L]]))
  names <- setdiff(names, c("R", ""))
  structure(lapply(names, function(n) list(name = n)), names = names)
}

# The value is as parseNamespaceFile() has it, but from what is in force.
namespace_file <- function(ns, image) {
  name <- getNamespaceName(ns)
  imports <- parent.env(ns)
  attached <- setdiff(attached_names(name), c(not_in_image, of_pkgload, image$lazydata))
  exports <- unique(c(getNamespaceExports(ns), attached))
  there <- c(names(image$values), names(image$active), names(image$natives),
             ls(imports, all.names = TRUE))
  list(imports = imports_of(ns), exports = intersect(exports, there),
       exportPatterns = character(), importClasses = list(), importMethods = list(),
       exportClasses = character(), exportMethods = character(),
       exportClassPatterns = character(), dynlibs = character(), nativeRoutines = list(),
       S3methods = registered_methods(ns))
}

# A package of which all was imported, perhaps but for some; or names.
imports_of <- function(ns) {
  imports <- getNamespaceImports(ns)
  # pkgload has added what NAMESPACE says, without names
  imports <- imports[!names(imports) %in% c("base", "")]
  there <- ls(parent.env(ns), all.names = TRUE)
  lapply(seq_along(imports), function(k) {
    package <- names(imports)[[k]]
    if (!isTRUE(imports[[k]])) return(list(package, imports[[k]]))
    exports <- getNamespaceExports(package)
    except <- setdiff(exports[!startsWith(exports, ".__")], there)
    if (length(except)) list(package, except = except) else package
  })
}

registered_methods <- function(ns) {
  methods <- ns$.__NAMESPACE__.$S3methods
  if (!is.matrix(methods)) return(matrix(NA_character_, 0L, 4L))
  if (ncol(methods) < 4L) methods <- cbind(methods, NA_character_)
  unique(methods[, 1:4, drop = FALSE])
}
