# A set of sockets that is waited for again and again.

#' Wait for the same sockets again and again
#'
#' A set keeps what its sockets are waited for, so that a wait takes the time of those that are
#' ready. [socket_select()] looks at each socket of its list in each call.
#'
#' @section Members: The set refers to its sockets, so that none is collected. A socket leaves the
#'   set when it is closed: that needs no call, and is no error. A socket that is added again gets
#'   the new `want`, and a new name if there is one.
#' @section Waiting: `socket_set_wait()` ends when at least one socket is ready, or time is up.
#'   Ctrl-C and [setTimeLimit()] end it, too. It looks at all sockets, also where one of them has
#'   bytes that were read ahead. A listener is readable when a connection waits to be accepted. A
#'   socket that the peer has closed is readable. One that is ready and left so is reported by
#'   the next wait again.
#' @section How fast it is: A wait for 5,000 sockets of which 10 are ready takes some microseconds,
#'   on Linux. On other systems the system itself looks at all sockets in each call.
#' @param socklist list of sockets and listeners: light handles, and connections made by
#'   [socket_connect()], [socket_accept()] or [socket_listen()]. Base R's own connections are for
#'   [socket_select()]. Its names become those of the members.
#' @param want character vector, recycled: `"read"`, `"write"` or `"both"`. What to wait for.
#' @param set,x,con object made by `socket_set()`.
#' @param timeout number of seconds, 0 or more; `NULL` for no limit.
#' @param ... not used.
#' @return
#' * `socket_set()`: object of class `clutch_socket_set`.
#' * `socket_set_add()`: the set, invisibly.
#' * `socket_set_remove()`: logical vector, invisibly: which of the sockets were members.
#' * `socket_set_wait()`: list of two named lists, `read` and `write`: the sockets that are ready,
#'   in no particular order. The name of a socket without a name is `""`. Both are empty when time
#'   is up.
#' * `length()`: number of members.
#' * `close()`: `NULL`, invisibly. It closes the set and none of its sockets. A set that is not used
#'   any more need not be closed.
#' @section Errors: Of class `clutch_argument`: an argument is of no use, or a set without
#'   members is waited for without a timeout. Of class `clutch_socket_closed`: a socket to be
#'   added is closed, or the set is. Of class `clutch_socket_limit`: no descriptor is free. Of
#'   class `clutch_forked`: this is a forked child of the process that made the set. After an
#'   error of `socket_set_add()` no socket has been added.
#'   ```
#'   tryCatch(socket_set_add(set, list(b)), clutch_socket_closed = function(e) "closed")
#'   ```
#' @seealso [socket_select()], [socket_read()], [socket_receive()], [socket_accept()]
#' @examples
#' l <- socket_listen(0, slot = FALSE)
#' a <- socket_connect(port = socket_info(l)$local_port, slot = FALSE)
#' set <- socket_set(list(listener = l))
#' b <- socket_accept(socket_set_wait(set, timeout = 1)$read$listener, slot = FALSE)
#' socket_set_add(set, list(b = b))
#' set
#' socket_set_wait(set, timeout = 0.1)
#'
#' socket_write(a, "hello")
#' ready <- socket_set_wait(set)
#' names(ready$read)
#' rawToChar(socket_read(ready$read$b))
#'
#' close(a)
#' close(b)
#' length(set)
#' tryCatch(socket_set_add(set, list(b)), clutch_socket_closed = function(e) "closed")
#' close(set)
#' close(l)
#' @export
socket_set <- function(socklist = list(), want = "read") {
  set <- .Call(ffi_socket_set_new)
  socket_set_add(set, socklist, want)
  set
}

#' @rdname socket_set
#' @export
socket_set_add <- function(set, socklist, want = "read") {
  n <- length(check_sockets(socklist))
  known <- c(read = 1L, write = 2L, both = 3L)
  if (!is.character(want) || !length(want) || length(want) > max(n, 1L)) invalid("want")
  if (!all(want %in% names(known))) invalid("want")
  names <- names(socklist)
  if (is.null(names)) names <- character(n)
  .Call(ffi_socket_set_add, set, socklist, unname(known[rep_len(want, n)]), names)
  invisible(set)
}

#' @rdname socket_set
#' @export
socket_set_remove <- function(set, socklist) {
  invisible(.Call(ffi_socket_set_remove, set, check_sockets(socklist)))
}

#' @rdname socket_set
#' @export
socket_set_wait <- function(set, timeout = NULL) {
  .Call(ffi_socket_set_wait, set, check_wait(timeout))
}

#' @rdname socket_set
#' @export
length.clutch_socket_set <- function(x) .Call(ffi_socket_set_count, x)

#' @rdname socket_set
#' @export
close.clutch_socket_set <- function(con, ...) {
  .Call(ffi_socket_set_close, con)
  invisible(NULL)
}

#' @export
print.clutch_socket_set <- function(x, ...) {
  cat(sprintf("<set of sockets: %d>\n", length(x)))
  invisible(x)
}
