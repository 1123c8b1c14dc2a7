# Large vectors in shared memory as users and other packages use them: on a node, and in the
# session, each is an ordinary vector, and nobody sees what another has changed.

# Vectors of 1 to 2 MB are shared here, however many receive them.
old_share_from <- options(clutch.share_from = 1e6)

shares <- function() testthat::skip_if_not(is_shared(share(numeric(1e5))), "no shared memory")
workspace <- function(f) {
  environment(f) <- globalenv()
  f
}
# The value of `f` on node `rank`, with these arguments
at <- function(cl, rank, f, ...) parallel::clusterCall(cl[rank], workspace(f), ...)[[1L]]

test_that("data.table changes its tables by reference, and each process its own", {
  testthat::skip_if_not_installed("data.table")
  shares()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  n <- 2e5
  parallel::clusterEvalQ(cl, loadNamespace("data.table"))
  d <- data.table::data.table(k = n:1 + 0L, x = 1:n + 0, y = rep(c(TRUE, NA), n / 2))
  before <- data.table::copy(d)
  s <- data.table::setDT(share(d))
  for (table in list(d, s)) {
    cluster_export(cl, "table", environment())
    first <- at(cl, 1L, function() {
      shared <- clutch::is_shared(table)
      data.table::set(table, 1L, "x", -1)
      data.table::set(table, i = 2:3, j = "y", value = FALSE)
      table[k == 5L, x := -5]
      table[, z := x * 2]
      data.table::setkey(table, k)
      list(shared, data.table::key(table), table[list(c(1L, 5L)), x], sum(table$z), names(table))
    })
    x <- before$x
    x[c(1, n - 4)] <- c(-1, -5)
    expect_identical(first, list(TRUE, "k", c(n, -5), sum(x) * 2, c("k", "x", "y", "z")))
    # neither the other node nor the session has seen any of it
    expect_identical(at(cl, 2L, function() as.data.frame(table)), as.data.frame(before))
    expect_identical(as.data.frame(table), as.data.frame(before))
  }
  # as it is in the session: in place, and what is sent then has it
  address <- data.table::address(s$x)
  data.table::set(s, 7L, "x", 0.5)
  expect_identical(data.table::address(s$x), address)
  expect_identical(at(cl, 1L, function(t) t$x[6:8], s), c(6, 0.5, 8))
  expect_identical(at(cl, 2L, function() table$x[6:8]), c(6, 7, 8))
  # what comes back is a table that can grow
  back <- at(cl, 1L, function() table)
  data.table::setalloccol(back)
  data.table::set(back, j = "w", value = 1L)
  data.table::setkey(back, x)
  expect_identical(back$x[1:2], c(-5, -1))
  columns <- at(cl, 2L, function() as.list(as.data.frame(table)))
  data.table::setDT(columns)
  data.table::setorderv(columns, "k")
  expect_identical(columns$x[1:2], c(n, n - 1))
})

test_that("what share() returns is a data.table that may get columns", {
  testthat::skip_if_not_installed("data.table")
  shares()
  was <- options(warn = 2)
  on.exit(options(was))
  d <- data.table::data.table(x = 1:2e5 + 0)
  f <- workspace(function(d) d[, y := x * 2]) # no package that is aware of data.table
  environment(f) <- list2env(list(.datatable.aware = TRUE, `[` = `[`), parent = globalenv())
  for (s in list(share(d), share(list(d))[[1L]])) {
    expect_true(is_shared(s))
    f(s)
    expect_identical(s[["x"]], d$x)
  }
  s <- share(d)
  data.table::set(s, j = "z", value = 1L)
  f(s)
  expect_identical(names(s), c("x", "z", "y"))
  expect_identical(s$y, d$x * 2)
  expect_true(is_shared(s$x))
  expect_identical(names(d), "x")
})

test_that("fwrite(), dput(), serialize() and the like write ordinary vectors", {
  testthat::skip_if_not_installed("data.table")
  shares()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  x <- c(NA, 0.1, -Inf, runif(150000))
  d <- data.frame(x = x, i = seq_along(x) + 0L)
  written <- function(d) {
    file <- tempfile()
    on.exit(unlink(file))
    all <- list()
    data.table::fwrite(d, file)
    all$fwrite <- tools::md5sum(file)
    dput(utils::head(d, 20L), file)
    all$dput <- readLines(file)
    all$bytes <- serialize(d, NULL)
    all$xdr <- serialize(d$x, NULL, xdr = FALSE)
    save(d, file = file, compress = FALSE)
    all$saved <- tools::md5sum(file)
    all$digits <- format(d$x[1:5], digits = 15)
    all$size <- object.size(d)
    all$equal <- c(identical(d, d[]), isTRUE(all.equal(d, d)))
    all$sums <- c(sum(d$i), mean(d$x, na.rm = TRUE), range(d$i), which.max(d$i), anyNA(d$x))
    all$sorted <- order(d$x)[1:5]
    lapply(all, unname)
  }
  expected <- written(d)
  expect_identical(at(cl, 1L, written, d), expected)
  expect_identical(written(at(cl, 1L, identity, d)), expected)
  expect_identical(written(share(d)), expected)
})

test_that("Rcpp's code that works in place changes its own copy", {
  testthat::skip_if_not_installed("Rcpp")
  outside_checks_only() # compiles
  shares()
  dir <- tempfile("rcpp")
  on.exit(unlink(dir, recursive = TRUE))
  built <- Rcpp::cppFunction("double twice(NumericVector x) {
    for (R_xlen_t i = 0; i < x.size(); i++) x[i] *= 2;
    std::transform(x.begin(), x.end(), x.begin(), [](double a) { return a + 1; });
    return sum(x);
  }", cacheDir = dir, rebuild = TRUE, env = environment())
  lib <- list.files(dir, paste0("[.]", sub("^[.]", "", .Platform$dynlib.ext), "$"),
                    recursive = TRUE, full.names = TRUE)
  symbol <- grep("twice", readLines(list.files(dir, "[.]R$", recursive = TRUE,
                                               full.names = TRUE)[[1L]]), value = TRUE)
  symbol <- regmatches(symbol, regexpr("sourceCpp_[0-9]+_twice", symbol))[[1L]]
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  y <- 1:2e5 + 0 # no sequence, which R does not store
  x <- share(y)
  said <- parallel::clusterCall(cl, workspace(function(v, lib, symbol) {
    loadNamespace("Rcpp")
    dll <- dyn.load(lib)
    sum <- .Call(getNativeSymbolInfo(symbol, dll), v)
    c(sum, v[c(1, 2e5)])
  }), x, lib, symbol)
  expect_identical(said, rep(list(c(2 * sum(y) + 2e5, 3, 4e5 + 1)), 2))
  expect_identical(x[], y)
  expect_identical(built(x), 2 * sum(y) + 2e5) # in the session
  expect_identical(at(cl, 1L, function(v) v[1:2], x), c(3, 5))
})

test_that("fields of R6 and S4 objects, of reference classes, and attributes of environments", {
  shares()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  n <- 2e5
  x <- 1:n + 0
  change <- function(get, set) workspace(eval(substitute(function(o) {
    shared <- clutch::is_shared(get)
    set
    list(shared, get[1:2], length(get))
  })))
  seen <- list(TRUE, c(-1, 2), as.integer(n))
  check <- function(o, change, mine) {
    expect_identical(parallel::clusterCall(cl, change, o), list(seen, seen), info = class(o)[[1L]])
    expect_identical(mine(o), x, info = class(o)[[1L]])
  }
  define <- workspace(function() {
    methods::setClass("clutch_test_v4", methods::representation(v = "numeric"), where = globalenv())
    methods::setRefClass("clutch_test_ref", fields = list(v = "numeric"), where = globalenv(),
                         methods = list(put = function() v[1L] <<- -1))
    NULL
  })
  parallel::clusterCall(cl, define)
  define()
  on.exit(for (class in c("clutch_test_v4", "clutch_test_ref")) {
    methods::removeClass(class, where = globalenv())
  }, add = TRUE)
  check(methods::new("clutch_test_v4", v = x), change(o@v, o@v[1L] <- -1), function(o) o@v)
  check(methods::new("clutch_test_ref", v = x), change(o$v, o$put()), function(o) o$v)
  e <- new.env()
  attr(e, "v") <- x
  check(e, change(attr(o, "v"), attr(o, "v")[1L] <- -1), function(o) attr(o, "v"))
  e <- new.env()
  e$deep <- new.env()
  e$deep$list <- list(1, list(v = x))
  check(e, change(o$deep$list[[2L]]$v, o$deep$list[[2L]]$v[1L] <- -1),
        function(o) o$deep$list[[2L]]$v)
  testthat::skip_if_not_installed("R6")
  R6 <- R6::R6Class("clutch_test_r6", public = list(
    v = NULL, initialize = function(v) self$v <- v, put = function() self$v[1L] <- -1
  ), parent_env = globalenv())
  check(R6$new(x), change(o$v, o$put()), function(o) o$v)
})

test_that("classes and attributes are kept, there and back", {
  shares()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  n <- 3e5
  kinds <- list(
    matrix = matrix(runif(n), ncol = 3, dimnames = list(NULL, c("a", "b", "\u00e7"))),
    array = array(seq_len(n) + 0L, c(10, 10, n / 100)),
    factor = factor(rep(c("b", "a", NA), n / 3), exclude = NULL),
    ordered = factor(rep(1:3, n / 3), ordered = TRUE),
    date = as.Date("2024-02-29") + seq_len(n),
    time = structure(runif(n), class = c("POSIXct", "POSIXt"), tzone = "Asia/Tokyo"),
    lag = as.difftime(runif(n), units = "hours"),
    series = stats::ts(runif(n), start = 1990, frequency = 12)
  )
  if (requireNamespace("bit64", quietly = TRUE)) {
    kinds$long <- bit64::as.integer64(2)^62 - seq_len(n)
  }
  use <- workspace(function(x) {
    shared <- clutch::is_shared(x)
    y <- x
    attributes(y) <- NULL
    attr(x, "note") <- "mine"
    noted <- attributes(x)$note
    attr(x, "note") <- NULL
    if (inherits(x, "integer64")) loadNamespace("bit64")
    list(shared, noted, is.null(attributes(y)), x, format(x[c(1, length(x))]), rev(x)[1:3])
  })
  for (name in names(kinds)) {
    x <- kinds[[name]]
    said <- parallel::clusterCall(cl, use, x)[[1L]]
    expect_true(is_shared(said[[4L]]), info = name) # identical() may copy it: R does that
    expected <- use(x)
    expected[[1L]] <- TRUE
    expect_identical(said, expected, info = name)
    expect_identical(attributes(x), attributes(said[[4L]]), info = name)
  }
})

test_that("models and matrix algebra give the same numbers", {
  shares()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  set.seed(1)
  m <- matrix(rnorm(3e5), ncol = 3)
  y <- drop(m %*% 1:3) + rnorm(1e5)
  compute <- workspace(function(m, y) {
    list(colSums(m), rowMeans(m)[1:5], crossprod(m), m %*% c(1, 2, 3), stats::lm.fit(m, y),
         apply(m, 2, stats::sd), t(m)[, 5], sort(y)[1:4], rank(y)[1:4], cumsum(y)[1e5],
         stats::quantile(y), table(y > 0), duplicated(round(y, 2))[1:10], m[m[, 1] > 3, ],
         stats::lm(y ~ m)$coefficients, tapply(y, rep(1:2, 5e4), mean), match(y[7], y))
  })
  expect_identical(parallel::clusterCall(cl, compute, m, y)[[1L]], compute(m, y))
  expect_identical(compute(share(m), share(y)), compute(m, y))
})

test_that("in whatever order it is changed and sent, each process has its own", {
  long_test()
  shares()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  has_table <- requireNamespace("data.table", quietly = TRUE)
  if (has_table) parallel::clusterEvalQ(cl, loadNamespace("data.table"))
  n <- 2e5
  on_a <- workspace(function() {
    kept$v[2L] <<- -kept$v[2L]
    NULL
  })
  on_b <- if (has_table) workspace(function() {
    data.table::set(kept, 3L, "v", -kept$v[3L])
    NULL
  }) else workspace(function() {
    kept$v[3L] <<- -kept$v[3L]
    NULL
  })
  first_of <- workspace(function() kept$v[1:4])
  # What is done to `kept` of the session ("s"), of two nodes ("a", "b"); what each has by rights
  # is done to plain vectors beside it.
  steps <- list(
    send = function(state) {
      cluster_export(cl, "kept", state$env)
      state$a <- state$b <- state$s
      state
    },
    change = function(state) {
      state$env$kept$v[1L] <- -state$env$kept$v[1L]
      state$s[1L] <- -state$s[1L]
      state
    },
    set = function(state) {
      if (!has_table) return(state)
      data.table::set(state$env$kept, 4L, "v", state$s[4L] + 1)
      state$s[4L] <- state$s[4L] + 1
      state
    },
    node_a = function(state) {
      parallel::clusterCall(cl[1L], on_a)
      state$a[2L] <- -state$a[2L]
      state
    },
    node_b = function(state) {
      parallel::clusterCall(cl[2L], on_b)
      state$b[3L] <- -state$b[3L]
      state
    }
  )
  orders <- function(x) {
    if (length(x) < 2L) return(list(x))
    unlist(lapply(seq_along(x), function(i) lapply(orders(x[-i]), c, x[i])), recursive = FALSE)
  }
  all <- orders(names(steps))
  # every fourth order of what is first shared when it is sent
  runs <- c(lapply(all[seq(1L, length(all), 4L)], list, shared = FALSE),
            lapply(all, list, shared = TRUE))
  for (run in runs) {
    shared <- run$shared
    order <- run[[1L]]
    x <- data.frame(v = seq_len(n) + 0)
    state <- list(env = new.env(), s = as.numeric(1:4))
    state$env$kept <- if (shared) share(x) else x + 0
    state <- steps$send(state)
    wrong <- character()
    for (step in c(order, "send", "node_a")) {
      state <- steps[[step]](state)
      seen <- c(parallel::clusterCall(cl, first_of), list(state$env$kept$v[1:4]))
      if (!identical(seen, unname(state[c("a", "b", "s")]))) wrong <- c(wrong, step)
    }
    if (!identical(x$v, seq_len(n) + 0)) wrong <- c(wrong, "of the first")
    expect_identical(wrong, character(), info = paste(c(shared, order), collapse = " "))
  }
})

test_that("other clusters, base R's workers and nodes over TCP get the same, also from a node", {
  outside_checks_only()
  shares()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  x <- list(a = runif(2e5), b = 1:3e5 + 0L, c = share(runif(1e5)))
  plain <- list(x$a, x$b, x$c)
  back <- parallel::clusterCall(cl, identity, x)[[1L]]
  others <- list(second = make_cluster(1), tcp = make_cluster(1, strategy = "parallel"),
                 psock = parallel::makePSOCKcluster(1L))
  for (name in names(others)) {
    other <- others[[name]]
    use <- workspace(function(x) {
      x$a[1L] <- -1
      list(x$a[1:2], sum(x$b), x)
    })
    for (v in list(x, back)) {
      said <- parallel::clusterCall(other, use, v)[[1L]]
      expect_identical(said[1:2], list(c(-1, plain[[1L]][2L]), sum(plain[[2L]])), info = name)
      expect_identical(said[[3L]]$b, plain[[2L]], info = name)
      expect_identical(said[[3L]]$c, plain[[3L]], info = name)
      expect_identical(unname(lapply(v, `[`)), plain, info = name)
    }
    parallel::stopCluster(other)
  }
})

test_that("futures have shared vectors, and their values", {
  lib <- newer_future()
  outside_checks_only()
  shares()
  s <- start_script(c(
    sprintf(".libPaths(c(%s, .libPaths()))", deparse(lib)),
    "library(future)", "plan(clutch, workers = 2)", "x <- runif(4e5)",
    "f <- future({",
    "  there <- clutch::is_shared(x)",
    "  x[1] <- -1",
    "  list(there, x)",
    "})",
    "v <- value(f)",
    "cat('there=', v[[1]], '\nhere=', is_shared(v[[2]]), '\n', sep = '')",
    "cat('same=', identical(v[[2]][-1], x[-1]) && v[[2]][1] == -1 && x[1] >= 0, '\n', sep = '')",
    "plan(sequential)", "cat('done\n')"))
  expect_done(s)
  expect_identical(vapply(c("there", "here", "same"), function(k) value_of(s, k), ""),
                   c(there = "TRUE", here = "TRUE", same = "TRUE"))
})

options(old_share_from)

test_that("a finalizer may come to a vector that was finalized before", {
  outside_checks_only()
  s <- start_script(c(
    "stopifnot(is_shared(share(numeric(1e5))))",
    "look <- function(x) {",
    "  if (!is_shared(x)) cat('') # of one that is gone",
    "  tryCatch(length(x), clutch_argument = function(e) 200000L)",
    "}",
    "make <- function() {",
    "  e <- new.env()",
    "  fin <- function(e) cat('seen=', look(e$numbers), ' ', look(e$words), '\\n', sep = '')",
    "  reg.finalizer(e, fin) # before the vectors: R runs theirs first",
    "  e$numbers <- share(runif(2e5))",
    "  e$words <- share(rep(c('a', 'bc'), 1e5))",
    "}",
    "make()",
    "invisible(gc())",
    "cat('alive=1\\n')"
  ))
  expect_true(said(s, "^(alive=|Error)", 60))
  expect_identical(value_of(s, "seen"), "200000 200000")
  expect_identical(value_of(s, "alive"), "1")
})
