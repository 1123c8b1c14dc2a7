# mirai's daemons: start and memory of mirai_daemons() beside mirai::daemons(). QUICK=1: fewer.
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()
if (!has("mirai")) quit("no")
reps <- repetitions(2L, 1L)
numbers <- if (quick) 8L else c(8L, 64L)

starts <- list(
  "clutch, no fork server yet" = function(n) mirai_daemons(n),
  "clutch, fork server is there" = function(n) mirai_daemons(n),
  mirai = function(n) mirai::daemons(n)
)

# The process ids of all: each is at work for a moment.
pids_of <- function(n) {
  repeat {
    tasks <- lapply(seq_len(2L * n), function(i) mirai::mirai({ Sys.sleep(0.05); Sys.getpid() }))
    pids <- unique(unlist(lapply(tasks, function(t) t[])))
    if (length(pids) == n) return(pids)
  }
}

one <- function(who, n) {
  if (who == "clutch, no fork server yet") fork_server_stop(all = TRUE)
  took <- seconds(starts[[who]](n))
  pids <- pids_of(n)
  memory <- stats::median(private_mb(pids))
  mirai::daemons(0)
  await_gone(pids)
  data.frame(who = who, n = n, seconds = took, mb = memory)
}

raw <- NULL
for (n in numbers) {
  for (r in seq_len(reps)) for (who in names(starts)) raw <- rbind(raw, cbind(one(who, n), rep = r))
}
keep(raw, "daemons")
table <- stats::aggregate(cbind(seconds, mb) ~ who + n, raw, stats::median)
theirs <- table[table$who == "mirai", ]
table$faster <- theirs$seconds[match(table$n, theirs$n)] / table$seconds
show(table, "daemons")
method("daemons", what = "seconds until all daemons are connected; MB that no other process shares",
       order = "in each repetition every contender once", warm = "none: a start is long")
