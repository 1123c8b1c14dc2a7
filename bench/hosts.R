# Clusters of several hosts: four network namespaces of this machine, each with its own ssh daemon, on the same cores.
# Starts, what crosses to the hosts, tiny tasks and single calls. Beside parallelly's PSOCK cluster and mirai's ssh_config().
# Debian and root only.
#
#   Rscript bench/hosts.R [--reps=3] [--parts=start,bytes,tiny,call]     QUICK=1: fewer nodes, less data, twice
#
# The hosts are those of the tests (tests/testthat/helper-hosts.R). What TLS costs without R is in
# lab/stream.R, what a thousand hosts would cost in lab/hosts-model.R.
source("bench/_common.R")
suppressPackageStartupMessages({
  library(parallel)
  library(clutch)
})
machine()
reps <- repetitions()
parts <- c("start", "bytes", "tiny", "call")
asked <- strsplit(option("parts", paste(parts, collapse = ",")), ",")[[1L]]
if (length(bad <- setdiff(asked, parts))) stop("no such part: ", toString(bad), call. = FALSE)
raw <- list()
note <- function(row, who, rep, value) {
  raw[[length(raw) + 1L]] <<- data.frame(row = row, who = who, rep = rep, value = value)
}

# ---- the hosts ----

fixtures <- normalizePath("tests/testthat/fixtures")
source("tests/testthat/helper.R")
source("tests/testthat/helper-hosts.R")
four <- c("alpha", "beta", "gamma", "delta")
there <- why_no_hosts()
if (is.null(there)) there <- start_hosts(four)
can <- !is.character(there)
if (!can) cat("without hosts:", there, "\n")
of <- function(names, each, ...) hosts(names, each, ssh = c("ssh", "-F", there$config), ...)
link <- if (can) paste0("clu", sub(".*[.]", "", there$net))
sent <- function() as.numeric(readLines(file.path("/sys/class/net", link, "statistics", "tx_bytes")))
# A program that is ssh to those hosts, for who takes no more than a name of it
own_ssh <- function() {
  file <- file.path(there$folder, "ssh")
  writeLines(c("#!/bin/sh", sprintf("exec %s \"$@\"", there$ssh)), file)
  Sys.chmod(file, "0755")
  file
}

# ---- contenders ----

with_mirai <- has("mirai")
with_parallelly <- has("parallelly")
mirai_start <- function(n, hosts) {
  remote <- paste0("ssh://", rep(hosts, length.out = n))
  mirai::daemons(n, url = sprintf("tls+tcp://%s:0", there$here), dispatcher = TRUE,
                 remote = mirai::ssh_config(remote, command = own_ssh()))
  came <- eventually(mirai::status()$connections == n, 120)
  if (!came) cat(sprintf("without mirai's %d daemons: %d have come in 120 s\n", n, mirai::status()$connections))
  came
}
empty <- function() eventually(!any(vapply(four, function(n) length(processes_on(there, n)) > 0L, NA)), 30)
mirai_stop <- function() {
  mirai::daemons(0)
  empty()
}
# NA: they have not all come
mirai_seconds <- function(n) {
  came <- FALSE
  s <- seconds(came <- mirai_start(n, four))
  mirai_stop()
  if (came) s else NA_real_
}
parallelly_start <- function(n, hosts) {
  parallelly::makeClusterPSOCK(rep(hosts, each = n / length(hosts)), master = there$here, rshcmd = own_ssh(),
                               revtunnel = FALSE, homogeneous = FALSE, rscript = "Rscript",
                               rscript_libs = .libPaths(), verbose = FALSE)
}
parallelly_seconds <- function(n) {
  cl <- NULL
  s <- seconds(cl <- parallelly_start(n, four))
  stopCluster(cl)
  empty()
  s
}

# ---- starts ----

# Neither a fork server nor a link process runs.
cold <- function(expr) {
  for (l in as.list(clutch:::the$links)) clutch:::link_end(l)
  fork_server_stop()
  gc()
  seconds(expr)
}
start_part <- function() {
  each <- if (quick) 4L else 16L
  n <- 4L * each
  start <- function(hosts, each) {
    cl <- NULL
    s <- cold(cl <- make_cluster(of(hosts, each)))
    stopifnot(identical(unlist(clusterCall(cl, function() 1)), rep(1, length(cl))))
    stop_cluster(cl)
    empty()
    s
  }
  here <- function() {
    s <- cold(cl <- make_cluster(each))
    stop_cluster(cl)
    s
  }
  ways <- list(
    "one ssh login" = function() seconds(system(paste(there$ssh, "alpha true"))),
    "a local cold start" = here,
    "one host" = function() start("alpha", each),
    "four hosts" = function() start(four, each),
    "four hosts, four times as many" = function() start(four, 4L * each))
  # the others take minutes: not in all repetitions
  most <- rep(reps, length(ways))
  if (with_mirai) {
    ways$mirai <- function() mirai_seconds(n)
    most <- c(most, if (quick) 1L else 2L)
  }
  if (with_parallelly) {
    ways$parallelly <- function() parallelly_seconds(n)
    most <- c(most, 1L)
  }
  for (r in seq_len(reps)) for (k in rotated(names(ways)[r <= most], r)) note("start", k, r, ways[[k]]())
  before <- sum(logins(there))
  start(four, each)
  note("launches", "four hosts", 1L, sum(logins(there)) - before)
}

# ---- what crosses ----

bytes_part <- function() {
  mb <- if (quick) 10 else 100
  x <- as.numeric(seq_len(mb * 1e6 / 8)) %% 9973
  cl <- make_cluster(of(four, 16L))
  use <- function(i, x) x[[i]]
  environment(use) <- globalenv()
  for (r in seq_len(min(reps, 3L))) {
    x[[1L]] <- r # or it is still there
    before <- sent()
    s <- seconds(got <- cluster_map_dbl(cl, rep(1, 128), use, x = x, .chunk = 1))
    note("crossings", "a constant", r, (sent() - before) / (mb * 1e6))
    note("seconds", "a constant", r, s)
    stopifnot(identical(got, rep(as.numeric(r), 128)))
  }
  stop_cluster(cl)
}

# ---- tiny tasks ----

tiny_part <- function() {
  n <- if (quick) 1e5 else 1e6
  there_tls <- make_cluster(of(four, 2L))
  there_plain <- suppressMessages(make_cluster(of(four, 2L, tls = FALSE)))
  here <- make_cluster(8L)
  ways <- list(
    "clutch, this host" = function() n / seconds(cluster_map(here, seq_len(n), identity)),
    "clutch, TLS" = function() n / seconds(cluster_map(there_tls, seq_len(n), identity)),
    "clutch, plain" = function() n / seconds(cluster_map(there_plain, seq_len(n), identity)))
  few <- if (quick) 1000L else 5000L
  if (with_mirai && mirai_start(8L, four)) {
    ways$"mirai, TLS" <- function() few / seconds(mirai::mirai_map(seq_len(few), identity)[])
  }
  for (r in 0:reps) for (k in rotated(names(ways), r + 1L)) {
    value <- ways[[k]]()
    if (r > 0L) note("tiny", k, r, value)
  }
  for (cl in list(there_tls, there_plain, here)) stop_cluster(cl)
  if (with_mirai) mirai_stop()
}

# ---- one call ----

call_part <- function() {
  n <- 100L # few, and many times: the machine's own pace changes within seconds
  clusters <- list("TLS" = make_cluster(of("alpha", 1L)), "plain" = suppressMessages(make_cluster(of("alpha", 1L, tls = FALSE))),
                   "this host" = make_cluster(1L))
  for (r in 0:((if (quick) 5L else 40L) * reps)) for (k in rotated(names(clusters), r + 1L)) {
    cl <- clusters[[k]]
    value <- seconds(for (i in seq_len(n)) clusterCall(cl, identity, 1)) / n * 1e6
    if (r > 0L) note("call", k, r, value)
  }
  for (cl in clusters) stop_cluster(cl)
}

if (can) {
  if ("start" %in% asked) start_part()
  if ("bytes" %in% asked) bytes_part()
  if ("tiny" %in% asked) tiny_part()
  if ("call" %in% asked) call_part()
  invisible(stop_hosts(there))
}

# ---- what it comes to ----

raw <- if (length(raw)) do.call(rbind, raw) else data.frame(row = character(), who = character(), rep = 1L[0], value = 1[0])
keep(raw, "hosts")
table <- spread(raw, c("row", "who"), "value")
show(table, "hosts")
of_table <- function(row, who) {
  x <- table$median[table$row == row & table$who == who]
  if (length(x)) x[[1L]] else NA_real_
}
# The median of the ratios of each repetition, whose contenders ran one after the other.
of_pairs <- function(row, who, other) {
  of_one <- function(k) {
    x <- raw[raw$row == row & raw$who == k, ]
    x$value[order(x$rep)]
  }
  if (any(raw$row == row)) stats::median(of_one(who) / of_one(other)) else NA_real_
}
login <- of_table("start", "one ssh login") + of_table("start", "a local cold start")
few <- of_table("start", "four hosts")
tls <- of_table("tiny", "clutch, TLS")
goals <- data.frame(
  what = c("four hosts: launches", "four hosts: time over one ssh login and one local cold start",
           "one host: the same", "four hosts, four times as many nodes: time over that of the fewer",
           "four hosts: times as fast as mirai", "four hosts: times as fast as parallelly",
           "a constant to 64 nodes on four hosts: crossings",
           "tiny tasks over TLS: share of this host's throughput", "tiny tasks over TLS: times as many as mirai's",
           "one call over TLS: time over plain"),
  found = c(of_table("launches", "four hosts"), few / login, of_table("start", "one host") / login,
            of_table("start", "four hosts, four times as many") / few, of_table("start", "mirai") / few,
            of_table("start", "parallelly") / few, of_table("crossings", "a constant"),
            tls / of_table("tiny", "clutch, this host"), tls / of_table("tiny", "mirai, TLS"),
            of_pairs("call", "TLS", "plain")),
  goal = c(4, 2.5, 1.5, 2, 8, 8, 4.1, 0.5, 10, 1.3),
  least = c(FALSE, FALSE, FALSE, FALSE, TRUE, TRUE, FALSE, TRUE, TRUE, FALSE))
goals <- goals[!is.na(goals$found), ]
goals$met <- ifelse(goals$least, goals$found >= goals$goal, goals$found <= goals$goal)
utils::write.csv(goals, report("hosts-goals.csv"), row.names = FALSE)
if (nrow(goals)) cat(sprintf("goal: %s: %.3g (%s %g): %s\n", goals$what, goals$found,
                             ifelse(goals$least, "at least", "at most"), goals$goal,
                             ifelse(goals$met, "met", "MISSED")), sep = "")
method("hosts",
  what = paste("starts in seconds (cold: neither a fork server nor a link process runs), bytes by the counters of the",
               "kernel for this side's network interface, tasks a second, microseconds of a `clusterCall()`",
               "in blocks of 100: TLS over plain is the median of the ratios of all repetitions"),
  order = paste("all once in each repetition, another one first each time; mirai's start in two repetitions and",
                "parallelly's in one, since they take minutes"),
  warm = "one repetition of tasks and calls before, which is not counted")
