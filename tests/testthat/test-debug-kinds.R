# cluster_debug(): functions, calls and conditions of many kinds, each seen from its frozen copy.
#
# A kind is code that makes function `f`, with `cl`, `f` and what it needs in an environment of its
# own below the workspace. An element with f(x) fails. `run` does it in another way than by
# cluster_map(). `calls`: patterns of the calls that the menu has, in this order. `see`: what is
# evaluated, each list(pattern of a frame's call, expression, value); the last frame that fits is
# meant.

kinds <- list(
  list(
    name = "an R6 object",
    needs = "R6",
    code = quote({
      Account <- R6::R6Class("Account", public = list(
        balance = 10,
        take = function(n) {
          left <- self$balance - n
          private$check(left)
        }
      ), private = list(limit = -5, check = function(left) {
        if (left < private$limit) stop("below the limit")
      }))
      f <- function(x) {
        account <- Account$new()
        account$take(x)
      }
    }),
    x = 20,
    calls = c("FUN\\(", "account\\$take\\(x\\)", "private\\$check\\(left\\)"),
    see = list(
      list("take", quote(self$balance), 10), list("check", quote(private$limit), -5),
      list("FUN", quote(class(account)), c("Account", "R6")),
      list("check", quote(self$take(1)), NULL)
    )
  ),
  list(
    name = "a data.table",
    needs = "data.table",
    code = quote({
      f <- function(x) {
        d <- data.table::data.table(g = c("a", "b", "a"), v = 1:3, key = "g")
        summed <- d[, list(s = sum(v)), by = "g"]
        d[, w := check(v), by = "g"]
      }
      check <- function(v) if (length(v) > 1L) stop("two rows") else v
      environment(f)$.datatable.aware <- TRUE
    }),
    calls = c("FUN\\(", "`\\[.data.table`", "check\\(v\\)"),
    see = list(
      list("check", quote(as.integer(v)), c(1L, 3L)),
      list("FUN", quote(summed[g == "a", s]), 4L),
      list("FUN", quote(d[, sum(v)]), 6L),
      list("FUN", quote(data.table::key(d)), "g")
    )
  ),
  list(
    name = "an S4 object and generic",
    code = quote({
      f <- function(x) {
        setClass("KindShape", representation(side = "numeric"), where = globalenv())
        setGeneric("kind_area", function(s, ...) standardGeneric("kind_area"),
                   where = globalenv())
        setMethod("kind_area", "KindShape", function(s, ...) {
          doubled <- s@side * 2
          stop("no area")
        }, where = globalenv())
        shape <- new("KindShape", side = x)
        kind_area(shape)
      }
      environment(f) <- globalenv()
    }),
    x = 3,
    calls = c("FUN\\(", "kind_area\\(shape\\)"),
    see = list(
      list("kind_area", quote(doubled), 6), list("kind_area", quote(s@side), 3),
      list("FUN", quote(is(shape, "KindShape")), TRUE),
      list("FUN", quote(validObject(shape)), TRUE)
    )
  ),
  list(
    name = "callNextMethod() and initialize()",
    code = quote({
      f <- function(x) {
        setClass("KindBase", representation(a = "numeric"), where = globalenv())
        setClass("KindMore", contains = "KindBase", where = globalenv())
        setMethod("initialize", "KindBase", function(.Object, ..., a) {
          if (a < 0) stop("negative")
          .Object@a <- a
          .Object
        }, where = globalenv())
        setMethod("initialize", "KindMore", function(.Object, ..., a) {
          less <- a - 10
          callNextMethod(.Object, ..., a = less)
        }, where = globalenv())
        new("KindMore", a = x)
      }
      environment(f) <- globalenv()
    }),
    x = 3,
    calls = c("FUN\\(", "new\\(\"KindMore\"", "initialize\\(", "callNextMethod"),
    see = list(list("^\\.local", quote(a), -7),
               list("^callNextMethod", quote(exists("less")), FALSE),
               list(5, quote(less), -7), list("FUN", quote(x), 3))
  ),
  list(
    name = "a reference class",
    code = quote({
      f <- function(x) {
        Counter <- setRefClass("KindCounter", fields = list(n = "numeric"), methods = list(
          add = function(by) {
            n <<- n + by
            check()
          },
          check = function() {
            most <- 5
            if (n > most) stop("too many")
          }
        ), where = globalenv())
        counter <- Counter$new(n = 1)
        counter$add(x)
      }
      environment(f) <- globalenv()
    }),
    x = 7,
    calls = c("FUN\\(", "counter\\$add\\(x\\)", "check\\(\\)"),
    see = list(
      list("add", quote(n), 8), list("add", quote(by), 7), list("check", quote(most), 5),
      list("check", quote(.self$n), 8), list("FUN", quote(counter$n), 8)
    )
  ),
  list(
    name = "an unforced promise",
    code = quote({
      f <- function(x) g(x + 1, stop("never asked for"))
      g <- function(used, unused) {
        n <- used * 2
        stop("with a promise")
      }
    }),
    x = 1,
    calls = c("FUN\\(", "g\\(x \\+ 1"),
    see = list(
      list("g\\(", quote(substitute(used)), quote(x + 1)), list("g\\(", quote(n), 4),
      list("g\\(", quote(tryCatch(unused, error = conditionMessage)), "never asked for"),
      list("g\\(", quote(missing(unused)), FALSE)
    )
  ),
  list(
    name = "an error in a promise that is forced",
    code = quote({
      f <- function(x) outer_call(inner_call(x))
      outer_call <- function(lazy) {
        before <- 1
        lazy + before
      }
      inner_call <- function(y) {
        z <- y * 3
        stop("in a promise")
      }
    }),
    x = 2,
    calls = c("FUN\\(", "outer_call\\(", "inner_call\\(x\\)"),
    see = list(
      list("^inner_call", quote(z), 6), list("^outer_call", quote(before), 1),
      list("^outer_call", quote(deparse(substitute(lazy))), "inner_call(x)")
    )
  ),
  list(
    name = "dots",
    code = quote({
      f <- function(x) g(x, k = 2, letters[3])
      g <- function(...) h(...)
      h <- function(first, ...) stop("with dots")
    }),
    x = 5,
    calls = c("FUN\\(", "g\\(x, k = 2", "h\\(\\.\\.\\."),
    see = list(
      list("g\\(x", quote(list(...)), list(5, k = 2, "c")), list("g\\(x", quote(..3), "c"),
      list("h\\(", quote(...length()), 2L), list("h\\(", quote(..1), 2),
      list("h\\(", quote(first), 5), list("h\\(", quote(...names()[[1]]), "k")
    )
  ),
  list(
    name = "a missing argument",
    code = quote({
      f <- function(x) g()
      g <- function(y, d = k * 2) {
        k <- 4
        y + d
      }
    }),
    calls = c("FUN\\(", "g\\(\\)"),
    see = list(
      list("g\\(", quote(missing(y)), TRUE), list("g\\(", quote(d), 8),
      list("g\\(", quote(tryCatch(y, error = function(e) "missing")), "missing")
    )
  ),
  list(
    name = "an active binding",
    code = quote({
      f <- function(x) {
        asked <- 0
        makeActiveBinding("now", function() {
          asked <<- asked + 1
          if (asked > 2) stop("asked too often")
          asked * x
        }, environment())
        now
        now
        now
      }
    }),
    x = 10,
    calls = c("FUN\\(", "\\(function\\(\\)|\\(function \\(\\)"),
    see = list(
      list("FUN", quote(asked), 3), list("FUN", quote((asked <- 0) + now), 10),
      list("FUN", quote(bindingIsActive("now", environment())), TRUE)
    )
  ),
  list(
    name = "a finalizer that fails, and then the element",
    code = quote({
      f <- function(x) {
        e <- new.env()
        reg.finalizer(e, function(e) stop("in a finalizer"))
        rm(e)
        gc()
        g(x)
      }
      g <- function(y) stop("behind a finalizer")
    }),
    calls = c("FUN\\(", "g\\(x\\)"),
    lacks = "gc\\(",
    see = list(list("g\\(", quote(y), 1), list("FUN", quote(exists("e", inherits = FALSE)), FALSE))
  ),
  list(
    name = "an error in on.exit()",
    code = quote({
      f <- function(x) {
        state <- "open"
        on.exit({
          state <- "closing"
          closes(x)
        })
        x
      }
      closes <- function(y) {
        z <- y + 1
        stop("in on.exit")
      }
    }),
    calls = c("FUN\\(", "closes\\(x\\)"),
    see = list(list("closes", quote(z), 2), list("FUN", quote(state), "closing"))
  ),
  list(
    name = "an error, and another in on.exit()",
    code = quote({
      f <- function(x) {
        on.exit(closes(x))
        g(x)
      }
      g <- function(y) stop("first error")
      closes <- function(y) {
        z <- y + 1
        stop("second error")
      }
    }),
    calls = c("FUN\\("),
    see = list(list("FUN", quote(x), 1))
  ),
  list(
    name = "deep recursion",
    code = quote({
      f <- function(x) down(500)
      down <- function(n) if (n == 0) stop("at the bottom") else down(n - 1)
    }),
    calls = c("FUN\\(", "down\\(500\\)", rep("^down\\(n - 1\\)", 500)),
    see = list(
      list("down\\(500\\)", quote(n), 500), list(102, quote(n), 400), list(502, quote(n), 0)
    )
  ),
  list(
    name = "recursion by lapply()",
    code = quote({
      f <- function(x) down(150)
      down <- function(n) {
        if (n == 0) stop("far down")
        lapply(n - 1, down)
      }
    }),
    calls = c("FUN\\(", "down\\(150\\)"),
    see = list(list(NULL, quote(n), 0), list("down\\(150\\)", quote(n), 150),
               list(NULL, quote(sum(vapply(1:3, function(i) Reduce(`+`, 1:i), 1))), 10))
  ),
  list(
    name = "a function that is compiled",
    code = quote({
      f <- compiler::cmpfun(function(x) {
        total <- 0
        for (i in 1:10) total <- total + g(i)
        total
      })
      g <- compiler::cmpfun(function(y) {
        z <- y^2
        if (z > 20) stop("compiled")
        z
      })
    }),
    calls = c("FUN\\(", "g\\(i\\)"),
    see = list(list("FUN", quote(c(i, total)), c(5, 30)), list("g\\(", quote(z), 25))
  ),
  list(
    name = "tryCatch() between that is of another class",
    code = quote({
      f <- function(x) tryCatch(g(x), warning = function(w) "caught", finally = x)
      g <- function(y) tryCatch(stop("passes"), message = function(m) "caught")
    }),
    calls = c("FUN\\(", "tryCatch\\(g\\(x\\)", "g\\(x\\)", "tryCatch\\(stop"),
    see = list(list("^g\\(", quote(y), 1), list("FUN", quote(x), 1))
  ),
  list(
    name = "tryCatch() that signals again",
    code = quote({
      f <- function(x) {
        k <- x + 1
        tryCatch(g(x), error = function(e) stop("again: ", conditionMessage(e)))
      }
      g <- function(y) stop("inner")
    }),
    calls = c("FUN\\(", "tryCatch\\("),
    see = list(list("FUN", quote(k), 2), list("value\\[\\[3L?\\]\\]", quote(class(e)[[1]]),
                                              "simpleError"))
  ),
  list(
    name = "withCallingHandlers() between",
    code = quote({
      f <- function(x) {
        seen <- 0
        withCallingHandlers(g(x), error = function(e) seen <<- seen + 1)
      }
      g <- function(y) {
        z <- y * 4
        stop("passes handlers")
      }
    }),
    calls = c("FUN\\(", "withCallingHandlers\\(", "g\\(x\\)"),
    see = list(list("^g\\(", quote(z), 4), list("FUN", quote(seen), 1))
  ),
  list(
    name = "a calling handler that fails",
    code = quote({
      f <- function(x) {
        withCallingHandlers(g(x), error = function(e) {
          told <- conditionMessage(e)
          stop("in the handler")
        })
      }
      g <- function(y) {
        z <- y * 4
        stop("passes handlers")
      }
    }),
    calls = c("FUN\\(", "withCallingHandlers\\(", "^g\\(x\\)", "^stop\\(", "^h\\(simpleError"),
    see = list(list("^g\\(", quote(z), 4), list(NULL, quote(told), "passes handlers"))
  ),
  list(
    name = "functions of e and of c",
    code = quote({
      f <- function(x) Map(function(e) do.call(function(c) g(c), list(e * 2)), x)
      g <- function(y) stop("of e and c")
    }),
    x = 3,
    calls = c("FUN\\(", "Map\\(", "^\\(function ?\\(e\\)", "^\\(function ?\\(c\\)", "^g\\("),
    see = list(list("^\\(function ?\\(e", quote(e), 3), list("^\\(function ?\\(c", quote(c), 6),
               list(NULL, quote(y), 6))
  ),
  list(
    name = "functions that are called stop() and abort()",
    code = quote({
      f <- function(x) stop(x)
      stop <- function(y) {
        z <- y * 2
        abort(z)
      }
      abort <- function(v) base::stop("own stop")
    }),
    calls = c("FUN\\(", "^stop\\(x\\)", "^abort\\(z\\)"),
    see = list(list("^stop", quote(z), 2), list(NULL, quote(v), 2))
  ),
  list(
    name = "map() of purrr",
    needs = "purrr",
    code = quote({
      f <- function(x) purrr::map(1:3, function(i) g(i * x))
      g <- function(y) if (y > 4) stop("in purrr") else y
    }),
    x = 2,
    calls = c("FUN\\(", "map\\(1:3", "g\\(i \\* x\\)"),
    see = list(list("g\\(i", quote(y), 6), list("\\.f\\(", quote(i), 3L), list("FUN", quote(x), 2))
  ),
  list(
    name = "do.call() with large arguments",
    code = quote({
      f <- function(x) {
        big <- as.list(seq_len(50000) + 0)
        do.call(g, list(big, runif(100000), tag = "t"))
      }
      g <- function(a, b, tag) {
        n <- length(a) + length(b)
        stop("large")
      }
    }),
    calls = c("FUN\\(", "do\\.call\\(", "\\(function \\(a, b, tag\\)|\\(function\\(a, b, tag\\)"),
    see = list(list("\\(function", quote(n), 150000L), list("\\(function", quote(tag), "t"),
               list("\\(function", quote(sum(unlist(a))), 1250025000))
  ),
  list(
    name = "do.call() by name",
    code = quote({
      f <- function(x) do.call("g", list(x, b = quote(x)), quote = TRUE)
      g <- function(a, b) stop("by name")
    }),
    calls = c("FUN\\(", "do\\.call\\(", "g\\("),
    see = list(list("^g\\(", quote(a), 1), list("^g\\(", quote(b), quote(x)))
  ),
  list(
    name = "a lambda",
    code = quote(f <- \(x) (\(y) {
      z <- y + 1
      stop("in a lambda")
    })(x * 2)),
    x = 3,
    calls = c("FUN\\(", "\\(function\\(y\\)|\\(function \\(y\\)|\\\\\\(y\\)"),
    see = list(list("y\\)", quote(z), 7), list("FUN", quote(x), 3))
  ),
  list(
    name = "lapply(), vapply(), Map()",
    code = quote({
      f <- function(x) {
        lapply(1:2, function(i) vapply(1:2, function(j) {
          Map(function(a, b) if (a * b > 5) stop("nested") else a, 1:3, i * j)
          1
        }, 1))
      }
    }),
    calls = c("FUN\\(\\.x\\)", "lapply\\(1:2", "FUN\\(X\\[\\[i\\]\\]", "vapply\\(1:2",
              "FUN\\(X\\[\\[i\\]\\]", "Map\\(", "mapply\\(", "function"),
    see = list(
      list("function ?\\(a, b\\)", quote(c(a, b)), c(3, 2)),
      list(3, quote(i), 1L), list(5, quote(c(i, j)), c(1L, 2L)), list(1, quote(x), 1)
    )
  ),
  list(
    name = "NextMethod()",
    code = quote({
      f <- function(x) show_it(structure(list(v = x), class = c("kid", "mother")))
      show_it <- function(o, ...) UseMethod("show_it")
      show_it.kid <- function(o, extra = 1, ...) {
        own <- extra + 1
        NextMethod(more = 9)
      }
      show_it.mother <- function(o, ..., more) {
        got <- o$v * more
        stop("in the next method")
      }
    }),
    x = 2,
    calls = c("FUN\\(", "show_it\\(structure", "show_it\\.kid", "NextMethod|show_it\\.mother"),
    see = list(list("show_it\\.mother", quote(got), 18), list("show_it\\.kid", quote(own), 2),
               list("show_it\\.mother", quote(class(o)), c("kid", "mother")))
  ),
  list(
    name = "a method of an operator",
    code = quote({
      f <- function(x) structure(x, class = "kind_money") + 5
      Ops.kind_money <- function(e1, e2) {
        raw <- unclass(e1)
        stop("no ", .Generic)
      }
    }),
    x = 4,
    calls = c("FUN\\(", "Ops\\.kind_money"),
    see = list(list("Ops", quote(raw), 4), list("Ops", quote(.Generic), "+"),
               list("Ops", quote(e2), 5))
  ),
  list(
    name = "local()",
    code = quote(f <- function(x) {
      a <- 1
      local({
        b <- a + x
        stop("in local")
      })
    }),
    calls = c("FUN\\(", "local\\("),
    see = list(list("FUN", quote(a), 1), list("eval\\(", quote(b), 2),
               list("FUN", quote(exists("b", inherits = FALSE)), FALSE))
  ),
  list(
    name = "variables that are changed by <<-",
    code = quote({
      f <- function(x) {
        n <- 0
        add <- function() {
          n <<- n + 1
          if (n == 3) stop("third")
          add()
        }
        add()
      }
    }),
    calls = c("FUN\\(", "add\\(\\)", "add\\(\\)", "add\\(\\)"),
    see = list(list("add", quote(n), 3), list("add", quote(n <<- n + 10), 13),
               list("FUN", quote(n), 13), list("FUN", quote(environmentName(globalenv())),
                                               "R_GlobalEnv"))
  ),
  list(
    name = "sys.function() and Recall()",
    code = quote({
      f <- function(x) (function(n) if (n == 0) stop("zero") else Recall(n - 1))(2)
    }),
    calls = c("FUN\\(", "Recall\\(n - 1\\)", "Recall\\(n - 1\\)"),
    see = list(list("Recall", quote(1 + 1), 2),
               list(2, quote(n), 2), list("^FUN", quote(x), 1))
  ),
  list(
    name = "sys.call(), sys.function() and parent.frame() in a frame",
    code = quote({
      f <- function(x) g(x, "two")
      g <- function(a, b) {
        mine <- sys.call()
        stop("who calls")
      }
    }),
    calls = c("FUN\\(", "g\\(x, \"two\"\\)"),
    see = list(list("g\\(", quote(mine), quote(g(x, "two"))),
               list("g\\(", quote(sys.call()), quote(g(x, "two"))),
               list("g\\(", quote(names(formals(sys.function()))), c("a", "b")),
               list("g\\(", quote(get("x", parent.frame())), 1),
               list("g\\(", quote(as.list(match.call())[-1]), list(a = quote(x), b = "two")),
               list("g\\(", quote(nargs()), 2L))
  ),
  list(
    name = "rlang::abort()",
    needs = "rlang",
    code = quote({
      f <- function(x) g(x)
      g <- function(y) {
        z <- y + 1
        rlang::abort("by rlang", class = "kind_abort", data = y)
      }
    }),
    calls = c("FUN\\(", "g\\(x\\)"),
    see = list(list("g\\(", quote(z), 2), list(NULL, quote(z), 2))
  ),
  list(
    name = "rlang::abort() with a parent, by try_fetch()",
    needs = "rlang",
    code = quote({
      f <- function(x) {
        k <- x + 4
        rlang::try_fetch(g(x), error = function(c) rlang::abort("outer text", parent = c))
      }
      g <- function(y) {
        z <- y + 1
        stop("inner text")
      }
    }),
    calls = c("FUN\\(", "try_fetch\\(", "g\\(x\\)"),
    see = list(list("^g\\(", quote(z), 2), list("FUN", quote(k), 5))
  ),
  list(
    name = "cli::cli_abort()",
    needs = "cli",
    code = quote({
      f <- function(x) g(x)
      g <- function(y) {
        z <- y + 1
        cli::cli_abort(c("by {.pkg cli}", i = "z is {z}"))
      }
    }),
    calls = c("FUN\\(", "g\\(x\\)"),
    see = list(list("g\\(", quote(z), 2), list(NULL, quote(z), 2))
  ),
  list(
    name = "stopifnot()",
    code = quote({
      f <- function(x) g(x)
      g <- function(y) {
        z <- y + 1
        stopifnot("z is small" = z > 5)
      }
    }),
    calls = c("FUN\\(", "g\\(x\\)"),
    see = list(list("g\\(", quote(z), 2), list(NULL, quote(z), 2))
  ),
  list(
    name = "match.arg()",
    code = quote({
      f <- function(x) g("purple")
      g <- function(col = c("red", "blue")) {
        n <- 3
        col <- match.arg(col)
      }
    }),
    calls = c("FUN\\(", "g\\(\"purple\"\\)", "match\\.arg\\(col\\)"),
    see = list(list("^g\\(", quote(col), "purple"), list(NULL, quote(arg), "purple"),
               list("match.arg", quote(choices), c("red", "blue")))
  ),
  list(
    name = "a warning that is an error",
    options = list(warn = 2),
    code = quote({
      f <- function(x) g("abc")
      g <- function(y) {
        before <- nchar(y)
        as.integer(y)
      }
    }),
    calls = c("FUN\\(", "g\\(\"abc\"\\)"),
    see = list(list("g\\(", quote(before), 3L), list(NULL, quote(y), "abc"))
  ),
  list(
    name = "warning() that is an error",
    options = list(warn = 2),
    code = quote({
      f <- function(x) g("abc")
      g <- function(y) {
        before <- nchar(y)
        warning("as an error")
      }
    }),
    calls = c("FUN\\(", "g\\(\"abc\"\\)"),
    see = list(list("g\\(", quote(before), 3L), list(NULL, quote(y), "abc"))
  ),
  list(
    name = "an element whose time is up",
    more = list(.timeout = 0.3),
    code = quote({
      f <- function(x) waits(x + 1)
      waits <- function(y) {
        n <- 0
        repeat {
          n <- 5
          Sys.sleep(0.01)
        }
      }
    }),
    calls = c("FUN\\(", "waits\\(x \\+ 1\\)"),
    see = list(list("waits", quote(y), 2), list("waits", quote(n), 5), list("FUN", quote(x), 1))
  ),
  list(
    name = "an error in C code of R",
    code = quote({
      f <- function(x) g(list(1, "a"))
      g <- function(y) {
        n <- length(y)
        sum(y[[1]], y[[n]])
      }
    }),
    calls = c("FUN\\(", "g\\(list"),
    see = list(list("g\\(", quote(n), 2L), list(NULL, quote(y[[n]]), "a"))
  ),
  list(
    name = "an error in C++",
    needs = "Rcpp",
    cpp = TRUE,
    code = quote({
      f <- function(x) g(x)
      g <- function(y) {
        z <- y + 1
        kinds_cpp$cpp_fails(z)
      }
    }),
    calls = c("FUN\\(", "g\\(x\\)", "cpp_fails\\(z\\)"),
    see = list(list("g\\(", quote(z), 2), list("cpp_fails", quote(n), 2))
  ),
  list(
    name = "an error in a function that C++ calls",
    needs = "Rcpp",
    cpp = TRUE,
    code = quote({
      f <- function(x) g(x)
      g <- function(y) kinds_cpp$cpp_calls(h, y * 2)
      h <- function(v) {
        w <- v * 2
        stop("called by C++")
      }
    }),
    x = 3,
    calls = c("FUN\\(", "g\\(x\\)", "cpp_calls\\(h", "function ?\\(v\\)"),
    see = list(list("function ?\\(v\\)", quote(w), 12), list("^g\\(", quote(y), 3))
  ),
  list(
    name = "a condition of an own class",
    code = quote({
      f <- function(x) g(x)
      g <- function(y) {
        z <- y + 1
        stop(structure(class = c("kind_own", "error", "condition"),
                       list(message = "own class", call = sys.call(), data = y)))
      }
    }),
    calls = c("FUN\\(", "g\\(x\\)"),
    see = list(list("g\\(", quote(z), 2), list(NULL, quote(z), 2))
  ),
  list(
    name = "Reduce(), Filter() and eval() of code",
    code = quote({
      f <- function(x) Reduce(function(a, b) eval(quote(if (b == 3) stop("third") else a + b)),
                              1:5)
    }),
    calls = c("FUN\\(", "Reduce\\(", "f\\(init, x\\[\\[i\\]\\]\\)", "eval\\("),
    see = list(list("f\\(init", quote(c(a, b)), c(3L, 3L)))
  ),
  list(
    name = "a function of a package",
    code = quote({
      f <- function(x) {
        d <- data.frame(a = 1:3)
        stats::lm(a ~ no_such_column, d)
      }
    }),
    calls = c("FUN\\(", "lm\\(a ~ no_such", "model\\.frame"),
    see = list(list("FUN", quote(nrow(d)), 3L), list("^stats::lm", quote(names(data)), "a"))
  ),
  list(
    name = "mclapply() inside of the element",
    code = quote({
      f <- function(x) {
        got <- suppressWarnings(parallel::mclapply(1:2, function(i) stop("in a fork ", i)))
        g(got)
      }
      g <- function(y) stop("after forks")
    }),
    calls = c("FUN\\(", "g\\(got\\)"),
    see = list(list("g\\(", quote(class(y[[1]])), "try-error"))
  ),
  list(
    name = "a future inside of the element",
    needs = "future",
    code = quote({
      f <- function(x) {
        future::plan("sequential")
        one <- future::future(g(x))
        future::value(one)
      }
      g <- function(y) stop("in a future")
    }),
    calls = c("FUN\\(", "value\\(one\\)"),
    see = list(list("^FUN", quote(class(one)[[1L]]), "SequentialFuture"))
  ),
  list(
    name = "foreach",
    needs = "foreach",
    code = quote({
      run <- function(cl) {
        clutch::registerDoClutch(cl)
        on.exit(foreach::registerDoSEQ())
        k <- 3
        `%dopar%` <- foreach::`%dopar%`
        foreach::foreach(i = 2, j = "b") %dopar% {
          both <- paste(i, j, k)
          g(both)
        }
      }
      g <- function(y) {
        z <- nchar(y)
        stop("in foreach")
      }
    }),
    calls = c("g\\(both\\)"),
    see = list(list("g\\(", quote(z), 5L), list("g\\(", quote(y), "2 b 3"),
               list("^eval", quote(k), 3), list("^eval", quote(both), "2 b 3"))
  ),
  list(
    name = "a task",
    code = quote({
      run <- function(cl) {
        k <- 3
        clutch::collect(clutch::cluster_submit(cl, g(k * 2)))
      }
      g <- function(y) stop("in a task")
    }),
    calls = c("g\\(k \\* 2\\)"),
    see = list(list("g\\(", quote(y), 6))
  )
)

# Calls are shown with the place where they are written, if the tests were read with that.
without_places <- function(labels) sub("^[^ ]+#[0-9]+: ", "", labels)

# Tells whether the menu has these calls, in this order.
lists <- function(labels, patterns) {
  at <- 0L
  for (p in patterns) {
    there <- grep(p, labels)
    there <- there[there > at]
    if (!length(there)) return(FALSE)
    at <- there[[1L]]
  }
  TRUE
}

# The number of a frame. `where`: itself, or a pattern, or NULL: cluster_debug() is to know.
frame_at <- function(labels, where) {
  if (!is.character(where)) return(where)
  there <- grep(where, labels)
  if (length(there)) there[[length(there)]] else stop("no frame has ", where)
}

# C++ functions in an environment, compiled once.
kinds_cpp <- local({
  env <- NULL
  function() {
    if (!is.null(env)) return(env)
    code <- c("#include <Rcpp.h>",
              "// [[Rcpp::export]]", "double cpp_fails(double n) {",
              "  if (n > 1) Rcpp::stop(\"in C++\");", "  return n;", "}",
              "// [[Rcpp::export]]", "double cpp_calls(Rcpp::Function f, double n) {",
              "  return Rcpp::as<double>(f(n));", "}")
    file <- tempfile(fileext = ".cpp")
    writeLines(code, file)
    built <- new.env()
    Rcpp::sourceCpp(file, env = built, cacheDir = tempdir())
    env <<- built
  }
})

# How many copies were kept for the job of this error.
copies_kept <- function(e) {
  place <- dirname(clutch:::failure_of(e)$copy$path)
  sum(startsWith(list.files(dirname(place)), sub("-.*", "-", basename(place))))
}

fails_as <- function(kind, cl) {
  env <- new.env(parent = globalenv())
  eval(kind$code, env)
  if (isTRUE(kind$cpp)) env$kinds_cpp <- kinds_cpp()
  old <- options(kind$options)
  on.exit(options(old))
  x <- if (is.null(kind$x)) 1 else kind$x
  failed_of(if (is.null(env$run)) do.call(cluster_map, c(list(cl, x, env$f), kind$more))
            else env$run(cl))
}

failed_of <- function(expr) tryCatch(expr, clutch_task_error = identity)

old <- options(clutch.frozen = 4, clutch.task_grace = 20) # one that is ended leaves no copy
cl <- make_cluster(2)

for (kind in kinds) local({
  kind <- kind
  test_that(paste0("a copy shows ", kind$name), {
    for (p in kind$needs) skip_if_not_installed(p)
    e <- fails_as(kind, cl)
    expect_s3_class(e, "clutch_task_error")
    labels <- without_places(cluster_debug(e))
    menu <- paste(utils::head(labels, 40), collapse = "\n")
    expect_true(lists(labels, kind$calls), info = menu)
    if (!is.null(kind$lacks)) expect_false(any(grepl(kind$lacks, labels)), info = menu)
    expect_identical(copies_kept(e), 1L)
    for (s in kind$see) {
      value <- cluster_debug(e, frame_at(labels, s[[1L]]), s[[2L]])
      expect_equal(value, s[[3L]], info = paste(deparse1(s[[2L]]), "in", menu, sep = "\n"))
    }
  })
})

test_that("where R calls no handlers there is no copy, nor that of an error that came to nothing", {
  rescued <- cluster_map_chr(cl, 1:20, function(i) {
    on.exit(return("rescued"))
    stop("number ", i)
  })
  expect_identical(rescued, rep("rescued", 20L))
  down <- function(n) down(n + 1)
  e <- failed_of(cluster_map(cl, 1, down))
  expect_match(conditionMessage(e), "infinite recursion")
  expect_null(clutch:::failure_of(e)$copy)
  expect_error(cluster_debug(e), class = "clutch_gone")
  expect_true(works(cl))
})

test_that("return() in a frame is that of the expression", {
  e <- failed_of(cluster_map(cl, 4, function(x) {
    k <- x + 1
    stop("with return")
  }))
  expect_identical(cluster_debug(e, 1, quote({
    return(k)
    2
  })), 5)
  expect_identical(cluster_debug(e, 1, quote(k)), 5)
  expect_identical(cluster_debug(e, 1, 17), 17)
})

stop_cluster(cl)
options(old)

test_that("at the prompt the frames are as in recover()", {
  linux_only()
  outside_checks_only()
  skip_if_not_installed("R6")
  skip_if_not_installed("rlang")
  skip_if_not(nzchar(Sys.which("tmux")), "needs tmux")
  term <- start_terminal()
  on.exit({
    term$close()
    for (p in processes_of(term)) tools::pskill(p, 9L)
  })
  lines <- function() Filter(nzchar, sub(" +$", "", term$screen()))
  say <- function(line, prompt) {
    before <- lines() # which may end with the same prompt
    term$type(line)
    is_last <- function() {
      now <- lines()
      !identical(now, before) && identical(utils::tail(now, 1L), prompt)
    }
    if (!eventually(is_last(), 30)) stop(line, " has led to\n", paste(lines(), collapse = "\n"))
  }
  code <- file.path(term$tmp, "kinds.R")
  writeLines(c(
    "library(clutch)", "cl <- make_cluster(1)",
    "Account <- R6::R6Class('Account', public = list(n = 1,",
    "  take = function(k) private$check(self$n - k)),",
    "  private = list(check = function(left) rlang::abort('too much')))",
    "of_r6 <- function(x) { a <- Account$new(); a$take(x) }",
    "of_dots <- function(x) dots(x, k = 2, stop('never asked for'))",
    "dots <- function(...) lazy(..., b = x)",
    "lazy <- function(...) as.integer(stop('with dots'))",
    "of_e <- function(x) Map(function(e) stopifnot('e is large' = e < 3), x)"
  ), code)
  steps <- list(
    of_r6 = c("3", "left", "sys.call()[[1]]", "names(self)", "parent.frame()$k"),
    of_dots = c("3", "..1", "...length()", "sys.call()[[1]]", "eval(quote(..2), parent.frame())"),
    of_e = c("4", "e", "nargs()")
  )
  say("options(crayon.enabled = FALSE, cli.num_colors = 1L)", ">")
  say(sprintf("source('%s')", code), ">")
  for (name in names(steps)) {
    term$key("C-l")
    expect_true(eventually(identical(lines(), ">")))
    say(sprintf("cluster_map(cl, 7, %s)", name), ">")
    say("cluster_debug()", "Selection:")
    for (line in steps[[name]]) say(line, "Browse[1]>")
    expect_snapshot(cat(lines(), sep = "\n"))
    say("Q", ">")
  }
})
