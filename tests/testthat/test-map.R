# What cluster_map() and its variants take and return.

with_two <- function(code) {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  code(cl)
}
error_of <- function(expr) {
  tryCatch({
    expr
    NULL
  }, clutch_error = identity)
}

test_that("an option that there is not is an error that suggests one", {
  with_two(function(cl) {
    e <- error_of(cluster_map(cl, 1:2, paste, .retires = 3))
    expect_s3_class(e, "clutch_argument")
    expect_match(conditionMessage(e), "`.retires`: did you mean `.retries`?", fixed = TRUE)
    expect_match(conditionMessage(error_of(cluster_map_dbl(cl, 1:2, sum, .retry = 1))),
                 "did you mean `.retries`", fixed = TRUE)
    expect_match(conditionMessage(error_of(cluster_walk(cl, 1:2, sum, .wholly.other = 1))),
                 "no option `.wholly.other`", fixed = TRUE)
    expect_s3_class(error_of(cluster_map2(cl, 1:2, 1:2, sum, .seeed = 1)), "clutch_argument")
    expect_identical(
      cluster_map(cl, 1:2, function(x, .retires) .retires, .more = list(.retires = 3)), list(3, 3)
    )
  })
})

test_that("arguments whose names are taken go into `.more`", {
  with_two(function(cl) {
    expect_identical(cluster_map(cl, 1:2, function(x, cl) cl, .more = list(cl = 3)), list(3, 3))
    expect_identical(cluster_map_dbl(cl, 1:2, function(x, cl) cl, .more = list(cl = 3)), c(3, 3))
    expect_identical(cluster_map2(cl, 1:2, 1:2, function(x, y, more) more, more = 3), list(3, 3))
    cluster_walk(cl, 1:2, function(x, .f, .x) stopifnot(.f == 3), .more = list(.f = 3))
    more <- list(.x = 10)
    expect_identical(cluster_map_dbl(cl, 1, function(a, .x) a - .x, .more = more), -9)
    expect_identical(cluster_map2_dbl(cl, 1, 2, function(a, b, .x) a - b - .x, .more = more), -11)
    expect_identical(cluster_pmap_dbl(cl, list(b = 1), function(b, .x) b - .x, .more = more), -9)
    expect_output(cluster_walk(cl, 1, function(a, .x) cat(a - .x), .more = more), "-9")
    expect_output(cluster_iwalk(cl, 1, function(a, i, .x) cat(a - i - .x), .more = more), "-10")
    e <- error_of(cluster_map(cl, 1:2, function(x, c) c, c = 3)) # R takes it for `cl`
    expect_s3_class(e, "clutch_argument")
    expect_match(conditionMessage(e), "more = list", fixed = TRUE)
  })
})

test_that("`.f` is a function, its name, a formula or what to extract", {
  skip_if_not_installed("rlang")
  with_two(function(cl) {
    k <- 10
    expect_identical(cluster_map_dbl(cl, 1:2, ~ .x + k), c(11, 12))
    expect_identical(cluster_map2(cl, 1:2, 3:4, ~ .x * .y), list(3L, 8L))
    expect_identical(cluster_map_dbl(cl, c(4, 9), "sqrt"), c(2, 3))
    people <- list(list(name = "A", tel = list(1, 2)), list(name = "B"))
    expect_identical(cluster_map_chr(cl, people, "name"), c("A", "B"))
    expect_identical(cluster_map(cl, people, 1), list("A", "B"))
    expect_identical(cluster_map(cl, people, list("tel", 2)), list(2, NULL))
    expect_identical(cluster_map_dbl(cl, people, list("tel", 2), .default = NA), c(2, NA))
    expect_identical(cluster_map_int(cl, people, list("tel", length), .default = 0L), c(2L, 0L))
    expect_identical(cluster_map_dbl(cl, list(c(a = 1, b = 2)), "b"), 2)
    for (bad in list(NULL, TRUE, list(NULL), list(NA), quote(x), c("a", NA)))
      expect_s3_class(error_of(cluster_map(cl, 1:2, bad)), "clutch_argument")
    name <- function(x) "the function"
    expect_identical(cluster_map_chr(cl, people, "name"), rep("the function", 2))
  })
})

test_that("rows are bound, those of nothing to nothing", {
  with_two(function(cl) {
    expect_identical(cluster_map_dfr(cl, integer(), function(i) data.frame(a = i)), data.frame())
    expect_identical(cluster_map_dfr(cl, 1:3, function(i) NULL), data.frame())
    expect_identical(cluster_map_dfr(cl, 1:2, function(i) data.frame()), data.frame())
    expect_identical(cluster_map_dfr(cl, 1:2, function(i) data.frame(a = i, b = letters[i])),
                     data.frame(a = 1:2, b = c("a", "b")))
    expect_identical(cluster_map_dfr(cl, 1:3, function(i) if (i != 2) list(a = i)),
                     data.frame(a = c(1L, 3L)))
    expect_identical(cluster_map_dfr(cl, 1:2,
                                     function(i) {
                                       if (i == 1) list(a = 1, b = 2) else list(b = 4, a = 3)
                                     }),
                     data.frame(a = c(1, 3), b = c(2, 4)))
    e <- error_of(cluster_map_dfr(cl, 1:3, function(i) {
      switch(i, NULL, list(a = 1), list(a = 1, z = 2))
    }))
    expect_s3_class(e, "clutch_value")
    expect_match(conditionMessage(e), "element 3 has columns a, z, and element 2 has a",
                 fixed = TRUE)
    expect_identical(e$element, 3L)
    expect_match(conditionMessage(error_of(cluster_map_dfr(cl, 1:2, function(i) i))),
                 "element 1: cluster_map_dfr")
  })
})

test_that("names, retries and seeds of no use", {
  with_two(function(cl) {
    e <- new.env()
    e$a <- 1
    e$.hidden <- 2
    expect_identical(cluster_map(cl, e, function(x) x), list(a = 1))
    expect_s3_class(error_of(cluster_map(cl, 1, identity, .retries = NULL)), "clutch_argument")
    expect_s3_class(error_of(cluster_map(cl, 1, identity, .retries = c(1, 2))), "clutch_argument")
    expect_s3_class(error_of(cluster_map(cl, 1, identity, .seed = 1e10)), "clutch_argument")
    bad <- error_of(cluster_map_dfr(cl, 1:2, function(i) list(a = 1:2, b = 1:3)))
    expect_s3_class(bad, "clutch_value")
    expect_identical(bad$element, 1L)
  })
})

test_that("an argument `more` is one of the function, or an error that names `.more`", {
  with_two(function(cl) {
    expect_identical(cluster_map(cl, 1:2, function(x, more) more, more = list(a = 1)),
                     rep(list(list(a = 1)), 2))
    expect_identical(cluster_map(cl, 1:2, function(...) names(list(...)), more = 1),
                     list(c("", "more"), c("", "more")))
    for (run in list(cluster_map, cluster_map_dbl, cluster_walk, cluster_imap)) {
      e <- error_of(run(cl, 1:2, function(x, p) p, more = list(p = 3)))
      expect_s3_class(e, "clutch_argument")
      expect_match(conditionMessage(e), "`.more`", fixed = TRUE)
    }
  })
})

test_that("names, recycling and zero elements are as in purrr", {
  skip_if_not_installed("purrr")
  with_two(function(cl) {
    pairs <- list(list(c(a = 1, b = 2), 3:4), list(c(a = 1), 1:3), list(1:2, c(c = 3, d = 4)),
                  list(character(), 1),
                  list(1:3, 1), list(list(1, "a"), list(sum, NULL)),
                  list(factor(c("u", "v")), as.Date("2020-01-01") + 0:1),
                  list(list(), list()))
    f <- function(x, y) list(class(x), y)
    for (p in pairs) {
      expect_identical(cluster_map2(cl, p[[1]], p[[2]], f), purrr::map2(p[[1]], p[[2]], f))
    }
    several <- list(list(), list(1:3), list(c(a = 1, b = 2), 2, 3:4), list(x = c(u = 1), y = 1:3),
                    list(x = character(), y = 1),
                    data.frame(x = 1:2, y = c("a", "b")), data.frame(), list(NULL, 1),
                    list(x = list(1, "b"), y = as.Date("2020-01-01") + 0:1))
    g <- function(x, y = "none", ...) list(x, y, ...)
    for (l in several) expect_identical(cluster_pmap(cl, l, g), purrr::pmap(l, g))
    expect_identical(cluster_pmap(cl, several[[3]], ~ ..1 + ..3),
                     purrr::pmap(several[[3]], ~ ..1 + ..3))
    for (x in list(c(a = 1, b = 2), 3:5, list(), list(x = sum, NULL), c("p", "q"),
                   stats::setNames(list(), character())))
      expect_identical(cluster_imap(cl, x, function(x, i) list(x, i)),
                       purrr::imap(x, function(x, i) list(x, i)))
  })
})

test_that("the arguments of a row go by name, constants behind them", {
  with_two(function(cl) {
    rows <- data.frame(n = 1:2, mean = c(10, 20))
    expect_identical(cluster_pmap(cl, rows, function(mean, n, sd) c(mean, n, sd), sd = 3),
                     list(c(10, 1, 3), c(20, 2, 3)))
    expect_identical(cluster_pmap(cl, rows, function(n, mean, cl, .f) list(n, cl, .f),
                                  .more = list(cl = 5, .f = 6)),
                     list(list(1L, 5, 6), list(2L, 5, 6)))
    expect_identical(cluster_pmap_dbl(cl, list(.x = 1:2, f = 3), function(.x, f) .x + f), c(4, 5))
    expect_identical(cluster_map2_dbl(cl, 1:2, 3:4, function(x, y, power) (x + y)^power, power = 2),
                     c(16, 36))
    expect_identical(
      cluster_imap_chr(cl, c(a = "x"), function(x, i, sep) paste(x, i, sep = sep), sep = "-"),
      c(a = "x-a")
    )
    expect_identical(cluster_pmap_dbl(cl, list(list(c(a = 1, b = 2)), 0), "b"), 2)
  })
})

test_that("walks return what they went through, and no value travels back", {
  with_two(function(cl) {
    folder <- tempfile()
    dir.create(folder)
    on.exit(unlink(folder, recursive = TRUE))
    touch <- function(...) {
      file.create(file.path(folder, paste0(..., collapse = "-")))
      numeric(1e6)
    }
    expect_identical(withVisible(cluster_walk2(cl, c(a = 1, b = 2), 3, touch)),
                     list(value = c(a = 1, b = 2), visible = FALSE))
    rows <- data.frame(x = 5:6, y = 7:8)
    expect_identical(withVisible(cluster_pwalk(cl, rows, touch)),
                     list(value = rows, visible = FALSE))
    expect_identical(withVisible(cluster_iwalk(cl, c(k = "v"), touch)),
                     list(value = c(k = "v"), visible = FALSE))
    expect_setequal(list.files(folder), c("13", "23", "57", "68", "vk"))
    expect_lt(max(cluster_trace(cl)$bytes), 1e5)
  })
})

test_that("vectors of no use are errors that name them", {
  with_two(function(cl) {
    text <- function(expr) {
      e <- error_of(expr)
      expect_s3_class(e, "clutch_argument")
      conditionMessage(e)
    }
    expect_identical(text(cluster_map2(cl, 1:2, 1:3, sum)), "`.x` has 2 elements and `.y` has 3")
    expect_identical(text(cluster_map2_dbl(cl, 1:2, NULL, sum)),
                     "`.x` has 2 elements and `.y` has 0")
    expect_identical(text(cluster_pmap(cl, list(1, 1:2, 1:3), sum)),
                     "`.l[[2]]` has 2 elements and `.l[[3]]` has 3")
    expect_match(text(cluster_pmap(cl, 1:3, sum)),
                 "`.l` has to be a list of vectors, and this is a vector of type integer",
                 fixed = TRUE)
    expect_match(text(cluster_pwalk(cl, list(1, sum), sum)),
                 "`.l[[2]]` has to be a vector or a list, and this is a function", fixed = TRUE)
    expect_match(text(cluster_map(cl, sqrt, 1:3)),
                 "`.x` has to be a vector or a list, and this is a function", fixed = TRUE)
    expect_match(text(cluster_map2(cl, 1, quote(a), sum)), "`.y` has to be")
    expect_identical(text(cluster_map2(cl, 1:2, .f = sum)), "argument `.y` is missing")
    expect_identical(text(cluster_pmap(cl, .f = sum)), "argument `.l` is missing")
    expect_identical(text(cluster_imap_dbl(cl, 1:2)), "argument `.f` is missing")
    expect_identical(text(cluster_iwalk(.x = 1, .f = sum)), "argument `cl` is missing")
    expect_identical(text(cluster_map(1:2, sqrt)),
                     paste("argument `.f` is missing; `cl` comes first: a cluster made by",
                           "make_cluster(), or NULL"))
    expect_match(text(cluster_pmap(cl, list(1), function(x, c) c, c = 3)), ".more = list",
                 fixed = TRUE)
    expect_match(text(cluster_imap(2, 1:2, sum)), "`cl` has to be a cluster", fixed = TRUE)
    expect_match(text(cluster_pmap_dbl(cl, list(1), sum, .retires = 1)), "did you mean `.retries`",
                 fixed = TRUE)
  })
})

test_that("errors of all variants name the element", {
  with_two(function(cl) {
    bad <- function(x, ...) if (x == 2) stop("no twos") else x
    runs <- list(cluster_map2 = function() cluster_map2(cl, 1:3, 1, bad),
                 cluster_pmap = function() cluster_pmap(cl, list(1:3, 1), bad),
                 cluster_imap = function() cluster_imap(cl, 1:3, bad), cluster_walk2 = function() {
                   cluster_walk2(cl, 1:3, 1, bad)
                 },
                 cluster_pwalk = function() cluster_pwalk(cl, list(1:3), bad),
                 cluster_iwalk = function() cluster_iwalk(cl, 1:3, bad))
    for (name in names(runs)) {
      e <- error_of(runs[[name]]())
      expect_s3_class(e, "clutch_task_error")
      expect_identical(e$element, 2, info = name)
      expect_match(conditionMessage(e), "^element 2 on node [12] failed.*no twos", info = name)
    }
    # the call that is shown has names of arguments and no values in it
    huge <- strrep("x", 1e5)
    e <- error_of(cluster_pmap(cl, list(a = 1, b = huge), function(a, b) a, z = 1,
                               .more = list(d = 2)))
    expect_match(conditionMessage(e), "unused arguments", fixed = TRUE)
    expect_lt(nchar(conditionMessage(e)), 1000)
  })
})

test_that("variants find what their caller has: in functions, with helpers, factories, names", {
  skip_if_not_installed("purrr")
  with_two(function(cl) {
    assign("m_cl", cl, globalenv())
    r <- eval(quote({
      m_by <- 3
      m_times <- function(x, y = 1) x * y * m_by
      m_in_function <- function() {
        local_by <- 2
        helper <- function(x, y) m_times(x, y) + local_by
        named <- 7
        list(map2 = cluster_map2_dbl(m_cl, 1:2, 1, helper),
             by_name = cluster_pmap_dbl(m_cl, list(1:2), "helper", y = 1),
             imap = cluster_imap_dbl(m_cl, 1:2, function(x, i) helper(x, i)),
             given = cluster_imap_dbl(m_cl, 1:2, eval(quote(function(x, i) named), globalenv()),
                                      .globals = "named"),
             formula = cluster_map2_dbl(m_cl, 1:2, 3, ~ .x + .y + local_by))
      }
      list(inside = m_in_function(), top = cluster_pmap_dbl(m_cl, list(x = 1:2, y = 2), m_times),
           possibly = cluster_map2_dbl(m_cl, list(1, "a"), 1, purrr::possibly(m_times, NA)),
           Vectorize = cluster_pmap_dbl(m_cl, list(1:2, 2), Vectorize(m_times)))
    }), globalenv())
    rm(list = grep("^m_", ls(globalenv()), value = TRUE), envir = globalenv())
    expect_equal(r$inside,
                 list(map2 = c(5, 8), by_name = c(5, 8), imap = c(5, 14), given = c(7, 7),
                      formula = c(6, 7)))
    expect_equal(r$top, c(6, 12))
    expect_equal(r$possibly, c(3, NA))
    expect_equal(r$Vectorize, c(6, 12))
  })
})

test_that("variants work in Rscript, with an attached package and warnings as errors", {
  s <- start_script(fixture = "map-variants")
  expect_done(s)
  expect_true(ends(s))
})

test_that("a hundred thousand pairs and rows", {
  outside_checks_only()
  with_two(function(cl) {
    n <- 1e5
    expect_identical(cluster_map2_int(cl, seq_len(n), 1L, function(x, y) x + y), seq_len(n) + 1L)
    expect_identical(cluster_imap_int(cl, seq_len(n), function(x, i) x - i), rep(0L, n))
  })
})

test_that("a map is as lapply(), in order, with names, constants and any vector", {
  of_each_strategy(function(cl) {
    expect_identical(cluster_map(cl, 1:50, function(x) x^2), lapply(1:50, function(x) x^2))
    expect_identical(
      cluster_map(cl, c(a = 1, b = 2), function(x, p, q) x^p + q, p = 3, .more = list(q = 1)),
      list(a = 2, b = 9)
    )
    for (x in list(list(1, "a", NULL, mean), c("x", "y"), c(TRUE, NA), factor(c("u", "v")),
                   as.Date(c("2020-01-01", "2020-01-02")), iris[1:3],
                   expression(a + b, c), quote(f(x)), 1:2 + 1i))
      expect_identical(cluster_map(cl, x, function(x) list(x)), lapply(x, function(x) list(x)))
    expect_identical(cluster_map(cl, list(), identity), list())
    expect_identical(cluster_map(cl, integer(), identity), list())
    expect_identical(cluster_map(cl, 1:3, "sqrt"), lapply(1:3, sqrt))
    expect_identical(cluster_map(cl, 1:4, function(x) x, .chunk = 1), as.list(1:4))
    expect_identical(unlist(cluster_map(cl, 1:2000, function(x) x, .chunk = 7)), 1:2000)
  })
})

test_that("typed maps, two vectors, data frames and walks", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_identical(cluster_map_dbl(cl, c(a = 1L, b = 2L), function(x) x / 2), c(a = 0.5, b = 1))
  expect_identical(cluster_map_int(cl, 1:3, function(x) x), 1:3)
  expect_identical(cluster_map_chr(cl, 1:2, function(x) letters[[x]]), c("a", "b"))
  expect_identical(cluster_map_lgl(cl, 1:2, function(x) x > 1), c(FALSE, TRUE))
  expect_identical(cluster_map_dfr(cl, 1:2, function(i) data.frame(i = i, sq = i^2)),
                   data.frame(i = 1:2, sq = c(1, 4)))
  expect_identical(cluster_map2(cl, 1:3, c(x = "a", y = "b", z = "c"),
                                function(a, b, sep) paste(a, b, sep = sep), sep = "-"),
                   list("1-a", "2-b", "3-c"))
  expect_identical(cluster_map2(cl, c(u = 1, v = 2), 10, `+`), list(u = 11, v = 12))
  expect_error(cluster_map2(cl, 1:3, 1:2, `+`), class = "clutch_argument")
  expect_identical(cluster_walk(cl, 1:3, function(x) x), 1:3)
  expect_error(cluster_map_dbl(cl, 1:3, function(x) "a"), "element 1.*character",
               class = "clutch_value")
  expect_error(cluster_map_int(cl, 1:3, function(x) 1:2), class = "clutch_value")
})

test_that("arguments of no use are errors", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (bad in list(list(.timeout = 0), list(.timeout = "a"), list(.retries = -1), list(.chunk = 0),
                   list(.globals = 1), list(.seed = "a"),
                   list(.relay = "loud"), list(.on_error = "ignore"), list(.max_memory = 0),
                   list(.max_memory = "much"), list(.packages = NA)))
    expect_error(do.call(cluster_map, c(list(cl, 1:2, identity), bad)), class = "clutch_argument")
  expect_error(cluster_map(cl, 1:2, TRUE), class = "clutch_argument")
  expect_error(cluster_map(list(), 1:2, identity), class = "clutch_argument")
})

test_that("the function and its constants travel once a node, not with each element", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  big <- runif(1e6) # 8 MB
  pick <- local(function(i, b) b[[i]], globalenv())
  out <- cluster_map_dbl(cl, 1:500, pick, b = big)
  expect_identical(out, big[1:500])
  t <- cl[[1L]]$info$tasks
  job <- clutch:::job_new(t, pick, 1:500, list(b = big), list(),
                          clutch:::task_options(list(seed = FALSE)))
  clutch:::job_start(t, job)
  while (clutch:::task_step(t, job, 1) != "done") NULL
  s <- .Call(clutch:::ffi_job_state, job)
  expect_identical(s$left, 0)
  expect_lt(s$bytes_out, 3 * 8e6) # twice it, and the rest
  .Call(clutch:::ffi_job_end, job, 0)
})

test_that("a part of a cluster works alone", {
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  p <- pids(cl)
  expect_identical(unique(unlist(cluster_map(cl[2L], 1:20, function(i) Sys.getpid()))), p[[2L]])
  got <- unlist(cluster_map(cl[c(1L, 3L)], 1:40, function(i) {
    Sys.sleep(0.005)
    Sys.getpid()
  }))
  expect_setequal(got, p[c(1L, 3L)])
})

test_that("Ctrl-C in a map gives control back, and the cluster is in step", {
  linux_only()
  s <- start_script(fixture = c("interrupt-in", "interrupts-of-maps"))
  expect_done(s)
})

test_that("the function of a map is compiled once, and does the same", {
  is_compiled <- function(f) grepl("<bytecode", paste(capture.output(print(f)), collapse = ""))
  f <- function(i) i + 1
  environment(f) <- globalenv()
  once <- clutch:::compiled_once
  expect_false(is_compiled(once(f, 10L, 10L))) # R would not compile it either
  g <- once(f, 1L, 1000)
  expect_true(is_compiled(g))
  expect_identical(g, f) # but for that
  expect_false(is_compiled(f))
  expect_identical(once(f, 100, 1000), g)
  others <- lapply(seq_len(clutch:::MOST_COMPILED - 1L), function(i) {
    eval(bquote(function(x) x + .(i)), globalenv())
  })
  for (other in others) once(other, 1L, 1000)
  place <- function(x) capture.output(print(.Internal(address(x))))
  expect_identical(place(once(f, 1L, 1000)), place(g)) # so it is not sent again
  inner <- local(function(i) i) # which R does not compile when it is small
  expect_identical(once(inner, 100, 1000), inner)
  expect_false(is_compiled(once(inner, 100, 1000)))
  debug(f)
  expect_false(is_compiled(once(f, 100, 1000)))
  undebug(f)
  cl <- make_cluster(2)
  n <- 40L
  expect_identical(cluster_map_dbl(cl, seq_len(n), f), seq_len(n) + 1)
  # the quick way of a map, too: compiled at the first call on each node
  is_compiled_there <- function(i) typeof(.Internal(bodyCode(sys.function())))
  environment(is_compiled_there) <- globalenv()
  expect_identical(unique(cluster_map(cl, seq_len(n), is_compiled_there)), list("bytecode"))
  stop_cluster(cl)
})

test_that("a map of which nothing is said but elements and function comes to the same", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  failing <- function(x) if (x == 2) stop("oops") else x
  talking <- function(x) {
    message("said ", x)
    x
  }
  large <- function(x) numeric(1e4) + x
  factor_of_workspace <- 3
  uses_environment <- function(x) x * factor_of_workspace
  cases <- list(list(1, identity), list(1:100, sqrt), list(letters, toupper),
                list(list(), identity),
                list(list(1, "a", NULL), is.null), list(c(a = 1, b = 2), identity),
                list(1:3, failing), list(1:3, talking), list(1:3, large), list(1:3, rnorm),
                list(1:3, uses_environment), list(factor(c("u", "v")), as.character),
                list(1:3, "sqrt"), list(data.frame(a = 1:2), sum), list(NULL, identity),
                list(1:3, structure(function(x) x, class = "odd")),
                list(1, function(x) stats::sd(x)))
  run <- function(case, ...) {
    set.seed(4)
    said <- character()
    values <- tryCatch(withCallingHandlers(
      cluster_map(cl, case[[1L]], case[[2L]], ...),
      message = function(m) {
        said <<- c(said, conditionMessage(m))
        invokeRestart("muffleMessage")
      }
    ), error = function(e) list(class(e), e$element))
    list(values, said, runif(1))
  }
  for (case in cases) {
    expect_identical(run(case), run(case, .on_error = "stop"), info = deparse(case[[2L]])[[1L]])
  }
  expect_error(cluster_map(cl, .x = 1, .seed = 1), "`.f` is missing", class = "clutch_argument")
  old <- options(clutch.seed = 7)
  on.exit(options(old), add = TRUE)
  expect_identical(run(list(1:2, rnorm))[[1L]], run(list(1:2, rnorm), .seed = 7)[[1L]])
})

test_that("a node that dies in the middle of a plain map is replaced, and the error says so", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  for (k in 1:2) {
    error <- tryCatch(cluster_map(cl, 1:3, function(x) {
      if (x == 2) tools::pskill(Sys.getpid(), tools::SIGKILL)
      x
    }), error = identity)
    expect_s3_class(error, "clutch_task_died")
    expect_identical(error$element, 2)
    expect_identical(cluster_map(cl, 1:3, identity), as.list(1:3))
  }
})

test_that("an interrupt while elements are sent for the first time ends what has begun", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_identical(cluster_map(cl, 1:2, identity), list(1L, 2L))
  wait <- function(x) Sys.sleep(60)
  environment(wait) <- globalenv()
  many <- lapply(1:2e6, function(i) c("a", "b")) # its bytes take longer than the time limit
  setTimeLimit(elapsed = 0.2, transient = TRUE)
  expect_error(cluster_map(cl, list(1, many), wait), "time limit")
  setTimeLimit()
  expect_identical(.Call(clutch:::ffi_tasks_jobs, cl[[1L]]$info$tasks$ptr), 0)
  expect_identical(cluster_map(cl, 1:2, identity), list(1L, 2L))
})
