# A budget of memory: tasks that do not fit side by side. What is short here is what option
# `clutch.memory` leaves, so no test needs much.

needs("proc")

# Grows by 5 MB at a time, so slowly that a session sees it in time which gets no processor for some
# tenths of a second; has it until `file` is there.
grow <- function(mb, file = NULL) {
  x <- list()
  while (5 * length(x) < mb) {
    x[[length(x) + 1L]] <- rep(1, 5e6 / 8)
    Sys.sleep(0.12)
  }
  while (!is.null(file) && !file.exists(file)) Sys.sleep(0.01)
  5 * length(x)
}

with_budget <- function(budget, nodes, code) {
  old <- options(clutch.memory = budget)
  on.exit(options(old))
  cl <- make_cluster(nodes)
  on.exit(stop_cluster(cl), add = TRUE)
  code(cl)
}

# Processes of these that are stopped.
stopped <- function(pids) {
  stands <- function(pid) {
    stat <- suppressWarnings(try(readLines(file.path("/proc", pid, "stat")), silent = TRUE))
    !inherits(stat, "try-error") && grepl("\\) T ", stat)
  }
  pids[vapply(pids, stands, NA)]
}

test_that("tasks that do not fit side by side all end, right and in order, and none is ended", {
  with_budget("160 MB", 4, function(cl) {
    before <- pids(cl)
    said <- NULL
    x <- withCallingHandlers(
      cluster_map(cl, rep(60, 16), grow),
      clutch_memory_short = function(m) {
        said <<- m
        invokeRestart("muffleMessage")
      }
    )
    expect_identical(x, rep(list(60), 16))
    expect_identical(pids(cl), before)
    expect_s3_class(said, "clutch_memory_short")
    expect_match(conditionMessage(said), "memory was short.* 160 MB for all")
    expect_lt(said$at_once, 3)
    expect_length(stopped(before), 0L)
  })
})

test_that("who is held, and that memory limits, is told", {
  file <- tempfile()
  on.exit(unlink(file))
  with_budget("200 MB", 2, function(cl) {
    first <- cluster_submit(cl, grow(100, file))
    expect_true(eventually(max(cluster_status(cl)$memory) > 90))
    second <- cluster_submit(cl, grow(120))
    expect_true(eventually("held" %in% cluster_status(cl)$state))
    expect_identical(cluster_status(cl)$pid[cluster_status(cl)$state == "held"],
                     stopped(pids(cl)))
    expect_true(eventually(any(grepl("1 held", capture.output(cluster_top(cl))))))
    Sys.sleep(1) # of which the summary tells
    file.create(file)
    expect_identical(list(collect(first), collect(second)), list(100, 120))
    expect_false("held" %in% cluster_status(cl)$state)
    limits <- summary(cluster_trace(cl))$limits
    expect_true("memory" %in% limits$what)
    expect_match(limits$measured[limits$what == "memory"], "200 MB for all.*of 2 nodes")
  })
})

test_that("where all fit nobody says a word, and all are at work", {
  with_budget("400 MB", 3, function(cl) {
    expect_silent(x <- cluster_map(cl, rep(10, 12), grow))
    expect_identical(x, rep(list(10), 12))
  })
})

test_that("what does not fit alone is that element's error, with figures; others are unharmed", {
  with_budget("150 MB", 3, function(cl) {
    x <- suppressMessages(suppressWarnings(
      cluster_map(cl, c(10, 10, 300, 10, 10, 10), grow, .on_error = "continue")
    ))
    expect_identical(x[-3], rep(list(10), 5))
    expect_s3_class(x[[3]], "clutch_task_memory")
    expect_match(conditionMessage(x[[3]]), "it had [0-9]+ MB of the 150 MB that there are")
    expect_identical(cluster_map(cl, 1:3, identity), as.list(1:3)) # its node has a successor
  })
})

test_that("what does not fit alone is not tried again", {
  with_budget("150 MB", 2, function(cl) {
    e <- suppressMessages(task_error_of(cluster_map(cl, 300, grow, .retries = 3)))
    expect_s3_class(e, "clutch_task_memory")
    expect_identical(e$attempt, 1L)
  })
})

test_that("where stopping does not help the youngest is started again, and that is no try", {
  file <- tempfile()
  on.exit(unlink(file))
  # of which 15 % stay free: for one of them, its garbage included, and not for both
  with_budget("280 MB", 2, function(cl) {
    expect_identical(collect(cluster_submit(cl, grow(110))), 110) # so much is expected of others
    # the first takes more than that when the second has its part
    both <- function(i, grow, file) {
      if (i == 2L) return(grow(110, file))
      x <- grow(20)
      while (!file.exists(paste0(file, "-go"))) Sys.sleep(0.01)
      x <- grow(180)
      file.create(file)
      x
    }
    tasks <- lapply(1:2, function(i) cluster_submit(cl, both(i, grow, file), .retries = 1))
    before <- pids(cl)
    grown <- eventually(max(cluster_status(cl)$memory, na.rm = TRUE) > 110)
    file.create(paste0(file, "-go"))
    on.exit(unlink(paste0(file, "-go")), add = TRUE)
    expect_true(grown)
    expect_identical(lapply(tasks, collect), list(180, 110))
    expect_false(identical(pids(cl), before))
    expect_true(all(cluster_trace(cl)$attempt <= 2L))
  })
})

test_that("a task waits for what an idle node collects, and is not ended", {
  file <- tempfile()
  on.exit(unlink(file))
  with_budget("280 MB", 2, function(cl) {
    first <- cluster_submit(cl[1], grow(150, file))
    expect_true(eventually(cluster_status(cl)$memory[[1L]] > 140))
    before <- pids(cl)
    # it cannot do what it is told before the other one has found out that it needs more
    go_on <- c("k=0", "while [ $k -lt 3000 ] && ! grep -q ') T ' /proc/%d/stat",
               "do k=$((k + 1)); sleep 0.01; done", "kill -CONT %d")
    file.create(file)
    expect_identical(collect(first), 150)
    tools::pskill(before[[1L]], tools::SIGSTOP)
    later(0, paste(go_on, collapse = "; "), before[[2L]], before[[1L]])
    expect_identical(collect(cluster_submit(cl[2], grow(200))), 200)
    expect_identical(pids(cl), before)
  })
})

test_that("no time limit runs while a node is stopped", {
  file <- tempfile()
  on.exit(unlink(file))
  with_budget("200 MB", 2, function(cl) {
    first <- cluster_submit(cl, grow(100, file))
    expect_true(eventually(max(cluster_status(cl)$memory) > 90))
    second <- cluster_submit(cl, grow(120), .timeout = 10)
    expect_true(eventually(length(stopped(pids(cl))) == 1L))
    Sys.sleep(10.5)
    expect_length(stopped(pids(cl)), 1L)
    file.create(file)
    expect_identical(collect(first), 100)
    expect_identical(collect(second), 120)
  })
})

test_that("a stopped node that is killed is replaced, and its task is an error", {
  file <- tempfile()
  on.exit(unlink(file))
  with_budget("200 MB", 2, function(cl) {
    first <- cluster_submit(cl, grow(100, file))
    expect_true(eventually(max(cluster_status(cl)$memory) > 90))
    second <- cluster_submit(cl, grow(120))
    expect_true(eventually(length(stopped(pids(cl))) == 1L))
    tools::pskill(stopped(pids(cl)), 9L)
    expect_s3_class(task_error_of(collect(second)), "clutch_task_died")
    file.create(file)
    expect_identical(collect(first), 100)
    expect_identical(cluster_map(cl, 1:4, identity), as.list(1:4))
  })
})

test_that("a stopped node's task can be cancelled, and one that is woken by others stops again", {
  file <- tempfile()
  on.exit(unlink(file))
  with_budget("200 MB", 2, function(cl) {
    first <- cluster_submit(cl, grow(100, file))
    expect_true(eventually(max(cluster_status(cl)$memory) > 90))
    second <- cluster_submit(cl, grow(120))
    expect_true(eventually(length(stopped(pids(cl))) == 1L))
    held <- stopped(pids(cl))
    tools::pskill(held, 18L) # SIGCONT
    expect_true(eventually(identical(stopped(pids(cl)), held)))
    cancel(second)
    expect_true(eventually(length(stopped(pids(cl))) == 0L))
    file.create(file)
    expect_identical(collect(first), 100)
  })
})

test_that("whatever ends while nodes are stopped, nothing stays stopped", {
  outside_checks_only()
  for (how in c("stop", "interrupt", "kill", "server")) {
    s <- start_script(fixture = "held", how = how)
    expect_true(said(s, "^held="))
    nodes <- as.integer(strsplit(value_of(s, "nodes"), " ")[[1L]])
    expect_gt(as.integer(value_of(s, "held")), 0L)
    switch(how,
      interrupt = tools::pskill(s$pid, 2L),
      kill = tools::pskill(s$pid, 9L),
      server = tools::pskill(as.integer(value_of(s, "server")), 9L)
    )
    expect_true(ends(s), info = how)
    expect_false(any(alive(nodes)), info = how)
  }
})

test_that("what nodes of stopped clusters have had counts for nothing", {
  with_budget("150 MB", 3, function(cl) stopifnot(length(cluster_map(cl, rep(40, 3), grow)) == 3L))
  with_budget("150 MB", 3, function(cl) stopifnot(length(cluster_map(cl, rep(40, 3), grow)) == 3L))
  with_budget("150 MB", 1, function(cl) expect_identical(cluster_map(cl, 110, grow), list(110)))
})

test_that("in a control group that has no room for all at once, two sessions end all their tasks", {
  outside_checks_only()
  g <- memory_group(900)
  if (is.character(g)) skip(g)
  on.exit(expect_true(g$remove()))
  sessions <- lapply(1:2, function(i) start_limited(g$join, fixture = "fit-in-group"))
  for (s in sessions) expect_done(s, 120)
  for (s in sessions) expect_true(ends(s))
})

test_that("sizes are read as people write them", {
  size <- function(x) clutch:::check_size(x, "it")
  expect_identical(size(5e8), 5e8)
  expect_identical(size("2 GB"), 2e9)
  expect_identical(size("2GB"), 2e9)
  expect_identical(size("1.5 TB"), 1.5e12)
  expect_identical(size("512 MiB"), 512 * 2^20)
  expect_identical(size("800 kB"), 8e5)
  expect_identical(size("100"), 100)
  for (x in list("2 XB", "-1 GB", "", "GB", "1.2.3 GB", NA, NA_character_, -1, 0, c(1, 2), Inf))
    expect_error(size(x), "a size above 0", class = "clutch_argument")
})

test_that("a budget of no use is an error before anything starts; no budget is one, too", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  old <- options(clutch.memory = "much")
  on.exit(options(old), add = TRUE)
  e <- expect_error(cluster_map(cl, 1, identity), class = "clutch_argument")
  expect_match(conditionMessage(e), "option 'clutch.memory'", fixed = TRUE)
  options(clutch.memory = "900 TB")
  e <- expect_error(cluster_map(cl, 1, identity), class = "clutch_argument")
  expect_match(conditionMessage(e), "is 900000000 MB, and this machine has [0-9]+ MB")
  options(clutch.memory = FALSE)
  expect_identical(cluster_map(cl, 1, identity), list(1))
  options(clutch.memory = NULL)
  expect_identical(collect(cluster_submit(cl, 1)), 1)
})
