# mclapply(), pvec(), mcmapply(), mcMap(): values, names, errors, warnings and random numbers are
# those of package parallel, which is asked in each test.

# list(value, warnings) of a call, as package `p` does it.
by <- function(p, call) {
  call[[1L]] <- getExportedValue(p, as.character(call[[1L]]))
  said <- character()
  value <- withCallingHandlers(eval(call, parent.frame(2L)), warning = function(w) {
    said <<- c(said, conditionMessage(w))
    invokeRestart("muffleWarning")
  })
  list(value, said)
}
expect_as_parallel <- function(call) {
  call <- substitute(call)
  testthat::expect_identical(by("clutch", call), by("parallel", call), info = deparse(call)[[1L]])
}
with_generator <- function(kind, code) {
  old <- RNGkind(kind)
  on.exit(RNGkind(old[[1L]]))
  set.seed(1)
  force(code)
}
# Without arguments: its environment has nothing of a test's.
fails_at <- function(k) {
  force(k)
  function(i) if (i %in% k) stop("not ", i) else i
}

test_that("mclapply() is package parallel's", {
  outside_checks_only()
  expect_as_parallel(mclapply(1:4, function(i) i))
  expect_as_parallel(mclapply(c(a = 1, b = 2, c = 3), function(i) i, mc.cores = 3))
  expect_as_parallel(mclapply(c(a = 1, b = 2, c = 3), function(i, p) i^p, p = 2,
                              mc.preschedule = FALSE))
  expect_as_parallel(mclapply(list(), identity))
  expect_as_parallel(mclapply(NULL, identity))
  expect_as_parallel(mclapply(c(a = 1), identity))
  expect_as_parallel(mclapply(1:4, function(i) NULL))
  expect_as_parallel(mclapply(1:4, function(i) NULL, mc.preschedule = FALSE))
  expect_as_parallel(mclapply(1:2, "sqrt"))
  expect_as_parallel(mclapply(data.frame(a = 1:2, b = 3:4), sum))
  expect_as_parallel(mclapply(1:3, function(i) i, mc.cores = 1))
  expect_as_parallel(mclapply(split(mtcars, mtcars$cyl), function(d) coef(lm(mpg ~ wt, d))))
  expect_error(clutch::mclapply(1:3, identity, mc.cores = 0), "'mc.cores' must be >= 1",
               class = "clutch_argument")
})

test_that("errors and deaths are package parallel's", {
  expect_as_parallel(mclapply(1:4, fails_at(3)))
  expect_as_parallel(mclapply(1:4, fails_at(1:4)))
  expect_as_parallel(mclapply(1:2, fails_at(2), mc.preschedule = FALSE))
  expect_as_parallel(mclapply(1:4, fails_at(1), mc.preschedule = FALSE))
  dies_at <- function(k) {
    force(k)
    function(i) if (i %in% k) tools::pskill(Sys.getpid(), 9L) else i
  }
  expect_as_parallel(mclapply(1:4, dies_at(3)))
  expect_as_parallel(mclapply(1:4, dies_at(1:4)))
  expect_as_parallel(mclapply(1:4, dies_at(3), mc.preschedule = FALSE))
  expect_as_parallel(mclapply(1:2, dies_at(2), mc.preschedule = FALSE))
  w <- tryCatch(clutch::mclapply(1:4, dies_at(3)), clutch_died = identity)
  expect_s3_class(w$parent, "clutch_task_died")
})

test_that("random numbers are package parallel's", {
  outside_checks_only()
  with_generator("L'Ecuyer-CMRG", {
    expect_as_parallel(mclapply(1:5, function(i) rnorm(2)))
    expect_as_parallel(mclapply(1:5, function(i) rnorm(2), mc.cores = 3))
    expect_as_parallel(mclapply(1:5, function(i) rnorm(2), mc.preschedule = FALSE))
    expect_as_parallel(mclapply(1:5, function(i) rnorm(2), mc.set.seed = FALSE))
    expect_as_parallel(pvec(1:10, function(x) x + rnorm(length(x))))
    expect_as_parallel(mcmapply(function(x, y) x + rnorm(1, y), 1:4, 4:1))
    rm(".Random.seed", envir = globalenv())
    before <- clutch::mclapply(1:2, function(i) rnorm(1))
    expect_identical(clutch::mclapply(1:2, function(i) rnorm(1)), before)
  })
  with_generator("Wichmann-Hill", {
    expect_as_parallel(mclapply(1:5, function(i) runif(2), mc.set.seed = FALSE))
    state <- .Random.seed
    x <- clutch::mclapply(1:2, function(i) list(runif(2), RNGkind()[[1L]]))
    expect_false(identical(x[[1L]][[1L]], x[[2L]][[1L]]))
    expect_identical(x[[1L]][[2L]], "Wichmann-Hill")
    expect_identical(.Random.seed, state)
  })
  expect_silent({
    old <- suppressWarnings(RNGkind(sample.kind = "Rounding"))
    clutch::mclapply(1:2, function(i) sample(10, 1))
    RNGkind(sample.kind = old[[3L]])
  })
})

test_that("pvec(), mcmapply() and mcMap() are package parallel's", {
  outside_checks_only()
  expect_as_parallel(pvec(1:10, sqrt))
  expect_as_parallel(pvec(1:11, sqrt, mc.cores = 3))
  expect_as_parallel(pvec(c(a = 1, b = 2), sqrt))
  expect_as_parallel(pvec(c(a = 1, b = 2, c = 3), sqrt))
  expect_as_parallel(pvec(list(1, 2, 3), identity))
  expect_as_parallel(pvec(1:4, function(x, p) x^p, p = 2))
  expect_as_parallel(pvec(1:4, function(x) stop("not here")))
  expect_as_parallel(pvec(1:4, function(x) 1))
  expect_as_parallel(pvec(1:4, sqrt, mc.cores = 1))
  expect_as_parallel(mcmapply(rep, 1:4, 4:1))
  expect_as_parallel(mcmapply(rep, times = 1:4, x = 4:1))
  expect_as_parallel(mcmapply(rep, times = 1:4, MoreArgs = list(x = 42)))
  expect_as_parallel(mcmapply(function(x, y) x + y, c(a = 1, b = 2), c(A = 3, B = 4)))
  expect_as_parallel(mcmapply(function(x, y) x + y, 1:4, 1:2, SIMPLIFY = FALSE))
  expect_as_parallel(mcmapply(function(x, y) if (x == 2) stop("not 2") else x + y, 1:4, 4))
  expect_as_parallel(mcmapply(identity, c("a", "b")))
  expect_as_parallel(mcmapply(identity, c("a", "b"), USE.NAMES = FALSE))
  expect_as_parallel(mcmapply(identity, character()))
  expect_as_parallel(mcmapply(function(x) c(x, x), 1:3, SIMPLIFY = "array"))
  expect_as_parallel(mcmapply(identity))
  expect_error(clutch::mcmapply(rep, 1:2, integer()), "Zero-length", class = "clutch_argument")
  expect_as_parallel(mcMap(function(x, y) x + y, 1:3, 3:1))
  expect_as_parallel(mcMap(function(x, y) x + y, c(a = 1), 3:1))
})

test_that("the session's options and folder are there", {
  sums <- c(unordered = "contr.sum", ordered = "contr.poly")
  old <- options(digits = 3, clutch_test = "a", contrasts = sums)
  on.exit(options(old))
  expect_as_parallel(mclapply(1:2, function(i) coef(lm(mpg ~ factor(cyl), mtcars))))
  expect_as_parallel(mclapply(1:2, function(i) paste(format(pi), getOption("clutch_test"))))
  expect_as_parallel(mclapply(1:2, function(i) getwd()))
})

test_that("the first call, which shares what is large while its server starts, has all it needs", {
  the <- clutch:::the
  # as in a session that has not used clutch
  forget <- function() {
    for (cl in list(the$own$cl, the$pool$cl)) if (!is.null(cl)) stop_cluster(cl)
    the$own <- the$pool <- NULL
    fork_server_stop()
    expect_true(clutch:::begin_own(the$pool))
  }
  forget()
  made <- list(clutch_test_big = runif(1e6), clutch_test_power = function(x, p) x^p,
               print.clutch_test = function(x, ...) cat("of the workspace"))
  list2env(made, globalenv())
  on.exit(rm(list = names(made), envir = globalenv()))
  f <- function(i, large) {
    x <- structure(i, class = "clutch_test")
    list(sum(clutch_test_big), sum(large$a), clutch_test_power(i, 2), capture.output(print(x)),
         tools::toTitleCase("word"), clutch::is_shared(clutch_test_big), clutch::is_shared(large$a))
  }
  environment(f) <- globalenv()
  large <- list(a = runif(1e6), b = letters)
  first <- clutch::mclapply(1:4, f, large, mc.cores = 2)
  later <- clutch::mclapply(1:4, f, large, mc.cores = 2)
  expect_identical(first, later)
  expect_identical(first[[3L]], list(sum(made[[1L]]), sum(large$a), 9, "of the workspace", "Word",
                                     TRUE, TRUE))
  expect_false(clutch::is_shared(large$a) || clutch::is_shared(clutch_test_big))
  expect_false(clutch:::begin_own(the$pool))
  for (f in list(identity, function(i) made$clutch_test_power(i, 1), `+`)) {
    forget()
    expect_identical(clutch::mclapply(c(1, 2), f, mc.cores = 2), list(1, 2))
  }
})

test_that("what one core does, no other sees, and no later call", {
  makes <- function(i) {
    there <- exists("clutch_test_made", globalenv())
    assign("clutch_test_made", i, globalenv())
    there
  }
  expect_as_parallel(mclapply(1:4, makes))
  expect_as_parallel(mclapply(1:4, makes))
  expect_as_parallel(mclapply(1:8, makes, mc.preschedule = FALSE))
  count <- 0
  expect_as_parallel(mclapply(1:8, function(i) count <<- count + 1, mc.preschedule = FALSE))
  expect_as_parallel(mclapply(1:8, function(i) count <<- count + 1))
})

test_that("output is seen, or with mc.silent dropped; messages and warnings are seen", {
  f <- function(i) {
    cat("out", i, "\n")
    message("said ", i)
    i
  }
  seen <- function(...) capture.output(suppressMessages(x <<- clutch::mclapply(1:2, f, ...)))
  x <- NULL
  expect_setequal(seen(), c("out 1 ", "out 2 "))
  expect_message(capture.output(clutch::mclapply(1:2, f)), "said 1") |> suppressMessages()
  expect_identical(seen(mc.silent = TRUE), character())
  expect_identical(x, list(1L, 2L))
  expect_warning(clutch::mclapply(1:2, function(i) if (i == 2) warning("careful")), "careful")
})

test_that("one on a node has nodes of its own, or none", {
  pid <- function(...) {
    clutch::mclapply(1:2, function(i) {
      c(Sys.getpid(), unlist(clutch::mclapply(1:2, function(j) Sys.getpid(), ...)))
    })
  }
  for (p in pid()) expect_identical(length(unique(p)), 3L)
  for (p in pid(mc.allow.recursive = FALSE)) expect_identical(length(unique(p)), 1L)
})

test_that("each element runs on its processors", {
  skip_if(is.null(parallel::mcaffinity()))
  mine <- parallel::mcaffinity()
  x <- clutch::mclapply(1:3, function(i) parallel::mcaffinity(), mc.preschedule = FALSE,
                        affinity.list = rep(list(mine[[1L]]), 3))
  expect_identical(x, rep(list(mine[[1L]]), 3))
  expect_error(clutch::mclapply(1:3, identity, affinity.list = list(1L)), class = "clutch_argument")
})

end_own_cluster()

test_that("stop_cluster() without a cluster ends the nodes of mclapply()", {
  end_own_cluster()
  pid <- unlist(clutch::mclapply(1:2, function(i) Sys.getpid(), mc.cores = 2))
  stop_cluster()
  expect_true(eventually(!any(alive(pid))))
  expect_identical(clutch::mclapply(1:2, identity, mc.cores = 2), list(1L, 2L))
  end_own_cluster()
})
