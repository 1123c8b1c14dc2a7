#' State of sockets
#'
#' `socket_info()` tells what the system and this package know of one socket. `socket_table()` has
#' a row for each socket of this process.
#'
#' @param socket socket or listener, connection or light handle. Also a socket connection of base R.
#' @return `NA` is what the system does not tell.
#' * `socket_info()`: list, see section *Elements*.
#' * `socket_table()`: data frame with these columns, `fd` (number of the descriptor), `connection`
#'   (number of the R connection), `kind` and `owner`. `owner` is `"clutch"`, `"base"` (a connection
#'   of base R's own) or `"other"`.
#' @section Elements:
#'   \describe{
#'     \item{`local`, `peer`}{strings: the two addresses. Host and port of each alone are in
#'       `local_host`, `local_port`, `peer_host` and `peer_port`.}
#'     \item{`family`}{`"IPv4"`, `"IPv6"`, `"unix"` or `"other"`.}
#'     \item{`state`}{string: the state in TCP's own words, as `"ESTABLISHED"`, `"CLOSE_WAIT"` or
#'       `"LAST_ACK"`.}
#'     \item{`queued_in`}{number of bytes that have come and are not read yet.}
#'     \item{`queued_out`}{number of bytes that are written, and that the peer's system has not
#'       confirmed yet.}
#'     \item{`bytes_in`, `bytes_out`}{number of bytes read and written in all.}
#'     \item{`retransmits`}{number of packets that were sent again.}
#'     \item{`rtt`}{number of seconds: the smoothed round-trip time.}
#'     \item{`age`}{number of seconds since the socket was made.}
#'     \item{`timeout`}{number of seconds, see [socket_timeout()].}
#'     \item{`options`}{list, see [socket_options()].}
#'     \item{`last_error`}{string: the text of the socket's last error.}
#'   }
#'   A listener has these in place of those that tell of a peer or of bytes:
#'   \describe{
#'     \item{`backlog_asked`}{number that was given as `backlog`; `NA` for the most that the system
#'       allows.}
#'     \item{`backlog_granted`}{number of connections that may wait to be accepted.}
#'     \item{`backlog_used`}{number of connections that wait now.}
#'     \item{`accepted`}{number of connections that were accepted.}
#'     \item{`path`}{string: the file of a Unix-domain socket.}
#'   }
#' @section Errors: Of class `clutch_argument`: `socket` is neither a connection nor a light handle.
#'   Of class `clutch_socket_closed`: the socket is closed.
#'   ```
#'   tryCatch(socket_info(light)$state, clutch_socket_closed = function(e) "closed")
#'   ```
#' @seealso [socket_listen()], [showConnections()] of base R for all its connections.
#' @examplesIf .Platform$OS.type == "unix"
#' l <- socket_listen(0)
#' a <- socket_connect(port = socket_info(l)$local_port)
#' b <- socket_accept(l)
#' writeLines("unread", a)
#' str(socket_info(b)[c("local", "peer", "state", "bytes_out")])
#' socket_table()[c("owner", "local", "peer", "state")]
#' close(a)
#' close(b)
#' close(l)
#'
#' light <- socket_listen(0, slot = FALSE)
#' close(light)
#' tryCatch(socket_info(light)$state, clutch_socket_closed = function(e) "closed")
#' @export
socket_info <- function(socket) {
  if (!inherits(socket, "clutch_light") && !inherits(socket, "connection")) invalid("socket")
  about <- .Call(ffi_socket_info, socket)
  about$local <- address(about$local_host, about$local_port)
  about$peer <- address(about$peer_host, about$peer_port)
  first <- c("local", "peer", "family", "state")
  about <- about[c(first, setdiff(names(about), c(first, "ours")))]
  of_stream <- c("peer", "peer_host", "peer_port", "queued_in", "queued_out", "retransmits", "rtt",
                 "bytes_in", "bytes_out", "timeout")
  of_listener <- c("backlog_asked", "backlog_granted", "backlog_used", "accepted", "path")
  about[if (about$kind == "listener") of_stream else of_listener] <- NULL
  if (inherits(socket, "clutch_socket")) about$options <- options_of(socket)
  about
}

options_of <- function(socket) {
  values <- as.list(.Call(ffi_socket_get_options, socket))
  names(values) <- names(socket_options())
  values$user_timeout <- values$user_timeout / 1000
  values
}

#' @rdname socket_info
#' @export
socket_table <- function() {
  table <- as.data.frame(.Call(ffi_socket_table))
  table$owner <- ifelse(table$ours, "clutch", "other")
  for (k in getAllConnections()[-(1:3)]) {
    con <- connection_at(k)
    if (!inherits(con, c("sockconn", "servsockconn"))) next
    fd <- .Call(ffi_connection_fd, con)
    if (is.na(fd)) next
    table$owner[table$fd == fd] <- "base"
    table$connection[table$fd == fd] <- k
  }
  table$local <- address(table$local_host, table$local_port)
  table$peer <- address(table$peer_host, table$peer_port)
  columns <- c("fd", "owner", "connection", "kind", "family", "local", "peer", "state",
               "queued_in", "queued_out", "retransmits", "rtt", "age", "bytes_in", "bytes_out",
               "backlog_used", "backlog_granted", "last_error")
  table <- table[order(table$fd), columns]
  rownames(table) <- NULL
  table
}

address <- function(host, port) {
  six <- grepl(":", host, fixed = TRUE)
  text <- host
  text[six] <- paste0("[", host[six], "]")
  has_port <- !is.na(port)
  text[has_port] <- paste0(text[has_port], ":", port[has_port])
  text
}

#' @export
print.clutch_light <- function(x, ...) {
  kind <- if (inherits(x, "clutch_listener")) "listener" else "socket"
  info <- tryCatch(.Call(ffi_socket_info, x), clutch_socket_closed = function(e) NULL)
  cat(sprintf("<%s%s>\n", kind, if (is.null(info)) ", closed" else paste0(" ", text_of_info(info))))
  invisible(x)
}

# The method does what base R's does for connections. serialize() calls it each time.
#' @export
summary.clutch_socket <- function(object, ...) {
  known <- .Call(ffi_connection_summary, object)
  if (is.null(known)) NextMethod() else known
}

text_of_info <- function(about) {
  text <- address(about$local_host, about$local_port)
  if (!is.na(about$peer_host)) {
    text <- c(text, "->", address(about$peer_host, about$peer_port))
  }
  if (!is.na(about$state)) text <- c(text, about$state)
  paste(text, collapse = " ")
}

#' Which ports have a listener
#'
#' Asks all ports at the same time. On this machine a port without a listener answers in
#' microseconds.
#' @param host string: a name or an address. Where a name has several addresses, a listener at any
#'   of them counts.
#' @param ports vector of whole numbers, 1 to 65535.
#' @param timeout number of seconds, 0 or more, for all ports together.
#' @return Logical vector, with the ports as names. `TRUE`: there is a listener. `FALSE`: there is
#'   none, or no answer has come in time.
#' @section Errors: Of class `clutch_argument`: an argument is of no use. Of class
#'   `clutch_socket_dns`: no address is known for the name. Of class `clutch_socket_timeout`: the
#'   name's address has not been found in time. Of class `clutch_socket_limit`: no descriptor is
#'   free.
#'   ```
#'   tryCatch(socket_probe("no.such.name.invalid", 80), clutch_socket_dns = function(e) NA)
#'   ```
#' @seealso [socket_listen()], [socket_connect()]
#' @examples
#' l <- socket_listen(0)
#' port <- socket_info(l)$local_port
#' socket_probe("localhost", port)
#' close(l)
#' socket_probe("localhost", port)
#' tryCatch(socket_probe(ports = 0), clutch_argument = conditionMessage)
#' @export
socket_probe <- function(host = "localhost", ports, timeout = 1) {
  valid_address(host)
  if (!is.numeric(ports) || anyNA(ports)) invalid("ports")
  if (any(ports < 1 | ports > 65535 | ports != round(ports))) invalid("ports")
  timeout <- valid_real(timeout, "timeout", 0)
  ports <- as.integer(ports)
  holder <- .Call(ffi_socket_new, TRUE, Inf) # of the resolver
  on.exit(.Call(ffi_socket_drop, holder))
  out <- .Call(ffi_service_probe, holder, host, ports, timeout)
  names(out) <- ports
  out
}
