# 20,000 tiny tasks by clusterApplyLB() of package parallel, on base R's nodes and on clutch's. QUICK=1: fewer.
source("bench/_common.R")
suppressPackageStartupMessages({library(parallel); library(clutch)})
machine()
reps <- repetitions(5L)
n <- if (quick) 4000L else 20000L
clusters <- list(base = makeCluster(2), clutch = make_cluster(2))
# A function of the workspace travels apart from its arguments and is kept by the nodes; one made within another
# carries what is around it, and has to be sent whole each time.
itself <- function(i) i
how <- list("of the workspace" = itself, "made within another" = local(function(i) i, new.env()))
cases <- expand.grid(who = names(clusters), f = names(how), stringsAsFactors = FALSE)
for (cl in clusters) for (f in how) clusterApplyLB(cl, 1:500, f)
raw <- do.call(rbind, lapply(seq_len(reps), function(r) do.call(rbind, lapply(rotated(seq_len(nrow(cases)), r),
    function(i) {
  cl <- clusters[[cases$who[i]]]
  f <- how[[cases$f[i]]]
  data.frame(f = cases$f[i], who = cases$who[i], rep = r, tasks_a_second = n / seconds(clusterApplyLB(cl, seq_len(n), f)))
}))))
raw <- raw[order(match(raw$f, names(how)), raw$who, raw$rep), ]
keep(raw, "tiny")
table <- spread(raw, c("f", "who"), "tasks_a_second")
cat("clusterApplyLB on", n, "tiny tasks, 2 nodes: tasks a second, by the function\n")
show(table, "tiny")
for (cl in clusters) stopCluster(cl)
method("tiny",
  what = sprintf("tasks a second of clusterApplyLB() on %s tiny tasks and 2 nodes", format(n, big.mark = ",")),
  order = "all four once in each repetition, another one first each time",
  warm = "500 tasks of each before")
