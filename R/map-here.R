# Maps with cl = "here": done in this session, one element after the other. So browser(), debug()
# and options(error = recover) work in the function, and values are those of any other cluster.
#
# Nothing of nodes is there: an element has no process of its own, sees all of the
# workspace, and leaves behind what it does.

map_here <- function(elements, f, more, o) {
  check_here(o)
  attach_here(o$packages)
  values <- vector("list", length(elements))
  names(values) <- names(elements)
  if (!is.null(o$seed)) {
    old <- session_seed()
    on.exit(put_session_seed(old)) # what it is then
  }
  call <- caller_here(f, more, o$on_error == "continue")
  reduce <- o$reduce
  stream <- o$seed
  for (i in seq_along(elements)) {
    if (!is.null(stream)) put_session_seed(c(LECUYER, stream))
    value <- call(elements[[i]], i)
    if (!is.null(reduce) && !inherits(value, "clutch_task_error")) {
      if (!is.null(stream)) put_session_seed(old)
      reduce_values(reduce, list(value))
      if (!is.null(stream)) old <- session_seed()
    } else if (!is.null(value)) {
      values[[i]] <- value
    }
    if (!is.null(stream)) stream <- .Call(ffi_stream_jump, stream, 1)
  }
  failed <- which(vapply(values, inherits, NA, "clutch_task_error"))
  if (length(failed)) warn_failed(values, failed, length(values))
  if (is.null(reduce)) values else reduced(reduce)
}

LECUYER <- 10407L # the first number of .Random.seed: the generators of elements

check_here <- function(o) {
  for (option in c("journal", "detach")) {
    if (is.null(o[[option]])) next
    throw("argument", sprintf("`.%s` is not for cl = \"here\", which has no nodes", option))
  }
}

# The nodes of a cluster would have attached them.
attach_here <- function(packages) {
  for (package in packages) {
    tryCatch(suppressPackageStartupMessages(library(package, character.only = TRUE)),
             error = function(e) {
               text <- "package '%s' cannot be attached: %s"
               throw("package", sprintf(text, package, conditionMessage(e)), package = package)
             })
  }
}

# A function of an element and its number. An error is told while the frames of the function are
# there: options(error = ) and traceback() see them.
caller_here <- function(f, more, goes_on) {
  # one that is missing stays so, and the others are not evaluated a second time
  is_given <- !vapply(more, identical, NA, quote(expr = )) # nolint: spaces_inside_linter.
  more[is_given] <- lapply(more[is_given], enquote)
  one <- function(x, i) {
    withCallingHandlers(
      do.call(f, c(list(enquote(x)), more)),
      error = function(e) stop(error_here(e, i))
    )
  }
  if (!goes_on) return(one)
  function(x, i) tryCatch(one(x, i), clutch_task_error = identity)
}

error_here <- function(e, i) {
  f <- list(element = i, node = NA_integer_, host = NA_character_, attempt = 1L,
            what = sprintf("element %d", i), at = "", again = "")
  task_value_error(f, list(cond = e))
}
