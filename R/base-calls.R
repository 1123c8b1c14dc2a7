# Calls of the user's function, as a node makes them for a map.

# FUN(.x, ...): the call that a node makes, see src/r/node/node-jobs.c; arguments are variables of
# its environment.
call_of_work <- function(work, element) {
  env <- new.env(parent = globalenv())
  env$FUN <- work$fun
  arguments <- work$more
  for (k in seq_along(arguments)) {
    name <- names(arguments)[k]
    is_free <- length(name) && nzchar(name) && name != ".x" && !exists(name, env, inherits = FALSE)
    if (!is_free) name <- sprintf("..arg%d", k)
    assign(name, work$more[[k]], envir = env)
    arguments[[k]] <- as.name(name)
  }
  if (!is.null(work$elements)) {
    env$.x <- work$elements[[element]]
    arguments <- c(list(quote(.x)), arguments)
  }
  list(call = as.call(c(quote(FUN), arguments)), env = env)
}

# Where the function of a job is one of this package's, that calls the user's function so: what is
# shown of its frames is as in a map, and begins with that call.
call_given <- function(fun, more, elements = NULL) {
  at <- call_of_work(list(fun = fun, more = as.list(more), elements = elements), 1L)
  eval(at$call, at$env)
}

# `calls`: sys.calls(), or the first of these. The number of the call that call_given() has made; 0:
# there is none.
frame_of_given <- function(calls) {
  is_given <- FALSE
  for (i in seq_len(min(length(calls), 100L))) {
    called <- calls[[i]][[1L]]
    if (is_given && identical(called, quote(FUN))) return(i)
    if (identical(called, quote(call_given)) && identical(sys.function(i), call_given))
      is_given <- TRUE
  }
  0L
}
