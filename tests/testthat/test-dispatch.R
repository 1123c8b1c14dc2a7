# An expression has what it needs by dispatch, or of an attached package, in every way to use a
# cluster by which variables travel.

# Objects of the workspace, as a user's script makes them, and code that uses them; `value` of it.
cases <- list(
  list(
    name = "methods of S3",
    make = quote({
      area <- function(x) UseMethod("area")
      area.sq <- function(x) side_of(x)^2
      area.default <- function(x) stop("no method")
      side_of <- function(x) x$side
      sq <- structure(list(side = 3), class = "sq")
      print.sq <- function(x, ...) cat("a square\n")
    }),
    code = quote(c(area(sq), utils::capture.output(print(sq)))), value = c("9", "a square")
  ),
  list(
    name = "methods of S3 for a function of base R, and for an operator",
    make = quote({
      money <- function(x) structure(x, class = "money")
      format.money <- function(x, ...) paste("EUR", unclass(x))
      Ops.money <- function(e1, e2) {
        structure(get(.Generic)(unclass(e1), unclass(e2)), class = "money")
      }
      m <- money(2)
    }),
    code = quote(format(m + m)), value = "EUR 4"
  ),
  list(
    name = "generics and classes of S4",
    make = quote({
      setClass("Acct", representation(n = "numeric"))
      setGeneric("worth", function(x) standardGeneric("worth"))
      setMethod("worth", "Acct", function(x) rate_of() * x@n)
      setMethod("show", "Acct", function(object) cat("an account\n"))
      setMethod("+", signature("Acct", "Acct"), function(e1, e2) new("Acct", n = e1@n + e2@n))
      rate_of <- function() 2
      acct <- new("Acct", n = 5)
    }),
    code = quote(c(worth(acct + acct), utils::capture.output(acct))), value = c("20", "an account")
  ),
  list(
    name = "an S4 class that is made on the node",
    make = quote({
      setClass("Pair", representation(a = "numeric", b = "numeric"))
      setGeneric("total", function(x) standardGeneric("total"))
      setMethod("total", "Pair", function(x) x@a + x@b)
    }),
    code = quote(total(new("Pair", a = 1, b = 2))), value = 3
  ),
  list(
    name = "a reference class",
    make = quote({
      Purse <- setRefClass("Purse", fields = list(n = "numeric"),
                           methods = list(add = function(k) n <<- n + unit_of() * k))
      unit_of <- function() 10
      purse <- Purse$new(n = 1)
    }),
    code = quote({
      own <- purse$copy()
      own$add(2)
      own$n
    }), value = 21
  ),
  list(
    name = "functions in a list that use an attached package",
    make = quote({
      library(splines)
      fs <- list(base = function(x) dim(bs(x, df = 4)))
      w <- function(fs) fs$base(1:10)
    }),
    code = quote(w(fs)), value = c(10L, 4L), detach = "splines"
  ),
  list(
    name = "functions in a list that use a function of the workspace",
    make = quote({
      deep <- function(x) deeper(x) + 1
      deeper <- function(x) 2 * x
      steps <- list(a = list(b = function(x) deep(x)))
    }),
    code = quote(steps$a$b(3)), value = 7
  ),
  list(
    name = "a class of package R6 with a parent, whose methods use an attached package",
    needs = "R6",
    make = quote({
      library(splines)
      Base <- R6::R6Class("Base", public = list(knots = function(x) dim(bs(x, df = 5)),
                                                twice = function(x) double_of(x)))
      Sub <- R6::R6Class("Sub", inherit = Base, public = list(both = function(x) {
        c(self$knots(x), self$twice(1), super$twice(2))
      }))
      double_of <- function(x) 2 * x
      sub <- Sub$new()
    }),
    code = quote(sub$both(1:10)), value = c(10, 5, 2, 4), detach = "splines"
  ),
  list(
    name = "a pipe of an attached package in a method of R6",
    needs = c("R6", "magrittr"),
    make = quote({
      do.call(library, list("magrittr"))
      Piped <- R6::R6Class("Piped", public = list(go = function(x) x %>% sum %>% add_one))
      add_one <- function(x) x + 1
      piped <- Piped$new()
    }),
    code = quote(piped$go(1:4)), value = 11, detach = "magrittr"
  ),
  list(
    name = "a class whose methods are a package's that is loaded only",
    needs = "data.table",
    make = quote(dt <- data.table::as.data.table(list(a = 1:3))),
    code = quote(nrow(dt[a > 1])), value = 2L
  )
)

in_workspace <- function(case, run) {
  for (p in case$needs) skip_if_not_installed(p)
  before <- ls(globalenv(), all.names = TRUE)
  on.exit({
    new <- setdiff(ls(globalenv(), all.names = TRUE), before)
    for (class in sub("^.__C__", "", grep("^.__C__", new, value = TRUE)))
      try(methods::removeClass(class, globalenv()), silent = TRUE)
    rm(list = intersect(new, ls(globalenv(), all.names = TRUE)), envir = globalenv())
    for (p in case$detach) detach(paste0("package:", p), character.only = TRUE)
  })
  suppressMessages(eval(case$make, globalenv()))
  f <- eval(call("function", as.pairlist(list(i = 0)), case$code), globalenv())
  assign("of_test_f", f, globalenv())
  expect_equal(run(f, case$code), case$value)
}

# Each has a function of the workspace, and its code.
ways <- function(cl) {
  list(
    cluster_map = function(f, code) cluster_map(cl, 1:2, f)[[2L]],
    cluster_submit = function(f, code) {
      collect(eval(call("cluster_submit", cl, code), globalenv()))
    },
    mclapply = function(f, code) mclapply(1:2, f, mc.cores = 1)[[1L]],
    foreach = function(f, code) {
      skip_if_not_installed("foreach")
      registerDoClutch(cl)
      on.exit(foreach::registerDoSEQ())
      loop <- bquote(foreach::`%dopar%`(foreach::foreach(i = 1:2), .(code)))
      eval(loop, globalenv())[[2L]]
    },
    BiocParallel = function(f, code) {
      skip_if_not_installed("BiocParallel")
      BiocParallel::bplapply(1:2, f, BPPARAM = ClutchParam(cl))[[2L]]
    }
  )
}

ways_of_future <- list(
  future = function(f, code) {
    future::value(future::future(code, substitute = FALSE, envir = globalenv()))
  },
  "a function's future" = function(f, code) {
    future::value(future::future(of_test_f(1), envir = globalenv()))
  },
  future_lapply = function(f, code) {
    skip_if_not_installed("future.apply")
    getExportedValue("future.apply", "future_lapply")(1:2, f)[[2L]]
  },
  future_map = function(f, code) {
    skip_if_not_installed("furrr")
    getExportedValue("furrr", "future_map")(1:2, f)[[2L]]
  }
)

for (name in names(ways(NULL))) local({
  name <- name
  for (case in cases) local({
    case <- case
    test_that(paste0(name, ": ", case$name), {
      cl <- make_cluster(1)
      on.exit({
        stop_cluster(cl)
        end_own_cluster()
      })
      in_workspace(case, ways(cl)[[name]])
    })
  })
})

for (name in names(ways_of_future)) local({
  name <- name
  for (case in cases) local({
    case <- case
    test_that(paste0(name, ": ", case$name), {
      skip_if_not_installed("future", "1.40.0")
      future::plan(clutch, workers = I(1))
      on.exit(future::plan("sequential"))
      in_workspace(case, ways_of_future[[name]])
    })
  })
})
