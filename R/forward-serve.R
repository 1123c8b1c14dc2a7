# A process of the session's machine that stands for one of another host: forked for a connection,
# by descriptor `fd`, it does what is asked until that is closed. Does not return. A lock that the
# other has is handed on by the system when this process ends, and the next one is told. A lock is
# given back where the other has not said that it has it: then it has waited no longer.
serve_forwarded <- function(fd) {
  on.exit({
    if (!is.null(the$unsure_lock)) give_lock(the$unsure_lock)
    .Call(ffi_observer_end)
  })
  socket <- .Call(ffi_socket_adopt, fd, 1e6)
  repeat {
    request <- socket_receive(socket)
    if (identical(request, HAS_LOCK)) {
      the$unsure_lock <- NULL
      next
    }
    .Call(ffi_frozen_running, TRUE)
    answer <- tryCatch(answer_request(request), interrupt = function(c) NULL)
    .Call(ffi_frozen_running, FALSE)
    if (is.null(answer)) break
    socket_send(socket, answer)
  }
}

# A request that cannot be read, or an answer that cannot be serialized, is an error of the call.
answer_request <- function(request) {
  as_error <- function(e) serialize(list(error = e), NULL, xdr = FALSE)
  tryCatch({
    request <- unserialize(request)
    f <- get(match.arg(request[[1L]], FORWARDED), topenv(), mode = "function")
    serialize(call_and_keep(f, request[[2L]]), NULL, xdr = FALSE)
  }, error = as_error)
}

take_lock <- function(x, timeout) {
  the$unsure_lock <- x
  .Call(ffi_lock_take, x, timeout)
}
give_lock <- function(x) .Call(ffi_lock_give, x) # if it has it

# Functions that can be asked for by their names.
FORWARDED <- c(
  "counter_add", "counter_set", "rate_wait", "take_lock", "give_lock", "lock_info",
  "table_append", "table_pop", "table_set", "table_read", "table_reopen", "table_count",
  "actor_call", "actor_cast", "actor_stop", "format.clutch_actor"
)
