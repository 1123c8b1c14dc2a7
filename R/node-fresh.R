# This file puts back what a task with a fresh workspace has changed of the workspace and of the
# search path. src/r/node/fresh.c has found out that something has changed.

# `todo`: the names of the variables that were there, and of those that have changed.
workspace_remove <- function(todo) {
  now <- ls(globalenv(), all.names = TRUE, sorted = FALSE)
  new <- setdiff(now, c(todo[[1L]], ".Random.seed"))
  rm(list = c(new, intersect(todo[[2L]], now)), envir = globalenv())
}

# `before`: the environments that were attached. Their namespaces stay loaded.
search_path_put_back <- function(before) {
  is_among <- function(e, others) any(vapply(others, identical, NA, e))
  quietly <- function(expr) {
    suppressWarnings(suppressMessages(tryCatch(expr, error = function(e) NULL)))
  }
  now <- attached_now()
  for (k in rev(seq_along(now))) {
    if (!is_among(now[[k]], before)) quietly(detach(pos = k + 1L, force = TRUE))
  }
  for (k in seq_along(before)) {
    if (!is_among(before[[k]], attached_now())) quietly(attach_again(before[[k]], k + 1L))
  }
}

# From the second place on; the last is base R.
attached_now <- function() lapply(seq_along(search())[-c(1L, length(search()))], as.environment)

attach_again <- function(env, pos) {
  name <- attr(env, "name")
  if (startsWith(name, "package:")) return(attachNamespace(substring(name, 9L), pos = pos))
  attach(env, pos = pos, name = name, warn.conflicts = FALSE)
}

# Whoever comes next has other random numbers, of the kind that there was. `seed`: NULL: none.
seed_renew <- function(seed) {
  seed_restore(seed)
  if (!is.null(seed)) set.seed(.Call(ffi_random_seeds, 1L))
}
