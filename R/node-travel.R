# Objects that were packed for their way (R/code-pack.R), on a node. src/r/node/node-tasks.c calls
# these functions.

# A job's description, see src/core/wire/task-message.h. What of it was packed is in its last part:
#   packed     function, constants and variables, where one of them has to be packed; else NULL
#   pointers   "error", "warn" or "allow": what a pointer in a result means
#   recipes    what the session has registered, for results
#   variables  of the workspace that these recipes need
node_unpack_job <- function(x) {
  names(x) <- job_parts
  attach_as_found(x)
  for (p in x$packages) if (!is_attached(p)) attach_for_job(p)
  variables <- x$travel$variables
  variables <- variables[setdiff(names(variables), ls(globalenv(), all.names = TRUE))]
  put_variables(variables)
  on.exit(rm(list = names(variables), envir = globalenv()))
  parts <- unpack(x$travel$packed)
  for (name in names(parts)) x[name] <- list(parts[[name]])
  x$travel["packed"] <- list(NULL)
  unname(x)
}

# A result has a pointer, or may have what a recipe takes. Returns NULL: it may travel as it is;
# list(value): what travels in its place; or what the session is told of a task that failed.
# `travel`: the part of the job's description; NULL: all is as by default.
node_result <- function(value, travel) {
  pointers <- if (is.null(travel)) "error" else travel$pointers
  suspendInterrupts(tryCatch({
    visited <- visited_new(travel$recipes)
    found <- pointer_in(value, "value", visited)
    if (pointers != "allow") tell_pointer(found, pointers, of_result = TRUE)
    if (needs_packing(found, visited)) {
      packed <- pack(value, travel$recipes, visited$paths)
      if (inherits(packed, "clutch_packed")) list(packed)
    }
  }, error = function(e) task_failure(e)))
}
