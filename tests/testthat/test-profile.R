# Functions that use a known amount of CPU time, whatever else the machine does.
burn <- function(seconds) {
  cpu <- function() sum(proc.time()[1:2])
  end <- cpu() + seconds
  repeat {
    s <- 0
    for (i in 1:2000) s <- s + sqrt(i)
    if (cpu() >= end) return(NULL)
  }
}
hot <- function(seconds) burn(seconds)
cold <- function(seconds) burn(seconds)
environment(burn) <- environment(hot) <- environment(cold) <- globalenv()

# Burns `share` of it in hot(), the rest in cold(). The share of hot() as the processes' own clocks
# have it.
hot_and_cold <- function(cl, n, seconds, share) {
  work <- function(i) {
    cpu <- function() sum(proc.time()[1:2])
    at <- cpu()
    hot(seconds * share)
    then <- cpu()
    cold(seconds * (1 - share))
    c(hot = then - at, all = cpu() - at)
  }
  globals <- list(hot = hot, cold = cold, burn = burn, seconds = seconds, share = share)
  environment(work) <- globalenv()
  took <- Reduce(`+`, cluster_map(cl, seq_len(n), work, .globals = globals))
  took[["hot"]] / took[["all"]]
}

share_of <- function(p, name, node = NULL) {
  s <- summary(p, node = node)
  sum(s$total_share[s$name == name])
}
samples_on <- function(cl) {
  unlist(parallel::clusterCall(cl, function() clutch:::is_sampled()))
}
# Nothing takes samples any more, and no file is left.
expect_over <- function(cl) {
  expect_false(clutch:::is_sampled())
  expect_identical(list.files(tempdir(), "^clutch-profile"), character())
  if (is.null(cl)) return(invisible())
  expect_identical(samples_on(cl), rep(FALSE, length(cl)))
  files <- parallel::clusterCall(cl, function() list.files(tempdir(), "^clutch-profile"))
  expect_length(unlist(files), 0L)
}

test_that("a function has the share of CPU time that it takes", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  p <- cluster_profile(cl, hot_and_cold(cl, 20, 0.3, 0.8), interval = 0.005)
  # some 500 samples at least: five points are three times their standard error
  all <- share_of(p, ".f", 1:2)
  expect_lt(abs(share_of(p, "hot", 1:2) / all - p$value), 0.05)
  expect_lt(abs(share_of(p, "cold", 1:2) / all - (1 - p$value)), 0.05)
  expect_gt(all, 0.9)
  # what they have used is told
  expect_gt(sum(p$nodes$cpu[p$nodes$node > 0]), 5.9)
  expect_identical(p$nodes$note, c("", "", ""))
  expect_identical(sum(p$nodes$samples), nrow(p$samples))
  expect_true(p$interval >= 0.005 && p$interval <= 0.01)
  expect_over(cl)
})

test_that("the function of the user is the first frame, however it is called", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  first <- function(expr) {
    p <- cluster_profile(cl, expr, interval = 0.002)
    s <- p$samples[p$samples$node > 0L, ]
    calls <- p$stacks$calls[s$stack]
    sort(unique(vapply(calls[vapply(calls, function(v) "hot" %in% v, NA)], `[[`, "", 1L)))
  }
  f <- function(...) hot(0.1)
  environment(f) <- globalenv()
  g <- list(hot = hot, burn = burn)
  expect_identical(first(cluster_map(cl, 1:2, f, .globals = g)), ".f")
  expect_identical(first(cluster_walk(cl, 1:2, f, .globals = g)), ".f")
  expect_identical(first(cluster_map2(cl, 1:2, 1:2, f, .globals = g)), ".f")
  expect_identical(first(cluster_pwalk(cl, list(1:2, 1:2), f, .globals = g)), ".f")
  expect_identical(first(cluster_imap(cl, 1:2, f, .globals = g)), ".f")
  expect_identical(first(collect(cluster_submit(cl, hot(0.1), .globals = g))), ".f")
  parallel::clusterExport(cl, c("hot", "burn"), environment(first))
  expect_identical(first(parallel::clusterCall(cl, f)), "<Anonymous>")
})

test_that("of all kinds of nodes there are samples", {
  skip_on_cran()
  kinds <- list(
    spawn = function() make_cluster(2, strategy = "spawn"),
    tcp = function() make_cluster(2, strategy = "parallel"),
    psock = function() make_cluster(2, node = "psock")
  )
  for (kind in names(kinds)) {
    cl <- kinds[[kind]]()
    parallel::clusterExport(cl, c("hot", "burn"), environment(hot_and_cold))
    f <- function(i) hot(0.15)
    environment(f) <- globalenv()
    p <- cluster_profile(cl, parallel::clusterApply(cl, 1:2, f), interval = 0.005)
    for (k in 1:2) expect_gt(share_of(p, "hot", k), 0.8, label = kind)
    first <- vapply(p$stacks$calls[p$samples$stack[p$samples$node > 0L]], `[[`, "", 1L)
    expect_true(mean(first == "<Anonymous>") > 0.8, label = kind)
    expect_identical(p$nodes$note, c("", "", ""), label = kind)
    if (kind == "psock") {
      left <- parallel::clusterCall(cl, function() list.files(tempdir(), "^clutch-profile"))
      expect_length(unlist(left), 0L)
      expect_true(works(cl))
    } else {
      expect_over(cl)
    }
    stop_cluster(cl)
  }
})

test_that("after an error, an interrupt and nested calls nothing is left", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_error(cluster_profile(cl, stop("oops")), "oops")
  expect_over(cl)
  e <- task_error_of(cluster_profile(cl, cluster_map(cl, 1:2, function(i) stop("no"))))
  expect_s3_class(e, "clutch_task_error")
  expect_over(cl)
  expect_error(cluster_profile(cl, cluster_profile(cl, 1)), class = "clutch_profiling")
  expect_over(cl)
  expect_length(clutch:::setup_of(clutch:::info_of(cl)), 0L)
  caught <- tryCatch(
    cluster_profile(cl, {
      tools::pskill(Sys.getpid(), 2L)
      cluster_map(cl, 1:2, function(i) Sys.sleep(60))
    }),
    interrupt = function(e) "interrupted"
  )
  expect_identical(caught, "interrupted")
  expect_over(cl)
  expect_identical(cluster_profile(cl, 5)$value, 5)
  # where warnings are errors, and the interval is too short for the system
  old <- options(warn = 2)
  on.exit(options(old), add = TRUE)
  p <- cluster_profile(cl, burn(0.1), interval = 0.001)
  expect_identical(p$nodes$note, c("", "", ""))
  expect_gt(p$nodes$samples[[1L]], 0L)
})

test_that("a profile of the user's own goes on", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  file <- tempfile()
  Rprof(file, interval = 0.01)
  on.exit(Rprof(NULL), add = TRUE)
  p <- cluster_profile(cl, burn(0.1))
  expect_true(clutch:::is_sampled())
  burn(0.5) # others may have the cores
  Rprof(NULL)
  expect_match(p$nodes$note[[1L]], "Rprof\\(\\) runs there already")
  expect_identical(p$nodes$samples[[1L]], 0L)
  expect_gt(sum(grepl("\"burn\"", readLines(file))), 5)
  unlink(file)
  expect_over(cl)
  # on a node
  parallel::clusterCall(cl[1], function() Rprof(file.path(tempdir(), "own"), interval = 0.01))
  p <- cluster_profile(cl, hot_and_cold(cl, 2, 0.1, 0.5))
  expect_match(p$nodes$note[p$nodes$node == 1L], "Rprof\\(\\) runs there already")
  expect_identical(samples_on(cl), c(TRUE, FALSE))
  parallel::clusterCall(cl, function() Rprof(NULL))
  # a task that calls it ends ours
  p <- cluster_profile(cl, cluster_walk(cl, 1:2, function(i) utils::Rprof(NULL)))
  expect_match(paste(p$nodes$note, collapse = ""), "Rprof\\(\\) was called by a task")
  expect_over(cl)
})

test_that("what can be had of nodes that die, are busy, or are replaced", {
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  g <- list(hot = hot, burn = burn)
  die <- function(i) {
    if (i == 1L && task_attempt() == 1L) tools::pskill(Sys.getpid(), 9L)
    hot(0.1)
  }
  environment(die) <- globalenv()
  p <- cluster_profile(cl, cluster_map(cl, 1:9, die, .globals = g, .retries = 1), interval = 0.005)
  replaced <- grepl("was replaced", p$nodes$note)
  expect_identical(sum(replaced), 1L)
  expect_gt(p$nodes$samples[replaced], 0L)
  expect_over(cl)
  # dead, and not replaced
  p <- cluster_profile(cl, {
    tools::pskill(pids(cl)[[2L]], 9L)
    eventually(clutch:::node_states(cl)[[2L]] == "dead")
  })
  expect_match(p$nodes$note[p$nodes$node == 2L], "it has died")
  expect_output(print(p), "node 2: no samples: it has died")
  cluster_map(cl, 1:6, identity)
  expect_over(cl)
  # busy with a task that goes on: neither waited for at the beginning nor for long at the end
  go_on <- tempfile()
  wait <- cluster_submit(cl, while (!file.exists(go_on)) Sys.sleep(0.01), .seed = FALSE)
  expect_true(eventually(sum(clutch:::node_states(cl) == "busy") == 1L))
  p <- cluster_profile(cl, burn(0.05))
  expect_identical(sum(grepl("still busy", p$nodes$note)), 1L)
  file.create(go_on)
  collect(wait)
  expect_over(cl)
  # one that was busy only when it began
  unlink(go_on)
  wait <- cluster_submit(cl, while (!file.exists(go_on)) Sys.sleep(0.01), .seed = FALSE)
  expect_true(eventually(sum(clutch:::node_states(cl) == "busy") == 1L))
  p <- cluster_profile(cl, {
    file.create(go_on)
    collect(wait)
    hot_and_cold(cl, 6, 0.1, 0.5)
  })
  expect_identical(sum(grepl("busy when the profile began", p$nodes$note)), 1L)
  expect_true(all(p$nodes$samples[p$nodes$node > 0L] > 0L))
  # the cluster is stopped
  p <- cluster_profile(cl, stop_cluster(cl))
  expect_match(p$nodes$note[p$nodes$node == 1L], "it was stopped")
  expect_over(NULL)
  expect_error(cluster_profile(cl, 1), class = "clutch_stopped")
})

test_that("many samples disturb neither small tasks nor large messages", {
  for (strategy in c("fork_server", "parallel")) {
    cl <- make_cluster(2, strategy)
    p <- cluster_profile(cl, {
      small <- cluster_map_int(cl, 1:20000, identity)
      large <- cluster_map(cl, 1:4, function(i) rep(i, 2e6))
      calls <- vapply(1:200, function(i) parallel::clusterCall(cl, identity, i)[[1L]], 1L)
      text <- cluster_map_chr(cl, 1:200, function(i) strrep("x", 3000))
      list(small, lengths(large), vapply(large, sum, 1), calls, unique(nchar(text)))
    }, interval = 0.001)
    expect_identical(p$value, list(1:20000, rep(2000000L, 4L), 1:4 * 2e6, 1:200, 3000L))
    expect_identical(p$nodes$note, c("", "", ""))
    expect_over(cl)
    stop_cluster(cl)
  }
})

test_that("children of nodes, options and fresh tasks do not end it", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  g <- list(hot = hot, burn = burn)
  f <- function(i) {
    options(digits = 3)
    Sys.setenv(CLUTCH_TEST_PROFILE = "1")
    forked <- parallel::mclapply(1:2, function(k) hot(0.02), mc.cores = 2)
    ran <- system2("true")
    hot(0.3)
    list(length(forked), ran)
  }
  environment(f) <- globalenv()
  for (fresh in c(FALSE, TRUE)) {
    p <- cluster_profile(cl, cluster_map(cl, 1:4, f, .globals = g, .fresh = fresh))
    expect_identical(unique(p$value), list(list(2L, 0L)))
    # the rest is what forks and starts of programs take, much on a busy machine
    expect_gt(share_of(p, "hot", 1:2), 0.2)
    expect_false(any(grepl("Rprof|samples", p$nodes$note)))
  }
  expect_over(cl)
})

test_that("the session's own cluster, and that of mclapply()", {
  on.exit(end_own_cluster())
  p <- cluster_profile(NULL, hot_and_cold(NULL, 4, 0.1, 0.5), session = FALSE)
  expect_true(all(p$nodes$node > 0L))
  expect_gt(share_of(p, "hot"), 0.1)
  # it is made anew while the expression is evaluated
  folder <- tempfile()
  dir.create(folder)
  old <- setwd(folder)
  on.exit(setwd(old), add = TRUE, after = FALSE)
  p <- cluster_profile(NULL, {
    setwd(old)
    hot_and_cold(NULL, 4, 0.1, 0.5)
  })
  expect_gt(sum(p$nodes$samples[p$nodes$node > 0L]), 0L)
  expect_over(NULL)
  expect_identical(samples_on(clutch:::the$own$cl), rep(FALSE, length(clutch:::the$own$cl)))
})

test_that("of the functions of foreach and mclapply() nothing but the user's is there", {
  on.exit(end_own_cluster())
  g <- globalenv()
  for (name in c("hot", "burn")) assign(name, get(name), g)
  on.exit(rm(list = c("hot", "burn"), envir = globalenv()), add = TRUE)
  first <- function(p) {
    calls <- p$stacks$calls[p$samples$stack[p$samples$node > 0L]]
    calls <- calls[vapply(calls, function(v) "hot" %in% v, NA)]
    sort(unique(vapply(calls, function(v) paste(v[1:2], collapse = ";"), "")))
  }
  f <- function(i) hot(0.15)
  environment(f) <- g
  # its nodes are made within the profile, and then are there
  for (k in 1:2) {
    p <- cluster_profile(NULL, clutch::mclapply(1:2, f, mc.cores = 2))
    expect_identical(first(p), ".f;hot")
    expect_identical(anyDuplicated(p$nodes$node), 0L)
    expect_identical(p$nodes$note, rep("", nrow(p$nodes)))
  }
  p <- cluster_profile(NULL, clutch::mclapply(1:2, f, mc.cores = 2, mc.preschedule = FALSE))
  expect_identical(first(p), ".f;hot")
  pool <- clutch:::the$pool$cl
  expect_over(pool)
  skip_if_not_installed("foreach")
  registerDoClutch()
  on.exit(foreach::registerDoSEQ(), add = TRUE)
  `%dopar%` <- foreach::`%dopar%`
  p <- cluster_profile(NULL, foreach::foreach(i = 1:2) %dopar% hot(0.15))
  expect_identical(first(p), ".f;hot")
})

test_that("lines of source files are counted", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  file <- tempfile(fileext = ".R")
  code <- c("a <- function(n) {", "  x <- 0", "  for (i in 1:n) x <- x + exp(-i)", "  x", "}")
  writeLines(code, file)
  env <- new.env()
  sys.source(file, env, keep.source = TRUE)
  a <- env$a
  environment(a) <- globalenv()
  p <- cluster_profile(cl, cluster_map(cl, c(4e6, 4e6), a), interval = 0.005)
  s <- summary(p, "line")
  expect_match(s$name[[1L]], paste0(basename(file), ":3$"))
  expect_gt(s$self_share[[1L]], 0.4)
  d <- as.data.frame(p)
  expect_identical(sum(d$count), nrow(p$samples))
  expect_equal(sum(d$share), 1)
  expect_true(any(grepl(paste0(basename(file), ":3"), d$at, fixed = TRUE)))
})

test_that("the size of R's heap is taken where it is asked for", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  grow <- function(i) for (k in 1:60) x <- numeric(2e6) + k
  p <- cluster_profile(cl, cluster_map(cl, 1:2, grow), interval = 0.002, memory = TRUE)
  expect_true(all(p$samples$memory[p$samples$node == 1L] > 1))
  s <- summary(p, node = 1)
  expect_gt(sum(s$grown), 15)
  expect_output(print(p), "MB")
  expect_null(cluster_profile(cl, 1)$samples$memory)
})

test_that("arguments of no use are errors that name them", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (bad in list(0, -1, 1, 1000, NA, "1", c(1, 2), NULL, Inf))
    expect_error(cluster_profile(cl, 1, interval = bad), "interval", class = "clutch_argument")
  expect_error(cluster_profile(cl, 1, session = NA), "session", class = "clutch_argument")
  expect_error(cluster_profile(cl, 1, memory = "yes"), "memory", class = "clutch_argument")
  expect_error(cluster_profile(cl), "expr", class = "clutch_argument")
  expect_error(cluster_profile(expr = 1), "`cl` is missing", class = "clutch_argument")
  expect_error(cluster_profile("cl", 1), class = "clutch_argument")
  p <- cluster_profile(cl, NULL, session = FALSE, interval = 0.9)
  expect_null(p$value)
  expect_error(plot(p), "no samples", class = "clutch_argument")
  expect_error(write_profile(p, tempfile()), "no samples", class = "clutch_argument")
  expect_error(summary(p, node = 7), "node", class = "clutch_argument")
  expect_error(summary(p, by = "file"), "by", class = "clutch_argument")
  expect_output(print(p), "0 samples")
  expect_identical(nrow(as.data.frame(p)), nrow(p$samples))
  expect_over(cl)
})
