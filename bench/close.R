# Connections ended in each way, base R's sockets beside clutch's: time, states on the way, descriptors before and after.
# Both ends are in this process; "we" is the accepting end.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
n <- as.integer(option("n", if (nzchar(Sys.getenv("QUICK"))) "500" else "10000"))

maker <- list(
  base = function() {
    repeat {
      port <- sample(20000:30000, 1L)
      l <- tryCatch(serverSocket(port), error = function(e) NULL)
      if (!is.null(l)) break
    }
    list(l = l, pair = function(reset) {
      a <- socketConnection("localhost", port, open = "a+b", blocking = TRUE)
      list(peer = a, we = socketAccept(l, open = "a+b", blocking = TRUE))
    })
  },
  clutch = function() {
    l <- socket_listen(0)
    port <- socket_info(l)$local_port
    list(l = l, pair = function(reset) {
      a <- socket_connect("localhost", port, open = "a+b", blocking = TRUE, options = socket_options(linger = if (reset) 0))
      list(peer = a, we = socket_accept(l, open = "a+b", blocking = TRUE))
    })
  })
state <- function(con) socket_info(con)$state
# Each returns the state that our end was in just before its close, and whether the peer got all we had written
ways <- list(
  "peer first" = function(p) { close(p$peer); s <- state(p$we); close(p$we); s },
  "we first" = function(p) { close(p$we); s <- state(p$peer); close(p$peer); s },
  "both" = function(p) { # both ends are closed for writing before either is read to its end
    socket_shutdown(p$peer); socket_shutdown(p$we); s <- state(p$we); close(p$we); close(p$peer); s },
  "peer resets" = function(p) { close(p$peer); s <- state(p$we); close(p$we); s },
  "half-closed" = function(p) {
    if (inherits(p$peer, "clutch_socket")) socket_shutdown(p$peer)
    s <- state(p$we); close(p$we); close(p$peer); s },
  "peer silent" = function(p) { s <- state(p$we); writeBin(raw(100), p$we); close(p$we); close(p$peer); s },
  "unread data" = function(p) {
    writeBin(raw(1000), p$peer); writeBin(raw(7), p$we); s <- state(p$we); close(p$we)
    got <- tryCatch(length(readBin(p$peer, "raw", 7)), error = function(e) 0L)
    end <- tryCatch({readBin(p$peer, "raw", 1); "end"}, error = function(e) "reset")
    # base R does not tell a reset from the end: ask the system
    if (!inherits(p$peer, "clutch_socket")) end <- if (state(p$peer) == "CLOSED") "reset" else "end"
    lost <<- lost + (got < 7L); resets <<- resets + (end == "reset")
    close(p$peer); s })

rows <- list()
for (way in names(ways)) for (who in names(maker)) {
  if (who == "base" && way %in% c("both", "peer resets", "half-closed")) next # base R cannot
  gc()
  before <- descriptors()
  lost <- resets <- 0
  m <- maker[[who]]()
  states <- character(n)
  t <- seconds(for (i in seq_len(n)) states[i] <- ways[[way]](m$pair(way == "peer resets")))
  close(m$l)
  seen <- sort(table(states), decreasing = TRUE)
  rows[[length(rows) + 1L]] <- data.frame(how = way, who = who, n = n, us_each = 1e6 * t / n,
                                          states = paste(names(seen), collapse = " "), resets_seen_by_peer = resets,
                                          bytes_lost = lost, descriptors_left = descriptors() - before)
}
table <- do.call(rbind, rows)
cat("connect, accept, end;", n, "connections each\n")
show(table, "close")
m <- stats::xtabs(us_each ~ who + how, table)
m[m == 0] <- NA
bars_png("close.png", unclass(m)[, names(ways)], "microseconds a connection", "Connect, accept, end")
cat("goal: no descriptor left:", if (all(table$descriptors_left == 0)) "met" else "MISSED", "\n")
