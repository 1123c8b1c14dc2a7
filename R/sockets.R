#' Sockets as connections
#'
#' Counterparts of base R's [serverSocket()], [socketAccept()], [socketConnection()], [socketSelect()] and
#' [socketTimeout()]: the same arguments first, with the same defaults, so that a program runs after
#' changing only these names. What they return are R connections: [readLines()], [writeLines()], [readBin()],
#' [writeBin()], [serialize()], [unserialize()], [pushBack()], [isIncomplete()], [summary()] and [close()] work on them.
#'
#' TCP over IPv4 and IPv6, and Unix-domain sockets (`path`). `"localhost"` is 127.0.0.1, and then ::1. A name with
#' several addresses is tried at all of them, the next one after a quarter of a second of silence.
#'
#' # Timeouts
#' A timeout is a time of silence, in seconds, fractions and `Inf` allowed: connecting and accepting take no
#' longer than that; in reading and writing it begins anew when bytes move. A blocking read whose time is up is an
#' error of class `clutch_socket_timeout` and not an end of file. It takes nothing: everything that the call had taken (lines,
#' fields, parts of an object) is read again by the next. The call is the outermost function of base R or utils that was
#' given the connection: `read.csv()`, and not the `scan()` within it; `unserialize()` and `readRDS()` can be repeated. The same
#' holds where Ctrl-C or [setTimeLimit()] ends the wait. Up to 64 MB are kept for that while a call is under way, for `readBin()`
#' as much as its vector has. A call that had taken more cannot be repeated: when it is given up, the connection is broken for
#' reading, and further reads are errors of class `clutch_socket_broken`. Functions of other packages that read in C code of
#' their own give back what they had of a line, or of one binary read; text of [pushBack()] does not come back.
#' As in base R, `timeout` of `NA`, 0 or less means 60 seconds
#' while a connection is opened, and writes wait even where `blocking = FALSE`. Ctrl-C and [setTimeLimit()] end any wait,
#' unless [suspendInterrupts()] holds them off; a message of which a part has been written has two more seconds for
#' the rest, after which that direction is shut down, so that the peer never takes half a message for a whole one.
#'
#' # Closing
#' `close()` shuts down for writing, reads and throws away what the peer still sends (at most 1 MB and `wait` seconds, and
#' not longer than until the peer's system has confirmed all that was written), shuts down for reading, and closes. Each
#' step is tried whatever came of the one before, so no descriptor is left in any state of TCP. `linger = 0` resets instead.
#'
#' # Errors
#' All are conditions of class `clutch_error`, with the address in the message and in `$address`:
#' `clutch_socket_timeout`, `clutch_socket_refused` (nobody listens), `clutch_socket_reset` (the peer broke it off),
#' `clutch_socket_closed` (closed or shut down on this side), `clutch_socket_broken` (see *Timeouts*), `clutch_socket_dns`, `clutch_socket_limit` (no descriptor or
#' connection is free), `clutch_socket_unreachable`, `clutch_socket_in_use`. After an error in writing `$written` tells how
#' many bytes of the call had gone. Where base R also warns, so do these functions.
#' ```r
#' tryCatch(readLines(con, 1), clutch_socket_timeout = function(e) "nothing yet")
#' ```
#'
#' # Many sockets
#' R has 128 connections (before 4.4). With `slot = FALSE` a light handle is returned that takes none: for
#' [socket_read()], [socket_write()], `socket_select()`, `socket_info()`, `socket_timeout()`, `socket_shutdown()` and
#' `close()`.
#'
#' @param port 1 to 65535; to listen also 0: the system chooses, see [socket_info()].
#' @param host To listen: an address of this machine, `NULL` for all of them. To connect: a name or an address.
#' @param path Of a Unix-domain socket, instead of host and port. The listener's file is removed when it is
#'   closed; one that was left behind is replaced, one that is listened at is not.
#' @param backlog How many connections may wait to be accepted. `NULL`: the most the system allows. What
#'   it made of it is in [socket_info()].
#' @param reuse_address Listen also while connections of an earlier listener linger at this port.
#' @param options Of [socket_options()]. Base R's `"no-delay"` is allowed, too, and is the default here.
#' @param slot Whether the result is an R connection, or a light handle.
#' @return `socket_listen()`: a connection of class `"clutch_listener"`. `socket_accept()` and `socket_connect()`:
#'   of class `"clutch_socket"`; `socket_accept(wait = FALSE)`: `NULL` when nobody is there.
#' @examples
#' l <- socket_listen(0)
#' a <- socket_connect(port = socket_info(l)$local_port)
#' b <- socket_accept(l, blocking = TRUE)
#' writeLines("hello", a)
#' readLines(b, 1)
#' socket_info(b)$state
#' close(a); close(b); close(l)
#' @export
socket_listen <- function(port, host = NULL, path = NULL, backlog = NULL, reuse_address = TRUE,
                          options = socket_options(), slot = TRUE) {
  if (is.null(path)) port <- valid_port(port, 0L)
  else port <- NA_integer_
  backlog <- if (is.null(backlog)) NA_integer_ else valid_whole(backlog, "backlog", 0)
  values <- option_values(options)
  handle <- .Call(ffi_socket_new, TRUE, Inf)
  done <- FALSE
  on.exit(if (!done) .Call(ffi_socket_drop, handle))
  tryCatch(.Call(ffi_socket_listen, handle, host, port, path, backlog, !isTRUE(reuse_address), values),
           clutch_error = function(e) failed(e, if (is.null(path))
             sprintf("creation of server socket failed: port %d cannot be opened", port)
             else sprintf("creation of server socket failed: %s cannot be opened", path)))
  info <- .Call(ffi_socket_info, handle)
  out <- result(handle, slot, "clutch_listener", address(info$local_host, info$local_port), "a+", TRUE, "native.enc")
  done <- TRUE
  out
}

#' @rdname socket_listen
#' @param socket A listener for `socket_accept()`, otherwise any socket of this package.
#' @param blocking,open,encoding,timeout As in [socketAccept()].
#' @export
socket_accept <- function(socket, blocking = FALSE, open = "a+", encoding = getOption("encoding"),
                          timeout = getOption("timeout"), options = getOption("socketOptions"), slot = TRUE,
                          wait = TRUE) {
  spec <- valid_stream(blocking, open, encoding, timeout, options)
  if (!inherits(socket, "clutch_listener")) invalid("socket")
  if (!isTRUE(wait) && (!isFALSE(wait) || !nzchar(open))) invalid("wait")
  .Call(ffi_socket_timeout, socket, -1) # raises where it is closed
  open_now <- function() {
    handle <- .Call(ffi_socket_new, spec$blocking, spec$timeout)
    done <- FALSE
    on.exit(if (!done) .Call(ffi_socket_drop, handle))
    done <- tryCatch(.Call(ffi_socket_accept, socket, handle, if (wait) spec$opening else 0, spec$options),
                     clutch_error = function(e)
                       failed(e, "cannot open the connection", "problem in accepting connections on this socket"))
    if (done) handle
  }
  stream(open_now, spec, slot, function(info)
    if (identical(info$family, "unix")) paste0("<-", info$local_host)
    else sprintf("<-%s:%d", info$peer_host, info$local_port), "<-")
}

#' @rdname socket_listen
#' @param server `TRUE`: listen, accept one connection and listen no more.
#' @export
socket_connect <- function(host = "localhost", port, server = FALSE, blocking = FALSE, open = "a+",
                           encoding = getOption("encoding"), timeout = getOption("timeout"),
                           options = getOption("socketOptions"), path = NULL, slot = TRUE) {
  spec <- valid_stream(blocking, open, encoding, timeout, options)
  if (!is.logical(server) || length(server) != 1L || is.na(server)) invalid("server")
  if (is.null(path)) {
    if (!is.character(host) || length(host) != 1L || is.na(host) || !nzchar(host)) invalid("host")
    port <- valid_port(port, if (server) 0L else 1L)
    where <- sprintf("%s:%d", host, port)
  } else {
    if (!is.character(path) || length(path) != 1L || is.na(path)) invalid("path")
    port <- NA_integer_
    where <- path
  }
  open_now <- if (server) function() {
    listener <- tryCatch(socket_listen(port, path = path, slot = FALSE),
                         clutch_error = function(e)
                           failed(e, "cannot open the connection", sprintf("port %d cannot be opened", port)))
    on.exit(close(listener))
    handle <- .Call(ffi_socket_new, spec$blocking, spec$timeout)
    done <- FALSE
    on.exit(if (!done) .Call(ffi_socket_drop, handle), add = TRUE)
    tryCatch(.Call(ffi_socket_accept, listener, handle, spec$opening, spec$options),
             clutch_error = function(e) failed(e, "cannot open the connection", "problem in listening on this socket"))
    done <- TRUE
    handle
  } else function() {
    handle <- .Call(ffi_socket_new, spec$blocking, spec$timeout)
    done <- FALSE
    on.exit(if (!done) .Call(ffi_socket_drop, handle))
    tryCatch(.Call(ffi_socket_connect, handle, host, port, path, spec$opening, spec$options),
             clutch_error = function(e)
               failed(e, paste("cannot open the connection to", where), paste(where, "cannot be opened")))
    done <- TRUE
    handle
  }
  stream(open_now, spec, slot, function(info)
    if (!server) paste0("->", where)
    else if (is.null(path)) sprintf("<-%s:%d", info$peer_host, info$local_port) else paste0("<-", path), paste0("->", where))
}

# A connection or a handle around what `open_now()` makes; with open = "" it is made later.
stream <- function(open_now, spec, slot, describe, unopened) {
  if (!nzchar(spec$open)) {
    if (!isTRUE(slot)) invalid("open")
    return(connection(NULL, unopened, "clutch_socket", "a+", spec$blocking, spec$encoding, open_now))
  }
  handle <- open_now()
  if (is.null(handle)) return(NULL)
  done <- FALSE
  on.exit(if (!done) .Call(ffi_socket_drop, handle))
  description <- describe(.Call(ffi_socket_info, handle))
  out <- result(handle, slot, "clutch_socket", description, spec$open, spec$blocking, spec$encoding)
  done <- TRUE
  out
}

result <- function(handle, slot, class, description, open, blocking, encoding) {
  if (isTRUE(slot)) connection(handle, description, class, open, blocking, encoding, NULL)
  else structure(list(handle), class = c(class, "clutch_light"))
}

connection <- function(handle, description, class, open, blocking, encoding, opener) {
  tryCatch(.Call(ffi_connection_new, handle, description, class, open, blocking, encoding, opener),
           error = function(e) {
             if (inherits(e, "clutch_error")) stop(e)
             text <- paste0(description, ": ", conditionMessage(e), " (slot = FALSE takes none)")
             throw_socket("socket_limit", text, description, NA_real_)
           })
}

#' Wait for sockets
#'
#' @param socklist A list of sockets, streams and listeners, connections and light handles, also base R's own socket
#'   connections. No limit on how many, or on their descriptors' numbers.
#' @param write Which of them to wait for to be writable rather than readable; recycled.
#' @param timeout Seconds, `NULL`: for ever.
#' @return A logical vector: which are ready. All `FALSE` when the time is up. The look is at all of them, also where
#'   one has bytes that are read ahead.
#' @seealso [socketSelect()], [socket_listen()]
#' @export
socket_select <- function(socklist, write = FALSE, timeout = NULL) {
  if (!is.list(socklist) || inherits(socklist, "clutch_light") || !length(socklist))
    throw("argument", "not a list of sockets")
  if (!is.logical(write) || !length(write) || length(write) > length(socklist) || anyNA(write))
    throw("argument", "bad write indicators")
  if (is.null(timeout)) timeout <- -1
  else if (!is.numeric(timeout) || length(timeout) != 1L || is.na(timeout) || timeout < 0)
    throw("argument", "'timeout' must be NULL or a non-negative number")
  .Call(ffi_socket_select, socklist, rep_len(write, length(socklist)), as.numeric(timeout))
}

#' A socket's timeout
#'
#' @param socket A stream, connection or light handle.
#' @param timeout Seconds to be set, `Inf` for ever; negative: only ask.
#' @return The timeout that was in force.
#' @seealso [socketTimeout()]
#' @export
socket_timeout <- function(socket, timeout = -1) {
  if (!inherits(socket, "clutch_socket")) invalid("socket")
  if (!is.numeric(timeout) || length(timeout) != 1L || is.na(timeout)) invalid("timeout")
  .Call(ffi_socket_timeout, socket, as.numeric(timeout))
}

#' End one direction
#'
#' After `"write"` the peer reads an end of file, while this side can go on reading.
#' @param socket A stream, connection or light handle.
#' @param how Which direction ends.
#' @return `NULL`, invisibly.
#' @export
socket_shutdown <- function(socket, how = c("write", "read", "both")) {
  how <- match.arg(how)
  if (!inherits(socket, "clutch_socket")) invalid("socket")
  invisible(.Call(ffi_socket_shutdown, socket, c(read = 1L, write = 2L, both = 3L)[[how]]))
}

#' Options of sockets
#'
#' `NULL` leaves the system's own value.
#' @param no_delay Send small messages at once.
#' @param keepalive Ask a silent peer whether it is there: after `keep_idle` seconds, every `keep_interval` seconds, and
#'   give it up after `keep_count` questions.
#' @param keep_idle,keep_interval,keep_count See `keepalive`.
#' @param user_timeout Seconds that written bytes may stay unconfirmed before the connection counts as broken (Linux).
#' @param send_buffer,receive_buffer Bytes.
#' @param linger 0: `close()` resets the connection and throws away what is not yet sent.
#' @return To be given as `options` to [socket_listen()] (`receive_buffer` only: what is accepted inherits it),
#'   [socket_accept()] and [socket_connect()]. Without an argument that is the default of all.
#' @export
socket_options <- function(no_delay = TRUE, keepalive = NULL, keep_idle = NULL, keep_interval = NULL, keep_count = NULL,
                           user_timeout = NULL, send_buffer = NULL, receive_buffer = NULL, linger = NULL) {
  if (is.null(keepalive) && !(is.null(keep_idle) && is.null(keep_interval) && is.null(keep_count))) keepalive <- TRUE
  if (is.numeric(user_timeout)) user_timeout <- round(user_timeout * 1000)
  given <- list(no_delay = no_delay, keepalive = keepalive, keep_idle = keep_idle, keep_interval = keep_interval,
                keep_count = keep_count, user_timeout = user_timeout, send_buffer = send_buffer,
                receive_buffer = receive_buffer, linger = linger)
  value <- function(name) {
    x <- given[[name]]
    if (is.null(x)) return(NA_integer_)
    if (name %in% c("no_delay", "keepalive")) {
      if (!isTRUE(x) && !isFALSE(x)) invalid(name)
      return(as.integer(x))
    }
    valid_whole(x, name, if (name == "linger") -1 else 0)
  }
  structure(vapply(names(given), value, 1L), class = "clutch_socket_options")
}

option_values <- function(options) {
  if (is.null(options) || is.character(options)) return(default_options) # "no-delay" is on
  if (!inherits(options, "clutch_socket_options")) invalid("options")
  as.integer(options)
}
default_options <- as.integer(socket_options())

#' Bytes of a socket
#'
#' For light handles (`slot = FALSE`), and for connections as well.
#' @param socket A stream.
#' @param n The most to be read.
#' @param exact Wait until all `n` are there, or the peer has finished.
#' @return `socket_read()`: a raw vector. `raw(0)`: `blocking = FALSE` and nothing is there now; `NULL`: the peer has
#'   finished.
#' @export
socket_read <- function(socket, n = 65536, exact = FALSE) {
  if (!inherits(socket, "clutch_socket")) invalid("socket")
  if (!is.numeric(n) || length(n) != 1L || is.na(n) || n < 0) invalid("n")
  .Call(ffi_socket_read, socket, as.numeric(n), exact)
}

#' @rdname socket_read
#' @param data A raw vector, or a string.
#' @return `socket_write()`: how many bytes have gone, invisibly: all of them, but fewer where `blocking = FALSE` and the
#'   system takes no more.
#' @export
socket_write <- function(socket, data) {
  if (!inherits(socket, "clutch_socket")) invalid("socket")
  if (is.character(data) && length(data) == 1L) data <- charToRaw(data)
  if (!is.raw(data)) invalid("data")
  invisible(.Call(ffi_socket_write, socket, data))
}

#' @rdname socket_listen
#' @param con What to close.
#' @param wait For `socket_accept()`: `FALSE` asks whether somebody is there: if not, the result is `NULL`, at once and
#'   without a condition. (To wait without one, ask [socket_select()] first.) For `close()`: the seconds that it takes at most.
#' @param ... Not used.
#' @export
close.clutch_socket <- function(con, ..., wait = 1) {
  .Call(ffi_socket_here, con)
  if (!inherits(con, "clutch_light")) on.exit(close.connection(con)) # whatever happens to the orderly end
  .Call(ffi_socket_end, con, wait)
  invisible(NULL)
}

#' @rdname socket_listen
#' @export
close.clutch_listener <- close.clutch_socket

#' @export
print.clutch_light <- function(x, ...) {
  i <- tryCatch(.Call(ffi_socket_info, x), clutch_socket_closed = function(e) NULL)
  kind <- if (inherits(x, "clutch_listener")) "listener" else "socket"
  cat(if (is.null(i)) sprintf("<%s, closed>\n", kind)
      else sprintf("<%s %s>\n", kind, paste(c(address(i$local_host, i$local_port),
                                             if (!is.na(i$peer_host)) c("->", address(i$peer_host, i$peer_port)),
                                             if (!is.na(i$state)) i$state), collapse = " ")))
  invisible(x)
}

#' What a socket tells of itself
#'
#' @param socket A stream or a listener; also base R's own socket connections.
#' @return `socket_info()`: a list. `local` and `peer` (and their hosts and ports), `family`, `state` in TCP's own words
#'   (`"ESTABLISHED"`, `"CLOSE_WAIT"`, `"LAST_ACK"` ...), `queued_in` (bytes that have come and are not read), `queued_out`
#'   (written, and not confirmed by the peer's system), `retransmits`, `rtt` (smoothed round-trip time, seconds), `age`
#'   (seconds), `bytes_in`, `bytes_out`, `last_error`, `timeout`, `options`; of a listener `backlog_asked` (`NA`: the most),
#'   `backlog_granted`, `backlog_used`, `accepted`. `NA` is what the system does not tell.
#' @export
socket_info <- function(socket) {
  if (!inherits(socket, "clutch_light") && !inherits(socket, "connection")) invalid("socket")
  i <- .Call(ffi_socket_info, socket)
  i$local <- address(i$local_host, i$local_port)
  i$peer <- address(i$peer_host, i$peer_port)
  first <- c("local", "peer", "family", "state")
  i <- i[c(first, setdiff(names(i), c(first, "ours")))]
  of_stream <- c("peer", "peer_host", "peer_port", "queued_in", "queued_out", "retransmits", "rtt", "bytes_in",
                 "bytes_out", "timeout")
  of_listener <- c("backlog_asked", "backlog_granted", "backlog_used", "accepted", "path")
  i[if (i$kind == "listener") of_stream else of_listener] <- NULL
  if (inherits(socket, "clutch_socket")) {
    values <- as.list(.Call(ffi_socket_get_options, socket))
    names(values) <- names(socket_options())
    values$user_timeout <- values$user_timeout / 1000
    i$options <- values
  }
  i
}

#' @rdname socket_info
#' @return `socket_table()`: a data frame of all sockets of this process, this package's and others', one row each.
#'   `owner` is `"clutch"`, `"base"` (an R connection of base R's own), or `"other"`.
#' @export
socket_table <- function() {
  t <- as.data.frame(.Call(ffi_socket_table))
  t$owner <- ifelse(t$ours, "clutch", "other")
  for (k in getAllConnections()[-(1:3)]) {
    con <- getConnection(k)
    if (inherits(con, c("sockconn", "servsockconn")) && !is.na(fd <- .Call(ffi_connection_fd, con))) {
      t$owner[t$fd == fd] <- "base"
      t$connection[t$fd == fd] <- k
    }
  }
  t$local <- address(t$local_host, t$local_port)
  t$peer <- address(t$peer_host, t$peer_port)
  t <- t[order(t$fd), c("fd", "owner", "connection", "kind", "family", "local", "peer", "state", "queued_in", "queued_out",
                        "retransmits", "rtt", "age", "bytes_in", "bytes_out", "backlog_used", "backlog_granted",
                        "last_error")]
  rownames(t) <- NULL
  t
}

address <- function(host, port) {
  ifelse(is.na(port), host, sprintf(ifelse(grepl(":", host, fixed = TRUE), "[%s]:%d", "%s:%d"), host, port))
}

#' Who listens
#'
#' All ports are asked at once. A dead port of this machine answers in microseconds.
#' @param host A name or an address; where it has several, any of them counts.
#' @param ports 1 to 65535.
#' @param timeout Seconds for all of them together.
#' @return A logical vector, with the ports as names: `TRUE` where somebody listens, `FALSE` where nobody does or no
#'   answer came.
#' @examples
#' l <- socket_listen(0)
#' p <- socket_info(l)$local_port
#' service_probe("localhost", p)
#' close(l)
#' @export
service_probe <- function(host = "localhost", ports, timeout = 1) {
  if (!is.character(host) || length(host) != 1L || is.na(host) || !nzchar(host)) invalid("host")
  if (!is.numeric(ports) || anyNA(ports) || any(ports < 1 | ports > 65535 | ports != round(ports))) invalid("ports")
  if (!is.numeric(timeout) || length(timeout) != 1L || is.na(timeout) || timeout < 0) invalid("timeout")
  ports <- as.integer(ports)
  holder <- .Call(ffi_socket_new, TRUE, Inf)
  on.exit(.Call(ffi_socket_drop, holder))
  out <- .Call(ffi_service_probe, holder, host, ports, as.numeric(timeout))
  names(out) <- ports
  out
}

# Called from C when something that looks like serialize() begins to write: its frame, if that is what it is. See
# cork() in src/r/socket/connection.c.
serializing_frame <- function() {
  n <- sys.nframe() - 1L
  f <- if (n > 0L) sys.function(n)
  if (identical(f, serialize) || identical(f, saveRDS)) sys.frame(n)
}

# Called from C when a connection is read and no call is known that reads it, see src/r/socket/connection-read.c: the frame of the
# function that reads, or a list of that and of the frame of the call which it is a part of: the outermost of base or utils
# by who called whom. NULL: a reader whose calls are not followed.
reading_frames <- function() {
  n <- sys.nframe() - 1L
  if (n < 1L) return(NULL)
  leaf <- sys.frame(n)
  if (!of_base(leaf)) return(NULL)
  parents <- sys.parents()
  p <- parents[[n]]
  if (p == 0L || p >= n || !takes_connection(sys.frame(p))) return(leaf)
  repeat {
    outer <- p
    p <- parents[[outer]]
    if (p == 0L || p >= outer || !takes_connection(sys.frame(p))) return(list(leaf, sys.frame(outer)))
  }
}

of_base <- function(frame) {
  e <- parent.env(frame)
  identical(e, .BaseNamespaceEnv) || identical(e, utils_namespace)
}
utils_namespace <- asNamespace("utils")

# By the names that base and utils use. What they hold is not looked at: that could be a promise which nobody has asked yet.
takes_connection <- function(frame) {
  of_base(frame) && (exists("file", envir = frame, inherits = FALSE) || exists("con", envir = frame, inherits = FALSE) ||
                       exists("connection", envir = frame, inherits = FALSE))
}

# ---- arguments and failures ----

invalid <- function(name) throw("argument", sprintf("invalid '%s' argument", name))

valid_port <- function(port, least) {
  if (is.character(port)) port <- suppressWarnings(as.numeric(port))
  port <- valid_whole(port, "port", least)
  if (port > 65535L) invalid("port")
  port
}

valid_whole <- function(x, name, least) {
  if (!is.numeric(x) || length(x) != 1L || is.na(x) || x < least || x > .Machine$integer.max || x != round(x)) invalid(name)
  as.integer(x)
}

valid_stream <- function(blocking, open, encoding, timeout, options) {
  if (!is.logical(blocking) || length(blocking) != 1L || is.na(blocking)) invalid("blocking")
  if (!is.character(open) || length(open) != 1L || is.na(open) || nchar(open) > 4L) invalid("open")
  if (!is.character(encoding) || length(encoding) != 1L || is.na(encoding)) invalid("encoding")
  if (!is.numeric(timeout) && !(is.logical(timeout) && is.na(timeout)) || length(timeout) != 1L) invalid("timeout")
  timeout <- as.numeric(timeout)
  opening <- if (is.na(timeout) || timeout <= 0) 60 else timeout
  list(blocking = blocking, open = open, encoding = encoding, options = option_values(options), opening = opening,
       timeout = if (is.na(timeout)) 60 else max(timeout, 0))
}

# An error of the C side, with what failed before it; base R's warning, where it gives one.
failed <- function(e, text, warn = NULL) {
  if (!is.null(warn)) warning(warn, call. = FALSE)
  e$message <- paste0(text, ": ", conditionMessage(e))
  stop(e)
}

throw_socket <- function(what, text, address, written) {
  throw(what, text, address = address, written = written)
}
