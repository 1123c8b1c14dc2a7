# Bytes of sockets that are open, and waiting for several sockets.

#' Read and write bytes of a socket
#'
#' For light handles (`slot = FALSE`), and for connections as well.
#' @param socket connection or light handle made by [socket_connect()] or [socket_accept()].
#' @param n number of bytes, 0 or more: the most to be read.
#' @param exact `TRUE` or `FALSE`. Whether to wait until all `n` bytes are there, or the peer has
#'   shut down its direction.
#' @param data raw vector, or string.
#' @return
#' * `socket_read()`: raw vector. `raw(0)`: the socket has `blocking = FALSE`, and there is nothing
#'   to read now. `NULL`: the peer has shut down its direction, and all is read.
#' * `socket_write()`: number of bytes that were taken, invisibly. These are all, or fewer where the
#'   socket has `blocking = FALSE` and the system takes no more now.
#' @section Errors: Of class `clutch_argument`: an argument is of no use. Of class
#'   `clutch_socket_timeout`: time is up; what a read had taken is read again by the next one. Of
#'   class `clutch_socket_reset` or `clutch_socket_closed`: see [socket_listen()]. After an error in
#'   writing, the condition's `$written` is the number of bytes of the call that were taken.
#'   ```
#'   tryCatch(socket_read(b), clutch_socket_timeout = function(e) "nothing yet")
#'   ```
#' @seealso [socket_select()], [socket_timeout()], [readBin()] and [writeBin()] of base R.
#' @examples
#' l <- socket_listen(0, slot = FALSE)
#' a <- socket_connect(port = socket_info(l)$local_port, blocking = TRUE, slot = FALSE)
#' b <- socket_accept(l, blocking = TRUE, timeout = 0.1, slot = FALSE)
#' tryCatch(socket_read(b), clutch_socket_timeout = function(e) "nothing yet")
#' socket_write(a, "hello")
#' rawToChar(socket_read(b, 5, exact = TRUE))
#' close(a)
#' socket_read(b)
#' close(b)
#' close(l)
#' @export
socket_read <- function(socket, n = 65536, exact = FALSE) {
  check_socket(socket)
  .Call(ffi_socket_read, socket, valid_real(n, "n", 0), exact)
}

#' @rdname socket_read
#' @export
socket_write <- function(socket, data) {
  check_socket(socket)
  if (is_string(data)) data <- charToRaw(data)
  if (!is.raw(data)) invalid("data")
  invisible(.Call(ffi_socket_write, socket, data))
}

#' Shut down one direction of a socket
#'
#' After `"write"` the peer reads an end of file, and can still write. This side can go on reading.
#' @param socket connection or light handle made by [socket_connect()] or [socket_accept()].
#' @param how `"write"` (default), `"read"` or `"both"`. Which direction ends.
#' @return `NULL`, invisibly.
#' @section Errors: Of class `clutch_argument`: `socket` is of no use; a wrong `how` is an error of
#'   [match.arg()]. Of class `clutch_socket_closed`: the socket is closed, or bytes are written
#'   after the shutdown.
#'   ```
#'   tryCatch(writeLines("more", a), clutch_socket_closed = function(e) "shut down")
#'   ```
#' @seealso [socket_listen()], section *Closing*.
#' @examples
#' l <- socket_listen(0)
#' a <- socket_connect(port = socket_info(l)$local_port, blocking = TRUE)
#' b <- socket_accept(l, blocking = TRUE)
#' writeLines("the last line", a)
#' socket_shutdown(a, "write")
#' readLines(b)
#' writeLines("an answer", b)
#' readLines(a, 1)
#' tryCatch(writeLines("more", a), clutch_socket_closed = function(e) "shut down")
#' close(a)
#' close(b)
#' close(l)
#' @export
socket_shutdown <- function(socket, how = c("write", "read", "both")) {
  how <- match.arg(how)
  check_socket(socket)
  directions <- switch(how, read = 1L, write = 2L, both = 3L)
  invisible(.Call(ffi_socket_shutdown, socket, directions))
}

#' Wait for sockets
#'
#' Waits until at least one of several sockets is ready, or time is up. All sockets are checked,
#' also where one of them has bytes that were read ahead.
#' @param socklist list of sockets and listeners: connections, light handles, and base R's own
#'   socket connections. There is no limit on how many, or on the numbers of their descriptors.
#' @param write logical vector, recycled: which of them to wait for to be writable, rather than
#'   readable. A listener is readable when a connection waits to be accepted.
#' @param timeout number of seconds, 0 or more; `NULL` for no limit.
#' @return Logical vector: which are ready. All are `FALSE` when time is up.
#' @section Errors: Of class `clutch_argument`: an argument is of no use. Of class
#'   `clutch_socket_closed`: one of the sockets is closed.
#'   ```
#'   tryCatch(socket_select(list()), clutch_argument = conditionMessage)
#'   #> not a list of sockets
#'   ```
#' @seealso [socket_set()] for thousands of sockets, [socketSelect()] of base R, [socket_listen()],
#'   [socket_read()]
#' @examples
#' l <- socket_listen(0)
#' socket_select(list(l), timeout = 0.1)
#' a <- socket_connect(port = socket_info(l)$local_port)
#' socket_select(list(l, a), write = c(FALSE, TRUE), timeout = 1)
#' tryCatch(socket_select(list()), clutch_argument = conditionMessage)
#' close(a)
#' close(l)
#' @export
socket_select <- function(socklist, write = FALSE, timeout = NULL) {
  if (!length(check_sockets(socklist))) throw("argument", "not a list of sockets")
  n <- length(socklist)
  if (!is.logical(write) || !length(write) || length(write) > n || anyNA(write))
    throw("argument", "bad write indicators")
  .Call(ffi_socket_select, socklist, rep_len(write, n), check_wait(timeout))
}
