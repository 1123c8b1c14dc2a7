# A value that lives as long as an environment, `key`, and does not travel with it: `key` has a weak
# reference to it only. R keeps the value of a weak reference as long as its key is there, also when
# nobody has the reference any more. So the value here is in an environment of its own, which can be
# given another value.

# A value in place of the one that `ref` stands for. Returns that reference, or a new one where
# `ref` is NULL or of another key: that one has no value any more then.
tie_value <- function(ref, key, value) {
  if (is.null(ref) || !identical(.Call(ffi_weak_get, ref), key)) {
    untie_value(ref)
    ref <- .Call(ffi_weak_new, key, new.env(parent = emptyenv(), hash = FALSE))
  }
  assign("value", value, envir = .Call(ffi_weak_value, ref))
  ref
}

# NULL: the key is gone.
tied_value <- function(ref) .Call(ffi_weak_value, ref)$value

untie_value <- function(ref) {
  place <- if (!is.null(ref)) .Call(ffi_weak_value, ref)
  if (!is.null(place)) place$value <- NULL
  invisible()
}
