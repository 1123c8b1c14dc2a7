# Arguments of the socket functions, and their failures. An argument of no use is an error of class
# "clutch_argument", as those of base-checks.R. Its text is that of base R's socket functions.

invalid <- function(name) throw("argument", sprintf("invalid '%s' argument", name))

check_socket <- function(x) {
  if (!inherits(x, "clutch_socket")) invalid("socket")
}

valid_flag <- function(x, name) if (is_flag(x)) x else invalid(name)

valid_text <- function(x, name) if (is_string(x)) x else invalid(name)

valid_address <- function(x) {
  if (!nzchar(valid_text(x, "host"))) invalid("host")
  x
}

valid_real <- function(x, name, least = -Inf) {
  if (!is_number(x, least)) invalid(name)
  as.numeric(x)
}

valid_whole <- function(x, name, least) {
  x <- valid_real(x, name, least)
  if (x > .Machine$integer.max || x != round(x)) invalid(name)
  as.integer(x)
}

check_sockets <- function(x) {
  if (!is.list(x) || inherits(x, "clutch_light")) throw("argument", "not a list of sockets")
  x
}

# The value is the limit of a wait for several sockets: seconds, or -1 for no limit.
check_wait <- function(timeout) {
  if (is.null(timeout)) return(-1)
  if (!is_number(timeout, 0)) {
    throw("argument", "'timeout' must be NULL or a non-negative number")
  }
  as.numeric(timeout)
}

# Called from C, see src/r/socket/socket-error.c. `what`: the class, without "clutch_". `written`:
# how many bytes of the call had gone; NA where it did not write. `prefix`, `warn`: of a socket that
# could not be opened, what that made impossible, and base R's warning.
throw_socket <- function(what, text, address, written, prefix = NULL, warn = NULL) {
  if (!is.null(warn)) warning(warn, call. = FALSE)
  if (!is.null(prefix)) text <- paste0(prefix, ": ", text)
  throw(what, text, address = address, written = written)
}

# The error `e` of the C code, raised again with what it made impossible before its text, and base
# R's warning `warn`.
fail_opening <- function(e, text, warn) {
  warning(warn, call. = FALSE)
  e$message <- paste0(text, ": ", conditionMessage(e))
  stop(e)
}
