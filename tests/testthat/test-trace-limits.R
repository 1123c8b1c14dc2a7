# summary(cluster_trace()): what limits, by traces of which it is known, made and real.

# A trace of a map: each task goes to the node that is free first. Seconds of its phases; `slow`: by
# node, so many times longer.
simulated <- function(run, nodes = 4, wire = 2e-5, answer = 2e-5, slow = rep(1, nodes), bytes = 100,
                      job = 1, at = 0, deaths = NULL, label = "cluster_map(f)") {
  n <- length(run)
  free <- rep(at, nodes)
  x <- data.frame(job = job, label = label, element = seq_len(n), node = 0, host = "here",
                  attempt = 1, queued = at, sent = at, began = 0, ended = 0, received = 0,
                  bytes = bytes, ok = TRUE, end = "ok", stringsAsFactors = FALSE)
  node <- sent <- ended <- numeric(n) # a column of `x` would be copied for each element
  for (i in seq_len(n)) {
    node[i] <- k <- which.min(free)
    sent[i] <- free[k]
    free[k] <- ended[i] <- sent[i] + wire + run[i] * slow[k]
  }
  x$node <- node
  x$sent <- sent
  x$began <- sent + wire
  x$ended <- ended
  x$received <- ended + answer
  as_trace(x, nodes, deaths)
}
as_trace <- function(x, nodes, deaths = NULL) {
  jobs <- data.frame(job = unique(x$job), label = x$label[!duplicated(x$job)],
                     elements = as.vector(table(x$job)), queued = 0, bytes_out = 0)
  structure(clutch:::with_phases(x), class = c("clutch_trace", "data.frame"), nodes = nodes,
            jobs = jobs, deaths = deaths)
}
limits <- function(x) summary(x)$limits$what

test_that("of work that fills the nodes nothing is said", {
  set.seed(1)
  expect_identical(limits(simulated(rep(0.01, 200))), character())
  expect_identical(limits(simulated(stats::runif(300, 0, 0.05))), character())
  expect_identical(limits(simulated(stats::rexp(300, 50))), character())
  expect_identical(limits(simulated(seq(0.001, 0.02, length.out = 400))), character())
  expect_identical(limits(simulated(rep(0.0005, 2000), wire = 1e-5)), character())
  expect_output(print(summary(simulated(rep(0.01, 200)))), "what limits: nothing")
  # too short to tell, and empty
  expect_identical(limits(simulated(rep(0.001, 2))), character())
  none <- simulated(0.1)[0, ]
  expect_identical(limits(none), character())
  expect_identical(summary(none)$tasks, 0L)
})

test_that("tasks that are too small are told, and not those that are only short", {
  small <- summary(simulated(rep(2e-5, 5000), wire = 3e-5))$limits
  expect_identical(small$what, "small_tasks")
  expect_match(small$measured, "half of them take less than 20.0 us")
  expect_gt(small$share, 0.5)
  expect_identical(limits(simulated(rep(2e-6, 50000), wire = 1e-9)), "small_tasks")
  expect_identical(limits(simulated(rep(2e-4, 3000), wire = 2e-5)), character())
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  cluster_map(cl, 1:3e5, identity) # several times LEAST_SPAN
  s <- summary(cluster_trace(cl))
  expect_true("small_tasks" %in% s$limits$what)
  expect_output(print(s), "Let each task do more")
})

test_that("payloads that are too large are told, and not large ones of long tasks", {
  x <- simulated(rep(0.01, 100), wire = 0.01, bytes = 4e6)
  expect_identical(limits(x), "large_payloads")
  expect_match(summary(x)$limits$measured, "4.0 MB a task")
  expect_identical(limits(simulated(rep(0.1, 100), wire = 0.01, bytes = 4e6)), character())
  # what is sent counts, too
  x <- simulated(rep(0.01, 100), wire = 0.01)
  attr(x, "jobs")$bytes_out <- 4e8
  expect_identical(limits(x), "large_payloads")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  big <- lapply(1:60, function(i) 1:5e5 + 0.5)
  cluster_walk(cl, big, function(x) NULL)
  expect_true("large_payloads" %in% limits(cluster_trace(cl)))
})

test_that("one slow node is told, and not uneven tasks, nor nodes that are all alike", {
  x <- simulated(rep(0.01, 200), slow = c(1, 1, 3, 1))
  s <- summary(x)$limits
  expect_identical(s$what, "slow_node")
  expect_match(s$measured, "node 3 (on here) is slow: it takes 3.0 times", fixed = TRUE)
  expect_identical(limits(simulated(rep(0.01, 200), slow = c(1, 1, 1.2, 1))), character())
  set.seed(2)
  expect_identical(limits(simulated(stats::rexp(400, 100))), character())
  expect_identical(limits(simulated(rep(c(0.001, 0.02), 100))), character())
  expect_identical(limits(simulated(rep(0.01, 200), nodes = 2, slow = c(1, 2))), "slow_node")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  parallel::clusterApply(cl, c(0.03, 0.24), function(s) assign("pause", s, globalenv()))
  cluster_walk(cl, 1:90, function(i) Sys.sleep(pause), .globals = FALSE)
  s <- summary(cluster_trace(cl))$limits
  expect_match(s$measured[s$what == "slow_node"], "^node 2 ")
})

test_that("too few elements, and a last round that keeps few nodes busy, are told", {
  few <- summary(simulated(c(0.1, 0.1), nodes = 4))$limits
  expect_identical(few$what, "few_elements")
  expect_match(few$measured, "job 1, cluster_map(f), has 2 tasks for 4 nodes", fixed = TRUE)
  expect_match(few$measured, "in 50 % of their time", fixed = TRUE)
  expect_match(few$advice, "fewer nodes")
  last <- summary(simulated(c(rep(0.01, 40), 0.2)))$limits
  expect_identical(last$what, "few_elements")
  expect_match(last$measured, "while the last tasks of job 1, cluster_map(f), were", fixed = TRUE)
  expect_match(last$measured, "(element 41) took 200.0 ms", fixed = TRUE)
  expect_identical(limits(simulated(c(0.2, rep(0.01, 200)))), character())
  expect_identical(limits(simulated(rep(0.1, 4))), character())
  # one after the other
  each <- lapply(1:20, function(k) simulated(0.01, job = k, at = (k - 1) * 0.0101))
  one_by_one <- as_trace(do.call(rbind, lapply(each, as.data.frame)), 4)
  expect_match(summary(one_by_one)$limits$measured, "too few tasks at a time")
  # pauses of the user between maps are nobody's loss
  pause <- rbind(as.data.frame(simulated(rep(0.01, 40))),
                 as.data.frame(simulated(rep(0.01, 40), job = 2, at = 100)))
  expect_identical(limits(as_trace(pause, 4)), character())
  # what is going on is in no trace: nodes that have no more ends may be at something
  open <- simulated(c(0.1, 0.1), nodes = 4)
  attr(open, "open_since") <- 0
  expect_identical(limits(open), character())
  cl <- make_cluster(4)
  on.exit(stop_cluster(cl))
  cluster_walk(cl, 1:2, function(i) Sys.sleep(0.2))
  expect_true("few_elements" %in% limits(cluster_trace(cl)))
})

test_that("nodes that were held for want of memory are not said to have had too few elements", {
  held <- simulated(c(1, 1), nodes = 4)
  attr(held, "shortage") <- list(short = 1, went = 2, peak = 500, limit = 1000)
  expect_identical(limits(held), "memory")
  attr(held, "shortage")$short <- 0.2
  expect_identical(limits(held), c("few_elements", "memory"))
})

test_that("deaths for want of memory are told, and not others", {
  death <- data.frame(time = 1, node = 2L, host = "here", kind = "memory", how = "it took too much")
  s <- summary(simulated(rep(0.01, 200), deaths = death))$limits
  expect_identical(s$what, "memory")
  expect_match(s$measured, "1 node has ended .* on node 2 \\(it took too much\\)")
  death$kind <- "died"
  expect_identical(limits(simulated(rep(0.01, 200), deaths = death)), character())
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  suppressWarnings(cluster_map(cl, 1:2, function(i) if (i == 1) quit("no"), .on_error = "continue"))
  died <- cluster_trace(cl)
  expect_identical(attr(died, "deaths")$kind, "died")
  expect_identical(died$end[died$element == 1], "died")
  expect_false("memory" %in% limits(died))
  needs("memory")
  hold <- function(i) {
    x <- numeric(4e7)
    x[] <- i
    Sys.sleep(5)
  }
  suppressWarnings(cluster_map(cl, 1, hold, .max_memory = 2e8, .on_error = "continue"))
  x <- cluster_trace(cl)
  expect_identical(limits(x)[1], "memory")
  expect_identical(utils::tail(attr(x, "deaths")$kind, 1), "memory")
})

test_that("a map of which not all tasks have ended is no reason to say that there are too few", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  done <- cluster_submit(cl, Sys.sleep(0.1))
  long <- cluster_submit(cl, Sys.sleep(30))
  collect(done)
  expect_identical(limits(cluster_trace(cl)), character())
  cancel(long)
})

test_that("the summary of one task on one node is in the singular", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  cluster_map(cl, 1, identity)
  expect_output(print(summary(cluster_trace(cl))), "^1 task, 0 failed, in [0-9.]+ s on 1 node\n")
})

test_that("parts of runs that wait for each other are said, and which waits least", {
  x <- as_trace(data.frame(
    job = 1:2, label = "rank", element = 1, node = 1:2, host = "here", queued = 0, sent = 0,
    began = 0, ended = 1, received = 1, bytes = 10, ok = TRUE, end = "ok"
  ), 2)
  waits <- data.frame(job = 1:2, rank = 1:2, receive = c(0, 0.6), send = 0, together = c(0.1, 0.2))
  attr(x, "waits") <- waits
  found <- summary(x)$limits
  expect_identical(found$what, "messages")
  expect_equal(found$share, 0.45)
  expect_match(found$measured, "45 % of the nodes' time, most of it for messages; rank 1 waited")
  expect_match(found$measured, "least, 100.0 ms, and rank 2 longest, 800.0 ms")
  attr(x, "waits")[3:5] <- waits[3:5] / 10
  expect_identical(nrow(summary(x)$limits), 0L)
})
