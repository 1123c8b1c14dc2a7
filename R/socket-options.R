#' Options of sockets
#'
#' What [socket_listen()], [socket_accept()] and [socket_connect()] take as `options`. `NULL` leaves
#' the system's own value.
#'
#' @section Which function takes what: `socket_accept()` and `socket_connect()` take all options.
#'   `socket_listen()` takes `receive_buffer` only: the sockets that are accepted inherit it.
#'   Without an argument, `socket_options()` is the default of all three functions.
#' @param no_delay `TRUE`, `FALSE` or `NULL`. Whether small messages are sent at once.
#' @param keepalive `TRUE`, `FALSE` or `NULL`. Whether the system asks a silent peer if it is still
#'   there. It is `TRUE` when one of the next three arguments is given.
#' @param keep_idle number of seconds, whole. How long a peer has to be silent before it is asked.
#' @param keep_interval number of seconds, whole. The time from one question to the next.
#' @param keep_count number, whole. After this many questions without an answer the connection is
#'   broken.
#' @param user_timeout number of seconds. How long written bytes may stay unconfirmed before the
#'   connection is broken (Linux).
#' @param send_buffer,receive_buffer number of bytes, whole. Sizes of the system's buffers.
#' @param linger number of seconds, whole. With 0, `close()` resets the connection, and throws away
#'   what is not sent yet.
#' @return Object of class `clutch_socket_options`.
#' @section Errors: Of class `clutch_argument`: a value is of no use. Of class
#'   `clutch_socket_system`: the system refuses a value. Of class `clutch_unsupported`: the system
#'   does not know the option. The last two are raised by the function that takes the options.
#'   ```
#'   tryCatch(socket_options(send_buffer = -3), clutch_argument = conditionMessage)
#'   #> invalid 'send_buffer' argument
#'   ```
#' @seealso [socket_info()] tells the options of a socket, [socket_timeout()].
#' @examples
#' l <- socket_listen(0)
#' port <- socket_info(l)$local_port
#' a <- socket_connect(port = port, options = socket_options(keep_idle = 60))
#' socket_info(a)$options$keep_idle
#' tryCatch(socket_options(send_buffer = -3), clutch_argument = conditionMessage)
#' close(a)
#' close(l)
#' @export
socket_options <- function(no_delay = TRUE, keepalive = NULL, keep_idle = NULL,
                           keep_interval = NULL, keep_count = NULL, user_timeout = NULL,
                           send_buffer = NULL, receive_buffer = NULL, linger = NULL) {
  has_times <- !is.null(keep_idle) || !is.null(keep_interval) || !is.null(keep_count)
  if (is.null(keepalive) && has_times) keepalive <- TRUE
  if (is.numeric(user_timeout)) user_timeout <- round(user_timeout * 1000)
  # in the order of `clu_sockopt`, see os.h
  given <- list(no_delay = no_delay, keepalive = keepalive, keep_idle = keep_idle,
                keep_interval = keep_interval, keep_count = keep_count,
                user_timeout = user_timeout, send_buffer = send_buffer,
                receive_buffer = receive_buffer, linger = linger)
  values <- vapply(names(given), function(name) option_value(given[[name]], name), 1L)
  structure(values, class = "clutch_socket_options")
}

# The integer that the C code takes. NA: the system's own value.
option_value <- function(x, name) {
  if (is.null(x)) return(NA_integer_)
  switch(name,
    no_delay = ,
    keepalive = as.integer(valid_flag(x, name)),
    linger = valid_whole(x, name, -1), # -1: off
    valid_whole(x, name, 0)
  )
}

#' Timeout of a socket
#'
#' Returns the timeout of a socket, and sets another one. `socket_timeout(socket)` only returns it.
#'
#' @param socket connection or light handle made by [socket_connect()] or [socket_accept()].
#' @param timeout number of seconds, 0 or more; `Inf` for no limit. Below 0, nothing is set.
#' @return Number of seconds: the timeout that was in force before the call.
#' @section Errors: Of class `clutch_argument`: an argument is of no use. Of class
#'   `clutch_socket_closed`: the connection is closed.
#'   ```
#'   tryCatch(socket_timeout(a, NA), clutch_argument = conditionMessage)
#'   #> invalid 'timeout' argument
#'   ```
#' @seealso [socketTimeout()] of base R; [socket_listen()], section *Timeouts*.
#' @examples
#' l <- socket_listen(0)
#' a <- socket_connect(port = socket_info(l)$local_port, timeout = 5)
#' socket_timeout(a, 0.5)
#' socket_timeout(a)
#' tryCatch(socket_timeout(a, NA), clutch_argument = conditionMessage)
#' close(a)
#' close(l)
#' @export
socket_timeout <- function(socket, timeout = -1) {
  check_socket(socket)
  .Call(ffi_socket_timeout, socket, valid_real(timeout, "timeout"))
}
