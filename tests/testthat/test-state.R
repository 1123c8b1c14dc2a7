# Locks, counters, rates and tables that processes share.

two <- make_cluster(2)

failure <- function(expr) tryCatch(expr, error = identity)

# ---- locks ----

test_that("one task at a time has a lock", {
  file <- tempfile()
  on.exit(unlink(file))
  writeLines("0", file)
  lock <- cluster_lock(two)
  add <- function(k) {
    with_lock(lock, {
      n <- as.numeric(readLines(file))
      Sys.sleep(0.001)
      writeLines(format(n + k), file)
      n
    })
  }
  before <- unlist(cluster_map(two, rep(1, 100), add))
  expect_identical(readLines(file), "100")
  expect_setequal(before, 0:99)
  expect_identical(lock_info(lock)[c("taken", "died")], list(taken = 100, died = 0))
  expect_true(is.na(lock_info(lock)$pid))
})

test_that("a lock is taken again by who has it, and given back after an error", {
  lock <- cluster_lock()
  value <- with_lock(lock, with_lock(lock, lock_info(lock)$pid))
  expect_identical(value, Sys.getpid())
  expect_error(with_lock(lock, with_lock(lock, stop("within"))), "within")
  expect_true(is.na(lock_info(lock)$pid))
  f <- function() with_lock(lock, return("out"))
  expect_identical(f(), "out")
  expect_true(is.na(lock_info(lock)$pid))
  expect_output(print(lock), "<clutch lock, free>", fixed = TRUE)
  with_lock(lock, expect_output(print(lock), paste("taken by process", Sys.getpid())))
})

test_that("who waits for a lock has a timeout, and can be interrupted", {
  lock <- cluster_lock()
  task <- NULL
  with_lock(lock, {
    e <- failure(cluster_map(two, 1, function(i) with_lock(lock, 1, timeout = 0.05)))
    task <- cluster_submit(two, with_lock(lock, "had"), .timeout = 0.3)
    late <- failure(collect(task))
    waits <- cluster_submit(two, with_lock(lock, "had it"))
    Sys.sleep(0.1)
  })
  expect_s3_class(e$parent, "clutch_timeout")
  expect_match(conditionMessage(e), "not free within 0.05 seconds")
  expect_s3_class(late, "clutch_task_timeout")
  expect_identical(collect(waits), "had it")
  expect_identical(with_lock(lock, 2, timeout = 0), 2)
})

test_that("a lock whose holder was killed is had by the next, who is told", {
  lock <- cluster_lock(two)
  for (i in 1:5) {
    pid <- cluster_map(two, 1, function(i) Sys.getpid())[[1L]]
    e <- failure(cluster_map(two, 1, function(i) {
      with_lock(lock, tools::pskill(Sys.getpid(), tools::SIGKILL))
    }))
    expect_s3_class(e, "clutch_task_died")
    expect_true(is.na(lock_info(lock)$pid))
    expect_match(format(lock), "free")
    seen <- NULL
    value <- withCallingHandlers(
      with_lock(lock, "mine", timeout = 20),
      clutch_holder_died = function(w) {
        seen <<- w
        tryInvokeRestart("muffleWarning")
      }
    )
    expect_identical(value, "mine")
    expect_s3_class(seen, "clutch_warning")
    expect_identical(seen$pid, e$pid)
  }
  expect_identical(lock_info(lock)$died, 5)
  # a handler that does not go on gives the lock back
  failure(cluster_map(two, 1, function(i) {
    with_lock(lock, tools::pskill(Sys.getpid(), tools::SIGKILL))
  }))
  before <- options(warn = 2)
  on.exit(options(before))
  expect_error(with_lock(lock, "mine"), "half done")
  expect_true(is.na(lock_info(lock)$pid))
})

test_that("forked children wait for their parent's lock", {
  lock <- cluster_lock()
  job <- with_lock(lock, {
    job <- parallel::mcparallel(c(failure(with_lock(lock, 1, timeout = 0.05))$message,
                                  with_lock(lock, "free", timeout = 20)))
    Sys.sleep(0.3)
    job
  })
  got <- parallel::mccollect(job)[[1L]]
  expect_match(got[[1L]], "not free")
  expect_identical(got[[2L]], "free")
  expect_identical(with_lock(lock, 1), 1)
})

# ---- counters ----

test_that("no two tasks get the same number of a counter", {
  ids <- cluster_counter(two)
  got <- unlist(cluster_map(two, 1:2000, function(i) counter_add(ids)))
  expect_setequal(got, 1:2000)
  expect_identical(counter_value(ids), 2000)
  expect_identical(counter_set(ids, -3), 2000)
  expect_identical(counter_add(ids, 5L), 2)
  expect_identical(counter_add(cluster_counter(start = 2^52), 2^52), 2^53)
  expect_output(print(ids), "<clutch counter: 2>", fixed = TRUE)
  expect_error(counter_add(ids, 0.5), "`by`", class = "clutch_argument")
  expect_error(counter_add(ids, 2^53), "2\\^53", class = "clutch_argument")
  expect_error(counter_set(ids, NA), class = "clutch_argument")
  expect_error(cluster_counter(start = "1"), class = "clutch_argument")
  expect_error(counter_add(cluster_lock()), "`counter`", class = "clutch_argument")
  expect_error(counter_add(1), "`counter`", class = "clutch_argument")
})

# ---- rates ----

test_that("tasks go on no more often than a rate allows", {
  rate <- cluster_rate(50, per = "s", cl = two)
  began <- as.numeric(Sys.time()) # not the first of `at`: that may have been told late
  at <- unlist(cluster_map(two, 1:20, function(i) {
    rate_wait(rate)
    as.numeric(Sys.time())
  }))
  expect_gte(max(at) - began, 19 / 50 * 0.95)
  burst <- cluster_rate(1, per = "1h", burst = 3)
  waits <- replicate(3, rate_wait(burst, timeout = 1))
  expect_true(all(waits < 1))
  expect_error(rate_wait(burst, timeout = 1), "within 1 second", class = "clutch_timeout")
  expect_error(rate_wait(burst, 2, timeout = 3000), class = "clutch_timeout")
  free <- cluster_rate(1, per = "1h", burst = 2)
  expect_lt(rate_wait(free, timeout = 0), 1)
  expect_lt(rate_wait(free, timeout = 0), 1)
  expect_error(rate_wait(free, timeout = 0), class = "clutch_timeout")
  expect_output(print(rate), "clutch rate")
  expect_error(cluster_rate(0), "`n`", class = "clutch_argument")
  expect_error(cluster_rate(5, per = "fortnight"), "`per`", class = "clutch_argument")
  expect_error(cluster_rate(5, burst = 0), "`burst`", class = "clutch_argument")
  expect_error(rate_wait(rate, 1.5), "`n`", class = "clutch_argument")
})

test_that("who waits for a rate can be interrupted", {
  rate <- cluster_rate(1, per = "1d")
  rate_wait(rate)
  e <- failure(cluster_map(two, 1, function(i) rate_wait(rate), .timeout = 0.3))
  expect_s3_class(e, "clutch_task_timeout")
  expect_identical(cluster_map(two, 1:2, identity), list(1L, 2L))
})

# ---- tables ----

test_that("rows are popped once, in their order, and read by all", {
  table <- cluster_table(two)
  expect_null(table_pop(table))
  expect_identical(nrow(table_read(table)), 0L)
  expect_identical(table_append(table, list(x = 1, y = "a")), 1)
  expect_identical(table_append(table, data.frame(x = c(2, 3), z = c(TRUE, NA))), c(2, 3))
  expect_identical(table_count(table), 3)
  got <- cluster_map(two, 1:3, function(i) {
    task <- table_pop(table)
    table_set(table, task$id, list(twice = 2 * task$row$x, by = Sys.getpid()))
    task
  })
  expect_setequal(vapply(got, `[[`, 0, "id"), 1:3)
  expect_null(table_pop(table))
  d <- table_read(table)
  expect_identical(d$id, c(1, 2, 3))
  expect_identical(d$state, rep("done", 3L))
  expect_identical(d$pid, d$by)
  expect_identical(d$x, c(1, 2, 3))
  expect_identical(d$y, c("a", NA, NA))
  expect_identical(d$z, c(NA, TRUE, NA))
  expect_identical(d$twice, c(2, 4, 6))
  expect_output(print(table), "<clutch table: 3 rows>", fixed = TRUE)
})

test_that("only what has changed is read", {
  table <- cluster_table()
  table_append(table, data.frame(x = 1:5))
  seen <- attr(table_read(table), "changes")
  expect_identical(nrow(table_read(table, since = seen)), 0L)
  task <- table_pop(table)
  table_append(table, list(x = 6L))
  d <- table_read(table, since = seen)
  expect_identical(d$id, c(1, 6))
  expect_identical(d$state, c("taken", "open"))
  expect_identical(table_read(table, state = "open")$id, c(2, 3, 4, 5, 6))
  table_set(table, 1)
  expect_identical(table_read(table, state = "done")$x, 1L)
  table_set(table, 1, list(x = 10L))
  expect_identical(table_read(table, state = "done")$x, 10L)
})

test_that("values of all kinds are kept as they are", {
  table <- cluster_table()
  values <- list(day = as.Date("2026-01-02"), f = factor("b", c("a", "b")), m = matrix(1:4, 2),
                 l = list(1, "a"), n = NULL, big = runif(3e5), fun = mean, text = "caf\u00e9")
  table_append(table, values)
  back <- cluster_map(two, 1, function(i) table_pop(table)$row)[[1L]]
  expect_identical(back, values)
  d <- table_read(table)
  expect_identical(d$day, values$day)
  expect_identical(d$f, values$f)
  expect_identical(d$m, list(values$m))
  table_append(table, list(day = as.Date("2026-01-03")))
  d <- table_read(table)
  expect_identical(d$day, as.Date("2026-01-02") + 0:1)
  expect_identical(d$m, list(values$m, NULL))
})

test_that("a row is waited for", {
  table <- cluster_table()
  waits <- cluster_submit(two, table_pop(table, timeout = 20)$row$x)
  Sys.sleep(0.1)
  table_append(table, list(x = 7))
  expect_identical(collect(waits), 7)
  expect_null(table_pop(table, timeout = 0.05))
  e <- failure(cluster_map(two, 1, function(i) table_pop(table, Inf), .timeout = 0.3))
  expect_s3_class(e, "clutch_task_timeout")
})

test_that("rows of a process that has died are open again when asked for", {
  table <- cluster_table()
  table_append(table, data.frame(x = 1:3))
  mine <- table_pop(table)
  failure(cluster_map(two, 1, function(i) {
    table_pop(table)
    tools::pskill(Sys.getpid(), tools::SIGKILL)
  }))
  expect_identical(table_read(table)$state, c("taken", "taken", "open"))
  expect_identical(table_reopen(table), 1)
  expect_identical(table_pop(table)$id, 2)
  expect_identical(table_pop(table)$id, 3)
  expect_identical(table_reopen(table), 0)
})

test_that("what is no row is refused", {
  table <- cluster_table()
  expect_error(table_append(table, list(1)), "`rows`", class = "clutch_argument")
  twice <- stats::setNames(list(1, 2), c("x", "x"))
  expect_error(table_append(table, twice), "`rows`", class = "clutch_argument")
  expect_error(table_append(table, 1:3), "`rows`", class = "clutch_argument")
  unnamed <- stats::setNames(list(1, 2), c("x", NA))
  expect_error(table_append(table, unnamed), "`rows`", class = "clutch_argument")
  expect_error(table_append(table, stats::setNames(data.frame(a = 1, b = 2), c("a", NA))), "`rows`",
               class = "clutch_argument")
  expect_error(table_append(table, list(id = 1)), "id, state, pid", class = "clutch_argument")
  expect_error(table_set(table, 1), "no such row", class = "clutch_argument")
  expect_error(table_set(table, 0), "`id`", class = "clutch_argument")
  expect_error(table_read(table, state = "gone"), "one of", class = "clutch_argument")
  expect_error(table_pop(table, timeout = -1), "`timeout`", class = "clutch_argument")
  expect_error(table_pop(list()), "`table`", class = "clutch_argument")
})

test_that("all rows are done once, whichever nodes are killed", {
  table <- cluster_table(two)
  table_append(table, data.frame(x = 1:300))
  work <- function() {
    while (!is.null(task <- table_pop(table))) {
      Sys.sleep(0.001)
      table_set(table, task$id, list(y = task$row$x^2))
    }
  }
  done <- FALSE
  while (!done) {
    tasks <- lapply(1:2, function(i) cluster_submit(two, work()))
    Sys.sleep(0.05)
    tools::pskill(unlist(cluster_status(two)$pid)[[1L]], tools::SIGKILL)
    for (x in tasks) failure(collect(x))
    table_reopen(table)
    done <- all(table_read(table)$state == "done")
  }
  d <- table_read(table)
  expect_identical(d$state, rep("done", 300L))
  expect_identical(d$y, (1:300)^2)
})

# ---- where they are, and how long ----

test_that("a state is gone with its object", {
  lock <- cluster_lock()
  copy <- unserialize(serialize(lock, NULL))
  expect_identical(with_lock(copy, 1), 1)
  rm(lock)
  invisible(gc())
  expect_error(with_lock(copy, 1), "gone", class = "clutch_state_gone")
  expect_output(print(copy), "<clutch lock that is gone>", fixed = TRUE)
  e <- failure(cluster_map(two, 1, function(i) with_lock(copy, 1)))
  expect_s3_class(e$parent, "clutch_state_gone")
})

test_that("another state in the same place is not taken for it", {
  lock <- cluster_lock()
  copy <- unserialize(serialize(lock, NULL))
  rm(lock)
  invisible(gc())
  kept <- lapply(1:5, function(i) cluster_lock())
  expect_error(with_lock(copy, 1), class = "clutch_state_gone")
  rm(kept)
})

test_that("thousands of them leave nothing", {
  use <- function(n) {
    for (i in seq_len(n)) {
      lock <- cluster_lock(two)
      cluster_map(two, 1:2, function(i) with_lock(lock, i))
    }
  }
  count <- function() length(list.files("/proc/self/fd"))
  on_nodes <- function() unlist(parallel::clusterCall(two, function() {
    gc()
    length(list.files("/proc/self/fd"))
  }))
  skip_if_not(dir.exists("/proc/self/fd"))
  use(5)
  invisible(gc())
  here <- count()
  use(300)
  invisible(gc())
  expect_lte(count(), here + 2L)
  expect_true(all(on_nodes() < 200L))
  expect_lte(length(ls(get("the", asNamespace("clutch"))$states)), 10L)
})

test_that("tables that come and go are opened again", {
  tables <- lapply(1:120, function(i) cluster_table())
  got <- cluster_map(two, 1, function(i) {
    for (round in 1:2) for (x in tables) table_append(x, list(v = runif(1000), round = round))
    gc()
    vapply(tables, table_count, 1)
  })[[1L]]
  expect_identical(got, rep(2, 120))
  expect_identical(table_read(tables[[1L]])$round, 1:2)
})

test_that("a copy goes on being checked when its original is removed", {
  table <- cluster_table()
  copy <- unserialize(serialize(table, NULL))
  rm(table)
  # the collector runs in one of these
  for (i in 1:50) failure(table_append(copy, list(x = runif(1e5))))
  invisible(gc())
  expect_error(table_append(copy, list(x = 1)), class = "clutch_state_gone")
})

test_that("with_lock() shows what its expression would", {
  lock <- cluster_lock()
  expect_invisible(with_lock(lock, x <- 5))
  expect_visible(with_lock(lock, 5))
})

test_that("a matrix and a data frame are columns, too", {
  table <- cluster_table()
  d <- data.frame(a = 1:2)
  d$m <- matrix(1:4, 2)
  table_append(table, d)
  expect_identical(table_pop(table)$row$m, matrix(c(1L, 3L), 1))
})

test_that("columns are vectors only where nothing is lost", {
  table <- cluster_table()
  table_append(table, list(product = crossprod(1:3), byte = as.raw(1)))
  table_append(table, list(product = crossprod(1:2)))
  rows <- table_read(table)
  expect_identical(rows$product, list(crossprod(1:3), crossprod(1:2)))
  expect_identical(rows$byte, list(as.raw(1), NULL)) # there is no missing byte
  expect_identical(table_read(table, state = "open")$id, c(1, 2))
})

test_that("a lock is kept while it is had, however many others are used", {
  lock <- cluster_lock(two)
  others <- lapply(1:150, function(i) cluster_counter())
  got <- cluster_map(two, 1, function(i) {
    with_lock(lock, {
      for (x in others) counter_add(x)
      gc()
      Sys.sleep(0.3)
      counter_value(others[[1L]])
    })
  })
  expect_identical(got, list(1))
  ready <- cluster_table(two)
  task <- cluster_submit(two, with_lock(lock, {
    for (x in others) counter_add(x)
    gc()
    table_append(ready, list(now = TRUE))
    Sys.sleep(1)
  }))
  expect_true(table_pop(ready, timeout = 20)$row$now)
  expect_error(with_lock(lock, 1, timeout = 0), class = "clutch_timeout")
  collect(task)
  expect_identical(with_lock(lock, 1, timeout = 0), 1)
})

test_that("a state travels by every entry point, and to nodes of nodes", {
  on.exit(end_own_cluster())
  ids <- cluster_counter()
  parallel::clusterExport(two, "ids", environment())
  parallel::clusterEvalQ(two, clutch::counter_add(ids))
  collect(cluster_submit(two, counter_add(ids)))
  cluster_run(two, function(rank) counter_add(ids))
  clutch::mclapply(1:2, function(i) counter_add(ids), mc.cores = 2)
  parallel::mclapply(1:2, function(i) counter_add(ids), mc.cores = 2)
  cluster_map(two, 1, function(i) {
    inner <- clutch::make_cluster(1)
    on.exit(clutch::stop_cluster(inner))
    clutch::cluster_map(inner, 1:2, function(j) clutch::counter_add(ids))
  })
  expect_identical(counter_value(ids), 2 + 1 + 2 + 2 + 2 + 2)
})

test_that("a node's state is used by the session", {
  made <- cluster_map(two, 1, function(i) {
    kept <<- clutch::cluster_counter(start = 5)
    kept
  })[[1L]]
  expect_identical(counter_add(made), 6)
})

test_that("nodes of other machines have none", {
  other <- structure(list(list(info = list(hosts = "elsewhere.invalid"))), class = "clutch_cluster")
  expect_error(cluster_lock(other), "nodes of this machine", class = "clutch_argument")
  expect_error(cluster_lock(1), "`cl`", class = "clutch_argument")
})

stop_cluster(two)
