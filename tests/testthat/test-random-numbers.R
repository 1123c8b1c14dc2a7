# Random numbers of maps and tasks: a stream for each element.

test_that("random numbers depend on the seed alone; the session's state moves by one draw", {
  draws <- list()
  for (n in c(1, 2, 7)) {
    cl <- make_cluster(n)
    for (chunk in list(NULL, 1, 3)) {
      draws <- c(draws,
                 list(cluster_map_dbl(cl, 1:20, function(x) rnorm(1), .seed = 42, .chunk = chunk)))
    }
    if (n == 2) draws <- c(draws, list(cluster_map_dbl(cl, 1:20, function(i) {
      x <- rnorm(1)
      if (i %% 7 == 0 && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9L)
      x
    }, .seed = 42, .retries = 1)))
    set.seed(7)
    a <- cluster_map_dbl(cl, 1:5, function(x) runif(1))
    set.seed(7)
    expect_identical(cluster_map_dbl(cl, 1:5, function(x) runif(1)), a)
    expect_false(identical(cluster_map_dbl(cl, 1:5, function(x) runif(1)), a))
    expect_identical(anyDuplicated(a), 0L)
    stop_cluster(cl)
  }
  for (d in draws) expect_identical(d, draws[[1L]])
  # parallel's streams, from the same seed
  old <- RNGkind()
  RNGkind("L'Ecuyer-CMRG", "Inversion", "Rejection")
  set.seed(42)
  s <- get(".Random.seed", globalenv())
  expect <- vapply(1:20, function(i) {
    assign(".Random.seed", s, globalenv())
    s <<- parallel::nextRNGStream(s)
    rnorm(1)
  }, 1)
  RNGkind(old[[1L]], old[[2L]], old[[3L]])
  expect_identical(draws[[1L]], expect)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (seed in list(TRUE, 3)) {
    set.seed(1)
    cluster_map(cl, 1:3, identity, .seed = seed)
    after <- runif(1)
    set.seed(1)
    runif(1)
    expect_identical(runif(1), after)
  }
  set.seed(1)
  cluster_map(cl, 1:3, identity, .seed = FALSE)
  after <- runif(1)
  set.seed(1)
  expect_identical(runif(1), after)
  # the nodes' own stream is theirs again afterwards
  parallel::clusterSetRNGStream(cl, 5)
  a <- parallel::clusterCall(cl, runif, 2)
  parallel::clusterSetRNGStream(cl, 5)
  b <- parallel::clusterCall(cl, runif, 1)
  cluster_map(cl, 1:3, rnorm)
  expect_identical(list(c(unlist(b), unlist(parallel::clusterCall(cl, runif, 1)))), a)
})

test_that("streams are those of parallel, any number of them ahead", {
  s <- c(10407L, 1L, -2L, 3L, 4L, 5L, 6L)
  at <- s
  for (i in 1:5) at <- parallel::nextRNGStream(at)
  expect_identical(.Call(clutch:::ffi_stream_jump, s[-1L], 5), at[-1L])
  far <- .Call(clutch:::ffi_stream_jump, .Call(clutch:::ffi_stream_jump, s[-1L], 999999), 1)
  expect_identical(.Call(clutch:::ffi_stream_jump, s[-1L], 1e6), far)
  expect_identical(.Call(clutch:::ffi_stream_jump, s[-1L], 0), s[-1L])
})

test_that("random numbers follow their stream where a task keeps, sets or removes .Random.seed", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  plain <- cluster_map(cl, 1:60, function(i) runif(2), .seed = 7)
  odd <- cluster_map(cl, 1:60, function(i) {
    x <- runif(2)
    if (i %% 4 == 1) assign("kept", .Random.seed, globalenv())
    if (i %% 4 == 2) set.seed(1, kind = "Mersenne-Twister")
    if (i %% 4 == 3) rm(.Random.seed, envir = globalenv())
    x
  }, .seed = 7)
  expect_identical(odd, plain)
  kept <- cluster_map(cl, 1:40, function(i) .Random.seed, .seed = 7)
  expect_identical(length(unique(kept)), 40L) # none was written over while somebody had it
})

test_that("the stream of a seed is that of set.seed(); one number is drawn as runif() does", {
  old <- RNGkind()
  on.exit(RNGkind(old[[1L]], old[[2L]], old[[3L]]))
  of_set_seed <- function(seed) {
    set.seed(seed, kind = "L'Ecuyer-CMRG", normal.kind = "Inversion", sample.kind = "Rejection")
    get(".Random.seed", globalenv())[-1L]
  }
  seeds <- c(0L, 1L, -1L, 42L, .Machine$integer.max, -.Machine$integer.max,
             as.integer(runif(200, -2^31 + 1, 2^31 - 1)))
  for (seed in seeds) {
    expected <- of_set_seed(seed)
    expect_identical(clutch:::stream_of_seed(seed), expected)
    expect_identical(clutch:::stream_of_seed(as.double(seed)), expected)
  }
  expect_identical(clutch:::stream_of_seed(c(10407, 1:6)), 1:6)
  for (kind in c("Mersenne-Twister", "Wichmann-Hill", "L'Ecuyer-CMRG")) {
    RNGkind(kind, "Inversion", "Rejection")
    set.seed(5)
    drawn <- runif(1)
    after <- get(".Random.seed", globalenv())
    expected <- of_set_seed(as.integer(drawn * 2147483647))
    for (seed in list(TRUE, 1, c(10407, 1:6))) {
      RNGkind(kind, "Inversion", "Rejection")
      set.seed(5)
      stream <- clutch:::stream_of_seed(seed)
      expect_identical(get(".Random.seed", globalenv()), after)
      if (isTRUE(seed)) expect_identical(stream, expected)
    }
  }
})
