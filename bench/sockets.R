# serialize() and unserialize() over a TCP connection to another R process and back, base R's sockets beside clutch's.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
rounds <- as.integer(option("rounds", if (quick) "2" else "7"))
mb <- as.numeric(option("mb", if (quick) "20" else "100"))

peer <- tempfile(fileext = ".R")
writeLines(c("a <- commandArgs(TRUE); suppressPackageStartupMessages(library(clutch))",
             "connect <- if (a[1] == 'base') socketConnection else socket_connect",
             "con <- connect('localhost', as.integer(a[2]), blocking = TRUE, open = 'a+b', timeout = 600)",
             "repeat { x <- unserialize(con); if (is.null(x)) break; serialize(x, con, xdr = a[3] == 'TRUE') }"), peer)
pair <- function(who, xdr) {
  if (who == "base") repeat {
    port <- sample(20000:30000, 1L)
    l <- tryCatch(serverSocket(port), error = function(e) NULL)
    if (!is.null(l)) break
  } else {
    l <- socket_listen(0, host = "127.0.0.1")
    port <- socket_info(l)$local_port
  }
  system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", peer, who, port, xdr), wait = FALSE)
  con <- (if (who == "base") socketAccept else socket_accept)(l, blocking = TRUE, open = "a+b", timeout = 600)
  close(l)
  con
}
big <- stats::runif(mb * 125000)
many <- as.list(seq_len(50000))
small <- 1:3
before <- descriptors()
time <- list()
for (xdr in c(TRUE, FALSE)) {
  cons <- list(base = pair("base", xdr), clutch = pair("clutch", xdr))
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
cat("there and back, seconds (median of", rounds, "rounds)\n")
show(wide, "sockets")
all_ms <- utils::read.csv(report("sockets-spread.csv"))
all_ms$what <- paste0(sub("list of | of(?= doubles)", "", all_ms$what, perl = TRUE), ifelse(all_ms$xdr, "\nxdr", "\nnative"))
m <- function(value) 1000 * as_matrix(all_ms, "who", "what", value)
bars_png("sockets.png", signif(m("median"), 2), "milliseconds", "An object there and back over TCP", low = m("min"),
    high = m("max"))
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
cat("goal: a set of", n, "sockets in 1 ms:", if (wait$median[wait$who == "socket_set"] <= 1000) "met" else "MISSED", "\n")
close(set)
for (e in ends) for (s in e) close(s, wait = 0)
close(l)
cat("descriptors left:", descriptors() - before, "\n")
cat("goal: not slower than base R's sockets with", mb, "MB:",
    if (all(wide$base_is_times[grepl("MB", wide$what)] >= 1)) "met" else "MISSED", "\n")
method("sockets",
  what = "seconds of serialize() to another R process and unserialize() of what it sends back",
  order = "base R's connection and clutch's in turn, the other one first each time",
  warm = "100 times 1:3 on each connection before")
