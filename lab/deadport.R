# Connecting to ports at which nobody listens: 10 each on both loopback addresses and on another address of this machine.
# On Windows this took 2 s a port (see the JDK's change of July 2020); here it tells how soon "refused" is known.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
rounds <- as.integer(option("rounds", if (quick) "5" else "20"))

dead <- function(host) { # ports that were free a moment ago
  l <- lapply(1:10, function(i) socket_listen(0, host = host, slot = FALSE))
  ports <- vapply(l, function(s) socket_info(s)$local_port, 1L)
  for (s in l) close(s)
  ports
}
quiet <- function(expr) try(suppressWarnings(expr), silent = TRUE)
ways <- list(
  "base socketConnection" = function(host, port) quiet(socketConnection(host, port, timeout = 5)),
  "clutch socket_connect" = function(host, port) quiet(socket_connect(host, port, timeout = 5)),
  "clutch, slot = FALSE" = function(host, port) quiet(socket_connect(host, port, timeout = 5, slot = FALSE)))
hosts <- c("127.0.0.1" = "127.0.0.1", "::1" = "::1", "its own address" = utils::head(local_addresses(), 1L))
before <- descriptors()
cases <- list()
for (name in names(hosts)) {
  ports <- tryCatch(dead(hosts[[name]]), error = function(e) NULL)
  if (is.null(ports)) { cat("no", name, "here\n"); next }
  for (way in names(ways)) cases[[length(cases) + 1L]] <- list(host = name, how = way, ports = ports)
}
# The first ten of each are kept apart: names are looked up, and code is loaded, for the first time.
rows <- list()
for (r in 0:rounds) for (case in rotated(cases, r + 1L)) {
  if (case$host == "::1" && startsWith(case$how, "base")) next # base R has no IPv6
  f <- ways[[case$how]]
  host <- hosts[[case$host]]
  each <- vapply(case$ports, function(p) us(f(host, p)), 1) / 1000
  rows[[length(rows) + 1L]] <- data.frame(host = case$host, how = case$how, rep = r, ten_ms = sum(each),
      one_ms = stats::median(each),
                                          p95_ms = stats::quantile(each, 0.95)[[1L]])
}
raw <- do.call(rbind, rows)
raw <- raw[order(match(raw$host, names(hosts)), match(raw$how, names(ways))), ]
keep(raw, "deadport")
first <- raw[raw$rep == 0L, ]
raw <- raw[raw$rep > 0L, ]
table <- spread(raw, c("host", "how"), "ten_ms")
table$first_ten_ms <- first$ten_ms
table$one_ms <- spread(raw, c("host", "how"), "one_ms")$median
table$p95_ms <- spread(raw, c("host", "how"), "p95_ms")$median
cat("10 dead ports one after the other, milliseconds; first_ten_ms: the very first time; one_ms and p95_ms: one connect\n")
show(table, "deadport")
wide <- function(value) as_matrix(table, "how", "host", value)
bars_png("deadport.png", wide("median"), "milliseconds", "Connecting to 10 ports at which nobody listens",
         low = wide("min"), high = wide("max"))

raw <- do.call(rbind, lapply(seq_len(rounds), function(r) do.call(rbind, lapply(rotated(c("127.0.0.1", "localhost"), r),
    function(h)
  data.frame(host = h, rep = r, ms = us(socket_probe(h, 20001:21000)) / 1000)))))
probe <- spread(raw, "host", "ms")
cat("socket_probe() of 1,000 ports, milliseconds\n")
show(probe, "probe")
cat("descriptors left:", descriptors() - before, "\n")
loopback <- table$how == "clutch socket_connect" & table$host %in% c("127.0.0.1", "::1")
cat(sprintf("goals: dead loopback connect <= 0.2 ms: %s; 1,000 ports <= 50 ms: %s\n",
            if (all(table$one_ms[loopback] <= 0.2)) "met" else "MISSED",
            if (all(probe$median <= 50)) "met" else "MISSED"))
method("deadport",
  what = "milliseconds until 10 connects, one after the other, have each been refused",
  order = "all ways and addresses once in each repetition, another one first each time",
  warm = "one repetition before, which is the column of the first time")
