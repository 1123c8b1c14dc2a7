# Maps with `.reduce`: values are combined in the order of the elements, as they come, and let go.
#
# Values that have come and wait for others before them may take so many bytes; then no further
# elements are handed out until these have come: src/core/tasks/order.c.

# The result so far: an environment with `fun`, `value`, and whether there is any; NULL: the call
# has no `.reduce`.
reduce_of <- function(frame, o, walk) {
  has_init <- !eval(quote(missing(.init)), frame)
  f <- frame$.reduce
  if (is.null(f)) {
    if (has_init) throw("argument", "`.init` is for `.reduce`, which is not given")
    return(NULL)
  }
  if (!is.null(o$detach)) {
    throw("argument", "`.reduce` is not for `.detach`: combine what collect() returns")
  }
  if (walk || is_typed(o$called[[1L]])) {
    text <- "`.reduce` is not for %s(): use cluster_map(), cluster_map2(), cluster_pmap(), %s"
    throw("argument", sprintf(text, name_of_call(o$called[[1L]]), "or cluster_imap()"))
  }
  if (is.list(f) || is.numeric(f))
    has_to_be("`.reduce`", "a function of two values, the name of one, or a formula")
  reduce <- new.env(parent = emptyenv())
  reduce$fun <- function_to_call(f, frame$.env, "`.reduce`")
  reduce$has_value <- has_init
  reduce$value <- if (has_init) frame$.init
  reduce
}

# Tells whether values of this function have a type.
is_typed <- function(name) grepl("_(dbl|int|chr|lgl|dfr)$", name_of_call(name))

# The function of a call, without its package.
name_of_call <- function(name) {
  if (is.call(name)) name <- name[[length(name)]]
  if (is.symbol(name)) as.character(name) else ""
}

# The value where there are no results: that of Reduce().
reduced_nothing <- function(reduce) if (reduce$has_value) reduce$value else list()

# The job has not begun. A number is an integer or double: what is below 2^53 is exact.
reduce_in_order <- function(job, o) {
  .Call(ffi_job_in_order, job, min(option_number("clutch.reduce_ahead", 256e6), 2^53))
}

# Takes what has come, as far as all before it has.
reduce_ready <- function(job, o) {
  while (!is.null(values <- .Call(ffi_job_let_go, job))) {
    reduce_values(o$reduce, values, o$record$ptr)
  }
}

# `journal`: has values that it had before; NULL: there is none. The call is written as in Reduce():
# a function may look at it, as rbind() does for its names.
reduce_values <- function(reduce, x, journal = NULL) {
  f <- reduce$fun
  init <- reduce$value
  for (i in seq_along(x)) {
    if (!is.null(journal)) x[i] <- list(.Call(ffi_journal_kept, journal, x[[i]]))
    if (reduce$has_value) {
      init <- forceAndCall(2, f, init, x[[i]])
    } else {
      init <- x[[i]]
      reduce$has_value <- TRUE
    }
    x[i] <- list(NULL) # nobody else has it
  }
  reduce$value <- init
}

# All elements have failed: there is nothing to combine.
reduced <- function(reduce) reduced_nothing(reduce)
