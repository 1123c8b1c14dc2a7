# The variants of cluster_map() whose values have a type, or are the rows of a data frame.
# map-arguments.R has their signature.

# ---- over one vector ----

#' @rdname cluster_map
#' @usage NULL
#' @export
cluster_map_dbl <- new_map(".x", function() as_doubles(map_one(environment()), "cluster_map_dbl"))

#' @rdname cluster_map
#' @usage NULL
#' @export
cluster_map_int <- new_map(".x", function() as_integers(map_one(environment()), "cluster_map_int"))

#' @rdname cluster_map
#' @usage NULL
#' @export
cluster_map_chr <- new_map(".x", function() as_strings(map_one(environment()), "cluster_map_chr"))

#' @rdname cluster_map
#' @usage NULL
#' @export
cluster_map_lgl <- new_map(".x", function() as_logicals(map_one(environment()), "cluster_map_lgl"))

#' @rdname cluster_map
#' @usage NULL
#' @export
cluster_map_dfr <- new_map(".x", function() as_rows(map_one(environment()), "cluster_map_dfr"))

# ---- over two vectors ----

#' @rdname cluster_map2
#' @usage NULL
#' @export
cluster_map2_dbl <- new_map(c(".x", ".y"), function() {
  as_doubles(map_two(environment()), "cluster_map2_dbl")
})

#' @rdname cluster_map2
#' @usage NULL
#' @export
cluster_map2_int <- new_map(c(".x", ".y"), function() {
  as_integers(map_two(environment()), "cluster_map2_int")
})

#' @rdname cluster_map2
#' @usage NULL
#' @export
cluster_map2_chr <- new_map(c(".x", ".y"), function() {
  as_strings(map_two(environment()), "cluster_map2_chr")
})

#' @rdname cluster_map2
#' @usage NULL
#' @export
cluster_map2_lgl <- new_map(c(".x", ".y"), function() {
  as_logicals(map_two(environment()), "cluster_map2_lgl")
})

#' @rdname cluster_map2
#' @usage NULL
#' @export
cluster_map2_dfr <- new_map(c(".x", ".y"), function() {
  as_rows(map_two(environment()), "cluster_map2_dfr")
})

# ---- over several vectors ----

#' @rdname cluster_pmap
#' @usage NULL
#' @export
cluster_pmap_dbl <- new_map(".l", function() {
  as_doubles(map_list(environment()), "cluster_pmap_dbl")
})

#' @rdname cluster_pmap
#' @usage NULL
#' @export
cluster_pmap_int <- new_map(".l", function() {
  as_integers(map_list(environment()), "cluster_pmap_int")
})

#' @rdname cluster_pmap
#' @usage NULL
#' @export
cluster_pmap_chr <- new_map(".l", function() {
  as_strings(map_list(environment()), "cluster_pmap_chr")
})

#' @rdname cluster_pmap
#' @usage NULL
#' @export
cluster_pmap_lgl <- new_map(".l", function() {
  as_logicals(map_list(environment()), "cluster_pmap_lgl")
})

#' @rdname cluster_pmap
#' @usage NULL
#' @export
cluster_pmap_dfr <- new_map(".l", function() as_rows(map_list(environment()), "cluster_pmap_dfr"))

# ---- over a vector and its names ----

#' @rdname cluster_imap
#' @usage NULL
#' @export
cluster_imap_dbl <- new_map(".x", function() {
  as_doubles(map_indexed(environment()), "cluster_imap_dbl")
})

#' @rdname cluster_imap
#' @usage NULL
#' @export
cluster_imap_int <- new_map(".x", function() {
  as_integers(map_indexed(environment()), "cluster_imap_int")
})

#' @rdname cluster_imap
#' @usage NULL
#' @export
cluster_imap_chr <- new_map(".x", function() {
  as_strings(map_indexed(environment()), "cluster_imap_chr")
})

#' @rdname cluster_imap
#' @usage NULL
#' @export
cluster_imap_lgl <- new_map(".x", function() {
  as_logicals(map_indexed(environment()), "cluster_imap_lgl")
})

#' @rdname cluster_imap
#' @usage NULL
#' @export
cluster_imap_dfr <- new_map(".x", function() {
  as_rows(map_indexed(environment()), "cluster_imap_dfr")
})

# ---- from a list to a vector ----

# `name`: that of the function that the user has called, for errors.
as_doubles <- function(values, name) {
  typed(values, c("double", "integer", "logical"), NA_real_, name)
}

as_integers <- function(values, name) {
  typed(values, c("integer", "logical"), NA_integer_, name)
}

as_strings <- function(values, name) {
  typed(values, "character", NA_character_, name)
}

as_logicals <- function(values, name) {
  typed(values, "logical", NA, name)
}

# One value an element, as a vector whose type and missing value `empty` has.
typed <- function(values, types, empty, name) {
  if (is_job(values)) return(job_after(values, "typed", types, empty, name))
  out <- .Call(ffi_values_typed, values, types, empty)
  if (is.null(out)) out <- typed_slowly(values, types, empty, name)
  names(out) <- names(values)
  out
}

add_kind("values", "typed", function() typed)

# Elements that have failed are missing values; one that does not fit is named.
typed_slowly <- function(values, types, empty, name) {
  out <- rep(empty, length(values))
  for (i in seq_along(values)) {
    v <- values[[i]]
    if (inherits(v, "clutch_task_error")) next
    if (!is.atomic(v) || length(v) != 1L || !typeof(v) %in% types) {
      text <- "element %d: %s() wants one value of type %s, and this is %s of length %d"
      throw("value", sprintf(text, i, name, types[[1L]], typeof(v), length(v)), element = i)
    }
    out[[i]] <- v
  }
  out
}

# ---- from a list to a data frame ----

# The rows of data frames, or of lists that are made such. Elements that are NULL or have failed
# have none.
as_rows <- function(values, name) {
  if (is_job(values)) return(job_after(values, "as_rows", name))
  has_none <- vapply(values, function(v) is.null(v) || inherits(v, "clutch_task_error"), NA)
  elements <- which(unname(!has_none))
  if (!length(elements)) return(data.frame())
  frames <- lapply(elements, function(i) frame_of(values[[i]], i, name))
  check_columns(frames, elements)
  tryCatch(do.call(rbind, frames), error = function(e) {
    throw("value", paste("the rows cannot be bound:", conditionMessage(e)))
  })
}

add_kind("values", "as_rows", function() as_rows)

frame_of <- function(value, element, name) {
  if (is.data.frame(value)) return(value)
  if (!is.list(value)) {
    text <- "element %d: %s() wants a data frame or a list, and this is %s of length %d"
    throw("value", sprintf(text, element, name, typeof(value), length(value)), element = element)
  }
  tryCatch(as.data.frame(value), error = function(e) {
    text <- "element %d cannot be made a data frame: %s"
    throw("value", sprintf(text, element, conditionMessage(e)), element = element)
  })
}

# Elements that have columns have the same ones, in any order.
check_columns <- function(frames, elements) {
  columns <- lapply(frames, names)
  wide <- which(lengths(columns) > 0L) # rbind() leaves out what has no columns
  for (k in wide) {
    first <- wide[[1L]]
    as_many <- length(columns[[k]]) == length(columns[[first]])
    if (as_many && setequal(columns[[k]], columns[[first]])) next
    text <- "element %d has columns %s, and element %d has %s: the rows cannot be bound"
    throw("value", sprintf(text, elements[[k]], toString(columns[[k]]), elements[[first]],
                           toString(columns[[first]])), element = elements[[k]])
  }
}
