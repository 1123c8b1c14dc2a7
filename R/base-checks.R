# Checks of arguments and options. What is of no use is an error of class "clutch_argument".

# An argument of the caller's that has to be there.
given <- function(x, name) {
  if (missing(x)) throw("argument", sprintf("argument `%s` is missing", name))
}

check_cluster <- function(cl) {
  if (missing(cl)) given(cl, "cl")
  if (!inherits(cl, "clutch_cluster")) has_to_be("`cl`", "a cluster made by make_cluster()")
}

# The error of an argument that is missing also says this, where `cl` is there and is no cluster.
hint_for_cluster <- function(frame) {
  is_one <- eval(quote(missing(cl) || is.null(cl) || inherits(cl, "clutch_cluster")), frame)
  if (is_one) "" else "; `cl` comes first: a cluster made by make_cluster(), or NULL"
}

# The value is the environment that all nodes of a cluster share.
info_of <- function(cl) .subset2(.subset2(cl, 1L), "info")

# Tells whether all nodes are processes of this machine.
is_all_here <- function(cl) {
  info <- info_of(cl)
  is.null(info$remote) && all(vapply(unique(info$hosts), is_this_machine, NA))
}

# ---- values ----

is_flag <- function(x) isTRUE(x) || isFALSE(x)
is_string <- function(x) is.character(x) && length(x) == 1L && !is.na(x)
is_filled <- function(x) is_string(x) && nzchar(x)
is_number <- function(x, least = -Inf) {
  is.numeric(x) && length(x) == 1L && !is.na(x) && x >= least
}

# Numbers, 1 and more, that are integers of R.
is_whole <- function(x) {
  is.numeric(x) && all(is.finite(x)) && all(x == floor(x) & x >= 1 & x <= .Machine$integer.max)
}

# The least and the most of a range, as c(10, 200) or 10:200; NULL: it is none.
bounds_of <- function(x) {
  n <- length(x)
  if (n < 2L || !is.numeric(x) || anyNA(x)) return(NULL)
  are_whole <- is_whole(x[-n]) && (is_whole(x[[n]]) || n == 2L && identical(x[[n]], Inf))
  is_range <- are_whole && (n == 2L || all(diff(x) == 1)) && x[[1L]] <= x[[n]]
  if (is_range) c(x[[1L]], x[[n]])
}

# ---- what an argument or option has to be ----

# These return the value, or throw. `what`: what users call it, as "`name`" or "option 'name'".
# `text`: what it has to be, in words.

has_to_be <- function(what, text) throw("argument", sprintf("%s has to be %s", what, text))

check_flag <- function(x, what) if (is_flag(x)) x else has_to_be(what, "TRUE or FALSE")

check_flag_or_na <- function(x, what) {
  if (is.logical(x) && length(x) == 1L) return(x)
  has_to_be(what, "TRUE, FALSE or NA")
}

check_flag_or_null <- function(x, what) {
  if (is.null(x) || is_flag(x)) return(x)
  has_to_be(what, "TRUE, FALSE or NULL")
}

# One value for which `ok` is true. `default`: what NULL stands for.
check_one <- function(x, what, ok, text, default = NULL) {
  if (is.null(x)) return(default)
  check_needed(x, what, ok, text)
}

# Does the same as check_one(), but NULL is refused, too.
check_needed <- function(x, what, ok, text) {
  if (is.atomic(x) && length(x) == 1L && !is.na(x) && ok(x)) return(x)
  has_to_be(what, text)
}

# `above`: the number has to be above `least`.
check_number <- function(x, what, least, text, above = FALSE) {
  if (is_number(x, least) && (!above || x > least)) return(x)
  has_to_be(what, text)
}

check_timeout <- function(timeout) check_number(timeout, "`timeout`", 0, "a number of seconds")

check_positive_time <- function(x, what) {
  check_number(x, what, 0, "a positive number of seconds", above = TRUE)
}

# Number of seconds, also as a text with units.
check_seconds <- function(x, what) {
  seconds <- if (is.character(x) && length(x) == 1L) seconds_of(x) else x
  is_time <- function(x) is.numeric(x) && x > 0
  text <- "a number of seconds, or a text such as \"90min\" or \"1d\""
  check_needed(seconds, what, is_time, text)
}

# "1d12h", "90 min": seconds, or NA.
seconds_of <- function(text) {
  text <- gsub("[[:space:]]", "", text)
  units <- c(d = 86400, h = 3600, m = 60, min = 60, s = 1, sec = 1)
  if (!grepl("^([0-9.]+(d|h|min|m|sec|s))+$", text)) return(NA_real_)
  parts <- regmatches(text, gregexpr("[0-9.]+[a-z]+", text))[[1L]]
  numbers <- suppressWarnings(as.numeric(sub("[a-z]+$", "", parts)))
  sum(numbers * units[sub("^[0-9.]+", "", parts)])
}

# All choices stand for the first, as in the signature of a function.
check_choice <- function(x, what, choices) {
  if (identical(x, choices)) return(choices[[1L]])
  if (is_string(x) && x %in% choices) return(x)
  has_to_be(what, one_of(choices))
}

one_of <- function(choices) paste("one of", paste0('"', choices, '"', collapse = ", "))

# NULL: none.
check_strings <- function(x, what) {
  if (is.null(x)) return(character())
  if (is.character(x) && !anyNA(x) && all(nzchar(x))) return(x)
  has_to_be(what, "a character vector without NA or empty strings")
}

# ---- options of the session ----

# The number that an option of this package is, not below `least`, or above it. NA, texts and
# vectors are errors.
option_number <- function(name, default, least = 0, above = FALSE) {
  range <- if (above) sprintf("above %g", least) else sprintf("%g or more", least)
  x <- getOption(name, default)
  as.double(check_number(x, option_text(name), least, paste("a number,", range), above))
}

option_flag <- function(name, default) check_flag(getOption(name, default), option_text(name))

# One of some words, the first by default.
option_choice <- function(name, choices) {
  x <- getOption(name, choices[[1L]])
  if (is_string(x) && x %in% choices) return(x)
  has_to_be(option_text(name), paste(dQuote(choices, FALSE), collapse = " or "))
}

option_text <- function(name) sprintf("option '%s'", name)

# ---- hints ----

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
