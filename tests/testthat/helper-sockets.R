# For tests of sockets.

# Both ends of a TCP connection in this process; what is given goes to both.
socket_pair <- function(..., slot = TRUE, host = NULL) {
  l <- socket_listen(0, host = host, slot = FALSE)
  on.exit(close(l))
  a <- socket_connect(if (is.null(host)) "localhost" else host, socket_info(l)$local_port, ...,
                      slot = slot)
  list(a = a, b = socket_accept(l, ..., slot = slot))
}
close_all <- function(...) for (con in list(...)) close(con)
port_of <- function(listener) socket_info(listener)$local_port

# Descriptors, sockets and places in R's table of connections are as many after `expr` as before.
expect_nothing_left <- function(expr) {
  gc()
  count <- function() c(descriptors = open_fds(), sockets = .Call(clutch:::ffi_socket_count)[[1L]],
                        connections = length(getAllConnections()))
  before <- count()
  force(expr)
  testthat::expect_identical(count(), before)
}

# The condition that `expr` signals, not its value; warnings that go before it are as base R's
caught <- function(expr) tryCatch(suppressWarnings({
  expr
  NULL
}), error = identity)

dead_port <- function(host = "127.0.0.1") {
  l <- socket_listen(0, host = host, slot = FALSE)
  p <- port_of(l)
  close(l)
  p
}
has_ipv6 <- function() {
  l <- tryCatch(socket_listen(0, host = "::1", slot = FALSE), error = function(e) NULL)
  if (!is.null(l)) close(l)
  !is.null(l)
}
