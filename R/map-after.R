# Tasks as arguments of tasks: a task waits for the values of others.
#
# Where a task stands in the arguments, or in a variable, nothing travels but a gap. The values
# follow when they are there: their bytes go from node to node by way of the session, which makes no
# object of them (src/core/tasks/given.c).

is_task <- function(x) inherits(x, "clutch_task")

# Tells whether it is a task, or a plain list with some.
has_gaps <- function(x) {
  is_task(x) || (is.list(x) && !is.object(x) && any(vapply(x, is_task, NA)))
}

# list(args, given, after): arguments with gaps; where these are; the tasks that belong there. NULL:
# there are none.
tasks_of_args <- function(args) {
  at <- which(vapply(args, has_gaps, NA))
  if (!length(at)) return(NULL)
  given <- list()
  after <- list()
  for (k in at) {
    x <- args[[k]]
    if (is_task(x)) {
      given <- c(given, list(k))
      after <- c(after, list(x))
      args[k] <- list(NULL)
      next
    }
    inner <- which(vapply(x, is_task, NA))
    given <- c(given, lapply(inner, function(i) c(k, i)))
    after <- c(after, unname(x[inner]))
    args[[k]][inner] <- list(NULL)
  }
  list(args = args, given = given, after = after)
}

# Does the same for variables that the code names. They are variables of `frame` then, the
# environment of its function, and arguments of function_of_values().
tasks_of_code <- function(code, env, frame, o) {
  values <- list()
  for (name in all.names(code, unique = TRUE)) {
    value <- if (is.list(o$globals) && name %in% names(o$globals)) {
      o$globals[[name]]
    } else if (exists(name, frame, inherits = FALSE)) {
      get(name, frame, inherits = FALSE)
    } else { # a promise that fails may be one that the task does not need
      value_or_null(get0(name, envir = env))
    }
    if (has_gaps(value)) values[[name]] <- value
  }
  after <- tasks_of_args(values)
  if (is.null(after)) return(NULL)
  for (name in names(values)) assign(name, NULL, envir = frame)
  if (is.list(o$globals)) o$globals[names(values)] <- NULL
  if (is.character(o$globals)) o$globals <- setdiff(o$globals, names(values))
  with_gaps_in(after, o)
}

# list(args, o): arguments of the task, and its options with what is known of its gaps.
with_gaps_in <- function(after, o) {
  if (!is.null(o$journal)) return(list(args = values_for_journal(after), o = o))
  o[c("given", "after")] <- after[c("given", "after")]
  list(args = after$args, o = o)
}

# Arguments become variables of its environment before it is called.
utils::globalVariables(".f") # of with_function()
function_of_values <- function(f) {
  outer <- function(...) {
    list2env(list(...), environment(.f))
    .f()
  }
  with_function(outer, f)
}

# A journal knows a task by the values that it gets: they have to be there.
values_for_journal <- function(after) {
  args <- after$args
  for (k in seq_along(after$given)) {
    end <- outcome(after$after[[k]])
    if (is.null(end)) {
      throw("argument", paste("`.journal` needs the values of tasks that are arguments,",
                              "and one of them has not ended: collect() it before"))
    }
    if (!is.null(end$error)) stop(end$error)
    args <- fill_gap(args, after$given[[k]], end$value)
  }
  args
}

fill_gap <- function(args, place, value) {
  if (length(place) == 1L) {
    args[place] <- list(value)
  } else {
    args[[place[[1L]]]][place[[2L]]] <- list(value)
  }
  args
}

# The job of the task has not begun. It waits for the others from then on.
await_values <- function(t, task, o) {
  task$after <- o$after
  is_across <- function(x) isTRUE(x$is_across) || !identical(x$scheduler, t)
  if (any(vapply(o$after, is_across, NA))) task$is_across <- TRUE
  for (x in o$after) {
    if (!can_hand_on(x$scheduler, t)) ends_until(x, Inf)
    if (.Call(ffi_job_needs, task$job, x$job)) next
    end <- outcome(x)
    if (is.null(end$error)) {
      .Call(ffi_job_give, t$ptr, task$job, value_on_way(end$value, o))
    } else {
      .Call(ffi_job_lacks, task$job)
    }
  }
}

# Large vectors that are in shared memory do not come to nodes that take none.
can_hand_on <- function(from, to) {
  isTRUE(.Call(ffi_tasks_share, to$ptr)) || isFALSE(.Call(ffi_tasks_share, from$ptr))
}

value_on_way <- function(value, o) {
  if (!has_registered() && !has_pointer(value)) return(value)
  on_their_way(NULL, list(value), NULL, NULL, o$pointers)$elements[[1L]]
}
