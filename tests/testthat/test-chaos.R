# Maps while things die: from a printed seed, elements that crash, quit, hang, fail, eat memory, use
# up all descriptors or are slow, tasks that are submitted and cancelled, and from outside SIGKILL,
# SIGSTOP and SIGCONT to nodes at random. Every map has to end with all values, or the errors that
# it should have, each element started no more often than promised, and nothing left.
#
# CLUTCH_SEED repeats a run as far as the system allows; CLUTCH_EVENTS: how many things go wrong
# ('make chaos': 10,000).

outside_checks_only()

events_wanted <- as.integer(Sys.getenv("CLUTCH_EVENTS", "150"))
chaos_seed <- as.integer(Sys.getenv("CLUTCH_SEED", as.character(sample.int(1e6, 1L))))

# To nodes, from outside
deed <- paste("if [ $((RANDOM % 3)) = 0 ]; then kill -9 $p && echo kill >> \"$log\";",
              "else kill -STOP $p && sleep 0.0$((RANDOM % 90 + 10));",
              "kill -CONT $p && echo stop >> \"$log\"; fi")

chaotic <- function(i, what, dir) {
  cat("x", file = file.path(dir, i), append = TRUE)
  switch(what[[i]], fine = NULL, slow = Sys.sleep(0.005), error = stop("meant"),
         kill = tools::pskill(Sys.getpid(), 9L),
         segv = tools::pskill(Sys.getpid(), 11L), quit = quit("no", 5), hang = repeat {},
         deaf = Sys.sleep(100),
         memory = {
           x <- numeric(8e6)
           repeat {
             x[[1L]] <- 1
             x <- c(x, x[1:4e6])
           }
         },
         full = { # no descriptor is free when the result leaves
           system2("prlimit", c("--pid", Sys.getpid(), "--nofile=40:"), stdout = FALSE,
                   stderr = FALSE)
           held <- list()
           repeat {
             con <- tryCatch(suppressWarnings(file("/dev/null", "r")), error = function(e) NULL)
             if (is.null(con)) break
             held <- c(held, list(con))
           }
           on.exit({
             for (con in held) close(con)
             system2("prlimit", c("--pid", Sys.getpid(), "--nofile=1024:"), stdout = FALSE,
                     stderr = FALSE)
           })
         },
         says = {
           message("said")
           warning("warned")
         })
  i * 10
}
environment(chaotic) <- globalenv()

test_that("whatever dies, every element has its value or its own error, and nothing is left", {
  linux_only()
  set.seed(chaos_seed)
  # What is neither stopped from outside nor meant to hang has to be done within the limit, also
  # while the tests of two processes share a core: "full" starts two programs.
  limit <- 2.5
  grace <- 0.5
  old <- options(clutch.task_grace = grace)
  on.exit(options(old))
  # cluster_submit() would load it, and it has descriptors of its own
  requireNamespace("later", quietly = TRUE)
  invisible(gc())
  stop_cluster(make_cluster(1))
  invisible(gc())
  before <- c(open_fds(), .Call(clutch:::ffi_live_handles))
  cl <- make_cluster(3)
  server <- server_pid(cl)
  events <- longest <- 0
  while (events < events_wanted) {
    n <- sample(20:150, 1L)
    outside <- sample(c(TRUE, FALSE), 1L)
    what <- sample(c("fine", "slow", "error", "kill", "segv", "quit", "hang", "deaf", "memory",
                     "full", "says"), n, replace = TRUE,
                   prob = c(60, 15, 3, 2, 2, 2, 0.7, 0.7, if (system_can("memory")) 0.3 else 0, 0.7,
                            5))
    # so that nobody dies of what was done to it from outside alone
    retries <- if (outside) 8L else sample(0:2, 1L)
    dir <- tempfile("chaos-")
    dir.create(dir)
    log <- tempfile()
    end_faults <- if (outside) start_fault_injector(
      server, log, "0.0$((RANDOM % 80 + 10))", deed, chaos_seed %% 32768L
    ) else function() TRUE
    began <- clutch:::clock()
    tasks <- lapply(seq_len(sample(0:4, 1L)), function(i) cluster_submit(cl, {
      Sys.sleep(pause)
      i
    }, .globals = list(i = i, pause = stats::runif(1, 0, 0.05)), .retries = 8))
    gone <- stats::runif(length(tasks)) < 0.5
    if (outside && any(gone)) Sys.sleep(0.02) # so that some have begun
    for (i in which(gone)) gone[[i]] <- cancel(tasks[[i]]) # FALSE: it had ended
    r <- suppressMessages(suppressWarnings(cluster_map(cl, seq_len(n), chaotic, what = what,
                                                       dir = dir, .retries = retries,
                                                       .timeout = limit,
      .max_memory = 400e6, .on_error = "continue", .chunk = sample(list(NULL, 1, 5), 1L)[[1L]])))
    took <- clutch:::clock() - began
    # what is killed from outside again and again may take eight times as long
    if (!outside) {
      longest <- max(longest, diff(sort(with(cluster_trace(cl), ended[job == max(job)]))))
    }
    expect_true(end_faults()) # else it kills one of the next map, too
    bad <- what %in% c("error", "kill", "segv", "quit", "hang", "deaf", "memory")
    value <- vapply(seq_len(n), function(i) identical(r[[i]], i * 10), NA)
    failed <- vapply(r, inherits, NA, "clutch_task_error")
    state <- sprintf("seed %d, %d elements, retries %d, outside %s", chaos_seed, n, retries,
                     outside)
    # a stop from outside may make a quick element run out of time, and a killed node may have been
    # at a failing one
    late <- vapply(r, inherits, NA, "clutch_task_timeout")
    odd <- which(!bad & (late | !value))
    if (length(odd)) state <- paste0(state, ": element ", odd[[1L]], " (", what[[odd[[1L]]]], "): ",
                                     if (
                                       failed[[odd[[1L]]]]
                                     ) conditionMessage(
                                       r[[odd[[1L]]]]
                                     ) else deparse(r[[odd[[1L]]]])[[1L]])
    expect_true(all(value[!bad & !late]), label = state)
    expect_true(all(failed[bad]), label = state)
    expect_true(outside || !any(late[!bad]), label = state)
    for (i in seq_along(tasks)) expect_identical(tryCatch(
      collect(tasks[[i]]), clutch_task_cancelled = function(e) "gone"
    ),
                                                 if (gone[[i]]) "gone" else i, label = state)
    starts <- file.size(file.path(dir, seq_len(n)))
    starts[is.na(starts)] <- 0
    expect_true(all(starts <= retries + 1), label = state)
    expect_true(all(starts[value] >= 1), label = state)
    expect_true(took < 60, label = state)
    x <- runif(1)
    alive_now <- cluster_map(cl, 1:3, function(i, x) x, x = x) # the next gets its own answers
    expect_identical(alive_now, list(x, x, x), label = state)
    events <- events + sum(bad | what == "full") + sum(gone) +
      if (file.exists(log)) length(readLines(log)) else 0
    unlink(dir, recursive = TRUE)
  }
  # an element that hangs is over after the limit and the grace
  cat(sprintf("  %d events, longest time in which no element ended: %.1f s ", events, longest))
  expect_lt(longest, if (events_wanted >= 10000L) limit + grace + 2 else 30)
  p <- pids(cl)
  expect_true(all(vapply(p,
                         function(k) identical(
                           readLines(sprintf("/proc/%d/task/%d/children", server, server),
                                     warn = FALSE) != "", TRUE
                         ), NA)))
  stop_cluster(cl)
  expect_true(eventually(!any(alive(p))))
  rm(cl, tasks)
  for (k in 1:2) invisible(gc())
  # what an earlier test has left may be closed meanwhile
  expect_true(all(c(open_fds(), .Call(clutch:::ffi_live_handles)) <= before))
})

test_that("Ctrl-C at random moments of a map: control is back, and the cluster in step", {
  linux_only()
  times <- if (events_wanted >= 10000L) 1000L else 60L
  s <- start_script(fixture = c("interrupt-in", "interrupts-many"), seed = chaos_seed,
                    times = times)
  expect_done(s, 60 + times)
  cat(" ", grep("^median", readLines(s$out), value = TRUE))
  expect_true(ends(s))
})
