# What waiting on one listener costs those who connect to it, by number of waiting processes and by how they wait; the
# same where clutch's nodes are the processes; and what one wait costs, by number of watched sockets.
#
# herd.c is the measuring program. QUICK=1 or --quick: fewer processes and rounds.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
quick <- quick || "--quick" %in% commandArgs(TRUE)
processes <- function() length(list.files("/proc", "^[0-9]+$"))
stop_cluster(make_cluster(1)) # what the package keeps is there from now on
fork_server_stop()
before <- c(descriptors(), processes())

herd <- tempfile("herd-")
if (system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = FALSE) != 0L ||
    system(paste(system2(file.path(R.home("bin"), "R"), c("CMD", "config", "CC"), stdout = TRUE), "-O2 -o", herd,
        "lab/herd.c")) != 0L)
  stop("lab/herd.c cannot be compiled")
run <- function(...) { # median, minimum, 90 % quantile, maximum, woken
  out <- suppressWarnings(system2(herd, c(...), stdout = TRUE))
  x <- suppressWarnings(as.numeric(strsplit(paste(out, ""), " ")[[1L]]))
  if (length(x) < 5L) rep(NA_real_, 5L) else x[1:5]
}
pretty <- function(m) apply(m, 2, function(x) ifelse(is.na(x), "unsupported", formatC(x, digits = 3, format = "fg",
    big.mark = ",")))

# ---- processes that wait on one listener ----
modes <- c("select", "poll", "epoll", "exclusive", "accept", "reuseport", "io_uring")
n <- if (quick) c(0, 1, 16, 128, 512) else c(0, 1, 16, 128, 512, 1024, 2048, 4096)
rounds <- repetitions(5L)
connects <- 5L
# `connects` in each round, the modes in turn; over the rounds the median of medians, and the extremes of all connects.
# More processes than `max` only where `max` names no mode.
measure <- function(n, dups, connects, modes, max = NULL) {
  rows <- list()
  for (k in n) for (r in seq_len(rounds)) for (m in rotated(modes, r)) {
    if (!is.null(max[m]) && !is.na(max[m]) && k > max[m]) next
    x <- run("listener", m, k, dups, connects)
    rows[[length(rows) + 1L]] <- data.frame(mode = m, n = k, dups = dups, rep = r, us = x[[1L]], min = x[[2L]],
        p90 = x[[3L]], max = x[[4L]],
                                            woken = x[[5L]])
  }
  raw <- do.call(rbind, rows)
  x <- spread(raw, c("mode", "n", "dups"), "us")
  names(x)[names(x) == "median"] <- "us"
  x$min <- spread(raw, c("mode", "n", "dups"), "min")$min
  x$max <- spread(raw, c("mode", "n", "dups"), "max")$max
  x$woken <- spread(raw, c("mode", "n", "dups"), "woken")$median
  x$connects <- x$reps * connects
  list(raw = raw, table = x[order(match(x$mode, modes), x$n), ])
}
plain <- measure(n, 0, connects, modes)
keep(plain$raw, "herd")
table <- plain$table
utils::write.csv(table, report("herd.csv"), row.names = FALSE)
wide <- function(table, what) {
  m <- as_matrix(table, "n", "mode", what)
  print(noquote(pretty(m)))
  cat("\n")
}
cat("microseconds of a connect, median of", connects * rounds, "\n")
wide(table, "us")
cat("processes woken by one connection\n")
wide(table, "woken")

slope <- function(x) vapply(modes, function(m) {
  d <- x[x$mode == m & x$n > 0 & !is.na(x$us), ]
  if (nrow(d) < 2L) NA_real_ else unname(stats::coef(stats::lm(us ~ n, d))[[2L]])
}, 1)
# select() sees no descriptor from 1,024 on, so 1,000 copies. Four million of them take long to make: for select() only,
# which is what the text measured.
few <- if (quick) c(4, 16) else c(4, 64, 1024, 4096)
dups <- measure(few, 1000, 1L, modes[1:4], c(poll = 64, epoll = 1024, exclusive = 64))
keep(dups$raw, "herd-dups")
extreme <- dups$table
cat("each with 1,000 copies of the listener: microseconds of a connect\n")
wide(extreme, "us")
utils::write.csv(extreme, report("herd-dups.csv"), row.names = FALSE)

# ---- clutch: nodes are connected to the master, and share nothing with each other ----
# The master accepts on a listener of its own while N nodes are there; another process connects.
against_master <- function(k, strategy) {
  invisible(gc())
  cl <- if (k > 0) make_cluster(k, strategy)
  on.exit(if (!is.null(cl)) stop_cluster(cl))
  l <- socket_listen(0)
  out <- tempfile()
  times <- 50L
  system(sprintf("%s connect %d %d > %s", herd, socket_info(l)$local_port, times, out), wait = FALSE)
  for (i in seq_len(times)) close(socket_accept(l, open = "r+b", blocking = TRUE, timeout = 20))
  close(l)
  end <- Sys.time() + 10
  while (!length(line <- readLines(out, warn = FALSE)) && Sys.time() < end) Sys.sleep(0.01)
  x <- as.numeric(strsplit(line, " ")[[1L]])
  data.frame(strategy = strategy, nodes = k, us = x[[1L]], min = x[[2L]], max = x[[4L]])
}
# numbers that the ways of waiting are measured at, too: nothing is drawn that was not measured
nodes <- if (quick) c(0, 16, 128) else c(0, 16, 128, 512, 1024)
over_tcp <- if (quick) c(0, 8) else c(0, 8, 16)
cases <- c(Map(list, nodes, "fork_server"), Map(list, over_tcp, "parallel"))
master_raw <- do.call(rbind, lapply(seq_len(rounds), function(r) do.call(rbind, lapply(rotated(cases, r), function(case)
  cbind(against_master(case[[1L]], case[[2L]]), rep = r)))))
master_raw <- master_raw[order(master_raw$strategy, master_raw$nodes), ]
keep(master_raw, "herd-master")
master <- spread(master_raw, c("strategy", "nodes"), "us")
names(master)[names(master) == "median"] <- "us"
master$min <- spread(master_raw, c("strategy", "nodes"), "min")$min
master$max <- spread(master_raw, c("strategy", "nodes"), "max")$max
cat("a connect to a listener of clutch's master, by number of its nodes\n")
show(master, "herd-master")

fits <- data.frame(who = c(modes, "clutch: nodes of a fork server", "clutch: nodes over TCP"),
    us_per_process = round(c(slope(table),
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
  pairs <- lapply(seq_len(k), function(i) list(socket_connect("127.0.0.1", port, slot = FALSE), socket_accept(l,
      slot = FALSE)))
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
drawn <- c("us", "min", "max")
lines_of <- function(table, x) lapply(`names<-`(drawn, drawn), function(what) {
  present <- intersect(modes, table$mode[!is.na(table$us)])
  lapply(`names<-`(present, present), function(m) table[[what]][table$mode == m][match(x, table$n[table$mode == m])])
})
ys <- lines_of(table, some)
d <- master[master$strategy == "fork_server", ]
for (what in drawn) ys[[what]][["clutch master, nodes wait elsewhere"]] <- d[[what]][match(some, d$nodes)]
lines_png("herd.png", some, ys$us, "processes waiting on the listener (clutch: nodes of the master, none waits on it)",
    "microseconds of a connect",
          "Connect to a listener on which many wait", ys$min, ys$max)
ys <- lines_of(extreme, few)
lines_png("herd-dups.png", few, ys$us, "processes waiting, each on 1,000 copies of the listener",
    "microseconds of a connect",
          "Connect to a listener of which each process has 1,000 copies", ys$min, ys$max)
ys <- as.list(waits[-1L])
lines_png("herd-wait.png", k, Filter(function(y) !all(is.na(y)), ys), "watched sockets, one of them ready",
    "microseconds of one wait",
          "One wait, by number of watched sockets")

unlink(herd)
fork_server_stop()
invisible(gc())
after <- c(descriptors(), processes())
cat(sprintf("left behind: %d descriptors, %d processes\n", after[[1L]] - before[[1L]], after[[2L]] - before[[2L]]))
flat <- vapply(split(master, master$strategy), function(d) d$us[which.max(d$nodes)] / d$us[d$nodes == 0], 1)
cat(sprintf("goal: a connect to a clutch master is flat: with the most nodes it takes %s times as long as with none: %s\n",
            paste(sprintf("%.2f", flat), collapse = " and "), if (all(flat < 2)) "met" else "MISSED"))
method("herd",
  what = paste("microseconds from a non-blocking connect() until it is writable, by herd.c;", connects,
      "connects in each repetition,",
               "1 where there are copies; after each a pause until all sleep again"),
  order = "in each repetition every way of waiting once, another one first each time",
  warm = "3 connects before each measurement (1 where there are copies)")
