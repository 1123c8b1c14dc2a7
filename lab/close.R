# Connections ended in each way, base R's sockets beside clutch's: time, states on the way, descriptors before and after.
# Both ends are in this process; "we" is the accepting end.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
reps <- repetitions(5L)
n <- as.integer(option("n", if (quick) "500" else "10000"))
block <- n %/% reps

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
      a <- socket_connect("localhost", port, open = "a+b", blocking = TRUE,
          options = socket_options(linger = if (reset) 0))
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
for (r in seq_len(reps)) for (way in names(ways)) for (who in rotated(names(maker), r)) {
  if (who == "base" && way %in% c("both", "peer resets", "half-closed")) next # base R cannot
  gc()
  before <- descriptors()
  lost <- resets <- 0
  m <- maker[[who]]()
  states <- character(block)
  if (r == 1L) for (i in 1:20) ways[[way]](m$pair(way == "peer resets"))
  lost <- resets <- 0
  t <- seconds(for (i in seq_len(block)) states[i] <- ways[[way]](m$pair(way == "peer resets")))
  close(m$l)
  seen <- sort(table(states), decreasing = TRUE)
  rows[[length(rows) + 1L]] <- data.frame(how = way, who = who, rep = r, n = block, us_each = 1e6 * t / block,
                                          states = paste(names(seen), collapse = " "), resets_seen_by_peer = resets,
                                          bytes_lost = lost, descriptors_left = descriptors() - before)
}
raw <- do.call(rbind, rows)
raw <- raw[order(match(raw$how, names(ways)), raw$who, raw$rep), ]
keep(raw, "close")
table <- spread(raw, c("how", "who"), "us_each")
add_up <- function(f, what) vapply(seq_len(nrow(table)), function(i)
  f(raw[[what]][raw$how == table$how[i] & raw$who == table$who[i]]), if (is.character(raw[[what]])) "" else 1)
table$connections <- add_up(sum, "n")
table$states <- add_up(function(x) paste(unique(unlist(strsplit(x, " "))), collapse = " "), "states")
for (what in c("resets_seen_by_peer", "bytes_lost", "descriptors_left")) table[[what]] <- add_up(sum, what)
cat("connect, accept, end: microseconds a connection, in", reps, "blocks of", block, "\n")
show(table, "close")
wide <- function(value) as_matrix(table, "who", "how", value)
bars_png("close.png", wide("median"), "microseconds a connection", "Connect, accept, end", low = wide("min"),
    high = wide("max"))
cat("goal: no descriptor left:", if (all(table$descriptors_left == 0)) "met" else "MISSED", "\n")
method("close",
  what = "microseconds to connect, accept and end one connection in this way, both ends in one R process",
  order = "base R and clutch in turn in each repetition, the other one first each time",
  warm = "20 connections of each kind before the first repetition")
