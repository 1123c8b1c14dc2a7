# This file puts back what the tasks of a job have changed of a node's R: options, environment
# variables, the working directory, the locale, where messages go, graphics devices, the kind of
# random numbers.
# src/r/node/job-state.c has found out that something has changed.

# `s`: as it was before the job.
state_put_back <- function(s) {
  if (.Call(ffi_work_sinks, FALSE) != s$sinks[[2L]]) sink(type = "message")
  if (!identical(as.list(.Options), s$options)) options_put_back(s$options, s)
  now <- .Call(ffi_work_environment, s$variables)
  if (!is.null(now)) variables_put_back(s$variables, now, s)
  if (!identical(getwd(), s$folder) && !is.null(s$folder)) try(setwd(s$folder), silent = TRUE)
  if (!identical(Sys.getlocale(), s$locale$all)) locale_put_back(s$locale)
  seed_put_back(s$seed)
  for (device in setdiff(grDevices::dev.list(), s$devices)) {
    try(grDevices::dev.off(device), silent = TRUE) # its file may be gone
  }
  setTimeLimit()
}

options_put_back <- function(before, s) {
  now <- options()
  is_same <- function(name) identical(now[[name]], before[[name]])
  changed <- names(before)[!vapply(names(before), is_same, NA)]
  # one by one: a value may be refused
  for (name in changed) try(options(before[name]), silent = TRUE)
  for (name in not_of_packages(setdiff(names(now), names(before)), s)) {
    try(options(structure(list(NULL), names = name)), silent = TRUE)
  }
}

# Both as "NAME=value".
variables_put_back <- function(before, now, s) {
  name <- function(x) sub("=.*", "", x)
  set <- setdiff(before, now)
  values <- structure(sub("^[^=]*=", "", set), names = name(set))
  if (length(set)) do.call(Sys.setenv, as.list(values))
  new <- not_of_packages(setdiff(name(now), name(before)), s)
  if (length(new)) Sys.unsetenv(new)
}

# A package that was loaded meanwhile stays loaded, and needs the options and variables that it has
# set. With a fresh workspace for each task (`had_namespaces`) only those that begin with its name
# count, or that are in its code for that; else all that are new. The value has those that do not
# count.
not_of_packages <- function(names, s) {
  if (!length(names) || length(loadedNamespaces()) == s$namespaces) return(names)
  if (is.null(s$had_namespaces)) return(character())
  new <- setdiff(loadedNamespaces(), s$had_namespaces)
  texts <- unlist(lapply(new, texts_of_load))
  begins <- function(name) any(startsWith(name, paste0(rep(new, each = 2L), c(".", "_"))))
  is_of <- function(name) begins(name) || any(grepl(name, texts, fixed = TRUE))
  names[!vapply(names, is_of, NA)]
}

# The code that is run when a package is loaded, as text: .onLoad(), and what that names.
texts_of_load <- function(package) {
  ns <- asNamespace(package)
  load <- ns$.onLoad
  if (!is.function(load)) return(character())
  named <- intersect(all.names(body(load)), ls(ns, all.names = TRUE))
  unlist(lapply(c(list(load), mget(named, envir = ns)), deparse))
}

# Its first number tells the kind of generator, which is what comes back.
seed_put_back <- function(seed) {
  if (is.null(seed) || identical(session_seed()[1L], seed[1L])) return()
  put_session_seed(seed)
  set.seed(.Call(ffi_random_seeds, 1L))
}

categories <- c("LC_COLLATE", "LC_CTYPE", "LC_MONETARY", "LC_NUMERIC", "LC_TIME", "LC_MESSAGES")

# All of it as one text, and by category.
locale_now <- function(unused) {
  list(all = Sys.getlocale(), each = vapply(categories, Sys.getlocale, ""))
}

locale_put_back <- function(before) {
  for (category in categories) {
    was <- before$each[[category]]
    if (identical(Sys.getlocale(category), was)) next
    suppressWarnings(Sys.setlocale(category, was))
  }
}
