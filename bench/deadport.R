# Connecting to ports at which nobody listens: 10 each on both loopback addresses and on another address of this machine.
# On Windows this took 2 s a port (see the JDK's change of July 2020); here it tells how soon "refused" is known.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
rounds <- as.integer(option("rounds", "20"))

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
hosts <- c("127.0.0.1", "::1", utils::head(local_addresses(), 1L))
before <- descriptors()
rows <- list()
for (host in hosts) {
  ports <- tryCatch(dead(host), error = function(e) NULL)
  if (is.null(ports)) { cat("no", host, "here\n"); next }
  for (way in names(ways)) {
    f <- ways[[way]]
    if (host == "::1" && startsWith(way, "base")) next # base R has no IPv6
    first <- us(for (p in ports) f(host, p))
    each <- unlist(lapply(seq_len(rounds), function(k) vapply(ports, function(p) us(r <- f(host, p)), 1)))
    rows[[length(rows) + 1L]] <- data.frame(host = host, how = way, first_10_ms = first / 1000,
                                            median_ms = stats::median(each) / 1000,
                                            p95_ms = stats::quantile(each, 0.95)[[1L]] / 1000)
  }
}
table <- do.call(rbind, rows)
cat("10 dead ports; first_10_ms: the first ten together, the others: one connect, of", 10 * rounds, "\n")
show(table, "deadport")
m <- stats::xtabs(median_ms ~ how + host, table)
m[m == 0] <- NA
bars_png("deadport.png", unclass(m)[names(ways), , drop = FALSE], "ms (median)", "One connect to a dead port", bar = 0.2)

probe <- data.frame(host = c("127.0.0.1", "localhost"))
probe$ms <- vapply(probe$host, function(h) stats::median(replicate(rounds, us(service_probe(h, 20001:21000)))) / 1000, 1)
cat("service_probe() of 1,000 ports\n")
show(probe, "probe")
cat("descriptors left:", descriptors() - before, "\n")
loopback <- table$how == "clutch socket_connect" & table$host %in% c("127.0.0.1", "::1")
cat(sprintf("goals: dead loopback connect <= 0.2 ms: %s; 1,000 ports <= 50 ms: %s\n",
            if (all(table$median_ms[loopback] <= 0.2)) "met" else "MISSED",
            if (all(probe$ms <= 50)) "met" else "MISSED"))
