# What TLS costs between two processes: 100 MB, 100 bytes there and back, and a new connection, plain and inside TLS in
# turn. Over the loopback, and as root on Linux also between two network namespaces at 1 Gbit/s (tc).
#
# stream.c is the measuring program. QUICK=1: fewer rounds.
source("bench/_common.R")
machine()

program <- tempfile("stream-")
config <- function(what) system2(file.path(R.home("bin"), "R"), c("CMD", "config", what), stdout = TRUE)
if (system(paste(config("CC"), "-std=gnu11 -O2 -pthread -Isrc -o", program, "lab/stream.c src/core/base/*.c",
                 "src/core/net/*.c src/posix/*.c -lssl -lcrypto")) != 0L)
  stop("lab/stream.c cannot be compiled")

rounds <- repetitions(15L, 5L)
mb <- 100L
calls <- 3000L
figures <- function(lines, where) {
  x <- utils::read.table(text = lines, col.names = c("who", "what", "value"))
  x$rep <- stats::ave(x$value, x$who, x$what, FUN = seq_along)
  cbind(where = where, x)
}
raw <- figures(system2(program, c(rounds, mb, calls), stdout = TRUE), "loopback")

# Two namespaces and a cable of 1 Gbit/s between them. One end each.
between <- function() {
  id <- Sys.getpid()
  space <- paste0("clutch-", id, c("a", "b"))
  link <- paste0("cl", id, c("a", "b"))
  keys <- tempfile("keys-")
  run <- function(...) if (system(paste(...), ignore.stdout = TRUE, ignore.stderr = TRUE) != 0L) stop("failed: ", ...)
  on.exit({
    for (s in space) system(paste("ip netns del", s), ignore.stderr = TRUE)
    unlink(keys)
  })
  for (s in space) run("ip netns add", s)
  run("ip link add", link[[1L]], "netns", space[[1L]], "type veth peer name", link[[2L]], "netns", space[[2L]])
  for (i in 1:2) {
    run("ip -n", space[[i]], sprintf("addr add 10.77.0.%d/24 dev", i), link[[i]])
    run("ip -n", space[[i]], "link set", link[[i]], "up")
    run("tc -n", space[[i]], "qdisc add dev", link[[i]], "root tbf rate 1gbit burst 256kb latency 20ms")
  }
  Sys.setenv(STREAM_KEYS = keys)
  few <- 5L
  system(paste("ip netns exec", space[[1L]], program, "serve 4711", 2L * few), wait = FALSE)
  until <- Sys.time() + 10
  while (!any(grepl(":4711 ", system(paste("ip netns exec", space[[1L]], "ss -ltn"), intern = TRUE))) && Sys.time() < until)
    Sys.sleep(0.01)
  figures(system(paste("ip netns exec", space[[2L]], program, "to 10.77.0.1 4711", few, mb, 1000L), intern = TRUE),
          "1 Gbit/s")
}
can <- Sys.info()[["sysname"]] == "Linux" && Sys.info()[["user"]] == "root" &&
  all(nzchar(Sys.which(c("ip", "tc", "ss"))))
if (can) {
  raw <- rbind(raw, between())
} else {
  cat("not at 1 Gbit/s: that needs Linux, root, ip, tc and ss\n")
}
keep(raw, "stream")

names <- c(block = "100 MB, ms", call = "100 bytes there and back, us", connect = "connect and handshake, ms")
raw$value <- raw$value / c(block = 1000, call = 1, connect = 1000)[raw$what]
raw$what <- unname(names[raw$what])
table <- spread(raw, c("where", "what", "who"), "value")
show(table, "stream")
method("stream", what = paste(rounds, "connections of each kind over the loopback, and 5 at 1 Gbit/s, without R"),
       order = "plain and TLS in turn", warm = "none: each connection is new")

ratio <- function(what, where) {
  t <- table[table$what == names[[what]] & table$where == where, ]
  t$median[t$who == "tls"] / t$median[t$who == "plain"]
}
met <- function(ok) if (ok) "met" else "MISSED"
cat(sprintf("goals: TLS has >= 0.5 of plain's throughput on the loopback: %s (%.2f); ", met(ratio("block", "loopback") <= 2),
            1 / ratio("block", "loopback")),
    sprintf("one call <= 1.3 x plain: %s (%.2f)", met(ratio("call", "loopback") <= 1.3), ratio("call", "loopback")),
    if (can) sprintf("; >= 0.95 at 1 Gbit/s: %s (%.3f)", met(ratio("block", "1 Gbit/s") <= 1 / 0.95),
                     1 / ratio("block", "1 Gbit/s")), "\n", sep = "")
