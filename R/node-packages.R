# Packages that a fork server or node attaches.

attach_package <- function(package) {
  suppressPackageStartupMessages(library(package, character.only = TRUE))
}

# Why it cannot be attached, or NULL.
attach_problem <- function(package) {
  tryCatch({
    attach_package(package)
    NULL
  }, error = conditionMessage)
}

is_attached <- function(package) paste0("package:", package) %in% search()

# The packages of a job that was found to need them. The search path is as in the session: where two
# packages have the same name, the same one masks the other. What was found may be of no use, so its
# lack is no error, but told with one.
attach_as_found <- function(job) {
  the_node$lacks <- NULL
  for (p in setdiff(the_node$attached, job$order)) {
    try(detach(paste0("package:", p), character.only = TRUE), silent = TRUE)
    the_node$attached <- setdiff(the_node$attached, p)
  }
  tried <- function(p, do) {
    tryCatch(do, error = function(e) {
      the_node$lacks <- c(the_node$lacks, structure(message_of(e), names = p))
    })
  }
  for (p in job$load) tried(p, loadNamespace(p))
  for (p in job$attach) if (!is_attached(p)) tried(p, attach_in_order(p, job$order))
}

# Behind those that come before it in `order`.
attach_in_order <- function(package, order) {
  before <- order[seq_len(match(package, order) - 1L)]
  at <- max(1L, match(paste0("package:", before), search()), na.rm = TRUE)
  suppressPackageStartupMessages(library(package, character.only = TRUE, pos = at + 1L))
  the_node$attached <- c(the_node$attached, package)
}

# Attaches a package that the user asks for. Where it is not there, it is no element that has
# failed.
attach_for_job <- function(package) {
  why <- attach_problem(package)
  if (!is.null(why)) stop(error_of("package", why, package = package, of_job = TRUE))
}
