# What waiting on one listener costs those who connect to it, by number of waiting processes and by how they wait; the
# same where clutch's nodes are the processes; and what one wait costs, by number of watched sockets.
#
# herd.c is the measuring program. QUICK=1 or --quick: fewer processes and rounds.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
quick <- nzchar(Sys.getenv("QUICK")) || "--quick" %in% commandArgs(TRUE)
processes <- function() length(list.files("/proc", "^[0-9]+$"))
stop_cluster(make_cluster(1)) # what the package keeps is there from now on
fork_server_stop()
before <- c(descriptors(), processes())

herd <- tempfile("herd-")
if (system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = FALSE) != 0L ||
    system(paste(system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = TRUE), "-O2 -o", herd, "bench/herd.c")) != 0L)
  stop("bench/herd.c cannot be compiled")
run <- function(...) {
  out <- suppressWarnings(system2(herd, c(...), stdout = TRUE))
  x <- suppressWarnings(as.numeric(strsplit(paste(out, ""), " ")[[1L]]))
  if (length(x) < 4L) rep(NA_real_, 4L) else x[1:4]
}
pretty <- function(m) apply(m, 2, function(x) ifelse(is.na(x), "unsupported", formatC(x, digits = 3, format = "fg", big.mark = ",")))

# ---- processes that wait on one listener ----
modes <- c("select", "poll", "epoll", "exclusive", "accept", "reuseport", "io_uring")
n <- if (quick) c(0, 1, 16, 128, 512) else c(0, 1, 4, 16, 64, 256, 1024, 2048, 4096)
rounds <- if (quick) 1L else 2L
reps <- if (quick) 10L else 15L
measure <- function(n, dups, reps, rounds, modes) {
  rows <- list()
  for (k in n) for (r in seq_len(rounds)) for (m in modes[(seq_along(modes) + r + k) %% length(modes) + 1L]) {
    x <- run("listener", m, k, dups, reps)
    rows[[length(rows) + 1L]] <- data.frame(mode = m, n = k, dups = dups, us = x[[1L]], min = x[[2L]], p90 = x[[3L]], woken = x[[4L]])
  }
  x <- do.call(rbind, rows)
  x <- stats::aggregate(cbind(us, min, p90, woken) ~ mode + n + dups, x, stats::median, na.action = stats::na.pass)
  x[order(match(x$mode, modes), x$n), ]
}
table <- measure(n, 0, reps, rounds, modes)
utils::write.csv(table, report("herd.csv"), row.names = FALSE)
wide <- function(what) {
  m <- matrix(table[[what]], length(n), dimnames = list(waiting = n, modes))
  print(noquote(pretty(m)))
  cat("\n")
}
cat("microseconds of a connect, median of", reps * rounds, "\n")
wide("us")
cat("processes woken by one connection\n")
wide("woken")

slope <- function(x) vapply(modes, function(m) {
  d <- x[x$mode == m & x$n > 0 & !is.na(x$us), ]
  if (nrow(d) < 2L) NA_real_ else unname(stats::coef(stats::lm(us ~ n, d))[[2L]])
}, 1)
few <- if (quick) c(4, 16) else c(4, 16, 64)
extreme <- measure(few, 1000, 5, 1L, modes[1:4])
extreme$dups <- NULL
cat("each with 1,000 copies of the listener: microseconds of a connect\n")
m <- matrix(extreme$us, length(few), dimnames = list(waiting = few, modes[1:4]))
print(noquote(pretty(m)))
cat("\n")
utils::write.csv(extreme, report("herd-dups.csv"), row.names = FALSE)

# ---- clutch: nodes are connected to the master, and share nothing with each other ----
# The master accepts on a listener of its own while N nodes are there; another process connects.
against_master <- function(k, strategy) {
  invisible(gc())
  cl <- if (k > 0) make_cluster(k, strategy)
  on.exit(if (!is.null(cl)) stop_cluster(cl))
  l <- socket_listen(0)
  out <- tempfile()
  times <- if (quick) 50L else 200L
  system(sprintf("%s connect %d %d > %s", herd, socket_info(l)$local_port, times, out), wait = FALSE)
  for (i in seq_len(times)) close(socket_accept(l, open = "r+b", blocking = TRUE, timeout = 20))
  close(l)
  end <- Sys.time() + 10
  while (!length(line <- readLines(out, warn = FALSE)) && Sys.time() < end) Sys.sleep(0.01)
  x <- as.numeric(strsplit(line, " ")[[1L]])
  data.frame(strategy = strategy, nodes = k, us = x[[1L]], min = x[[2L]], p90 = x[[3L]])
}
nodes <- if (quick) c(0, 8, 64) else c(0, 8, 64, 256, 1024)
over_tcp <- if (quick) c(0, 8) else c(0, 8, 32)
master <- do.call(rbind, c(lapply(nodes, against_master, "fork_server"), lapply(over_tcp, against_master, "parallel")))
cat("a connect to a listener of clutch's master, by number of its nodes\n")
show(master, "herd-master")

fits <- data.frame(who = c(modes, "clutch: nodes of a fork server", "clutch: nodes over TCP"), us_per_process = round(c(slope(table),
  vapply(c("fork_server", "parallel"), function(s) {
    d <- master[master$strategy == s, ]
    unname(stats::coef(stats::lm(us ~ nodes, d))[[2L]])
  }, 1)), 5), row.names = NULL)
fits$us_per_process_and_copy <- c(vapply(modes, function(m) {
  d <- extreme[extreme$mode == m & !is.na(extreme$us), ]
  if (nrow(d) < 2L) NA_real_ else unname(stats::coef(stats::lm(us ~ n, d))[[2L]]) / 1000
}, 1), NA, NA)
cat("fitted: microseconds that each waiting process adds to a connect\n")
show(fits, "herd-slopes")

# ---- one wait, by number of watched sockets ----
k <- if (quick) c(8, 64, 480, 2048) else c(8, 32, 128, 480, 2048, 8192)
waits <- do.call(rbind, lapply(k, function(k) data.frame(sockets = k,
  select = run("wait", "select", k, 100)[[1L]], poll = run("wait", "poll", k, 100)[[1L]],
  epoll_each_time = run("wait", "epoll-each", k, 20)[[1L]], epoll = run("wait", "epoll", k, 100)[[1L]])))
# an R function: it is told what to watch each time
waits$socket_select <- vapply(k, function(k) {
  l <- socket_listen(0, slot = FALSE)
  on.exit(close(l))
  port <- socket_info(l)$local_port
  pairs <- lapply(seq_len(k), function(i) list(socket_connect("127.0.0.1", port, slot = FALSE), socket_accept(l, slot = FALSE)))
  watched <- lapply(pairs, `[[`, 2L)
  socket_write(pairs[[k %/% 2L]][[1L]], as.raw(1))
  Sys.sleep(0.01)
  t <- vapply(1:20, function(i) us(socket_select(watched, timeout = 1)), 1)
  for (p in pairs) lapply(p, function(s) socket_shutdown(s))
  for (p in pairs) lapply(p, close)
  stats::median(t)
}, 1)
cat("microseconds of one wait in which one socket is ready\n")
show(waits, "herd-wait")

# ---- pictures ----
some <- n[n > 0]
ys <- lapply(modes, function(m) table$us[table$mode == m & table$n > 0])
names(ys) <- modes
ys[["clutch master"]] <- vapply(some, function(x) {
  d <- master[master$strategy == "fork_server" & master$nodes > 0, ]
  if (x < min(d$nodes) || x > max(d$nodes)) NA_real_ else exp(stats::approx(log(d$nodes), log(d$us), log(x))$y)
}, 1)
ys <- Filter(function(y) !all(is.na(y)), ys)
lines_png("herd.png", some, ys, "processes waiting on the listener (clutch: nodes of the master)", "microseconds of a connect",
          "Connect to a listener on which many wait")
ys <- as.list(waits[-1L])
lines_png("herd-wait.png", k, Filter(function(y) !all(is.na(y)), ys), "watched sockets, one of them ready", "microseconds of one wait",
          "One wait, by number of watched sockets")

unlink(herd)
fork_server_stop()
invisible(gc())
after <- c(descriptors(), processes())
cat(sprintf("left behind: %d descriptors, %d processes\n", after[[1L]] - before[[1L]], after[[2L]] - before[[2L]]))
flat <- vapply(split(master, master$strategy), function(d) d$us[which.max(d$nodes)] / d$us[d$nodes == 0], 1)
cat(sprintf("goal: a connect to a clutch master is flat: with the most nodes it takes %s times as long as with none: %s\n",
            paste(sprintf("%.2f", flat), collapse = " and "), if (all(flat < 2)) "met" else "MISSED"))
