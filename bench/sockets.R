# Sockets of base R beside clutch's: an object to another R process and back; within one process a small object from end
# to end, and connecting; waits for thousands of sockets, and the table of them.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
rounds <- as.integer(option("rounds", if (quick) "2" else "7"))
mb <- as.numeric(option("mb", if (quick) "20" else "100"))

peer <- tempfile(fileext = ".R")
writeLines(c("a <- commandArgs(TRUE); suppressPackageStartupMessages(library(clutch))",
             "connect <- if (a[1] == 'clutch') socket_connect else socketConnection",
             "if (a[1] == 'base, no-delay') options(socketOptions = 'no-delay')",
             "con <- connect('localhost', as.integer(a[2]), blocking = TRUE, open = 'a+b', timeout = 600)",
             "repeat { x <- unserialize(con); if (is.null(x)) break; serialize(x, con, xdr = a[3] == 'TRUE') }"), peer)
# A listener and its port
listening <- function(who) {
  if (who == "clutch") {
    l <- socket_listen(0, host = "127.0.0.1")
    return(list(l = l, port = socket_info(l)$local_port))
  }
  repeat {
    port <- sample(20000:30000, 1L)
    l <- tryCatch(serverSocket(port), error = function(e) NULL)
    if (!is.null(l)) return(list(l = l, port = port))
  }
}
pair <- function(who, xdr) {
  at <- listening(who)
  system2(rscript, c("--vanilla", peer, shQuote(who), at$port, xdr), wait = FALSE)
  accept <- if (who == "clutch") socket_accept else socketAccept
  # without it base R's large messages wait now and then for an acknowledgement; clutch's sockets always have it
  con <- accept(at$l, blocking = TRUE, open = "a+b", timeout = 600, options = if (who == "base, no-delay") "no-delay")
  close(at$l)
  con
}
big <- stats::runif(mb * 125000)
many <- as.list(seq_len(50000))
small <- 1:3
before <- descriptors()
time <- list()
for (xdr in c(TRUE, FALSE)) {
  cons <- lapply(stats::setNames(nm = c("base", "base, no-delay", "clutch")), pair, xdr)
  there_and_back <- function(con, x) { serialize(x, con, xdr = xdr); invisible(unserialize(con)) }
  for (con in cons) for (i in 1:100) there_and_back(con, small)
  for (k in seq_len(rounds)) for (who in rotated(names(cons), k)) { # in turn, so that both meet the same machine
    con <- cons[[who]]
    add <- function(what, s) time[[length(time) + 1L]] <<- data.frame(what = what, xdr = xdr, who = who, rep = k, s = s)
    add(sprintf("%g MB of doubles", mb), us(there_and_back(con, big)) / 1e6)
    add("list of 50,000 numbers", us(there_and_back(con, many)) / 1e6)
    add("1:3", us(for (i in 1:1000) there_and_back(con, small)) / 1e9)
  }
  for (con in cons) { serialize(NULL, con); close(con) }
}
raw <- do.call(rbind, time)
raw <- raw[order(raw$what, raw$xdr, raw$who, raw$rep), ]
keep(raw, "sockets")
table <- spread(raw, c("what", "xdr", "who"), "s")
utils::write.csv(table, report("sockets-spread.csv"), row.names = FALSE)
table <- data.frame(table[c("what", "xdr", "who")], s = table$median)
wide <- stats::reshape(table, idvar = c("what", "xdr"), timevar = "who", direction = "wide")
names(wide) <- sub("s.", "", names(wide), fixed = TRUE)
wide$base_is_times <- wide$base / wide$clutch
wide$no_delay_is_times <- wide[["base, no-delay"]] / wide$clutch
cat("there and back, seconds (median of", rounds, "rounds)\n")
show(wide, "sockets")
all_ms <- utils::read.csv(report("sockets-spread.csv"))
all_ms$what <- paste0(sub("list of | of(?= doubles)", "", all_ms$what, perl = TRUE), ifelse(all_ms$xdr, "\nxdr", "\nnative"))
m <- function(value) 1000 * as_matrix(all_ms, "who", "what", value)
bars_png("sockets.png", signif(m("median"), 2), "milliseconds", "An object there and back over TCP", low = m("min"),
    high = m("max"))
# Within this process: a small object from one end to the other, and a connection made and closed
ends_of <- function(who, ...) {
  at <- listening(who)
  here <- if (who == "base") socketConnection else socket_connect
  there <- if (who == "base") socketAccept else socket_accept
  a <- here("127.0.0.1", at$port, blocking = TRUE, open = "a+b", options = "no-delay", ...)
  b <- there(at$l, blocking = TRUE, open = "a+b", options = "no-delay", ...)
  list(a = a, b = b, l = at$l, port = at$port)
}
own <- list(base = ends_of("base"), clutch = ends_of("clutch"), light = ends_of("clutch", slot = FALSE))
through <- function(e) function(n) for (i in seq_len(n)) {
  serialize(small, e$a)
  unserialize(e$b)
}
calls <- list(
  list(what = "1:3 by serialize(), unserialize()", who = "base", run = through(own$base)),
  list(what = "1:3 by serialize(), unserialize()", who = "clutch", run = through(own$clutch)),
  list(what = "1:3 by socket_send(), socket_receive()", who = "clutch", run = function(n) for (i in seq_len(n)) {
    socket_send(own$light$a, small)
    socket_receive(own$light$b)
  }),
  list(what = "connect, accept, close both ends", who = "base", run = function(n) for (i in seq_len(n)) {
    a <- socketConnection("127.0.0.1", own$base$port)
    b <- socketAccept(own$base$l)
    close(a)
    close(b)
  }),
  list(what = "connect, accept, close both ends", who = "clutch", run = function(n) for (i in seq_len(n)) {
    a <- socket_connect("127.0.0.1", own$clutch$port)
    b <- socket_accept(own$clutch$l)
    close(a)
    close(b)
  }))
for (k in calls) k$run(100)
own_rounds <- if (quick) 3L else 15L
in_turn <- do.call(rbind, lapply(seq_len(own_rounds), function(r) do.call(rbind, lapply(rotated(calls, r), function(k) {
  gc(FALSE) # each begins with the same garbage: none
  n <- if (startsWith(k$what, "connect")) 500L else 2000L
  data.frame(what = k$what, who = k$who, rep = r, us = us(k$run(n)) / n)
}))))
for (e in own) for (s in e[c("a", "b", "l")]) close(s)
keep(in_turn, "sockets-calls")
in_turn <- in_turn[order(match(paste(in_turn$what, in_turn$who), vapply(calls, function(k) paste(k$what, k$who), ""))), ]
own_calls <- spread(in_turn, c("what", "who"), "us")
cat("within one process, microseconds\n")
show(own_calls, "sockets-calls")
of_call <- function(what, who) own_calls$median[startsWith(own_calls$what, what) & own_calls$who == who]
verdict <- function(met) if (met) "met" else "MISSED"
cat("goal: serialize() and unserialize() of 1:3 within one process in 0.9 of base R's time:",
    verdict(of_call("1:3 by serialize", "clutch") <= 0.9 * of_call("1:3 by serialize", "base")), "\n")
cat("goal: socket_send() and socket_receive() 1.3 times as fast as base R's serialize() and unserialize():",
    verdict(1.3 * of_call("1:3 by socket_send", "clutch") <= of_call("1:3 by serialize", "base")), "\n")
cat("goal: connect, accept and close not slower than base R's:",
    verdict(of_call("connect", "clutch") <= of_call("connect", "base")), "\n")
# One wait for many sockets, by a set and by socket_select()
n <- if (quick) 1000L else 5000L
l <- socket_listen(0, host = "127.0.0.1", slot = FALSE)
port <- socket_info(l)$local_port
ends <- lapply(seq_len(n), function(i) {
  a <- socket_connect("127.0.0.1", port, slot = FALSE)
  list(a = a, b = socket_accept(l, slot = FALSE))
})
into <- lapply(ends, `[[`, "b")
set <- socket_set(into)
for (e in ends[1:10]) socket_write(e$a, "x")
by <- list(socket_select = function() for (i in 1:10) socket_select(into, timeout = 0),
           socket_set = function() for (i in 1:10) socket_set_wait(set, timeout = 0))
wait <- do.call(rbind, lapply(seq_len(rounds), function(k) do.call(rbind, lapply(rotated(names(by), k), function(who) {
  data.frame(sockets = n, ready = 10L, who = who, us = us(by[[who]]()) / 10)
}))))
wait <- spread(wait, c("sockets", "ready", "who"), "us")
cat("one wait, microseconds\n")
show(wait, "sockets-wait")
cat("goal: a set of", n, "sockets in 1 ms:", verdict(wait$median[wait$who == "socket_set"] <= 1000), "\n")
tables <- do.call(rbind, lapply(seq_len(if (quick) 3L else 5L), function(k) {
  data.frame(sockets = 2L * n, rep = k, ms = us(of <- socket_table()) / 1000, rows = nrow(of))
}))
stopifnot(tables$rows >= 2L * n)
keep(tables, "sockets-table")
tables <- spread(tables, "sockets", "ms")
cat("socket_table(), milliseconds\n")
show(tables, "sockets-table")
cat("goal: socket_table() of", 2L * n, "sockets in 0.2 s:", verdict(tables$median <= 200), "\n")
close(set)
for (e in ends) for (s in e) close(s, wait = 0)
close(l)
cat("descriptors left:", descriptors() - before, "\n")
cat("goal: not slower than base R's sockets (no-delay) with", mb, "MB:",
    verdict(all(wide$no_delay_is_times[grepl("MB", wide$what)] >= 1)), "\n")
method("sockets",
  what = paste("seconds of serialize() to another R process and unserialize() of what it sends back; microseconds of",
    "calls within one process, where all connections have TCP_NODELAY; of waits and tables of many sockets"),
  order = "base R's connections and clutch's in turn, another one first each time",
  warm = "100 times 1:3 on each connection before")
