# What each interface has that others have not.

with_way <- function(way, code) {
  opened <- report_ways[[way]]()
  on.exit(opened$close())
  code(opened$lap)
}
with_cluster <- function(code, n = 2) {
  cl <- make_cluster(n)
  on.exit(stop_cluster(cl))
  code(cl)
}
`%each%` <- function(loop, code) {
  eval(call("%dopar%", substitute(loop), substitute(code)),
       list(`%dopar%` = foreach::`%dopar%`), parent.frame())
}

# ---- foreach ----

test_that("nested loops bind rows (allogamous/EnvRtype#14)", {
  with_way("foreach", function(lap) {
    `%:%` <- foreach::`%:%`
    rows <- foreach::foreach(a = 1:2, .combine = rbind) %:%
      foreach::foreach(b = 1:3, .combine = rbind) %each% data.frame(a = a, b = b, ab = a * b)
    expect_identical(unname(as.matrix(rows)), cbind(rep(1:2, each = 3), 1:3, c(1:3, 2L * 1:3)))
  })
})

test_that("a condition leaves iterations out (allogamous/EnvRtype#14)", {
  with_way("foreach", function(lap) {
    `%:%` <- foreach::`%:%`
    odd <- foreach::foreach(a = 1:5, .combine = c) %:% foreach::when(a %% 2 == 1) %each% a
    expect_identical(odd, c(1L, 3L, 5L))
  })
})

test_that("`.export` names a function of the workspace (mschubert/clustermq#124)", {
  assign("reports_exported", function(x) x * 2, globalenv())
  on.exit(rm("reports_exported", envir = globalenv()))
  with_way("foreach", function(lap) {
    v <- foreach::foreach(i = 1:2, .export = "reports_exported") %each% {
      get(paste0("reports_", "exported"))(i)
    }
    expect_identical(v, list(2, 4))
  })
})

test_that("`.noexport` keeps a variable at home (futureverse/doFuture#91)", {
  assign("reports_kept", 2, globalenv())
  on.exit(rm("reports_kept", envir = globalenv()))
  with_way("foreach", function(lap) {
    loop <- function(...) {
      code <- bquote(foreach::`%dopar%`(foreach::foreach(i = 1:2, ..(list(...))), reports_kept),
                     splice = TRUE)
      eval(code, globalenv())
    }
    expect_error(loop(.noexport = "reports_kept"), "reports_kept")
    expect_identical(loop(), list(2, 2))
  })
})

test_that("a loop within a loop has a variable of its own (futureverse/doFuture#11)", {
  with_way("foreach", function(lap) {
    v <- foreach::foreach(i = 1:2, .packages = "foreach") %each% {
      unlist(foreach::`%do%`(foreach::foreach(j = 1:2), i * 10 + j))
    }
    expect_identical(v, list(c(11, 12), c(21, 22)))
  })
})

test_that("an error of a loop whose code is a name goes through try() (futureverse/doFuture#91)", {
  with_way("foreach", function(lap) {
    e <- try(foreach::foreach(i = 1:2) %each% nowhere_to_be_found, silent = TRUE)
    expect_s3_class(e, "try-error")
    expect_match(e, "nowhere_to_be_found")
  })
})

test_that("elements that need the workspace bring it in later blocks, too (futureverse/furrr#16)", {
  assign("reports_rate", 3, globalenv())
  on.exit(rm("reports_rate", envir = globalenv()))
  f <- function(x) x * reports_rate
  environment(f) <- globalenv()
  with_way("foreach", function(lap) {
    n <- 0
    slow <- structure(class = c("abstractiter", "iter"), list(nextElem = function() {
      n <<- n + 1
      if (n > 4) stop("StopIteration", call. = FALSE)
      Sys.sleep(0.15)
      if (n > 2) f else function(x) x
    }))
    v <- foreach::foreach(g = slow, .combine = c) %each% g(2)
    expect_identical(v, c(2, 2, 6, 6))
  })
})

test_that("the session does the loop when that is registered (RevolutionAnalytics/foreach#26)", {
  with_way("foreach", function(lap) {
    away <- foreach::foreach(i = 1, .combine = c) %each% Sys.getpid()
    expect_false(away == Sys.getpid())
  })
  here <- suppressWarnings(foreach::foreach(i = 1, .combine = c) %each% Sys.getpid())
  expect_identical(here, Sys.getpid())
})

# ---- future, furrr, future.apply ----

test_that("chunks in random order give values in order (futureverse/furrr#289, #290)", {
  with_way("future_map", function(lap) {
    options_of <- exported("furrr", "furrr_options")
    for (o in list(options_of(chunk_size = 2L), options_of(scheduling = 3),
                   options_of(chunk_size = structure(2L, ordering = "random")))) {
      expect_identical(lap(1:7, function(i) i, .options = o), as.list(1:7))
    }
  })
})

test_that("names of rows are those of the first vector (futureverse/furrr#116)", {
  l <- list(list(x = 1:3, y = 2:4, z = 3:5), 1:3)
  expected <- list(x = 2:4, y = 4:6, z = 6:8)
  with_cluster(function(cl) expect_identical(cluster_pmap(cl, l, ~ .x + .y), expected))
  with_way("future_map", function(lap) {
    expect_identical(exported("furrr", "future_pmap")(l, function(a, b) a + b), expected)
  })
})

test_that("rows of nothing are none (futureverse/furrr#135)", {
  with_cluster(function(cl) {
    expect_length(cluster_pmap(cl, list(), identity), 0L)
    expect_length(cluster_pmap(cl, list(integer(), character()), paste), 0L)
    expect_length(cluster_map2(cl, NULL, NULL, paste), 0L)
  })
})

test_that("MoreArgs may be a function (futureverse/future.apply#51)", {
  pick <- function(x, y) y(x) + 1
  environment(pick) <- globalenv()
  expected <- mapply(pick, x = 1:3, MoreArgs = list(y = identity))
  on.exit(end_own_cluster())
  expect_identical(mcmapply(pick, x = 1:3, MoreArgs = list(y = identity), mc.cores = 2), expected)
  with_cluster(function(cl) {
    v <- parallel::clusterMap(cl, pick, x = 1:3, MoreArgs = list(y = identity), SIMPLIFY = TRUE)
    expect_identical(v, expected)
    expect_identical(unlist(cluster_map(cl, 1:3, pick, .more = list(y = identity))), expected)
  })
  with_way("future_lapply", function(lap) {
    f <- exported("future.apply", "future_mapply")
    for (seed in c(FALSE, TRUE)) {
      got <- f(pick, x = 1:3, MoreArgs = list(y = identity), future.seed = seed)
      expect_identical(got, expected)
    }
  })
})

test_that("mapply() over nothing (futureverse/future.apply#17)", {
  expect_identical(mcmapply(function(x, y) x, character(), MoreArgs = list(y = 1), mc.cores = 2),
                   parallel::mcmapply(function(x, y) x, character(), MoreArgs = list(y = 1),
                                      mc.cores = 2))
})

test_that("rows and columns of a matrix (futureverse/future.apply#6, r-lib/mirai#192)", {
  m <- matrix(1:6, 2, dimnames = list(c("a", "b"), NULL))
  with_cluster(function(cl) {
    expect_identical(parallel::parApply(cl, m, 1, sum), apply(m, 1, sum))
    expect_identical(unname(parallel::parRapply(cl, m, mean)), unname(rowMeans(m)))
    expect_identical(parallel::parCapply(cl, m, range), as.vector(apply(m, 2, range)))
  })
  with_way("future_lapply", function(lap) {
    f <- exported("future.apply", "future_apply")
    expect_identical(f(m, 1, sum), apply(m, 1, sum))
    expect_identical(f(m, 2, range), apply(m, 2, range))
  })
})

test_that("`conditions` and `stdout` of a future (futureverse/future#403, #271)", {
  with_way("future", function(lap) {
    quiet <- future::future({
      warning("hidden")
      1
    }, conditions = character())
    expect_silent(v <- future::value(quiet))
    expect_identical(v, 1)
    f <- future::future(print(1), stdout = FALSE)
    expect_identical(capture.output(v <- future::value(f)), character())
    f <- future::future(print("seen"))
    expect_identical(capture.output(v <- future::value(f)), '[1] "seen"')
  })
})

test_that("globals that are given, by value and name (futureverse/future#225, #401)", {
  with_way("future", function(lap) {
    g <- future::future(quote(renamed(y)), globals = list(renamed = identity, y = 3),
                        substitute = FALSE)
    expect_identical(future::value(g), 3)
    f <- future::futureCall(function(x) x + z, args = list(x = 1), globals = list(z = 3))
    expect_identical(future::value(f), 4)
  })
})

test_that("a lazy future has the variables of its making (futureverse/future#281)", {
  with_way("future", function(lap) {
    a <- 42
    f <- future::future(a, lazy = TRUE)
    a <- 1
    expect_identical(future::value(f), 42)
    expect_identical(a, 1)
  })
})

test_that("a future removes its own variable only (futureverse/future#823)", {
  with_way("future", function(lap) {
    pid <- 5
    f <- future::future({
      pid <- pid + 1
      kept <- pid
      rm(pid)
      kept
    })
    expect_identical(future::value(f), 6)
    expect_identical(pid, 5)
  })
})

test_that("a plan that a function sets holds behind it (futureverse/furrr#237)", {
  skip_if_not_installed("future", "1.40.0")
  on.exit(future::plan("sequential"))
  sets_plan <- function() future::plan(clutch, workers = I(1))
  sets_plan()
  expect_false(future::value(future::future(Sys.getpid())) == Sys.getpid())
})

test_that("a future within a future (futureverse/doFuture#16)", {
  with_way("future", function(lap) {
    f <- future::future({
      inner <- lapply(1:2, function(i) future::future(i * 10))
      unlist(lapply(inner, future::value))
    })
    expect_identical(future::value(f), c(10, 20))
  })
})

test_that("values of lists and environments of futures (futureverse/future#42)", {
  with_way("future", function(lap) {
    fs <- list(a = future::future(1), b = 2, c = future::future(NULL))
    expect_identical(future::value(fs), list(a = 1, b = 2, c = NULL))
    e <- new.env()
    e$x <- future::future("v")
    expect_identical(as.list(future::value(e)), list(x = "v"))
  })
})

# ---- rows, as mirai_map() and clustermq have them ----

test_that("cells of rows keep their classes (r-lib/mirai#196)", {
  d <- data.frame(when = as.Date("2018-09-27") + 0:1, kind = factor(c("u", "v")))
  with_cluster(function(cl) {
    v <- cluster_pmap(cl, d, function(when, kind) paste(class(when), class(kind), format(when)))
    expect_identical(unlist(v), paste("Date factor", format(d$when)))
  })
})

test_that("a function takes some columns only (r-lib/mirai#419)", {
  with_cluster(function(cl) {
    v <- cluster_pmap(cl, datasets::mtcars[1:3, ], function(mpg, cyl, ...) mpg * cyl)
    expect_identical(unlist(v), with(datasets::mtcars[1:3, ], mpg * cyl))
    expect_error(cluster_pmap(cl, datasets::mtcars[1:3, ], function(mpg, cyl) 1), "unused argument")
  })
})

test_that("thousands of rows, through dots (mschubert/clustermq#272)", {
  d <- data.frame(A = 1:4000, B = 4000:1)
  with_cluster(function(cl) {
    v <- cluster_pmap(cl, d, function(...) list(...))
    expect_identical(vapply(v, function(r) r$A + r$B, 1L), rep(4001L, 4000))
  })
})

test_that("a value of the wrong type is an error (mschubert/clustermq#67, r-lib/mirai#639)", {
  with_cluster(function(cl) {
    expect_error(cluster_map_dbl(cl, 1:2, function(i) list(i)), class = "clutch_error")
    expect_error(cluster_map_chr(cl, list("a"), function(x) x + 1L), "non-numeric")
    expect_error(cluster_map_int(cl, 1:2, function(i) 1:2), class = "clutch_error")
  })
})

test_that("a cluster of no nodes is an error (mschubert/clustermq#75)", {
  expect_error(make_cluster(0), class = "clutch_error")
})

# ---- mirai ----

test_that("everywhere() and an error's class with our daemons (r-lib/mirai#80, r-lib/mirai#400)", {
  with_way("mirai_map", function(lap) {
    mirai::everywhere(assign("reports_there", k, envir = globalenv()), k = 4)
    expect_identical(lap(1:4, function(i) get("reports_there", globalenv()) * i),
                     as.list(4 * 1:4))
    m <- mirai::mirai(stop(errorCondition("no", class = "refusal")))[]
    expect_s3_class(m, "miraiError")
    expect_true("refusal" %in% c(m$condition.class, class(m)))
  })
})

test_that("a daemon that an element asks for is refused, and others go on (r-lib/mirai#310)", {
  with_way("mirai_map", function(lap) {
    expect_error(lap(1:2, function(i) mirai::daemons(2)), "daemons")
    expect_identical(lap(1:2, function(i) i), list(1L, 2L))
  })
})

# ---- BiocParallel ----

test_that("bptry() and bpok() know what has failed (Bioconductor/BiocParallel#142)", {
  skip_if_not_installed("BiocParallel")
  x <- list(1, "two", 3)
  for (stops in c(TRUE, FALSE)) {
    p <- ClutchParam(2, stop.on.error = stops)
    v <- BiocParallel::bptry(BiocParallel::bplapply(x, sqrt, BPPARAM = p))
    expect_length(v, 3L)
    ok <- BiocParallel::bpok(v)
    expect_false(ok[[2L]])
    if (!stops) expect_identical(ok, c(TRUE, FALSE, TRUE))
  }
})

test_that("errors of all elements are counted (Bioconductor/BiocParallel#240)", {
  skip_if_not_installed("BiocParallel")
  p <- ClutchParam(2, stop.on.error = FALSE)
  e <- caught(BiocParallel::bplapply(1:4, function(i) stop("each"), BPPARAM = p))
  expect_match(conditionMessage(e), "4 remote errors")
})

count_to <- function(n) {
  i <- 0L
  function() {
    i <<- i + 1L
    if (i <= n) i
  }
}

test_that("bpiterate() tells errors (Bioconductor/BiocParallel#257, #160)", {
  skip_if_not_installed("BiocParallel")
  p <- ClutchParam(2)
  expect_error(BiocParallel::bpiterate(count_to(10), function(x) stop("always"), BPPARAM = p),
               "always")
  expect_identical(BiocParallel::bpiterate(count_to(5), function(x) x^2, BPPARAM = p),
                   as.list((1:5)^2))
  expect_equal(BiocParallel::bpiterate(count_to(5), identity, REDUCE = `+`, BPPARAM = p), 15)
})

test_that("bplapply() within bplapply() (Bioconductor/BiocParallel#144)", {
  skip_if_not_installed("BiocParallel")
  v <- BiocParallel::bplapply(1:2, function(i) {
    inner <- BiocParallel::SerialParam()
    unlist(BiocParallel::bptry(BiocParallel::bplapply(1:2, function(j) i * j, BPPARAM = inner)))
  }, BPPARAM = ClutchParam(2))
  expect_identical(v, list(1:2, c(2L, 4L)))
})

test_that("later elements that need more than the first (futureverse/furrr#16)", {
  skip_if_not_installed("BiocParallel")
  assign("reports_rate", 3, globalenv())
  on.exit(rm("reports_rate", envir = globalenv()))
  f <- function(x) x * reports_rate
  environment(f) <- globalenv()
  plain <- function(x) x
  environment(plain) <- globalenv()
  x <- rep(list(plain, f), c(6, 6))
  v <- BiocParallel::bplapply(x, function(g) g(2), BPPARAM = ClutchParam(2, tasks = 12L))
  expect_identical(unlist(v), rep(c(2, 6), each = 6))
})

# ---- package parallel ----

test_that("the default cluster is taken where none is given (nikita-moor/ldatuning#14)", {
  with_cluster(function(cl) {
    parallel::setDefaultCluster(cl)
    on.exit(parallel::setDefaultCluster(NULL))
    expect_identical(parallel::parLapply(X = 1:3, fun = function(i) i + 1), list(2, 3, 4))
    expect_identical(parallel::parSapply(NULL, c(a = 1), sqrt), c(a = 1))
  })
})

test_that("exported helpers, of the workspace and of a frame (csgillespie/efficient#19)", {
  with_cluster(function(cl) {
    assign("reports_move", function(n) reports_rule(n) + 1, globalenv())
    assign("reports_rule", function(n) n * 2, globalenv())
    on.exit(rm("reports_move", "reports_rule", envir = globalenv()))
    game <- function(n) reports_move(n)
    environment(game) <- globalenv()
    expect_error(parallel::parSapply(cl, 1:3, game), "reports_move")
    parallel::clusterExport(cl, list("reports_move", "reports_rule"))
    expect_identical(parallel::parSapply(cl, 1:3, game), c(3, 5, 7))
    exports <- function(stopwords) {
      parallel::clusterExport(cl, "stopwords", envir = environment())
      parallel::clusterEvalQ(cl, length(stopwords))
    }
    expect_identical(exports(c("a", "b")), list(2L, 2L)) # TommyJones/textmineR#21
  })
})

test_that("parSapply() and parLapplyLB() simplify and keep names (futureverse/future.apply#105)", {
  words <- c("one", "three")
  with_cluster(function(cl) {
    expect_identical(parallel::parSapply(cl, words, nchar), sapply(words, nchar))
    expect_identical(parallel::parSapply(cl, 1:2, function(i) c(a = i, b = 2)),
                     sapply(1:2, function(i) c(a = i, b = 2)))
    expect_identical(parallel::parLapplyLB(cl, c(x = 1, y = 2), sqrt),
                     lapply(c(x = 1, y = 2), sqrt))
  })
})

# ---- crew ----

# On a busy machine mirai loses a task now and then, with crew's own workers, too.
with_crew <- function(code) {
  skip_if_not_installed("crew", "1.0.0")
  outside_checks_only()
  x <- crew_controller_clutch(name = "reports", workers = 2)
  x$start()
  on.exit(x$terminate())
  code(x)
}
one_task <- function(x, ...) {
  for (again in 1:5) {
    x$push(...)
    x$wait(mode = "all", seconds_timeout = 60)
    done <- x$pop()
    if (!is.null(done) && !is.na(done$code) && done$code != -1L) return(done)
  }
  done
}

test_that("a task's value, error, warning and seed by our workers (wlandau/crew#202)", {
  with_crew(function(x) {
    expect_identical(one_task(x, command = a + b, data = list(a = 1, b = 2))$result[[1L]], 3)
    f <- function(v) v * 2
    expect_identical(one_task(x, command = f(4), globals = list(f = f))$result[[1L]], 8)
    draws <- lapply(1:2, function(k) one_task(x, command = stats::runif(1), seed = 1L)$result[[1L]])
    expect_identical(draws[[1L]], draws[[2L]])
  })
})

test_that("our controllers are of a group (ropensci/targets#1065)", {
  skip_if_not_installed("crew", "1.0.0")
  outside_checks_only()
  group <- crew::crew_controller_group(crew_controller_clutch(name = "one"),
                                       crew_controller_clutch(name = "two"))
  group$start()
  on.exit(group$terminate())
  found <- FALSE
  for (again in 1:5) {
    group$push(command = "done", controller = "two")
    group$wait(mode = "all", seconds_timeout = 60)
    found <- identical(group$pop()$result[[1L]], "done")
    if (found) break
  }
  expect_true(found)
})
