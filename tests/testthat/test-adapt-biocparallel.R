# ClutchParam(). BiocParallel's own tests: tests/adapters/biocparallel.R.

outside_checks_only()
skip_if_not_installed("BiocParallel")
loadNamespace("BiocParallel")
bplapply <- BiocParallel::bplapply

test_that("results and random numbers are those of other parameter objects", {
  serial <- BiocParallel::SerialParam(RNGseed = 3)
  p <- ClutchParam(2, RNGseed = 3)
  expect_false(BiocParallel::bpisup(p))
  expect_identical(BiocParallel::bpnworkers(p), 2L)
  x <- stats::setNames(1:7, letters[1:7])
  expect_identical(bplapply(x, stats::rnorm, BPPARAM = p),
                   bplapply(x, stats::rnorm, BPPARAM = serial))
  expect_false(BiocParallel::bpisup(p))
  BiocParallel::bpstart(p)
  BiocParallel::bpstart(serial)
  on.exit(BiocParallel::bpstop(p))
  expect_true(BiocParallel::bpisup(p))
  for (k in 1:2) { # of two calls the second goes on with the stream
    expect_identical(bplapply(x, stats::rnorm, BPPARAM = p),
                     bplapply(x, stats::rnorm, BPPARAM = serial))
  }
  add <- function(a, b, c) a + b + c
  expect_identical(BiocParallel::bpmapply(add, 1:3, 4:6, MoreArgs = list(c = 100), BPPARAM = p),
                   c(105, 107, 109))
  expect_identical(BiocParallel::bpvec(1:10, sqrt, BPPARAM = p), sqrt(1:10))
  some <- function() {
    i <- 0
    function() {
      i <<- i + 1
      if (i <= 9) i
    }
  }
  expect_identical(BiocParallel::bpiterate(some(), function(i) i^2, REDUCE = `+`, BPPARAM = p), 285)
  expect_identical(bplapply(list(), identity, BPPARAM = p), list())
})

test_that("results are reduced in the order of their ends, also when several are there at once", {
  p <- ClutchParam(4) # so that one more is asked for while three are under way
  BiocParallel::bpstart(p)
  on.exit(BiocParallel::bpstop(p))
  folder <- tempfile()
  on.exit(unlink(folder, recursive = TRUE), add = TRUE)
  # each ends after the one with a larger number
  ends_after <- function(i, folder) {
    deadline <- Sys.time() + 60
    while (i < 3 && !file.exists(file.path(folder, i + 1)) && Sys.time() < deadline) Sys.sleep(0.01)
    Sys.sleep(0.2)
    file.create(file.path(folder, i))
    i
  }
  reduced <- function(in_order) {
    unlink(folder, recursive = TRUE)
    dir.create(folder)
    i <- 0
    iterator <- function() {
      i <<- i + 1
      if (i <= 3) return(i)
      eventually(file.exists(file.path(folder, 1)), 60)
      Sys.sleep(0.3)
      NULL
    }
    BiocParallel::bpiterate(iterator, ends_after, folder = folder, REDUCE = c,
                            reduce.in.order = in_order, BPPARAM = p)
  }
  expect_identical(reduced(FALSE), c(3, 2, 1))
  expect_identical(reduced(TRUE), c(1, 2, 3))
})

test_that("what all tasks have in common travels once for each node", {
  p <- ClutchParam(2, tasks = 12L)
  BiocParallel::bpstart(p)
  on.exit(BiocParallel::bpstop(p))
  serialized <- 0
  counted <- structure(list(), class = "clutch_test_counted")
  big <- as.raw(rep(1, 2e6))
  sent <- list()
  trace <- function(manager, value, message, ...) {
    sent <<- c(sent, list(as.double(length(serialize(message, NULL)))))
    original(manager, value, message, ...)
  }
  original <- clutch:::submit_to
  ns <- asNamespace("clutch")
  unlockBinding("submit_to", ns)
  assign("submit_to", trace, ns)
  on.exit({
    assign("submit_to", original, ns)
    lockBinding("submit_to", ns)
  }, add = TRUE)
  x <- bplapply(1:12, function(i, big) length(big) + i, big = big, BPPARAM = p)
  expect_identical(unlist(x), 2000000L + 1:12)
  # a node may have got two of the first tasks, or three where the machine is busy
  expect_lte(sum(unlist(sent) > 2e6), 6L)
  expect_gte(length(sent), 12L)
  # and is not there any more
  kept <- parallel::clusterCall(BiocParallel::bpbackend(p), function() {
    is.null(clutch:::the_node$biocparallel)
  })
  expect_true(all(unlist(kept)))
})

test_that("helpers of the workspace are found with what they use in turn", {
  workspace <- list(
    clutch_test_ten = 10,
    clutch_test_inner = function(i) i * clutch_test_ten,
    clutch_test_outer = function(i) clutch_test_inner(i) + 1
  )
  for (name in names(workspace)[-1L]) environment(workspace[[name]]) <- globalenv()
  list2env(workspace, globalenv())
  on.exit(rm(list = names(workspace), envir = globalenv()))
  f <- function(i) clutch_test_outer(i)
  environment(f) <- globalenv()
  p <- ClutchParam(2, tasks = 4L)
  BiocParallel::bpstart(p)
  on.exit(BiocParallel::bpstop(p), add = TRUE)
  expect_identical(bplapply(1:4, f, BPPARAM = p), list(11, 21, 31, 41))
  inner <- function(k) bplapply(1:2, function(i) f(i) + k, BPPARAM = p)
  expect_identical(inner(1), list(12, 22))
  v <- Vectorize(f)
  expect_identical(BiocParallel::bpvec(1:4, function(x) v(x), BPPARAM = p), c(11, 21, 31, 41))
  add <- function(a, b) f(a) + b
  expect_identical(BiocParallel::bpmapply(add, 1:2, 1:2, BPPARAM = p), c(12, 23))
  # and are gone from there
  there <- parallel::clusterCall(BiocParallel::bpbackend(p), function() ls(globalenv()))
  expect_false(any(grepl("clutch_test", unlist(there))))
  BiocParallel::bpexportvariables(p) <- FALSE
  expect_error(bplapply(1:4, f, BPPARAM = p), class = "bplist_error")
})

test_that("errors are BiocParallel's, and BPREDO computes what is missing", {
  p <- ClutchParam(2, stop.on.error = FALSE)
  x <- list(1, "2", 3)
  e <- tryCatch(bplapply(x, sqrt, BPPARAM = p), error = identity)
  expect_s3_class(e, "bplist_error")
  result <- BiocParallel::bpresult(e)
  expect_identical(BiocParallel::bpok(result), c(TRUE, FALSE, TRUE))
  expect_s3_class(result[[2L]], "remote_error")
  expect_identical(bplapply(list(1, 2, 3), sqrt, BPREDO = result, BPPARAM = p), as.list(sqrt(1:3)))
  p <- ClutchParam(2, tasks = 3L) # stops
  expect_error(bplapply(x, sqrt, BPPARAM = p), class = "bplist_error")
})

test_that("a node that dies costs its elements, and nobody else's", {
  p <- ClutchParam(2, tasks = 6L, stop.on.error = FALSE)
  BiocParallel::bpstart(p)
  on.exit(BiocParallel::bpstop(p))
  die <- function(i) if (i == 2) tools::pskill(Sys.getpid(), 9) else i
  result <- BiocParallel::bptry(bplapply(1:6, die, BPPARAM = p))
  expect_identical(which(!BiocParallel::bpok(result)), 2L)
  expect_s3_class(result[[2L]], c("clutch_task_died", "worker_comm_error"))
  expect_identical(bplapply(1:6, identity, BPREDO = result, BPPARAM = p), as.list(1:6))
  p$retries <- 1
  once <- function(i) {
    if (i == 2 && clutch::task_attempt() == 1) tools::pskill(Sys.getpid(), 9)
    i
  }
  expect_identical(bplapply(1:6, once, BPPARAM = p), as.list(1:6))
})

test_that("logs and printed output arrive", {
  speak <- function(i) {
    cat("hello", i, "\n")
    i
  }
  expect_message(bplapply(1:2, speak, BPPARAM = ClutchParam(2)), "hello 2")
  folder <- tempfile()
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  bplapply(1:2, speak, BPPARAM = ClutchParam(2, tasks = 2L, log = TRUE, logdir = folder))
  log <- readLines(file.path(folder, "BPJOB.task2.log"))
  expect_match(log, "hello 2", all = FALSE)
  expect_match(log, "^Node: [12]$", all = FALSE)
  expect_output(bplapply(1:2, identity, BPPARAM = ClutchParam(2, progressbar = TRUE)), "100%")
  expect_identical(BiocParallel::bptasks(ClutchParam(2, progressbar = TRUE)), .Machine$integer.max)
})

test_that("a cluster that is given is used, and not ended", {
  cl <- make_cluster(2)
  p <- ClutchParam(cl)
  pids <- unlist(bplapply(1:2, function(i) Sys.getpid(), BPPARAM = p))
  expect_setequal(pids, cluster_status(cl)$pid)
  expect_false(cluster_is_stopped(cl))
  stop_cluster(cl)
  own <- ClutchParam(NULL)
  BiocParallel::bpfallback(own) <- FALSE
  expect_identical(bplapply(1:3, sqrt, BPPARAM = own), as.list(sqrt(1:3)))
})

test_that("what is of no use is an error", {
  for (workers in list(-1, NA, "a"[0], TRUE, 1:2))
    expect_error(ClutchParam(workers), class = "clutch_argument")
  expect_error(ClutchParam(2, retries = "a"), "`retries`", class = "clutch_argument")
  expect_error(ClutchParam(2, threshold = "LOUD"), "bpthreshold")
  p <- ClutchParam(2)
  BiocParallel::bpworkers(p) <- 3
  expect_identical(BiocParallel::bpnworkers(p), 3L)
  expect_error(BiocParallel::bpworkers(p) <- -1, class = "clutch_argument")
  BiocParallel::bpstart(p)
  expect_error(BiocParallel::bpstart(p), "already started")
  BiocParallel::bpstop(p)
  expect_silent(BiocParallel::bpstop(p))
})

end_own_cluster()
