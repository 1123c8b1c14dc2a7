# A machine that has far more to do than it can: nothing is late that is only slow, and nobody is
# dead who only waits.

outside_checks_only()

long_slow <- as.integer(Sys.getenv("CLUTCH_EVENTS", "300")) >= 10000L

# `n` processes that compute, as nice as we are, until the function that is returned is called, this
# session has ended or `seconds` have passed.
start_load <- function(n, seconds) {
  mark <- tempfile("load-")
  file.create(mark)
  script <- tempfile(fileext = ".sh")
  writeLines(c("#!/bin/bash",
               sprintf("while [ -e '%s' ] && [ -e /proc/%d ] && [ $SECONDS -lt %d ]; do", mark,
                       Sys.getpid(), seconds),
               "  for ((k = 0; k < 5000; k++)); do :; done", "done", "rm -f \"$1\""), script)
  on <- sprintf("%s.%d", mark, seq_len(n))
  file.create(on)
  for (f in on) system(sprintf("bash %s %s > /dev/null 2>&1", script, f), wait = FALSE)
  function() {
    unlink(mark)
    ended <- eventually(!any(file.exists(on)), 60)
    unlink(script)
    ended
  }
}

test_that("with 8 times more to do than cores, clusters start and work, and no time is up early", {
  linux_only()
  rounds <- if (long_slow) 10L else 1L
  stop_load <- start_load(8L * max(1L, parallel::detectCores(), na.rm = TRUE),
                          if (long_slow) 900L else 120L)
  on.exit(expect_true(stop_load()))
  for (k in seq_len(rounds)) for (strategy in c("fork_server", "spawn", "parallel", "sequential")) {
    cl <- make_cluster(2, strategy)
    p <- pids(cl)
    expect_true(works(cl), label = strategy)
    n <- if (long_slow) 20000L else 2000L
    expect_identical(cluster_map_dbl(cl, seq_len(n), function(i) i * 2, .timeout = 2),
                     seq_len(n) * 2, label = strategy)
    # one by one, and some that sleep, so that many wake-ups are waited for
    r <- cluster_map(cl, 1:60, function(i) {
      if (i %% 3 == 0) Sys.sleep(0.001)
      i
    }, .timeout = 2, .chunk = 1)
    expect_identical(r, as.list(1:60), label = strategy)
    expect_identical(collect_all(lapply(1:6, function(i) cluster_submit(cl, i^2, .timeout = 2))),
                     as.list((1:6)^2), label = strategy)
    expect_true(works(cl), label = strategy)
    expect_identical(cluster_status(cl)$pid, p, label = strategy) # nobody was replaced
    expect_true(all(alive(p)), label = strategy)
    stop_cluster(cl)
    expect_true(eventually(!any(alive(p))), label = strategy)
  }
})
