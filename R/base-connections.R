# Base R's table of connections.

# The connection that has this number; NULL: none has. One that is not open comes without its
# `conn_id`. Where opening ends by a jump, as when its warning is caught or a web page is not there,
# R leaves the connection in the table, and the pointer that would be `conn_id` is collected (seen
# in R 4.2). getConnection() would count a reference in what has that memory by then.
connection_at <- function(number) {
  con <- structure(as.integer(number), class = "connection")
  about <- tryCatch(summary(con), error = function(e) NULL)
  if (is.null(about)) return(NULL)
  if (about$opened == "opened" || startsWith(about$class, "clutch_")) return(getConnection(con))
  structure(con, class = c(about$class, "connection"))
}

# Tells whether this connection is still there. The numbers of closed ones are used again.
is_same_connection <- function(con) {
  now <- connection_at(con)
  !is.null(now) && identical(attr(now, "conn_id"), attr(con, "conn_id"))
}
