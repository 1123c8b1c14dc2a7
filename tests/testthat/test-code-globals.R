# What code needs of the session travels with it: variables of the workspace, and packages.

# Evaluates in the workspace, as typed there, and removes what that leaves.
at_top_level <- function(expr) {
  before <- ls(globalenv(), all.names = TRUE)
  seed <- get0(".Random.seed", globalenv())
  on.exit(rm(list = setdiff(ls(globalenv(), all.names = TRUE), c(before, ".Random.seed")),
             envir = globalenv()))
  eval(substitute(expr), globalenv())
}
with_two <- function(code) {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  code(cl)
}
needs <- function(..., .globals = TRUE) clutch:::find_needs(list(...), .globals, globalenv())
found_by <- function(...) sort(as.character(names(needs(...)$globals)))
error_of <- function(expr) tryCatch({
  expr
  NULL
}, clutch_error = identity)

test_that("every variant of a map finds what its function uses", {
  with_two(function(cl) {
    assign("g_cl", cl, globalenv())
    r <- at_top_level({
      g_y <- 10
      list(walk = tryCatch(cluster_walk(g_cl, 1:3, function(x) if (x + g_y < 11) stop("wrong")),
                           error = identity),
           map2 = cluster_map2(g_cl, 1:2, 3:4, function(a, b) a + b + g_y),
           dbl = cluster_map_dbl(g_cl, 1:2, function(x) x + g_y),
           dfr = cluster_map_dfr(g_cl, 1:2, function(x) data.frame(v = x + g_y))$v,
           submit = collect(cluster_submit(g_cl, g_y * 2)))
    })
    rm("g_cl", envir = globalenv())
    expect_identical(r$walk, 1:3)
    expect_equal(r$map2, list(14, 16))
    expect_equal(r$dbl, c(11, 12))
    expect_equal(r$dfr, c(11, 12))
    expect_equal(r$submit, 20)
  })
})

test_that("functions are searched wherever they travel", {
  skip_if_not_installed("purrr")
  with_two(function(cl) {
    assign("g_cl", cl, globalenv())
    r <- at_top_level({
      g_k <- 2
      g_f <- function(x) x + g_k
      g_local <- function() {
        h <- function(x) g_f(x)
        cluster_map_dbl(g_cl, 1:2, h)
      }
      g_factory <- function(by) function(x) x * by # `by` is a promise when the closure is made
      setClass("g_Class", representation(f = "function"), where = globalenv())
      out <- list(
        local = g_local(),
        Vectorize = cluster_map_dbl(g_cl, 1:2, Vectorize(g_f)),
        compose = cluster_map_dbl(g_cl, c(2, 7), purrr::compose(sqrt, g_f)),
        possibly = cluster_map_dbl(g_cl, 1:2, purrr::possibly(g_f, NA)),
        Reduce = cluster_map_dbl(g_cl, 1:2,
                                 Reduce(function(a, b) function(x) b(a(x)),
                                        list(g_f, function(z) z * g_k))),
        elements = cluster_map_dbl(g_cl, list(g_f, g_f), function(f) f(1)),
        list = cluster_map_dbl(g_cl, list(list(list(g_f))), function(l) l[[1]][[1]](1)),
        more = cluster_map_dbl(g_cl, 1:2, function(x, fun) fun(x), .more = list(fun = g_f)),
        attribute = cluster_map_dbl(g_cl, 1, function(x, o) attr(o, "f")(x),
                                    o = structure(1, f = g_f)),
        slot = cluster_map_dbl(g_cl, 1, function(x, o) o@f(x), o = new("g_Class", f = g_f)),
        string = cluster_map_dbl(g_cl, 1, function(x) do.call("g_f", list(x))),
        promise = cluster_map_dbl(g_cl, 1, g_factory(g_k)),
        quoted = cluster_map_dbl(g_cl, 1, function(x) eval(as.call(list(g_f, x)))),
        active = {
          e <- new.env()
          makeActiveBinding("v", function() g_f(5), e)
          cluster_map_dbl(g_cl, list(e), function(e) e$v)
        })
      removeClass("g_Class", where = globalenv())
      out
    })
    rm("g_cl", envir = globalenv())
    expect_equal(r$local, c(3, 4))
    expect_equal(r$Vectorize, c(3, 4))
    expect_equal(r$compose, c(2, 3))
    expect_equal(r$possibly, c(3, 4))
    expect_equal(r$Reduce, c(6, 8))
    expect_equal(r$elements, c(3, 3))
    expect_equal(r[c("list", "attribute", "slot", "string", "quoted")],
                 list(list = 3, attribute = 3, slot = 3, string = 3, quoted = 3))
    expect_equal(r$more, c(3, 4))
    expect_equal(r$promise, 2)
    expect_equal(r$active, 7)
  })
})

test_that("methods of the workspace and formulas bring what they need", {
  with_two(function(cl) {
    assign("g_cl", cl, globalenv())
    r <- at_top_level({
      g_w <- 3
      g_area <- function(s) UseMethod("g_area")
      g_area.square <- function(s) s$side^2 * g_w
      format.g_money <- function(x, ...) paste0(unclass(x), " EUR")
      list(generic = cluster_map_dbl(g_cl, 1:2,
                                     function(i) {
                                       g_area(structure(list(side = i), class = "square"))
                                     }),
           class = cluster_map_chr(g_cl, list(structure(5, class = "g_money")),
                                   function(m) format(m)),
           formula = cluster_map_dbl(g_cl, list(dist ~ poly(speed, g_w)),
                                     function(f) length(stats::coef(stats::lm(f, cars)))))
    })
    rm("g_cl", envir = globalenv())
    expect_equal(r$generic, c(3, 12))
    expect_identical(r$class, "5 EUR")
    expect_equal(r$formula, 4)
  })
})

test_that("what is a function's own is not looked for", {
  on.exit(rm(list = intersect(ls(globalenv()), c("g_big", "g_used", "g_fun", "g_self")),
             envir = globalenv()))
  assign("g_big", 1, globalenv())
  assign("g_used", 2, globalenv())
  assign("g_fun", eval(quote(function(x) x + g_used), globalenv()), globalenv())
  f <- function(code) eval(parse(text = code, keep.source = FALSE)[[1]], globalenv())
  expect_identical(found_by(f("function(g_big) g_big + 1")), character())
  expect_identical(found_by(f("function(x) { g_big <- x; g_big }")), character())
  expect_identical(found_by(f("function(x) { g_big <- g_big + x; g_big }")), "g_big")
  expect_identical(found_by(f("function(x) x$g_big + x@g_big")), character())
  expect_identical(found_by(f("function(x) quote(g_big)")), character())
  expect_identical(found_by(f("function(x) stats::g_big")), character())
  expect_identical(found_by(f("function(x) sapply(x, function(g_big) g_big)")), character())
  expect_identical(found_by(f("function(x) { sapply(x, function(g_big) g_big); g_big }")), "g_big")
  expect_identical(found_by(f("function(x) g_fun(x)")), c("g_fun", "g_used"))
  expect_identical(found_by(f("function(x, y = g_fun(1)) x")), c("g_fun", "g_used"))
  expect_identical(found_by(f("function(x) { x[g_big] <- 1; g_used[1] <- 2 }")),
                   c("g_big", "g_used"))
  expect_identical(found_by(f("function(x) for (g_big in x) print(g_big)")), character())
  expect_identical(found_by(f("function(x) { if (x) g_big <- 1; g_big }")), "g_big")
  expect_identical(found_by(f("function(x) { if (x) g_big <- 1 else g_big <- 2; g_big }")),
                   character())
  expect_identical(found_by(f("function(x) { if (x) { g_big <- 1; g_big } else 2 }")), character())
  expect_identical(found_by(f("function(x) { while (x) { g_big <- 1; g_big }; 3 }")), character())
  expect_identical(found_by(f("function(x) { g <- function() g_big; g_big <- 1; g() }")), "g_big")
  expect_identical(found_by(f("function(x) { g_big <<- g_big + 1 }")), "g_big")
  expect_identical(found_by(f("function(x) function(y) function(z) x + y + g_used")), "g_used")
  assign("g_self", f("function(n) if (n > 0) g_self(n - 1)"), globalenv()) # a circle
  expect_identical(found_by(globalenv()$g_self), "g_self")
  expect_identical(found_by(list(1, "a", NULL, 1:3, mean)), character())
})

test_that("ten thousand functions are searched once each", {
  assign("g_k", 2, globalenv())
  on.exit(rm("g_k", envir = globalenv()))
  same <- eval(quote(lapply(1:1e4, function(i) function(x) x + i + g_k)), globalenv())
  own <- lapply(1:1e4,
                function(i) eval(parse(text = sprintf("function(x) { z <- x; z + %d + g_k }", i),
                                       keep.source = FALSE)[[1]],
                                 globalenv()))
  expect_identical(found_by(same), "g_k")
  expect_identical(found_by(own), "g_k")
})

test_that("names are looked up in the caller's frame", {
  with_two(function(cl) {
    result <- function(x) x * 100 # the package has a function of that name
    k <- 5
    expect_equal(cluster_map_dbl(cl, 1:2, "result"), c(100, 200))
    expect_equal(cluster_map(cl, 1:2, "result"), list(100, 200))
    cluster_walk(cl, 1:2, "result")
    sum_of <- function(a, b) a + b
    expect_equal(cluster_map2(cl, 1:2, 3:4, "sum_of"), list(4L, 6L))
    f <- function(x) x + k
    environment(f) <- globalenv()
    expect_equal(cluster_map_dbl(cl, 1:3, f, .globals = "k"), 5 + 1:3)
    expect_equal(cluster_map_dfr(cl, 1:2, function(x) list(v = x + k), .globals = "k")$v, 6:7)
    expect_equal(collect(cluster_submit(cl, k + 1, .globals = "k")), 6)
    e <- error_of(cluster_map(cl, 1:2, f, .globals = "no_such_variable"))
    expect_s3_class(e, "clutch_argument")
    expect_match(conditionMessage(e), "no_such_variable", fixed = TRUE)
  })
})

test_that("packages follow: those that code finds, and those of the objects' classes", {
  skip_if_not_installed("data.table")
  attached <- "package:data.table" %in% search()
  suppressPackageStartupMessages(library(data.table))
  if (!attached) on.exit(detach("package:data.table"))
  with_two(function(cl) {
    f <- function(i) nrow(data.table(a = 1:i))
    environment(f) <- globalenv()
    expect_identical(cluster_map_int(cl, 1:2, f), 1:2)
    expect_identical(needs(f)$attach, "data.table")
    assign("g_cl", cl, globalenv())
    r <- at_top_level({
      g_dt <- data.table(a = 1:4, b = 5:8)
      g_in_function <- function() {
        d <- data.table(a = 1:4, b = 5:8)
        cluster_map_int(g_cl, 1:2, function(i) d[a > i, sum(b)])
      }
      list(cluster_map_int(g_cl, 1:2, function(i) g_dt[a > i, sum(b)]), g_in_function(),
           collect(cluster_submit(g_cl, g_dt[a > 2, sum(b)])))
    })
    rm("g_cl", envir = globalenv())
    expect_identical(r, list(c(21L, 15L), c(21L, 15L), 15L))
    expect_identical(c(needs(data.frame(a = 1), factor("a"), Sys.time())$attach), character())
    expect_identical(needs(f, .globals = FALSE)$attach, character())
  })
})

test_that("an expression of a function of a package sees that package", {
  with_two(function(cl) {
    f <- function(cl) {
      n <- 3
      cluster_submit(cl, mb(n * 1e6))
    }
    environment(f) <- asNamespace("clutch")
    expect_identical(collect(f(cl)), "3 MB")
  })
})

test_that("arguments that no code uses are not evaluated", {
  with_two(function(cl) {
    seen <- 0
    note <- function() seen <<- seen + 1
    f <- function(xs, used = {
      note()
      10
    }, unused = {
      note()
      stop("no")
    }, text = note()) {
      cluster_map_dbl(cl, xs, function(x) x + used + length("text"))
    }
    expect_identical(f(1:2), c(12, 13))
    expect_identical(seen, 1)
    assign("g_k", 3, globalenv())
    on.exit(rm("g_k", envir = globalenv()))
    # found by nobody, and asked for there
    g <- function(xs, later = g_k) cluster_map_dbl(cl, xs, function(x) x + get("later"))
    environment(g) <- list2env(list(cl = cl), parent = globalenv())
    expect_identical(g(1:2), c(4, 5))
  })
})

test_that("promises that fail, missing arguments, locked environments do not stop the search", {
  with_two(function(cl) {
    make <- function(a, b, c = stop("never asked for")) function(x) x + a
    expect_equal(cluster_map_dbl(cl, 1:2, make(1)), c(2, 3))
    dots <- function(...) function(x) sum(x, ...)
    assign("g_k", 2, globalenv())
    on.exit(rm("g_k", envir = globalenv()))
    h <- dots(globalenv()$g_k, 1)
    expect_equal(cluster_map_dbl(cl, 1:2, h), c(4, 5))
    e <- new.env()
    e$self <- e # a circle of environments
    e$f <- function(x) x
    lockEnvironment(e, TRUE)
    expect_equal(cluster_map_dbl(cl, 1:2, function(x) e$f(x)), c(1, 2))
  })
})

test_that("what may not be evaluated, or is elsewhere, makes nothing local behind it", {
  assign("g_k", 7, globalenv())
  on.exit(rm("g_k", envir = globalenv()))
  f <- function(code) eval(parse(text = code, keep.source = FALSE)[[1]], globalenv())
  for (code in c("function(m) switch(m, a = {g_k <- 1; g_k}, b = g_k * 2)",
                 "function(i) { local({g_k <- 5}); g_k }",
                 "function(i) { tryCatch({stop('x'); g_k <- 5}, error = function(e) NULL); g_k }",
                 "function(i) { d <- within(data.frame(x = 1), g_k <- x * 2); g_k + d$g_k }",
                 "function(i) { repeat { if (i > 0) break; g_k <- 5 }; g_k }",
                 "function(i) i && (g_k <- 3) || g_k"))
    expect_identical(found_by(f(code)), "g_k", info = code)
  expect_identical(
    found_by(f("function(x) { y <- c(g_k <- 1, 2); suppressWarnings(g_k <- 2); g_k }")), character()
  )
})

test_that("functions that share a body are told apart by their arguments", {
  assign("g_k", 5, globalenv())
  on.exit(rm("g_k", envir = globalenv()))
  f <- eval(quote(function(x, g_k) x + g_k), globalenv())
  g <- f
  formals(g) <- alist(x = ) # nolint: spaces_inside_linter.
  expect_identical(found_by(f), character())
  expect_identical(found_by(list(f, g)), "g_k")
  expect_identical(found_by(list(g, f)), "g_k")
})

test_that("variables that a promise removes while it is forced are no harm", {
  make <- function(n = {
    tmp <- NULL
    gc()
    1
  }, gone = {
    rm(other)
    2
  }) {
    tmp <- list(function() 0)
    other <- list(function() 0)
    function(x) x + n
  }
  gctorture2(5)
  r <- needs(make())
  gctorture2(0)
  expect_identical(names(r$globals), NULL)
})

test_that("classes of objects made on the node bring the workspace's methods and definitions", {
  with_two(function(cl) {
    assign("g_cl", cl, globalenv())
    r <- at_top_level({
      summary.g_yy <- function(object, ...) "mine"
      setClass("g_P", representation(v = "numeric"), where = globalenv())
      g_A <- setRefClass("g_A", fields = list(n = "numeric"), methods = list(up = function() n * 2),
                         where = globalenv())
      out <- list(structure = cluster_map(g_cl, 1,
                                          function(i) {
                                            summary(structure(list(1), class = "g_yy"))
                                          })[[1]],
                  assigned = cluster_map(g_cl, 1, function(i) {
                    o <- list(1)
                    class(o) <- "g_yy"
                    summary(o)
                  })[[1]],
                  s4 = cluster_map(g_cl, 1, function(i) new("g_P", v = i)@v)[[1]],
                  reference = cluster_map(g_cl, 4, function(i) g_A$new(n = i)$up())[[1]])
      removeClass("g_P", where = globalenv())
      removeClass("g_A", where = globalenv())
      out
    })
    rm("g_cl", envir = globalenv())
    expect_identical(r, list(structure = "mine", assigned = "mine", s4 = 1, reference = 8))
  })
})

test_that("packages mask each other on nodes as in the session, and go when detached", {
  skip_if_not_installed("dplyr")
  skip_if_not_installed("data.table")
  s <- start_script(fixture = "masking-order")
  expect_done(s)
  expect_true("1 1 dplyr ts " %in% readLines(s$out))
})

test_that("an expression has the dots of its function, and what surrounds it", {
  with_two(function(cl) {
    f <- function(...) collect(cluster_submit(cl, sum(...)))
    expect_identical(f(1, 2, 3), 6)
    g <- function(...) collect(cluster_submit(cl, ..2 + length(list(...))))
    expect_identical(g(1, 5), 7)
    file <- tempfile(fileext = ".R")
    writeLines(
      c("helper <- function(x) x + 1",
        "res <- clutch::collect(clutch::cluster_submit(cl, helper(1)))"), file
    )
    env <- new.env()
    env$cl <- cl
    sys.source(file, env)
    expect_identical(env$res, 2)
    unlink(file)
  })
})

test_that("code that the search runs does not change which nodes a map is for", {
  with_two(function(cl) {
    g <- function(y = cluster_map(cl, 1:2, function(i) i)) {
      unlist(cluster_map(cl[1], 1:20, function(i) {
        Sys.sleep(0.01)
        Sys.getpid()
      }))
    }
    expect_identical(unique(g()), pids(cl)[[1L]])
  })
})

test_that("what was exported does not travel with functions whose environment has the cluster", {
  with_two(function(cl) {
    big <- runif(2e6)
    cluster_export(cl, "big")
    h <- function(cl) cluster_map(cl, 1:2, function(x) x)
    environment(h) <- globalenv()
    old <- options(clutch.max_size = 1e6, clutch.share_from = Inf)
    on.exit(options(old))
    expect_warning(h(cl), NA)
    options(old)
    expect_equal(
      cluster_map_dbl(cl, 1:2, function(i) {
        length(get("big", globalenv()))
      }, .globals = FALSE), c(2e6, 2e6)
    )
  })
})

test_that("what encloses base R's environment is the workspace", {
  assign("g_k", 5, globalenv())
  on.exit(rm("g_k", envir = globalenv()))
  f <- local(function(i) i + g_k, envir = new.env(parent = baseenv()))
  expect_identical(found_by(f), "g_k")
})

test_that("a variable of the workspace that cannot be had is left out", {
  makeActiveBinding("g_bad", function() stop("not now"), globalenv())
  assign("g_k", 5, globalenv())
  on.exit(rm("g_bad", "g_k", envir = globalenv()))
  f <- eval(quote(function(i) if (FALSE) g_bad else g_k), globalenv())
  expect_identical(found_by(f), "g_k")
})

test_that("variables of the workspace are found and sent, and put back afterwards", {
  of_each_strategy(function(cl) {
    on.exit(rm(list = c("clutch_test_y", "clutch_test_f", "clutch_test_g"), envir = globalenv()))
    assign("clutch_test_y", 10, globalenv())
    assign("clutch_test_f", local(function(x) clutch_test_g(x) + clutch_test_y, globalenv()),
           globalenv())
    assign("clutch_test_g", local(function(x) 2 * x, globalenv()), globalenv())
    f <- get("clutch_test_f", globalenv())
    expect_identical(cluster_map_dbl(cl, 1:3, f), 10 + 2 * 1:3)
    expect_identical(unlist(parallel::clusterCall(cl, exists, "clutch_test_y")), c(FALSE, FALSE))
    # what a node has under this name comes back
    parallel::clusterCall(cl, function() assign("clutch_test_y", -1, globalenv()))
    expect_identical(cluster_map_dbl(cl, 1:3, f), 10 + 2 * 1:3)
    expect_identical(
      unlist(parallel::clusterCall(cl, function() get("clutch_test_y", globalenv()))), c(-1, -1)
    )
    expect_identical(
      cluster_map_dbl(cl, 1:3, f, .globals = list(clutch_test_y = 1, clutch_test_g = identity)),
      1 + 1:3
    )
    z <- 5 # a local variable travels with the function
    expect_identical(cluster_map_dbl(cl, 1:2, function(x) x + z), c(6, 7))
    e <- task_error_of(cluster_map(cl, 1:2, f, .globals = FALSE))
    expect_match(conditionMessage(e), "clutch_test_g.*\\.globals = \"clutch_test_g\"")
  })
})

test_that("what is large is said, with the names of the largest objects", {
  cl <- make_cluster(1)
  old <- options(clutch.max_size = 1e5)
  on.exit({
    options(old)
    stop_cluster(cl)
  })
  dragged <- runif(1e5)
  expect_warning(cluster_map(cl, 1, function(x) length(dragged)),
                 "dragged.*environment of the function", class = "clutch_large")
  expect_warning(cluster_map(cl, 1, identity), NA)
  testthat::skip_if_not(is_shared(share(numeric(1e5))), "no shared memory")
  shared <- runif(4e5) # is not copied for each node
  options(clutch.max_size = 3e6) # it has 3.2e6 bytes
  rm(dragged)
  expect_warning(cluster_map(cl, 1, function(x) length(shared)), NA)
})

test_that("a class of R6 brings the classes that it inherits from", {
  testthat::skip_if_not_installed("R6")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  define <- quote({
    OfGrandparent <- R6::R6Class("OfGrandparent", public = list(v = 0, add = function(k) {
      self$v <- self$v + k
      invisible(self)
    }))
    OfParent <- R6::R6Class("OfParent", inherit = OfGrandparent)
    OfChild <- R6::R6Class("OfChild", inherit = OfParent, public = list(add = function(k) {
      super$add(k * 10)
    }))
  })
  eval(define, globalenv())
  on.exit(rm(OfGrandparent, OfParent, OfChild, envir = globalenv()), add = TRUE)
  on.exit(end_own_cluster(), add = TRUE)
  f <- function(i) OfChild$new()$add(i)$v
  environment(f) <- globalenv()
  expect_identical(cluster_map(cl, 1:2, f), list(10, 20))
  expect_identical(mclapply(1:2, f), list(10, 20))
  e <- new.env()
  eval(define, e)
  environment(f) <- e
  expect_identical(cluster_map(cl, 1:2, f), list(10, 20))
})

test_that("each class of R6 brings its own, whatever R does with memory meanwhile", {
  names <- sprintf("ParentOfClass%d", 1:16)
  for (n in names) {
    assign(n, local({
      k <- n
      function() k
    }), globalenv())
  }
  on.exit(rm(list = names, envir = globalenv()))
  classes <- lapply(names, function(n) {
    x <- new.env()
    x$inherit <- as.name(n)
    x$parent_env <- globalenv()
    class(x) <- "R6ClassGenerator"
    x
  })
  search <- .Call(clutch:::ffi_globals_new)
  gctorture(TRUE)
  on.exit(gctorture(FALSE), add = TRUE)
  found <- .Call(clutch:::ffi_globals_search, search, classes, character())
  gctorture(FALSE)
  expect_true(all(names %in% vapply(found[[1L]], as.character, "")))
})

test_that("code may have strings of bytes", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  bytes <- "a\xff"
  Encoding(bytes) <- "bytes"
  f <- eval(bquote(function(x) nchar(.(bytes), "bytes") + x))
  expect_identical(cluster_map(cl, 1:2, f), list(3L, 4L))
  expect_identical(collect(eval(bquote(cluster_submit(cl, nchar(.(bytes), "bytes"))))), 2L)
})

test_that("a promise that fails is no reason to fail where nobody asks for it", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  delayedAssign("bad_promise", stop("bad"), assign.env = globalenv())
  on.exit(rm(bad_promise, envir = globalenv()), add = TRUE)
  f <- function(x) if (x > 5) bad_promise else x
  environment(f) <- globalenv()
  said <- testthat::capture_warnings(x <- cluster_map(cl, 1:2, f)) # R's own, of a second try
  expect_identical(x, list(1L, 2L))
  expect_identical(grep("restarting interrupted promise", said, invert = TRUE, value = TRUE),
                   character())
})

test_that("closures are found in an environment without running code", {
  e <- new.env()
  delayedAssign("lazy", stop("it was forced"), assign.env = e)
  e$missing <- substitute()
  e$f <- function() 1
  makeActiveBinding("active", function() stop("it was called"), e)
  expect_identical(.Call(clutch:::ffi_closures_in, e), list(f = e$f))
})

test_that("S4 methods of the workspace for generics of packages come with their class, and go", {
  define <- quote({
    offset_of_global <- 42
    setClass("OfGlobal", representation(v = "numeric"))
    setClass("OfGlobalSub", contains = "OfGlobal")
    setMethod("initialize", "OfGlobal", function(.Object, ...) {
      .Object <- callNextMethod(.Object, ...)
      if (!length(.Object@v)) .Object@v <- offset_of_global
      .Object
    })
    setMethod("length", "OfGlobal", function(x) 77L)
    setMethod("show", "OfGlobal", function(object) cat("<of global>"))
    setMethod("Arith", signature("OfGlobal", "numeric"), function(e1, e2) callGeneric(e1@v, e2))
    setMethod("[", "OfGlobal", function(x, i, ...) x@v[i] * 2)
  })
  eval(define, globalenv())
  on.exit({
    for (f in c("initialize", "length", "show", "[")) removeMethod(f, "OfGlobal", globalenv())
    removeMethod("Arith", signature("OfGlobal", "numeric"), globalenv())
    removeClass("OfGlobalSub", globalenv())
    removeClass("OfGlobal", globalenv())
    rm(offset_of_global, envir = globalenv())
  })
  f <- function(i) {
    b <- new("OfGlobal")
    s <- new("OfGlobalSub", v = i)
    list(b@v, length(b), capture.output(b), b * 2, b[1], length(s), s * 2, capture.output(show(s)))
  }
  environment(f) <- globalenv()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  on.exit(end_own_cluster(), add = TRUE)
  for (k in 1:2) expect_identical(cluster_map(cl, 1:2, f), lapply(1:2, f))
  expect_identical(mclapply(1:2, f), lapply(1:2, f))
  object <- new("OfGlobal", v = 1)
  expect_identical(cluster_map(cl, 1:2, function(i) length(object)), list(77L, 77L))
  is_there <- parallel::clusterCall(cl, function() existsMethod("length", "OfGlobal"))
  expect_false(is_there[[1L]])
  expect_identical(setdiff(unlist(parallel::clusterEvalQ(cl, ls(globalenv(), all.names = TRUE))),
                           ".Random.seed"), character())
  # those that the node has of its own stay
  parallel::clusterCall(cl, function() {
    setClass("OfNode", representation(v = "numeric"), where = globalenv())
    setMethod("length", "OfNode", function(x) 5L, where = globalenv())
    NULL
  })
  for (k in 1:2) {
    expect_identical(cluster_map(cl, 1:2, f), lapply(1:2, f))
    own <- parallel::clusterCall(cl, function() length(new("OfNode", v = 1)))
    expect_identical(own, list(5L))
  }
})

test_that("the warning of what is large evaluates nothing", {
  cl <- make_cluster(1)
  old <- options(clutch.max_size = 1000)
  on.exit({
    options(old)
    stop_cluster(cl)
  })
  maker <- function(big, other) {
    force(big)
    function(i) if (i > 5) other else length(big)
  }
  f <- maker(runif(1000), stop("nobody asks for it"))
  expect_warning(values <- cluster_map(cl, 1:2, f), "'big' in the environment of the function",
                 class = "clutch_large")
  expect_identical(values, list(1000L, 1000L))
})
