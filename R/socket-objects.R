# One R object as a message.

#' Send and receive R objects
#'
#' `socket_send()` writes one object to a socket, `socket_receive()` reads one. They take less time
#' than [serialize()] and [unserialize()] with a connection, and need none.
#'
#' The bytes are those of `serialize(x, NULL, xdr = FALSE)`, and nothing else. So the other end can
#' be [unserialize()] or `serialize()` with a connection, ours or base R's. (Only between machines
#' of different byte order `serialize()` is needed to write.)
#' @section Large objects: Parts of an object of more than 64 kB leave while the rest is being
#'   serialized. Neither end holds a copy of its bytes, beside at most 128 MB at the end that reads.
#' @section What is given up: Both functions wait as long as the socket's timeout says, also where
#'   it has `blocking = FALSE`: time begins anew whenever bytes move.
#'   * `socket_send()`: when nothing has left, nothing will. When a part has, that direction is shut
#'     down, so that the peer never takes half an object for a whole one.
#'   * `socket_receive()`: what it had read is read again by the next call. Of an object of which it
#'     had read more than 64 MB that is not so: then the socket is broken for reading.
#' @section Trust: As with [unserialize()], receive only from those whom you trust. Bytes that were
#'   made for it can crash R, or run code of theirs when the object is used.
#' @param socket light handle or connection made by [socket_connect()] or [socket_accept()].
#' @param x any R object.
#' @return
#' * `socket_send()`: `NULL`, invisibly.
#' * `socket_receive()`: the object.
#' @section Errors: Of class `clutch_argument`: `socket` is of no use. Of class `clutch_socket_end`:
#'   the peer has shut down its direction. Of class `clutch_socket_timeout`: time is up. Of class
#'   `clutch_socket_broken`: see above. Of class `clutch_socket_reset` or `clutch_socket_closed`:
#'   see [socket_listen()]. R's own: the bytes are not those of an object.
#'   ```
#'   tryCatch(socket_receive(b), clutch_socket_end = function(e) NULL)
#'   ```
#' @seealso [socket_write()] and [socket_read()] for bytes, [socket_set()]
#' @examples
#' l <- socket_listen(0, slot = FALSE)
#' a <- socket_connect(port = socket_info(l)$local_port, timeout = 0.1, slot = FALSE)
#' b <- socket_accept(l, timeout = 0.1, slot = FALSE)
#' socket_send(a, list(x = 1:3, f = mean))
#' str(socket_receive(b))
#' tryCatch(socket_receive(b), clutch_socket_timeout = function(e) "nothing yet")
#' close(a)
#' tryCatch(socket_receive(b), clutch_socket_end = function(e) "the end")
#' close(b)
#' close(l)
#' @export
socket_send <- function(socket, x) invisible(.Call(ffi_socket_send, socket, x))

#' @rdname socket_send
#' @export
socket_receive <- function(socket) .Call(ffi_socket_receive, socket)
