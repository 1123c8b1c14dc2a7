# Checks of arguments and options. What is of no use is an error of class "clutch_argument".

# An argument of the caller's that has to be there.
given <- function(x, name) {
  if (missing(x)) throw("argument", sprintf("argument `%s` is missing", name))
}

# One of `choices`, which are also the argument's default: then the first.
match_arg <- function(x, choices, name) {
  if (identical(x, choices)) return(choices[[1L]])
  if (is.character(x) && length(x) == 1L && x %in% choices) return(x)
  quoted <- paste0('"', choices, '"', collapse = ", ")
  throw("argument", sprintf("`%s` has to be one of %s", name, quoted))
}

check_strings <- function(x, name) {
  if (is.null(x)) return(character())
  if (is.character(x) && !anyNA(x) && all(nzchar(x))) return(x)
  text <- "`%s` has to be a character vector without NA or empty strings"
  throw("argument", sprintf(text, name))
}

check_cluster <- function(cl) {
  if (missing(cl)) given(cl, "cl")
  if (!inherits(cl, "clutch_cluster"))
    throw("argument", "`cl` has to be a cluster made by make_cluster()")
}

# What the error of an argument that is missing says besides where `cl` is there and is none.
hint_for_cluster <- function(frame) {
  is_one <- eval(quote(missing(cl) || is.null(cl) || inherits(cl, "clutch_cluster")), frame)
  if (is_one) "" else "; `cl` comes first: a cluster made by make_cluster(), or NULL"
}

# What all nodes of a cluster share: an environment.
info_of <- function(cl) .subset2(.subset2(cl, 1L), "info")

# The number that an option of this package is, not below `least`, or above it. NA, texts and
# vectors are errors.
option_number <- function(name, default, least = 0, above = FALSE) {
  x <- getOption(name, default)
  is_number <- is.numeric(x) && length(x) == 1L && !is.na(x)
  if (is_number && (if (above) x > least else x >= least)) return(as.double(x))
  range <- if (above) sprintf("above %g", least) else sprintf("%g or more", least)
  throw("argument", sprintf("option '%s' has to be a number, %s", name, range))
}

# The same for an option that is TRUE or FALSE.
option_flag <- function(name, default) {
  x <- getOption(name, default)
  if (isTRUE(x) || isFALSE(x)) return(x)
  throw("argument", sprintf("option '%s' has to be TRUE or FALSE", name))
}

# The same for an option that is one of some words, the first by default.
option_choice <- function(name, choices) {
  x <- getOption(name, choices[[1L]])
  if (is.character(x) && length(x) == 1L && x %in% choices) return(x)
  words <- paste(dQuote(choices, FALSE), collapse = " or ")
  throw("argument", sprintf("option '%s' has to be %s", name, words))
}

# ": did you mean `x`?", or "" where none of the names is near. What begins alike is nearer.
did_you_mean <- function(given, names, quote = "`") {
  distance <- as.vector(utils::adist(given, names, ignore.case = TRUE))
  alike <- vapply(names, function(n) {
    k <- seq_len(min(nchar(n), nchar(given)))
    sum(cumprod(substring(n, k, k) == substring(given, k, k)))
  }, 1)
  near <- which.min(distance - alike)
  if (distance[[near]] > max(2, nchar(given) / 2)) return("")
  paste0(": did you mean ", quote, names[[near]], quote, "?")
}
