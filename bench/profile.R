# What cluster_profile() costs, and how well it finds what takes the time.
#
# Cost: the same map with and without a profile, on two nodes, in fours (without, with, with, without, and the reverse), which
# give a ratio each: what drifts is in both. Before each map all processes collect their garbage: else it depends on what
# was before how many full collections are in it, which are a tenth of the time and more. The maps are loops of
# arithmetic, small functions that call each other, functions of packages stats and base on data, and tasks that do
# nothing. What is compared is the CPU time that nodes and session have used for it, which other processes of the machine
# hardly change, and the time that it took.
# Accuracy: a function of which it is known, by the clock of its own process, which share of CPU time it takes.
#
#   Rscript bench/profile.R [--reps=3]     QUICK=1: less work, twice
source("bench/_common.R")
suppressPackageStartupMessages(library(clutch))
machine()

size <- if (quick) 0.2 else 1
cl <- make_cluster(2)
loops <- function(i) {
  s <- 0
  for (k in seq_len(4e6 * size)) s <- s + k * 0.5
  s
}
fib <- function(n) if (n < 2L) n else fib(n - 1L) + fib(n - 2L)
calls <- function(i) for (k in 1:10) fib(if (size < 1) 17L else 20L)
data <- function(i) {
  for (k in seq_len(20 * size)) {
    x <- data.frame(a = runif(5e3), b = runif(5e3), g = sample(letters, 5e3, TRUE))
    m <- lm(a ~ b + g, x)
    vapply(split(x$a, x$g), function(v) median(sort(v)), 1)
    paste(format(x$a[1:1000]), x$g[1:1000])
  }
}
kinds <- list(
  "loops of arithmetic" = function() cluster_map(cl, 1:16, loops),
  "small functions" = function() cluster_map(cl, 1:16, calls),
  "statistics on data frames" = function() cluster_map(cl, 1:8, data),
  "tasks that do nothing" = function() cluster_map_int(cl, seq_len(2e6 * size), identity)
)
# of session and nodes
cpu_of_all <- function() {
  own <- function() sum(proc.time()[1:2])
  own() + sum(unlist(parallel::clusterCall(cl, own)))
}

rows <- list()
reps <- repetitions(3L)
for (kind in names(kinds)) {
  work <- kinds[[kind]]
  work() # so that all is compiled
  cluster_profile(cl, work())
  for (r in seq_len(reps)) {
    of_four <- lapply(in_fours(c("without", "with"), r), function(how) {
      parallel::clusterCall(cl, gc)
      gc()
      cpu <- cpu_of_all()
      took <- seconds(if (how == "with") p <- cluster_profile(cl, work()) else work())
      data.frame(kind = kind, how = how, rep = r, cpu = cpu_of_all() - cpu, elapsed = took)
    })
    of_four <- do.call(rbind, of_four)
    rows[[length(rows) + 1L]] <- stats::aggregate(cbind(cpu, elapsed) ~ kind + how + rep, of_four, mean)
  }
}
raw <- do.call(rbind, rows)
keep(raw, "profile")
before <- cpu_of_all()
for (i in 1:20) cluster_profile(cl, NULL)
fixed <- 1000 * (cpu_of_all() - before) / 20
cat(sprintf("of an empty expression: %.0f ms of CPU time\n\n", fixed))
wide <- merge(raw[raw$how == "with", ], raw[raw$how == "without", ], by = c("kind", "rep"))
wide$ratio <- wide$cpu.x / wide$cpu.y
wide$slower <- wide$elapsed.x / wide$elapsed.y
wide <- wide[order(match(wide$kind, names(kinds))), ]
cost <- spread(wide, "kind", "ratio")
cost$elapsed <- spread(wide, "kind", "slower")$median
cost$seconds <- vapply(cost$kind, function(k) stats::median(wide$cpu.y[wide$kind == k]), 1)
cost$fixed <- fixed
show(cost, "profile")

# ---- accuracy ----

burn <- function(seconds) {
  cpu <- function() sum(proc.time()[1:2])
  end <- cpu() + seconds
  repeat {
    for (i in 1:2000) sqrt(i)
    if (cpu() >= end) return(NULL)
  }
}
hot <- function(seconds) burn(seconds)
cold <- function(seconds) burn(seconds)
planted <- function(share) {
  took <- cluster_map(cl, seq_len(if (quick) 8 else 30), function(i) {
    cpu <- function() sum(proc.time()[1:2])
    at <- cpu()
    hot(0.2 * share)
    then <- cpu()
    cold(0.2 * (1 - share))
    c(then - at, cpu() - at)
  })
  took <- Reduce(`+`, took)
  took[[1L]] / took[[2L]]
}
found <- do.call(rbind, lapply(c(0.1, 0.3, 0.5, 0.8), function(share) {
  p <- cluster_profile(cl, planted(share))
  s <- summary(p, node = 1:2)
  data.frame(share = 100 * p$value, found = 100 * s$total_share[s$name == "hot"], samples = nrow(p$samples))
}))
found$off <- abs(found$share - found$found)
show(found, "profile-found")
stop_cluster(cl)

goal <- function(text, value, ok) cat(sprintf("goal: %s: %.3f: %s\n", text, value, if (ok) "met" else "MISSED"))
for (k in cost$kind) goal(sprintf("CPU time with a profile at most 1.03 of that without, %s", k),
                          cost$median[cost$kind == k], cost$median[cost$kind == k] <= 1.03)
goal("share of a planted function off by at most 5 points", max(found$off), max(found$off) <= 5)
method("profile", what = "CPU time of session and nodes with a profile, by that without",
       order = "in fours: with, without, without, with, the next time the reverse; a ratio is that of the means of a four",
       warm = "each once with and once without; all processes collect their garbage before each")
