#' Sockets as connections
#'
#' Listen, connect, accept and close. The functions are counterparts of base R's [serverSocket()],
#' [socketAccept()] and [socketConnection()]. They have the same arguments first, with the same
#' defaults: a program runs after changing only these names.
#'
#' They return R connections: [readLines()], [writeLines()], [readBin()], [writeBin()],
#' [serialize()], [unserialize()], [pushBack()], [isIncomplete()], [summary()] and [close()] work on
#' them.
#'
#' @section Addresses: TCP over IPv4 and IPv6, and Unix-domain sockets (`path`). `"localhost"` is
#'   127.0.0.1, and then ::1. A name with several addresses is tried at all of them: the next one
#'   after a quarter of a second without an answer.
#' @section Timeouts: A timeout is a number of seconds; fractions and `Inf` are allowed.
#'   * Connecting and accepting take no longer than that. As in base R, `NA`, 0 or less means 60
#'     seconds here.
#'   * In reading and writing, time begins anew whenever bytes move.
#'   * A blocking read whose time is up is an error of class `clutch_socket_timeout`, not an end of
#'     file.
#'   * As in base R, writes to a connection wait also where `blocking = FALSE`.
#'   * Ctrl-C and [setTimeLimit()] end any wait, unless [suspendInterrupts()] holds them off.
#'   * A message of which a part has been written has two more seconds for the rest. Then that
#'     direction is shut down, so that the peer never takes half a message for a whole one.
#' @section Reading again after a timeout: A read that is ended by a timeout, by Ctrl-C or by
#'   [setTimeLimit()] takes nothing. The next read begins with what the call had taken: lines,
#'   fields, or parts of an object.
#'   * The call is the outermost function of base R or \pkg{utils} that was given the connection:
#'     `read.csv()`, not the `scan()` within it. `unserialize()` and `readRDS()` can be repeated,
#'     too.
#'   * Up to 64 MB are kept for that during a call; for `readBin()` as much as its vector has.
#'   * A call that had taken more cannot be repeated. When it is given up, the connection is broken
#'     for reading: further reads are errors of class `clutch_socket_broken`.
#'   * Functions of other packages that read in their own C code give back what they had of a line,
#'     or of one binary read.
#'   * Text of [pushBack()] does not come back.
#' @section Closing: `close()` has four steps. Each one is tried even if the one before has failed,
#'   so that no descriptor stays in any state of TCP.
#'   1. It shuts down for writing.
#'   2. It reads and throws away what the peer still sends: at most 1 MB, for at most `wait`
#'      seconds, and not longer than until the peer's system has confirmed all that was written.
#'   3. It shuts down for reading.
#'   4. It closes the descriptor.
#'
#'   With `socket_options(linger = 0)` it resets the connection instead.
#' @section Many sockets: R before 4.4 has 128 connections. With `slot = FALSE` the result is a
#'   light handle, which is none of them. It is for [socket_read()], [socket_write()],
#'   [socket_send()], [socket_receive()], [socket_select()], [socket_set()],
#'   [socket_info()], [socket_timeout()], [socket_shutdown()] and `close()`.
#' @param port whole number, 1 to 65535. To listen also 0: the system chooses one, see
#'   [socket_info()].
#' @param host string. To listen: an address of this machine; `NULL` for all of them. To connect: a
#'   name or an address.
#' @param path string: the file of a Unix-domain socket, in place of host and port. It is removed
#'   when the listener is closed. A file that was left behind is replaced; one that somebody listens
#'   at is not.
#' @param backlog number of connections, 0 or more, that may wait to be accepted; `NULL` for the
#'   most that the system allows. [socket_info()] tells what the system has granted.
#' @param reuse_address `TRUE` or `FALSE`. Whether to listen also while connections of an earlier
#'   listener linger at this port.
#' @param options object made by [socket_options()]. Base R's `"no-delay"` is allowed, too, and is
#'   the default here.
#' @param slot `TRUE` or `FALSE`. Whether the result is an R connection, or a light handle.
#' @param socket listener made by `socket_listen()`.
#' @param blocking,open,encoding as in [socketAccept()].
#' @param timeout number of seconds, see section *Timeouts*.
#' @param server `TRUE` or `FALSE`. `TRUE`: listen, accept one connection, and listen no more.
#' @param con socket or listener to close.
#' @param wait for `socket_accept()`: `TRUE` or `FALSE`. With `FALSE` the result is `NULL`, at once
#'   and without a condition, when no connection waits. (To wait for one without a condition, call
#'   [socket_select()] first.) For `close()`: number of seconds that it takes at most.
#' @param ... not used.
#' @return
#' * `socket_listen()`: connection or light handle of class `clutch_listener`.
#' * `socket_accept()` and `socket_connect()`: connection or light handle of class `clutch_socket`;
#'   `socket_accept(wait = FALSE)` also `NULL`.
#' * `close()`: `NULL`, invisibly.
#' @section Errors: All have class `clutch_error`, and one of the classes below. The address is in
#'   the message and in `$address`. After an error in writing, `$written` is the number of bytes of
#'   the call that were taken. Where base R also warns, so do these functions.
#'   * `clutch_argument`: an argument is of no use.
#'   * `clutch_socket_timeout`: time is up.
#'   * `clutch_socket_refused`: nobody listens there.
#'   * `clutch_socket_reset`: the peer has reset the connection.
#'   * `clutch_socket_closed`: closed or shut down on this side.
#'   * `clutch_socket_end`: the peer has shut down its direction; only of [socket_receive()].
#'   * `clutch_socket_broken`: see section *Reading again after a timeout*.
#'   * `clutch_socket_dns`: no address is known for the name.
#'   * `clutch_socket_unreachable`: there is no route to the host.
#'   * `clutch_socket_in_use`: another process listens there.
#'   * `clutch_socket_limit`: no descriptor or connection is free.
#'   ```
#'   tryCatch(readLines(con, 1), clutch_socket_timeout = function(e) "nothing yet")
#'   ```
#' @seealso [socket_read()] and [socket_write()], [socket_select()], [socket_set()],
#'   [socket_timeout()], [socket_shutdown()], [socket_options()], [socket_info()],
#'   [socket_probe()];
#'   `vignette("sockets", package = "clutch")`
#' @examples
#' l <- socket_listen(0)
#' port <- socket_info(l)$local_port
#' a <- socket_connect(port = port)
#' b <- socket_accept(l, blocking = TRUE, timeout = 0.1)
#' tryCatch(readLines(b, 1), clutch_socket_timeout = function(e) "nothing yet")
#' writeLines("hello", a)
#' readLines(b, 1)
#' close(a)
#' close(b)
#' close(l)
#'
#' connect <- function() suppressWarnings(socket_connect(port = port))
#' tryCatch(connect(), clutch_socket_refused = conditionMessage)
#' @export
socket_listen <- function(port, host = NULL, path = NULL, backlog = NULL, reuse_address = TRUE,
                          options = socket_options(), slot = TRUE) {
  backlog <- if (is.null(backlog)) NA_integer_ else valid_whole(backlog, "backlog", 0)
  keep <- !isTRUE(reuse_address)
  .Call(ffi_socket_listen, host, if (is.null(path)) port, path, backlog, keep, options, slot)
}

#' @rdname socket_listen
#' @export
socket_accept <- function(socket, blocking = FALSE, open = "a+", encoding = getOption("encoding"),
                          timeout = getOption("timeout"), options = getOption("socketOptions"),
                          slot = TRUE, wait = TRUE) {
  made <- .Call(ffi_socket_accept, socket, blocking, open, encoding, timeout, options, slot, wait)
  if (!is.null(made) || nzchar(open)) return(made)
  open_now <- function() {
    .Call(ffi_socket_accept, socket, blocking, "a+", encoding, timeout, options, FALSE, TRUE)
  }
  open_later(open_now, slot, blocking, encoding, "<-")
}

#' @rdname socket_listen
#' @export
socket_connect <- function(host = "localhost", port, server = FALSE, blocking = FALSE, open = "a+",
                           encoding = getOption("encoding"), timeout = getOption("timeout"),
                           options = getOption("socketOptions"), path = NULL, slot = TRUE) {
  if (!is.null(path)) port <- NULL
  made <- .Call(ffi_socket_connect, host, port, path, server, blocking, open, encoding, timeout,
                options, slot)
  if (!is.null(made)) return(made)
  if (server) {
    open_now <- function(open, slot) {
      accept_one(port, path, blocking, open, encoding, timeout, options, slot)
    }
  } else {
    open_now <- function(open, slot) {
      .Call(ffi_socket_connect, host, port, path, FALSE, blocking, open, encoding, timeout, options,
            slot)
    }
  }
  if (nzchar(open)) return(open_now(open, slot))
  where <- if (is.null(path)) sprintf("%s:%d", host, as.integer(port)) else path
  open_later(function() open_now("a+", FALSE), slot, blocking, encoding, paste0("->", where))
}

# ---- opening ----

# socket_connect(server = TRUE)
accept_one <- function(port, path, blocking, open, encoding, timeout, options, slot) {
  what <- if (is.null(path)) sprintf("port %d", as.integer(port)) else path
  listener <- tryCatch(
    socket_listen(port, path = path, slot = FALSE),
    clutch_error = function(e) {
      fail_opening(e, "cannot open the connection", paste(what, "cannot be opened"))
    }
  )
  on.exit(close(listener))
  .Call(ffi_socket_accept, listener, blocking, open, encoding, timeout, options, slot, TRUE)
}

# A connection made with open = "": open() opens it by `open_now()`, which returns a light handle.
# `description`: until then.
open_later <- function(open_now, slot, blocking, encoding, description) {
  if (!isTRUE(slot)) invalid("open")
  new_connection(NULL, description, "clutch_socket", "a+", blocking, encoding, open_now)
}

# `opener`: called without arguments when the connection is opened later; then `handle` is NULL.
# Also called from C where R's table of connections may be full, see src/r/socket/open.c.
new_connection <- function(handle, description, class, open, blocking, encoding, opener) {
  done <- FALSE
  on.exit(if (!done) .Call(ffi_socket_drop, handle))
  made <- tryCatch(
    .Call(ffi_connection_new, handle, description, class, open, blocking, encoding, opener),
    error = function(e) {
      if (inherits(e, "clutch_error")) stop(e)
      text <- paste0(description, ": ", conditionMessage(e), " (slot = FALSE takes none)")
      throw_socket("socket_limit", text, description, NA_real_)
    }
  )
  done <- TRUE
  made
}

# ---- closing ----

#' @rdname socket_listen
#' @export
close.clutch_socket <- function(con, ..., wait = 1) {
  .Call(ffi_socket_here, con)
  wait <- valid_real(wait, "wait", 0)
  # whatever happens to the orderly end; a light handle is a list
  if (!is.list(con)) on.exit(close.connection(con))
  .Call(ffi_socket_end, con, wait)
  invisible(NULL)
}

#' @rdname socket_listen
#' @export
close.clutch_listener <- close.clutch_socket
