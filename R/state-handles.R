# Objects that hold state for several processes: locks, counters, rates, tables. Such an object is
# an environment with the name by which each process finds the memory. It travels as it is; what a
# process has opened is in `the$states`, by name. On other hosts there is no such memory: C code
# returns NULL there, and the session's machine is asked, see forward-ask.R.

state_kinds <- c(lock = 1L, counter = 2L, rate = 3L, table = 4L)

# The memory is there as long as the object is, in the process that has made it.
new_state <- function(kind, cl = NULL) {
  if (!is.null(cl)) open_forwarders(cl, kind)
  pointer <- .Call(ffi_state_new, state_kinds[[kind]], tempdir())
  name <- .Call(ffi_state_name, pointer)
  the$states[[name]] <- pointer
  x <- new.env(parent = emptyenv())
  x$name <- name
  x$pid <- Sys.getpid()
  x$host <- Sys.info()[["nodename"]]
  reg.finalizer(x, end_state)
  class(x) <- c(paste0("clutch_", kind), "clutch_state")
  lockEnvironment(x, bindings = TRUE)
  x
}

end_state <- function(x) {
  if (x$pid != Sys.getpid()) return()
  pointer <- the$states[[x$name]]
  if (!is.null(pointer)) .Call(ffi_state_close, pointer)
  remove_state(x$name)
}

remove_state <- function(name) {
  if (exists(name, the$states, inherits = FALSE)) rm(list = name, envir = the$states)
}

STATES_MOST <- 100L # that a process keeps open

# C code calls this where this process has not opened the state of an object. FALSE: it is on
# another host, which can be asked.
open_state <- function(x, kind) {
  what <- names(state_kinds)[[kind]]
  if (!inherits(x, paste0("clutch_", what))) {
    has_to_be(paste0("`", what, "`"), sprintf("an object made by cluster_%s()", what))
  }
  pointer <- .Call(ffi_state_open, x$name, kind)
  if (is.null(pointer)) {
    if (is_forwarded(x)) return(FALSE)
    text <- paste("this %1$s is gone: the object in the process that has made it was removed, or",
                  "that process has ended, or runs on another machine: cluster_%1$s(cl) is for",
                  "nodes there")
    throw("state_gone", sprintf(text, what))
  }
  opened <- the$states$.opened
  if (length(opened) >= STATES_MOST) {
    .Call(ffi_state_close, the$states[[opened[[1L]]]]) # a lock that it has stays until it is given
    remove_state(opened[[1L]])
    opened <- opened[-1L]
  }
  the$states[[x$name]] <- pointer
  the$states$.opened <- c(opened, x$name)
  TRUE
}

# `found`: what C code has returned; NULL: the object is on another host, where this function is
# called instead.
or_there <- function(found, what, x, ...) {
  if (is.null(found)) ask_forwarded(what, list(x, ...)) else found
}

#' @export
print.clutch_state <- function(x, ...) {
  gone <- function(e) paste("clutch", sub("clutch_", "", class(x)[[1L]]), "that is gone")
  cat("<", tryCatch(format(x), clutch_state_gone = gone), ">\n", sep = "")
  invisible(x)
}
