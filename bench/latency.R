# One task: what it takes to have one thing done on a node and its value back, and what each of many
# submitted tasks takes. Beside base R's worker, mirai (direct, and by its dispatcher) and callr.
#
#   Rscript bench/latency.R [--reps=5]     QUICK=1: fewer
source("bench/_common.R")
suppressPackageStartupMessages({
  library(parallel)
  library(clutch)
})
machine()
reps <- repetitions(5L)
times <- if (quick) 200L else 1000L
many <- if (quick) 1000L else 10000L

cl <- make_cluster(2)
base <- makeCluster(1)
one <- cl[1L]
contenders <- list(
  "clutch, collect(cluster_submit())" = function() collect(cluster_submit(cl, 1)),
  "clutch, cluster_map() of one" = function() cluster_map(cl, 1, identity),
  "clutch, clusterCall()" = function() clusterCall(cl[1L], identity, 1),
  "base, clusterCall()" = function() clusterCall(base, identity, 1))
submits <- list(clutch = function(n) {
  tasks <- lapply(seq_len(n), function(i) cluster_submit(cl, 1))
  lapply(tasks, collect)
})
if (has("mirai")) {
  for (how in c("direct", "dispatcher")) {
    mirai::daemons(2, dispatcher = how == "dispatcher", .compute = how)
    mirai::mirai(1, .compute = how)[]
  }
  one_mirai <- function(how) function() mirai::mirai(1, .compute = how)[]
  many_mirai <- function(how) function(n) {
    tasks <- lapply(seq_len(n), function(i) mirai::mirai(1, .compute = how))
    lapply(tasks, function(task) task[])
  }
  contenders[["mirai, direct"]] <- one_mirai("direct")
  contenders[["mirai, dispatcher"]] <- one_mirai("dispatcher")
  submits[["mirai, direct"]] <- many_mirai("direct")
  submits[["mirai, dispatcher"]] <- many_mirai("dispatcher")
}
if (has("callr")) {
  session <- callr::r_session$new()
  contenders[["callr, r_session$run()"]] <- function() session$run(function(x) x, list(1))
}

# ---- one ----

# The median of single calls, in microseconds
median_us <- function(f, n) stats::median(vapply(seq_len(n), function(i) us(f()), 1))
of_slow <- function(who) if (startsWith(who, "callr")) times %/% 20L else times
for (who in names(contenders)) median_us(contenders[[who]], of_slow(who) %/% 5L)
raw <- do.call(rbind, lapply(seq_len(reps), function(r) {
  do.call(rbind, lapply(rotated(names(contenders), r), function(who) {
    data.frame(who = who, rep = r, us = median_us(contenders[[who]], of_slow(who)))
  }))
}))
raw <- raw[order(match(raw$who, names(contenders)), raw$rep), ]
keep(raw, "latency")
table <- spread(raw, "who", "us")
cat("one task and back, microseconds\n")
show(table, "latency")

# ---- many, submitted and then collected ----

for (f in submits) f(many %/% 20L)
raw <- do.call(rbind, lapply(seq_len(reps), function(r) {
  do.call(rbind, lapply(rotated(names(submits), r), function(who) {
    data.frame(who = who, rep = r, tasks_a_second = many / seconds(submits[[who]](many)))
  }))
}))
raw <- raw[order(match(raw$who, names(submits)), raw$rep), ]
keep(raw, "latency-many")
table_many <- spread(raw, "who", "tasks_a_second")
cat("tasks that are submitted one by one and then collected:", many, "of them, tasks a second\n")
show(table_many, "latency-many")

# ---- goals ----

goal <- function(text, ratio, ok) {
  if (is.na(ratio)) return(invisible())
  cat(sprintf("goal: %s: %.2f: %s\n", text, ratio, if (ok(ratio)) "met" else "MISSED"))
}
of <- function(t, who) c(t$median[t$who == who], NA)[[1L]]
goal("collect(cluster_submit()) at most 0.6 of mirai, direct",
     of(table, "clutch, collect(cluster_submit())") / of(table, "mirai, direct"), function(x) x <= 0.6)
goal("cluster_map() of one at most 2.5 of clusterCall()",
     of(table, "clutch, cluster_map() of one") / of(table, "clutch, clusterCall()"), function(x) x <= 2.5)
goal("clusterCall() at least 3 times as fast as base R",
     of(table, "base, clusterCall()") / of(table, "clutch, clusterCall()"), function(x) x >= 3)
for (who in setdiff(names(submits), "clutch")) {
  goal(paste("many submitted tasks at least 3 times as fast as", who),
       of(table_many, "clutch") / of(table_many, who), function(x) x >= 3)
}
stop_cluster(cl)
stopCluster(base)
if (exists("session")) session$close()
if (has("mirai")) for (how in c("direct", "dispatcher")) mirai::daemons(0, .compute = how)
method("latency",
  what = sprintf("microseconds of one call and its value: the median of %d calls, in each of %d repetitions; tasks a second of %s submitted and then collected",
                 times, reps, format(many, big.mark = ",")),
  order = "all in turn in each repetition, another one first each time",
  warm = "a fifth of the calls, a twentieth of the tasks, of each before")
