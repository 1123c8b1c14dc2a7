# A delegate is a process of the session's machine that stands for one of another host, its client:
# forked for a connection, by descriptor `fd`, it does what is asked until that is closed. Does not
# return.
#
# A lock that the client has is handed on by the system when this process ends, and the next one is
# told. It is given back where the client has not said that it has it: then it has waited no longer.
# A row of a table is open again where its answer has not left, or the client has said that it gives
# up. Where that has died nobody knows whether it had the row: it stays taken, as on one machine.
#
# `the$unsure`: list(x, id), the lock or the row that the client may not have got.
serve_forwarded <- function(fd) {
  gives_back <- TRUE
  on.exit({
    .Call(ffi_frozen_running, FALSE)
    if (gives_back && !is.null(the$unsure)) do.call(give_back, the$unsure)
    .Call(ffi_observer_end)
  })
  socket <- .Call(ffi_socket_adopt, fd, 1e6)
  repeat {
    request <- socket_receive(socket)
    gives_back <- TRUE
    if (identical(request, GIVES_UP)) break
    the$unsure <- NULL # it has what it had asked for
    if (identical(request, HAS_LOCK)) next
    .Call(ffi_frozen_running, TRUE)
    answer <- tryCatch(answer_request(request), interrupt = function(c) NULL)
    .Call(ffi_frozen_running, FALSE)
    if (is.null(answer)) break
    socket_send(socket, answer)
    gives_back <- inherits(the$unsure$x, "clutch_lock")
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
  the$unsure <- list(x = x)
  .Call(ffi_lock_take, x, timeout)
}

# The value of ffi_table_pop(). An interrupt is let in only where no row has been taken.
take_row <- function(table, timeout) {
  until <- clock() + timeout
  suspendInterrupts(repeat {
    row <- .Call(ffi_table_pop, table, max(min(until - clock(), 0.1), 0))
    if (is.list(row)) the$unsure <- list(x = table, id = row$id)
    if (is.list(row) || clock() >= until) return(row)
    allowInterrupts(Sys.sleep(0))
  })
}

give_back <- function(x, id = NULL) .Call(ffi_state_give_back, x, id)
give_lock <- function(x) give_back(x)

# Functions that can be asked for by their names.
FORWARDED <- c(
  "counter_add", "counter_set", "rate_wait", "take_lock", "give_lock", "lock_info",
  "table_append", "take_row", "table_set", "table_read", "table_reopen", "table_count",
  "actor_call", "actor_cast", "actor_stop", "format.clutch_actor"
)
