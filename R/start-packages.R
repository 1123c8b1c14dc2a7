# R's own packages (datasets to methods) in a node that is a new R. R attaches them while it starts,
# which takes 100 of its 130 ms of processor time. A node of this machine starts without them,
# answers, and attaches them afterwards: before its first request, or when it is idle. A fork server
# that forks attaches them first of all: in another order than R, see load_before_methods().
#
# Nobody's code is to see a difference. R starts with R_DEFAULT_PACKAGES=NULL, and with
# inst/node/profile.R as its site profile (R_PROFILE). That puts back both variables and the option
# `defaultPackages`, attaches package methods if there is a user's profile, does what the profile of
# the site says, and when the user's profile is over takes the option away from R, which attaches
# nothing then. Where something is out of the ordinary R starts as it always does: here if that is
# seen in the session or fork server, and in profile.R if the user's profile has changed something.
#
# attach_default_packages() runs .OptRequireMethods() and .First.sys(), R's own functions for it.
# Packages are attached at the start, as R does it, where R is started by its front end (arguments
# for R, another R, another host, Windows), where a file of variables (.Renviron) sets R_PROFILE
# or R_DEFAULT_PACKAGES, where the profile of the site calls other than a few functions of base R,
# where `packages` are given, and for programs. DESCRIPTION suggests methods and does not import
# it: since R 4.5 methods is loaded before a package that imports it.

# ---- in the session or fork server ----

# The environment variables `env` of a node, R_DEFAULT_PACKAGES among them, if it may attach these
# packages later; else as they are.
with_packages_later <- function(env) {
  if (!has_simple_start(env)) return(env)
  env["CLUTCH_PACKAGES"] <- env["R_DEFAULT_PACKAGES"]
  env["R_DEFAULT_PACKAGES"] <- "NULL"
  if (!is.na(env["R_PROFILE"])) env["CLUTCH_PROFILE"] <- env["R_PROFILE"]
  env["R_PROFILE"] <- file.path(getNamespaceInfo("clutch", "path"), "node", "profile.R")
  env
}

# Tells whether the site's profile needs no package, and no file of variables has another one.
has_simple_start <- function(env) {
  variable <- function(name, default) if (is.na(env[name])) default else env[[name]]
  etc <- function(name) file.path(R.home("etc"), name)
  files <- c(etc("Renviron"), variable("R_ENVIRON", etc("Renviron.site")),
             variable("R_ENVIRON_USER", c(".Renviron", "~/.Renviron")))
  sets <- function(file) any(grepl("^\\s*R_(PROFILE|DEFAULT_PACKAGES)\\s*=", lines_of(file),
                                   useBytes = TRUE))
  if (any(vapply(path.expand(files), sets, NA))) return(FALSE)
  is_simple_profile(path.expand(variable("R_PROFILE", etc("Rprofile.site"))))
}

# A file that cannot be read has no lines: R does without it, too.
lines_of <- function(file) {
  if (!file.exists(file)) return(character())
  suppressWarnings(tryCatch(readLines(file), error = function(e) character()))
}

is_simple_profile <- function(file) {
  if (!file.exists(file)) return(TRUE)
  code <- tryCatch(parse(file, keep.source = FALSE), error = function(e) NULL)
  if (is.null(code) || !startsWith(file, "/")) return(FALSE)
  if (any(grepl("defaultPackages", unlist(lapply(code, deparse)), fixed = TRUE))) return(FALSE)
  is_simple_code(code)
}

# Tells whether it calls by name only functions of base R that do the same without any package, and
# that call no others: such as set an option.
is_simple_code <- function(code) {
  all(setdiff(all.names(code), all.vars(code)) %in% simple_functions)
}

simple_functions <- c(
  "{", "(", "<-", "=", "[", "[[", "$", "if", "!", "&&", "||", "==", "!=", "local", "c", "list",
  "options", "getOption", "Sys.getenv", "Sys.setenv", "Sys.setlocale", "Sys.umask", ".libPaths",
  "paste", "paste0", "sprintf", "file.path", "path.expand", "file.exists", "dir.exists", "nzchar",
  "is.na", "is.null", "identical", "interactive", "getRversion", "R.home"
)

# ---- in the node ----

# The first thing that our code does there.
take_default_packages <- function() {
  packages <- getOption("clutch.later")
  # the user's profile has one of its own
  if (exists(".First", .AutoloadEnv, inherits = FALSE)) rm(".First", envir = .AutoloadEnv)
  if (is.null(packages)) return(take_what_was_not_read())
  the_node$later <- packages
  options(clutch.later = NULL, defaultPackages = packages)
}

# R has read another profile than ours: files have changed since the session has read them.
take_what_was_not_read <- function() {
  text <- Sys.getenv("CLUTCH_PACKAGES")
  if (!nzchar(text)) return()
  was <- Sys.getenv("CLUTCH_PROFILE", NA)
  if (is.na(was)) Sys.unsetenv("R_PROFILE") else Sys.setenv(R_PROFILE = was)
  Sys.unsetenv(c("CLUTCH_PROFILE", "CLUTCH_PACKAGES"))
  Sys.setenv(R_DEFAULT_PACKAGES = text)
  the_node$later <- strsplit(text, ",", fixed = TRUE)[[1L]]
  options(defaultPackages = the_node$later)
  attach_default_packages()
}

# By the functions of R's own start. What cannot be attached is a warning there, too. `idle`: it
# goes on only as long as nothing comes, such as the wish that this node ends. `forks`: this process
# will fork. TRUE: all are there. Called by clu_node_get_ready() in src/r/node/node-start.c, too.
attach_default_packages <- function(idle = FALSE, forks = FALSE) {
  if (!length(the_node$later)) return(TRUE)
  # warnings are printed now: R would print them at its prompt
  old <- options(warn = 1L, defaultPackages = getOption("defaultPackages"))
  # nothing is compiled while R starts: it would take as long as all the rest
  jit <- if (isNamespaceLoaded("compiler")) compiler::enableJIT(0L)
  on.exit({
    options(old)
    if (!is.null(jit)) compiler::enableJIT(jit)
  })
  collects <- forks && !has_server_cells() && !has_more_cells()
  if (!load_before_methods(idle, collects)) return(FALSE)
  .OptRequireMethods()
  if (forks && has_server_cells()) collect_for_forks()
  while (length(the_node$later)) {
    if (idle && .Call(ffi_node_is_asked)) return(FALSE)
    attach_default_package(the_node$later[[1L]])
    the_node$later <- the_node$later[-1L]
  }
  TRUE
}

# R's own function looks for the package and reads its description once more, and so takes four
# times as long as to attach it. It is called where that may make a difference.
attach_default_package <- function(package) {
  if (paste0("package:", package) %in% search()) return()
  checks <- !is.null(getOption("conflicts.policy")) || !isFALSE(getOption("verbose")) ||
    !isFALSE(getOption("checkPackageLicense", FALSE))
  if (isNamespaceLoaded(package) && !checks) return(attachNamespace(package))
  options(defaultPackages = package)
  .First.sys()
}

# Where a package's S3 methods are registered and package methods is there, R reads the table of all
# S4 classes. That takes 25 ms and 5 MB, and code without S4 never needs it. So the others are
# loaded first. They are attached in R's order. `idle`, value: as of attach_default_packages().
# `collects`: garbage is collected then.
load_before_methods <- function(idle, collects) {
  if (isNamespaceLoaded("methods")) return(TRUE)
  for (p in setdiff(the_node$later, "methods")) {
    if (idle && .Call(ffi_node_is_asked)) return(FALSE)
    try(loadNamespace(p), silent = TRUE) # it is a warning when it cannot be attached
  }
  if (collects) collect_for_forks()
  TRUE
}

SERVER_CELLS <- 400000 # of a fork server that loads no packages: see start-r.R

# Tells whether this is a fork server that was started with room for so many.
has_server_cells <- function() Sys.getenv("R_NSIZE") == format(SERVER_CELLS, scientific = FALSE)

# Tells whether this is one with room for packages. It collects when it has loaded them.
has_more_cells <- function() isTRUE(as.numeric(Sys.getenv("R_NSIZE")) > SERVER_CELLS)

# A fork server collects once, fully, before it forks. At the end, in settle_memory(), that would
# take 30 ms. Before package methods is there two thirds of the objects are, and it takes 7 ms.
# Where the heap is to grow by it, it is done when methods is there, and takes a few ms more: see
# start-r.R.
collect_for_forks <- function() {
  gc()
  the_node$collected <- TRUE
}
