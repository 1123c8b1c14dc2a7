# What goes in and comes out: elements and values of all kinds, arguments, names, order.

kept_names <- c("cluster_map", "mclapply", "parLapply", "clusterMap", "BiocParallel",
                "future_lapply", "future_map", "mirai_map")

reports <- list(
  # ---- elements ----
  report("r-lib/mirai#194", "language as elements, which is not evaluated", {
    lap(list(quote(a + b), as.name("zz"), quote(stop("no"))), function(e) class(e))
  }),
  report("r-lib/mirai#149", "matrices and data frames as elements", {
    lap(list(matrix(1:4, 2), data.frame(a = 1:3, b = 4:6)), function(m) c(dim(m), sum(m)))
  }),
  report("r-lib/mirai#196", "dates and factors as elements", {
    lap(list(as.Date("2018-09-27"), factor("b", levels = c("a", "b")),
             as.POSIXct(0, tz = "UTC", origin = "1970-01-01")),
        function(d) list(class(d), format(d)))
  }),
  report("r-lib/mirai#196", "a vector of dates", {
    lap(as.Date(c("2018-09-27", "2020-02-29")), function(d) format(d, "%d.%m."))
  }, but = "foreach"),
  report("r-lib/mirai#192", "a matrix is gone through by element", {
    lap(matrix(1:4, 2), function(v) v * 10L)
  }, but = "foreach"),
  report("mschubert/clustermq#10", "lists as elements", {
    lap(list(list(a = 1), list(a = 2, b = "x")), function(l) l$a + length(l))
  }),
  report("futureverse/future#156", "a data frame as elements: its columns", {
    unname(lap(data.frame(n = 1:2, s = c("a", "b")), function(column) class(column)))
  }),
  report("futureverse/furrr#135", "nothing to map over", {
    list(lap(list(), function(i) i), lap(integer(), function(i) i), lap(NULL, function(i) i))
  }, but = c("clusterApplyLB", "clusterMap")),
  report("r-lib/mirai#639", "NULL, NA and empty vectors as elements", {
    lap(list(NULL, NA, character(), list()), function(e) list(is.null(e), length(e)))
  }),
  report("futureverse/future#248", "functions, built in or not, as elements", {
    lap(list(sum, function(...) max(...), `+`), function(f) f(3, 4))
  }),
  report("futureverse/furrr#15", "an expression and a formula as elements keep their class", {
    lap(list(y ~ x + 1, expression(a, b)), function(e) list(class(e), length(e)))
  }),
  report("futureverse/furrr#68", "order is that of the elements, not of the ends", {
    lap(4:1, function(i) {
      Sys.sleep(i / 100)
      i
    })
  }),
  report("futureverse/furrr#78", "many elements", {
    sum(unlist(lap(1:300, function(i) i %% 7)))
  }, but = "future"),
  # ---- values ----
  report("mschubert/clustermq#163", "data frames as values", {
    lap(1:2, function(i) data.frame(x = seq_len(i), y = letters[seq_len(i)]))
  }),
  report("futureverse/furrr#10", "attributes of values", {
    lap(1:2, function(i) structure(i, name = letters[[i]], class = "mark"))
  }),
  report("r-lib/mirai#639", "NULL as a value keeps its place", {
    lap(1:3, function(i) if (i == 2L) NULL else i)
  }),
  report("futureverse/doFuture#75", "a function as a value", {
    fs <- lap(1:2, function(i) function(x) x + i)
    c(fs[[1]](10), fs[[2]](10))
  }, value = c(11, 12), but = "future"),
  report("futureverse/future#804", "an environment as a value", {
    es <- lap(1:2, function(i) list2env(list(n = i)))
    vapply(es, function(e) e$n, 1L)
  }, value = 1:2),
  report("r-lib/mirai#400", "an error as a value is none", {
    es <- lap(1:2, function(i) simpleError(paste("kept", i)))
    vapply(es, conditionMessage, "")
  }, value = c("kept 1", "kept 2"), but = c("BiocParallel", "foreach")),
  report("DarwinAwardWinner/variancePartition#28", "a try-error as a value", {
    vs <- lap(1:2, function(i) try(stop("bad"), silent = TRUE))
    vapply(vs, inherits, NA, "try-error")
  }, value = c(TRUE, TRUE),
  ways = c("cluster_map", "cluster_submit", "foreach", "future", "BiocParallel")),
  report("r-lib/mirai#351", "an invisible value, and none", {
    lap(1:2, function(i) if (i == 1) invisible(7) else for (k in 1) k)
  }),
  report("futureverse/future#42", "a list with dimensions, and a raw vector", {
    lap(1:2, function(i) list(matrix(list(1, "a", NULL, i), 2), as.raw(i)))
  }),
  report("r-lib/mirai#218", "a model as a value, with its call and terms", {
    fits <- lap(c(4, 6), function(k) {
      stats::lm(mpg ~ wt, data = datasets::mtcars, subset = cyl == k)
    })
    lapply(fits, function(m) list(class(m), round(stats::coef(m), 6), class(stats::terms(m))))
  }, value = lapply(c(4, 6), function(k) {
    m <- stats::lm(mpg ~ wt, data = datasets::mtcars[datasets::mtcars$cyl == k, ])
    list("lm", round(stats::coef(m), 6), c("terms", "formula"))
  })),
  report("futureverse/future#35", "text in several encodings, and with zeros of UTF-8", {
    text <- c("na\u00efve", "\u65e5\u672c", "\U1f600", iconv("\u00e9", "UTF-8", "latin1"))
    unname(lap(text, function(s) list(nchar(s), toupper(s), Encoding(enc2utf8(s)))))
  }),
  # ---- names ----
  report("futureverse/furrr#116", "names of elements are those of values", {
    names(lap(list(x = 1, y = 2, z = 3), function(v) v))
  }, ways = kept_names),
  report("futureverse/furrr#116", "some names only, and two alike", {
    names(lap(c(a = 1, 2, a = 3), function(v) v)) # nolint: duplicate_argument_linter.
  }, ways = setdiff(kept_names, "mirai_map")),
  report("futureverse/furrr#201", "elements of text have no names, except where said", {
    unname(lap(c("a", "b"), toupper))
  }),
  # ---- arguments ----
  report("futureverse/future#201", "an argument called x", {
    with_x <- function(i, x) c(i, x)
    lap(1:3, with_x, x = 9)
  }, but = c("parLapply", "clusterApplyLB")),
  report("futureverse/future#201", "arguments called f, n, cl, data and .id", {
    many <- function(i, f, n, data) c(i, f, n, data)
    lap(1:2, many, f = 5, n = 6, data = 7)
  }, but = c("parLapply", "clusterApplyLB")),
  report("kvnkuang/pbmcapply#4", "four further arguments, by place", {
    told <- function(element, a, b, c, d) paste(element, a, b, c, d)
    lap(1:3, told, "alice", "bob", 42, "chris")
  }),
  report("futureverse/future#156", "a data frame as a further argument", {
    lap(1:2, function(i, df) c(dim(df), i), datasets::mtcars)
  }),
  report("futureverse/future.apply#51", "a function, a list and NULL as further arguments", {
    lap(1:2, function(x, f, l, none) list(f(x), length(l), is.null(none)), f = identity,
        l = list(3, 4), none = NULL)
  }, but = c("parLapply", "clusterApplyLB")),
  report("r-lib/mirai#194", "language as a further argument", {
    lap(1:2, function(i, e) list(i, class(e), deparse(e)), e = quote(stop("not evaluated")))
  }, but = c("BiocParallel", "future", "future_lapply", "future_map")),
  report("futureverse/furrr#15", "a further argument is a column of the data around", {
    d <- data.frame(a = 1:3, z = 4:6)
    with(d, lap(a, function(v, w) v + sum(w), z))
  }),
  report("futureverse/future.apply#124", "an argument's expression can be evaluated", {
    lap(c(2, 3), function(x) eval(substitute(x), parent.frame()))
  }, but = c("BiocParallel", "future_map")),
  report("futureverse/future.apply#124", "match.call() and nargs()", {
    lap(1:2, function(a, b, ...) c(names(match.call())[-1L], nargs()), b = 4, more = 1)
  }),
  report("futureverse/future.apply#92", "calls on the stack have no data in them", {
    big <- replicate(3, as.numeric(1:2e5), simplify = FALSE)
    lap(big, function(x) unclass(utils::object.size(sys.calls())) < 1e6)
  }, ways = c("cluster_map", "cluster_submit", "mclapply", "foreach")),
  report("futureverse/future.apply#105", "a function by the name of an operator", {
    unname(lap(strsplit(c("1:99", "999:3"), ":"), "[[", 2))
  }, ways = c("cluster_map", "cluster_submit", "mclapply", "parLapply", "BiocParallel")),
  report("futureverse/future.apply#105", "functions that are built in", {
    list(lap(list(1:3, 4:5), sum), lap(c(4, 9), sqrt), lap(1:2, `-`), lap(1:2, "+", 1))
  }, but = c("foreach", "clusterMap", "clusterApplyLB", "future", "future_map", "mirai_map")),
  report("futureverse/future#401", "recursion by Recall() and by name", {
    lap(3:5, function(n) if (n < 2) 1 else n * Recall(n - 1))
  }),
  report("r-lib/mirai#364", "a map within a map", {
    lap(1:2, function(i) unlist(clutch::mclapply(1:3, function(j) i * j)))
  }),
  report("Bioconductor/BiocParallel#144", "lapply(), Map() and vapply() within", {
    lap(1:2, function(i) {
      c(unlist(lapply(1:2, function(j) j + i)), unlist(Map(`*`, 1:2, i)), vapply(i, sqrt, 1))
    })
  }),
  report("futureverse/future.apply#54", "a row of a data frame by do.call()", {
    d <- data.frame(a = 1:3, b = letters[1:3])
    lap(seq_len(nrow(d)), function(i, d) do.call(paste, c(d[i, ], sep = ";")), d = d)
  }),
  report("Bioconductor/BiocParallel#78", "functions of packages by ::", {
    lap(1:2, function(i) stats::median(utils::head(c(i, 5, 9), 2)))
  }),
  report("futureverse/furrr#57", "a recursive list is gone through", {
    lap(list(list(1, list(2, 3)), list(4)),
        function(l) rapply(l, function(v) v * 2, how = "unlist"))
  })
)

test_reports(reports, without = c("crew", "clusterApplyLB", "future_lapply"))
