# Random numbers, in the ways of each interface.

with_way <- function(way, code) {
  opened <- report_ways[[way]]()
  on.exit(opened$close())
  code(opened$lap)
}

# A program: a map with a seed, for numbers of nodes from one to three. It has to give the same.
same_on_any_number <- function(map) {
  values <- lapply(1:3, function(n) {
    cl <- make_cluster(n)
    on.exit(stop_cluster(cl))
    set.seed(99)
    map(cl)
  })
  expect_identical(values[[2L]], values[[1L]])
  expect_identical(values[[3L]], values[[1L]])
  expect_false(anyDuplicated(unlist(values[[1L]])) > 0L)
}

test_that("a seed gives the same on any number of nodes (futureverse/future.apply#20)", {
  same_on_any_number(function(cl) cluster_map(cl, 1:5, function(i) stats::rnorm(2)))
})

test_that("so it does in a loop of foreach (Merck/simtrial#23)", {
  skip_if_not_installed("foreach")
  same_on_any_number(function(cl) {
    registerDoClutch(cl)
    on.exit(foreach::registerDoSEQ())
    loop <- foreach::foreach(i = 1:5, .options.clutch = list(seed = 4))
    foreach::`%dopar%`(loop, stats::runif(1))
  })
})

test_that("three loops of doRNG with one seed are alike (renozao/doRNG#12, renozao/doRNG#20)", {
  skip_if_not_installed("doRNG")
  with_way("foreach", function(lap) {
    dorng <- exported("doRNG", "%dorng%")
    draw <- function() {
      v <- dorng(foreach::foreach(i = 1:4, .options.RNG = 1234), stats::runif(1))
      list(as.vector(unlist(v)), is.null(attr(v, "rng")))
    }
    first <- draw()
    expect_identical(draw(), first)
    expect_identical(draw(), first)
    expect_false(first[[2L]])
    foreach::registerDoSEQ()
    expect_identical(draw(), first)
  })
})

test_that("loops of doRNG draw other numbers one after the other (renozao/doRNG#17)", {
  skip_if_not_installed("doRNG")
  with_way("foreach", function(lap) {
    dorng <- exported("doRNG", "%dorng%")
    draw <- function() unlist(dorng(foreach::foreach(i = 1:3), stats::runif(1)))
    set.seed(5)
    first <- c(draw(), draw())
    set.seed(5)
    expect_identical(c(draw(), draw()), first)
    expect_identical(anyDuplicated(as.vector(first)), 0L)
  })
})

test_that("futures with seeds draw different numbers, again the same (futureverse/future#560)", {
  with_way("future", function(lap) {
    two <- function() {
      set.seed(3)
      a <- future::future(stats::runif(1), seed = TRUE)
      b <- future::future(stats::runif(1), seed = TRUE)
      c(future::value(a), future::value(b))
    }
    first <- two()
    expect_false(first[[1L]] == first[[2L]])
    expect_identical(two(), first)
    future::plan("sequential")
    expect_identical(two(), first)
  })
})

test_that("a future that draws without a seed warns (futureverse/future#353)", {
  with_way("future", function(lap) {
    f <- future::future(stats::runif(1))
    expect_warning(future::value(f), class = "RngFutureWarning")
    f <- future::future(stats::runif(1), seed = NULL)
    expect_silent(future::value(f))
  })
})

test_that("future_lapply() with seeds moves the session's numbers (futureverse/future#749)", {
  with_way("future_lapply", function(lap) {
    set.seed(8)
    before <- .Random.seed
    a <- lap(1:3, function(i) stats::rnorm(1), future.seed = TRUE)
    expect_false(identical(.Random.seed, before))
    b <- lap(1:3, function(i) stats::rnorm(1), future.seed = TRUE)
    expect_false(identical(a, b))
    set.seed(8)
    expect_identical(lap(1:3, function(i) stats::rnorm(1), future.seed = TRUE), a)
    expect_identical(lap(1:3, function(i) stats::rnorm(1), future.seed = 42L),
                     lap(1:3, function(i) stats::rnorm(1), future.seed = 42L))
  })
})

test_that("furrr's seeds give the same twice (futureverse/furrr#172)", {
  with_way("future_map", function(lap) {
    o <- exported("furrr", "furrr_options")(seed = 123L)
    draw <- function() lap(1:4, function(i) stats::rnorm(1), .options = o)
    expect_identical(draw(), draw())
  })
})

bioc_draw <- function(seed, ...) {
  p <- ClutchParam(2, RNGseed = seed, ...)
  unlist(BiocParallel::bplapply(1:4, function(i) stats::runif(1), BPPARAM = p))
}

test_that("a seed of BiocParallel gives the same each time (Bioconductor/BiocParallel#122)", {
  skip_if_not_installed("BiocParallel")
  expect_identical(bioc_draw(123), bioc_draw(123))
  expect_false(identical(bioc_draw(123), bioc_draw(124)))
})

test_that("so it does whatever the number of tasks (Bioconductor/BiocParallel#137)", {
  skip_if_not_installed("BiocParallel")
  serial <- BiocParallel::bplapply(1:4, function(i) stats::runif(1),
                                   BPPARAM = BiocParallel::SerialParam(RNGseed = 7))
  expect_identical(bioc_draw(7, tasks = 4L), unlist(serial))
  expect_identical(bioc_draw(7, tasks = 1L), unlist(serial))
})

test_that("calls of one started parameter differ, and are repeated (plger/scDblFinder#53)", {
  skip_if_not_installed("BiocParallel")
  twice <- function() {
    p <- BiocParallel::bpstart(ClutchParam(2, RNGseed = 123))
    on.exit(BiocParallel::bpstop(p))
    lapply(1:2, function(k) BiocParallel::bplapply(1:2, stats::runif, BPPARAM = p))
  }
  first <- twice()
  expect_false(identical(first[[1L]], first[[2L]]))
  expect_identical(twice(), first)
})

test_that("a seed that is set anew begins anew (Bioconductor/BiocParallel#204)", {
  skip_if_not_installed("BiocParallel")
  p <- BiocParallel::bpstart(ClutchParam(2))
  on.exit(BiocParallel::bpstop(p))
  draw <- function() {
    BiocParallel::bpRNGseed(p) <- 123
    BiocParallel::bplapply(1, function(x) stats::runif(1), BPPARAM = p)
  }
  q <- BiocParallel::bpstart(BiocParallel::SerialParam())
  BiocParallel::bpRNGseed(q) <- 123
  theirs <- BiocParallel::bplapply(1, function(x) stats::runif(1), BPPARAM = q)
  expect_identical(draw(), theirs)
})

test_that("the session's numbers go on as with other parameters (Bioconductor/BiocParallel#110)", {
  skip_if_not_installed("BiocParallel")
  after <- function(p) {
    set.seed(100)
    BiocParallel::bplapply(1:3, seq_len, BPPARAM = p)
    stats::runif(3)
  }
  expect_identical(after(ClutchParam(2)), after(BiocParallel::SerialParam()))
})

seeded <- function(i) {
  set.seed(i)
  stats::runif(1)
}

test_that("an element that sets a seed has lapply()'s numbers (ropensci/targets#1510)", {
  expected <- unlist(lapply(1:3, seeded))
  for (way in c("mclapply", "parLapply", "foreach")) {
    with_way(way, function(lap) expect_identical(unlist(lap(1:3, seeded)), expected))
  }
  with_way("cluster_map", function(lap) {
    expect_identical(unlist(lap(1:3, seeded, .seed = FALSE)), expected)
  })
})

test_that("with streams a seed is one of L'Ecuyer's generator (ropensci/targets#1168)", {
  expected <- unlist(lapply(1:3, function(i) {
    set.seed(i, kind = "L'Ecuyer-CMRG")
    stats::runif(1)
  }))
  RNGkind("default")
  for (way in c("cluster_map", "BiocParallel", "mirai_map")) {
    with_way(way, function(lap) expect_identical(unlist(lap(1:3, seeded)), expected))
  }
})

test_that("nodes of one cluster do not draw the same (uma-pi1/kge#100)", {
  for (way in c("cluster_map", "mclapply", "parLapply", "clusterMap", "mirai_map")) {
    with_way(way, function(lap) {
      v <- unlist(lap(1:6, function(i) stats::runif(1)))
      expect_identical(anyDuplicated(v), 0L)
    })
  }
})

test_that("streams of package parallel are its own (futureverse/doFuture#41)", {
  draw <- function(cl) {
    on.exit(stop_cluster(cl))
    parallel::clusterSetRNGStream(cl, 123)
    parallel::parLapply(cl, 1:4, function(i) stats::runif(1))
  }
  first <- draw(make_cluster(2))
  expect_identical(draw(make_cluster(2)), first)
  expect_identical(anyDuplicated(unlist(first)), 0L)
})

test_that("the kind of generator of the session is as it was (futureverse/doFuture#41)", {
  kind <- RNGkind()
  on.exit(do.call(RNGkind, as.list(kind)))
  with_way("cluster_map", function(lap) {
    for (k in c("L'Ecuyer-CMRG", "Wichmann-Hill")) {
      RNGkind(k)
      lap(1:3, function(i) {
        RNGkind("Knuth-TAOCP-2002")
        stats::runif(1)
      })
      expect_identical(RNGkind()[[1L]], k)
    }
  })
})

test_that("a session without random numbers has none after a map (futureverse/furrr#172)", {
  old <- globalenv()$.Random.seed
  on.exit(if (!is.null(old)) assign(".Random.seed", old, globalenv()))
  with_way("parLapply", function(lap) {
    suppressWarnings(rm(".Random.seed", envir = globalenv()))
    lap(1:2, function(i) stats::runif(1))
    expect_false(exists(".Random.seed", globalenv(), inherits = FALSE))
  })
})
