# The functions of parallel on our nodes beside its own: the same values and the same errors.

# test-launch-tcp.R runs this file again with another new_cluster().

if (!exists("new_cluster")) new_cluster <- function(n) make_cluster(n)

both <- function(code) {
  ours <- new_cluster(2)
  theirs <- parallel::makePSOCKcluster(2)
  on.exit({
    stop_cluster(ours)
    parallel::stopCluster(theirs)
  })
  code(ours, theirs)
}

test_that("every function of parallel gives the same values", {
  both(function(ours, theirs) {
    m <- matrix(1:12, 4)
    calls <- list(
      function(cl) parallel::clusterCall(cl, function(x) x + 1, 2),
      function(cl) parallel::clusterCall(cl, "sum", 1, 2),
      function(cl) parallel::clusterEvalQ(cl, {
        zz <- 3
        zz * 2
      }),
      function(cl) {
        b <- 5
        parallel::clusterExport(cl, "b", environment())
        parallel::clusterEvalQ(cl, b)
      },
      function(cl) parallel::clusterApply(cl, 1:5, function(i, k) i * k, 3),
      function(cl) parallel::clusterApply(cl, list(), identity),
      function(cl) parallel::clusterApplyLB(cl, c(a = 1, b = 2, c = 3), function(i) i),
      function(cl) {
        parallel::clusterMap(cl, function(x, y) x + y, c(a = 1, b = 2), 3:4, SIMPLIFY = TRUE)
      },
      function(cl) parallel::clusterMap(cl, function(x, y, z) x + y + z, 1:3, 4:6,
                                        MoreArgs = list(z = 1),
                                        .scheduling = "dynamic"),
      function(cl) parallel::clusterSplit(cl, 1:7),
      function(cl) parallel::parLapply(cl, 1:5, function(i) letters[i]),
      function(cl) parallel::parLapplyLB(cl, 1:5, function(i) letters[i]),
      function(cl) parallel::parSapply(cl, c(x = 1, y = 2), sqrt),
      function(cl) parallel::parSapplyLB(cl, 1:5, sqrt),
      function(cl) parallel::parApply(cl, m, c(1, 2), function(x) x * 2),
      function(cl) parallel::parRapply(cl, m, sum),
      function(cl) parallel::parCapply(cl, m, sum),
      function(cl) {
        parallel::clusterCall(cl, function(...) names(list(...)), a = 1, b = quote(x + y))
      },
      function(cl) parallel::clusterCall(cl, function(f) f, quote(stop("not evaluated"))),
      function(cl) {
        parallel::clusterSetRNGStream(cl, 42)
        parallel::parSapply(cl, 1:6, function(i) stats::rnorm(1))
      },
      function(cl) {
        parallel::setDefaultCluster(cl)
        on.exit(parallel::setDefaultCluster(NULL))
                     parallel::parLapply(NULL, 1:3, identity)
                   })
    for (f in calls) {
      expect_identical(f(ours), f(theirs), info = paste(deparse(body(f)), collapse = " "))
    }
  })
})

test_that("errors have the same text", {
  both(function(ours, theirs) {
    message_of <- function(e) tryCatch(e, error = conditionMessage)
    for (f in list(function(cl) parallel::clusterCall(cl, function() stop("all")),
                   function(cl) parallel::clusterApply(cl, 1:2, function(i) {
                     if (i == 2) stop("one") else i
                   }),
                   function(cl) parallel::clusterApply(cl, 1:2, function(i) stop("number ", i)),
                   function(cl) parallel::clusterCall(cl, function() {
                     try(stop("tried"), silent = TRUE)
                   }),
                   function(cl) parallel::clusterCall(cl, "no_such_function_at_all"),
                   function(cl) parallel::clusterCall(cl, function() log("a")),
                   function(cl) parallel::clusterEvalQ(cl, {
                     p <- "no.such.package"
                     library(p, character.only = TRUE)
                   }),
                   function(cl) parallel::clusterCall(cl, function() {
                     f <- function() f()
                     f()
                   }))) {
      expect_identical(message_of(f(ours)), message_of(f(theirs)))
      expect_identical(parallel::clusterCall(ours, identity, 7), list(7, 7))
    }
  })
})

test_that("stopping works in every way that parallel offers", {
  cl <- new_cluster(1)
  parallel::stopCluster(cl)
  expect_error(parallel::clusterCall(cl, identity, 1), class = "clutch_stopped")
  expect_silent(stop_cluster(cl))
  cl <- new_cluster(1)
  parallel::setDefaultCluster(cl)
  parallel::stopCluster()
  expect_error(parallel::clusterCall(cl, identity, 1), class = "clutch_stopped")
  expect_null(parallel::getDefaultCluster())
  cl <- new_cluster(1)
  parallel::setDefaultCluster(cl)
  stop_cluster()
  expect_null(parallel::getDefaultCluster())
  end_own_cluster()
  expect_error(stop_cluster(), class = "clutch_argument")
  expect_error(parallel::stopCluster())
})

test_that("big values and shared exports arrive whole", {
  cl <- new_cluster(3)
  x <- as.raw(seq_len(5e6) %% 251)
  for (answer in parallel::clusterCall(cl, identity, x)) expect_identical(answer, x)
  e <- new.env()
  f <- function() e
  cluster_export(cl, c("x", "e", "f"), environment())
  expect_identical(parallel::clusterEvalQ(cl, list(length(x), identical(f(), e)))[[3L]],
                   list(5000000L, TRUE))
  parallel::clusterExport(cl, "x", environment())
  expect_identical(unlist(parallel::clusterEvalQ(cl, sum(as.integer(x)))),
                   rep(sum(as.integer(x)), 3))
  stop_cluster(cl)
})

test_that("what changes between two calls is sent anew", {
  cl <- new_cluster(2)
  e <- new.env()
  get_it <- function(e) e$v
  for (i in 1:3) {
    e$v <- i
    expect_identical(parallel::clusterCall(cl, get_it, e), list(i, i))
  }
  stop_cluster(cl)
})

test_that("the generics can be used directly, also with calls under way", {
  cl <- new_cluster(2)
  for (i in 1:5) parallel:::sendCall(cl[[1L]], function(i) i, list(i))
  for (i in 1:5) expect_identical(parallel:::recvResult(cl[[1L]]), i)
  parallel:::sendCall(cl[[2L]], function() "late", list(), tag = "t")
  expect_identical(parallel::clusterCall(cl[1L], identity, 1), list(1))
  r <- parallel:::recvOneResult(cl)
  expect_identical(r$value, "late")
  expect_identical(r$node, 2L)
  expect_identical(r$tag, "t")
  expect_error(parallel:::recvResult(cl[[1L]]), class = "clutch_no_call")
  stop_cluster(cl)
})

test_that("makeCluster(type = \"CLUTCH\") works where R can register types", {
  skip_if_not(exists("registerClusterType", asNamespace("parallel")),
              "needs an R with registerClusterType()")
  cl <- parallel::makeCluster(2, type = "CLUTCH")
  expect_s3_class(cl, "clutch_cluster")
  expect_identical(parallel::clusterCall(cl, identity, 1), list(1, 1))
  parallel::stopCluster(cl)
})

test_that("plain values and others arrive as they are, there and back", {
  cl <- new_cluster(1)
  on.exit(stop_cluster(cl))
  values <- list(
    NULL, 1, 1L, TRUE, NA, NA_integer_, NA_real_, NaN, Inf, -0, numeric(), integer(), logical(),
    list(), list(NULL),
    c(1.5, NA, -Inf), 1:10, 1:300, as.numeric(1:256), as.numeric(1:257), list(1, 2L, NA),
    list(list(1)), list(list(list(1))),
    list(a = 1), c(a = 1), factor("a"), Sys.Date(), "text", list("text", 1), as.raw(1:3), 1i,
    quote(x + y),
    new.env(), matrix(1:4, 2), structure(1, class = "odd"), as.list(1:300))
  for (v in values) {
    back <- parallel::clusterCall(cl, identity, v)[[1L]]
    if (is.environment(v)) expect_true(is.environment(back)) else expect_identical(back, v)
  }
  sent <- parallel::clusterApplyLB(cl, values, function(x) x)
  expect_identical(sent[-33L], values[-33L])
  bits <- parallel::clusterCall(cl, function(x) serialize(x, NULL), c(NA_real_, NaN, -0))[[1L]]
  expect_identical(bits, serialize(c(NA_real_, NaN, -0), NULL)) # to the bit
})

test_that("a function that is kept by the nodes is the one that was sent", {
  cl <- new_cluster(2)
  on.exit(stop_cluster(cl))
  in_workspace <- function(f) {
    environment(f) <- globalenv()
    f
  }
  f <- in_workspace(function(x) x + 1)
  for (i in 1:4) expect_identical(parallel::clusterApply(cl, 1:4, f), list(2, 3, 4, 5))
  f <- in_workspace(function(x) x + 2) # another one under the same name
  for (i in 1:4) expect_identical(parallel::clusterApply(cl, 1:4, f), list(3, 4, 5, 6))
  g <- in_workspace(function(x) x * clutch_test_factor)
  for (k in c(10, 100)) { # what it finds in the node's workspace is looked up at each call
    clutch_test_factor <- k
    parallel::clusterExport(cl, "clutch_test_factor", environment())
    for (i in 1:3) expect_identical(parallel::clusterApply(cl, 1:2, g), list(k, 2 * k))
  }
  body(f)[[1L]] <- quote(`-`)
  for (i in 1:3) expect_identical(parallel::clusterApply(cl, 1:2, f), list(-1, 0))
  attr(f, "mark") <- "kept"
  h <- in_workspace(function(...) attributes(sys.function())$mark)
  attr(h, "mark") <- "first"
  expect_identical(parallel::clusterCall(cl, h), list("first", "first"))
  attr(h, "mark") <- "second"
  for (i in 1:3) expect_identical(parallel::clusterCall(cl, h), list("second", "second"))
  environment(g) <- list2env(list(clutch_test_factor = 7), parent = globalenv())
  for (i in 1:3) expect_identical(parallel::clusterApply(cl, 1:2, g), list(7, 14))
  environment(g)$clutch_test_factor <- 8 # the environment of a closure is sent as it is now
  for (i in 1:3) expect_identical(parallel::clusterApply(cl, 1:2, g), list(8, 16))
  for (i in 1:3) {
    expect_identical(parallel::clusterCall(cl[1], sum, 1, 2), list(3)) # builtin
    expect_identical(parallel::clusterCall(cl[1], `if`, TRUE, 2), list(2)) # special
  }
})

test_that("a node that is stopped runs .Last() as base R's does, and a stop comes to an end", {
  for (cl in list(new_cluster(1), parallel::makePSOCKcluster(1))) {
    file <- tempfile()
    parallel::clusterCall(cl, function(file) {
      assign("file", file, globalenv()) # which is still there
      assign(".Last", function() cat("the last\n", file = file), globalenv())
      NULL
    }, file)
    parallel::stopCluster(cl)
    expect_true(eventually(file.exists(file) && identical(readLines(file), "the last")))
  }
  for (last in list(function() stop("no"), function() quit("no"), function() repeat Sys.sleep(1))) {
    cl <- new_cluster(1)
    pid <- pids(cl)
    parallel::clusterCall(cl, function(f) {
      assign(".Last", f, globalenv())
      NULL
    }, last)
    took <- system.time(stop_cluster(cl))[["elapsed"]]
    expect_lt(took, 20)
    expect_true(eventually(!alive(pid)))
  }
})

test_that("an interrupt while an argument becomes bytes ends what other nodes were sent", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  wait <- function(x) Sys.sleep(60)
  environment(wait) <- globalenv()
  many <- lapply(1:2e6, function(i) c("a", "b")) # its bytes take longer than the time limit
  setTimeLimit(elapsed = 0.2, transient = TRUE)
  expect_error(parallel::clusterApply(cl, list(1, many), wait), "time limit")
  setTimeLimit()
  expect_true(eventually(identical(cluster_status(cl)$state, c("idle", "idle")), 20))
  expect_identical(cluster_status(cl)$state, c("idle", "idle"))
})

test_that("an answer out of whose reading R jumps ends what other nodes were asked", {
  cl <- make_cluster(2)
  # R tells then of a namespace that is not there, and a warning is an error
  Sys.setenv("_R_NO_REPORT_MISSING_NAMESPACES_" = "false")
  old <- options(warn = 2)
  on.exit({
    options(old)
    Sys.unsetenv("_R_NO_REPORT_MISSING_NAMESPACES_")
    stop_cluster(cl)
  })
  value <- function(i) {
    if (i == 2) Sys.sleep(60)
    ns <- new.env()
    ns$.__NAMESPACE__. <- list2env(list(spec = c(name = "clutchnone", version = "1")))
    ns
  }
  environment(value) <- globalenv()
  for (f in c("clusterApply", "clusterApplyLB")) {
    expect_error(getExportedValue("parallel", f)(cl, 1:2, value), "clutchnone")
    expect_true(eventually(identical(cluster_status(cl)$state, c("idle", "idle")), 20), info = f)
  }
})
