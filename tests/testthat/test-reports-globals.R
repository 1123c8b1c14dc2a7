# What code needs: variables, functions, dots, packages, methods.

reports <- list(
  report("futureverse/furrr#57", "dots by number in a lambda", {
    lap(1:3, function(i) lapply(4:5, function(...) ..1 * i))
  }),
  report("futureverse/future#385", "dots of an outer function in an inner one", {
    total <- function(...) {
      one <- function(i) sum(..., i)
      lap(1:3, one)
    }
    total(10, 20)
  }),
  report("futureverse/future#417", "dots with names, in an anonymous function", {
    named <- function(...) lap(1:2, function(i) list(...))
    named(a = 1, b = "x")
  }),
  report("futureverse/globals#71", "an argument of an inner function has a variable's name", {
    size <- 42
    lap(1:2, function(i) {
      own <- function(size) size
      size + own(i)
    })
  }, ways = "finds"),
  report("futureverse/globals#71", "so has one within tryCatch()", {
    size <- 42
    lap(1:2, function(i) tryCatch({
      own <- function(size) size
      size
    }, error = conditionMessage))
  }, ways = "finds"),
  report("futureverse/future#778", "an inner function has the outer one's arguments", {
    outer_sum <- function(a, b) {
      lap(1:3, function(i) {
        inner <- function(a, b) a + b * i
        inner(a, b)
      })
    }
    outer_sum(1, 2)
  }),
  report("futureverse/furrr#153", "a variable of the caller is not one of the function", {
    uses_it <- function(i) only_here
    wrapper <- function() {
      only_here <- 1
      tryCatch(lap(1:2, uses_it), error = function(e) grepl("only_here", conditionMessage(e)))
    }
    wrapper()
  }, value = TRUE),
  report("futureverse/furrr#16", "elements are functions that use the workspace", {
    half_of <- function(x) x / divisor
    divisor <- 2
    lap(list(half_of, function(x) half_of(x) + 1), function(f) f(10))
  }, ways = "finds"),
  report("futureverse/future#401", "a function of base R under another name", {
    same_as <- identity
    shorter <- base::sum
    lap(1:2, function(i) same_as(shorter(i, 1)))
  }, ways = "finds"),
  report("futureverse/future#137", "a formula within a function that maps", {
    plus_one <- function(x) x + 1
    by_formula <- function(x) purrr::map(1:2, ~ plus_one(x + .x))
    lap(1:3, function(i) by_formula(i))
  }, ways = "finds", needs = "purrr"),
  report("futureverse/future#161", "code from text, made of an argument's expression", {
    keep_rows <- function(tables, which) {
      text <- deparse(substitute(which))
      lap(tables, function(d) d[eval(parse(text = text), d), , drop = FALSE])
    }
    keep_rows(list(data.frame(n = 1:4), data.frame(n = 3:6)), n >= 4)
  }),
  report("futureverse/future.apply#23", "a condition as text that names the element", {
    tables <- list(data.frame(n = 1:4), data.frame(n = 3:6))
    lap(tables, function(d, text) d[eval(parse(text = text)), ], text = "d$n > 3")
  }),
  report("futureverse/future#756", "an argument that is missing is passed on", {
    told <- function(i, label) if (missing(label)) paste(i, "bare") else paste(i, label)
    relabel <- function(label) lap(1:2, told, label)
    list(relabel(), relabel("x"))
  }, ways = c("cluster_map", "mclapply", "foreach")),
  report("futureverse/future#756", "a missing argument of the frame around, which nobody needs", {
    first_of <- function(i, label) if (i > 5) label else i
    outer_of <- function(label) lap(1:2, function(i) first_of(i, label))
    outer_of()
  }, ways = "finds", but = c("future", "future_lapply", "future_map")),
  report("futureverse/future#614", "an S4 generic with a method for numbers", {
    suppressMessages(setGeneric("squared_up", function(x) standardGeneric("squared_up")))
    setMethod("squared_up", signature(x = "numeric"), function(x) x^2)
    lap(c(1, 3), function(v) squared_up(v))
  }, ways = "finds"),
  report("futureverse/furrr#231", "an S4 generic as the function itself", {
    suppressMessages(setGeneric("cubed_up", function(x) standardGeneric("cubed_up")))
    setMethod("cubed_up", "ANY", function(x) x^3)
    lap(c(1, 3), cubed_up)
  }, ways = "finds"),
  report("futureverse/globals#44", "a variable whose class has methods that fail", {
    length.sly <- `[[.sly` <- `$.sly` <- names.sly <- function(x, ...) stop("not to be asked")
    sly <- structure(list(a = 1, b = 2), class = "sly")
    lap(1:2, function(i) sum(unlist(unclass(sly))) + i)
  }, ways = "finds", but = c("future", "future_lapply", "future_map")),
  report("mschubert/clustermq#202", "names with spaces and signs", {
    `my value` <- 5
    `a-b` <- function(x) x - `my value`
    lap(1:2, function(i) `a-b`(i))
  }, ways = "finds"),
  report("mschubert/clustermq#307", "a variable is changed between two maps", {
    factor_now <- 1
    first <- lap(1:2, function(i) i * factor_now)
    factor_now <- 10
    list(first, lap(1:2, function(i) i * factor_now))
  }, ways = "finds"),
  report("mschubert/clustermq#307", "a function is changed between two maps", {
    rule_now <- function(x) x + 1
    first <- lap(1:2, function(i) rule_now(i))
    rule_now <- function(x) x + 100
    list(first, lap(1:2, function(i) rule_now(i)))
  }, ways = "finds"),
  report("futureverse/doFuture#75", "functions of base R are masked in the workspace", {
    local <- c <- list <- lapply <- function(...) stop("not this one")
    lap(1:2, function(i) i + 1L)
  }),
  report("futureverse/doFuture#75", "so are operators that code around uses", {
    `{` <- `if` <- `(` <- base::`{`
    `!` <- function(x) stop("not this one")
    tryCatch(lap(1:2, function(i) i + 1L), finally = rm(`{`, `if`, `(`, `!`))
  }),
  report("futureverse/doFuture#17", "a variable is assigned on one branch only", {
    index_of <- 5
    lap(1:2, function(i) {
      if (i > 1) index_of <- i
      index_of
    })
  }, ways = "finds"),
  report("BlasBenito/distantia#7", "a variable is replaced by what is made of it", {
    offset_by <- 100
    lap(1:3, function(i) {
      offset_by <- offset_by + i
      offset_by
    })
  }, ways = "finds"),
  report("Bioconductor/BiocParallel#125", "a function uses variables of the frame around", {
    tune <- function(data, power) {
      one <- function(i) sum(data[[i]]^power)
      lap(seq_along(data), one)
    }
    tune(list(1:3, 4:5), 2)
  }),
  report("Bioconductor/BiocParallel#241", "a function of a function of the workspace", {
    step_one <- function(x) step_two(x) + 1
    step_two <- function(x) step_three(x) * 2
    step_three <- function(x) x - constant_3
    constant_3 <- 0.5
    run_all <- function(v) lap(v, step_one)
    run_all(1:3)
  }, ways = "finds"),
  report("futureverse/furrr#26", "a default argument uses the workspace", {
    base_value <- 3
    with_default <- function(i, b = base_value * 2) i + b
    lap(1:2, with_default)
  }, ways = "finds"),
  report("TommyJones/textmineR#21", "a factory's argument that was not yet evaluated", {
    scale_by <- 7
    maker <- function(k) function(i) i * k
    lap(1:2, maker(scale_by))
  }, ways = "finds"),
  report("futureverse/future.apply#87", "a subset of a data.table in a model's data", {
    cars_table <- data.table::as.data.table(mtcars)
    lap(0:1, function(g) unname(round(coef(lm(mpg ~ wt, cars_table[vs == g])), 3)))
  }, ways = "finds", needs = "data.table"),
  report("futureverse/future#606", "what is known within brackets of a data.table only", {
    do.call(library, list("data.table"))
    table_of <- as.data.table(mtcars)
    lap(1:2, function(i) table_of[seq_len(i), .(hp, n = .N)])
  }, ways = "finds", needs = "data.table", detach = "data.table"),
  report("yihui/knitr#734", "a document is knitted, which sees the element's variables", {
    lap(1:2, function(i) {
      square <- i^2
      knitr::knit(text = "The square is `r square`.", quiet = TRUE)
    })
  }, needs = "knitr"),
  report("futureverse/furrr#211", "a function and a variable that text in the code names", {
    add_seven <- function(x) x + get("six_more") + 1
    six_more <- 6
    lap(1:2, function(i) {
      c(do.call("add_seven", list(i)), match.fun("add_seven")(i), sapply(i, "add_seven"),
        eval(as.name("six_more")), unlist(mget(c("six_more", "six_more"), envir = globalenv())))
    })
  }, ways = "finds", but = c("future", "future_lapply", "future_map")),
  report("futureverse/furrr#207", "a function that only a variable's text names", {
    by_name <- c(mod = "minus_two")
    minus_two <- function(x) x - 2
    text <- tryCatch(lap(1:2, function(i) match.fun(by_name[["mod"]])(i)), error = conditionMessage)
    grepl(".globals = \"minus_two\"", text, fixed = TRUE)
  }, value = TRUE, ways = c("cluster_map", "cluster_submit"))
)

test_reports(reports, without = "crew")
