# How a map goes from its arguments to the elements that map-run.R does: the vectors, the function,
# the further arguments, and their checks.

# Each takes the frame of the function that the user has called, and reads its arguments there:
# missing() tells which of them the call has. Nothing is written to it. `walk`: the values do not
# travel back.

map_one <- function(frame, walk = FALSE) {
  cl <- cluster_of_call(frame, ".x", missing_one)
  map_elements(cl, frame, vector_of(frame$.x, "`.x`"), identity, walk)
}

map_two <- function(frame, walk = FALSE) {
  cl <- cluster_of_call(frame, ".x", missing_two)
  vectors <- list(vector_of(frame$.x, "`.x`"), vector_of(frame$.y, "`.y`"))
  map_rows(cl, frame, vectors, c("`.x`", "`.y`"), walk)
}

map_list <- function(frame, walk = FALSE) {
  cl <- cluster_of_call(frame, ".l", missing_list)
  vectors <- frame$.l
  if (!is.list(vectors))
    has_to_be("`.l`", paste("a list of vectors, and this is", kind_of(vectors)))
  labels <- sprintf("`.l[[%d]]`", seq_along(vectors))
  columns <- lapply(seq_along(vectors), function(k) vector_of(.subset2(vectors, k), labels[[k]]))
  names(columns) <- names(vectors)
  map_rows(cl, frame, columns, labels, walk)
}

map_indexed <- function(frame, walk = FALSE) {
  cl <- cluster_of_call(frame, ".x", missing_one)
  x <- vector_of(frame$.x, "`.x`")
  index <- if (is.null(names(x))) seq_along(x) else names(x)
  map_rows(cl, frame, list(x, index), c("`.x`", "its index"), walk)
}

# Elements of several vectors: the first of each, the second of each, ... `labels`: what errors
# call the vectors. Names of vectors are those of arguments of `.f`.
map_rows <- function(cl, frame, vectors, labels, walk) {
  n <- common_length(lengths(vectors), labels)
  columns <- lapply(vectors, rep_len, n)
  rows <- if (n > 0L) .mapply(list, unname(columns), NULL) else list()
  if (length(vectors) && !is.null(names(vectors[[1L]])))
    names(rows) <- rep_len(names(vectors[[1L]]), n)
  arguments <- names(vectors)
  if (is.null(arguments)) arguments <- character(length(vectors))
  map_elements(cl, frame, rows, function(f) function_of_row(f, arguments), walk)
}

# `cl`: NULL: the session's own; "here": no cluster. `adapt` makes of the user's function one of a
# single element.
map_elements <- function(cl, frame, elements, adapt, walk) {
  f <- as_task_function(frame$.f, frame$.env)
  constants <- check_dots(dots_in(frame), f)
  constants <- c(constants, as.list(frame$.more))
  o <- c(task_options(given_options(frame)), list(called = called_as(frame)))
  o$reduce <- reduce_of(frame, o, walk)
  if (!is.null(o$reduce) && !length(elements)) return(reduced_nothing(o$reduce))
  f <- adapt(f)
  if (walk) f <- function_walk(f)
  if (identical(cl, "here")) return(map_here(elements, f, constants, o))
  if (!is.null(o$detach)) return(detach_map(cl, elements, f, constants, o, frame$.env))
  if (is.null(cl)) return(on_own(elements, f, constants, o, frame$.env))
  run_map(cl, elements, f, constants, o, frame$.env)
}

# ---- checks ----

missing_one <- missing_call(c("cl", ".x", ".f"))
missing_two <- missing_call(c("cl", ".x", ".y", ".f"))
missing_list <- missing_call(c("cl", ".l", ".f"))

# The cluster that a map is for; NULL: the session's own. An error where the call lacks an argument,
# or has one in the place of another. `first`: the argument that comes after `cl`. `which_missing`:
# of missing_call().
cluster_of_call <- function(frame, first, which_missing) {
  is_missing <- eval(which_missing, frame)
  if (any(is_missing)) {
    name <- names(is_missing)[is_missing][[1L]]
    throw("argument", sprintf("argument `%s` is missing%s", name, hint_for_cluster(frame)))
  }
  if (inherits(frame[[first]], "clutch_cluster") && !inherits(frame$cl, "clutch_cluster")) {
    throw("argument", paste("an argument whose name begins like `cl` was taken for the cluster:",
                            "pass it as .more = list(name = value)"))
  }
  if (is_own(frame$cl)) return(NULL)
  if (identical(frame$cl, "here")) return("here")
  # a detached map makes a cluster of its own
  is_described <- inherits(frame$cl, "clutch_hosts") || is_number(frame$cl)
  if (is_described && !isFALSE(frame$.detach)) return(frame$cl)
  cluster_or_own(frame$cl)
}

# The value is what lapply() would go through. `label`: what errors call it.
vector_of <- function(x, label) {
  if (is.function(x) || is.symbol(x)) {
    has_to_be(label, paste("a vector or a list, and this is", kind_of(x)))
  }
  plain_elements(x)
}

kind_of <- function(x) {
  if (is.function(x)) return("a function")
  if (is.null(x)) return("NULL")
  if (is.atomic(x)) return(sprintf("a vector of type %s", typeof(x)))
  sprintf("an object of class %s", class(x)[[1L]])
}

# The elements are those that lapply() takes: whatever is no plain vector becomes a list.
plain_elements <- function(x) {
  if (!is.vector(x) || is.object(x)) x <- as.list(x)
  if (!typeof(x) %in% c("list", "integer", "double", "logical", "character")) x <- as.list(x)
  x
}

# One element is as good as many; zero elements go with one or zero.
common_length <- function(sizes, labels) {
  if (!length(sizes)) return(0L)
  longer <- which(sizes != 1L)
  if (!length(longer)) return(1L)
  first <- longer[[1L]]
  other <- Find(function(k) sizes[[k]] != sizes[[first]], longer)
  if (is.null(other)) return(sizes[[first]])
  throw("argument", sprintf("%s has %d elements and %s has %d", labels[[first]], sizes[[first]],
                            labels[[other]], sizes[[other]]))
}

# Arguments that begin with a dot are options: one that there is not would else go to the
# function, unseen.
check_dots <- function(dots, f, options = c(".x", ".f", names(map_arguments))) {
  if (is.null(names(dots))) return(dots)
  given <- grep("^[.][A-Za-z]", names(dots), value = TRUE)
  bad <- setdiff(given, if (inherits(f, "clutch_extractor")) ".default")
  if (length(bad)) {
    text <- "there is no option `%s`%s"
    if (".more" %in% options)
      text <- paste(text, "(an argument of that name for the function goes into `.more`)")
    throw("argument", sprintf(text, bad[[1L]], did_you_mean(bad[[1L]], options)))
  }
  if (".more" %in% options && "more" %in% names(dots) && !takes_argument(f, "more")) {
    throw("argument", paste("the function has no argument `more`:",
                            "a list of further constant arguments is `.more`"))
  }
  dots
}

# The further arguments of a function that is under way. One that is missing there stays so.
dots_in <- function(frame) {
  which <- lapply(seq_len(eval(quote(...length()), frame)), function(k) as.name(paste0("..", k)))
  is_missing <- vapply(which, function(name) eval(call("missing", name), frame), NA)
  if (!any(is_missing)) return(eval(quote(list(...)), frame))
  values <- rep(list(quote(expr = )), length(which)) # nolint
  values[!is_missing] <- lapply(which[!is_missing], eval, frame)
  names(values) <- names(eval(quote(substitute(list(...))), frame))[-1L]
  values
}

takes_argument <- function(f, name) {
  arguments <- names(formals(args(f)))
  is.null(arguments) || any(c(name, "...") %in% arguments)
}
