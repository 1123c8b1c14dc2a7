# Vectors and data frames from maps, over one vector, two, several, and over names.

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

families <- c("map", "map2", "pmap", "imap")
types <- c("dbl", "int", "chr", "lgl", "dfr")
exported <- function(name) getExportedValue("clutch", name)
typed_name <- function(family, type) sprintf("cluster_%s_%s", family, type)

test_that("every variant has the whole signature, with the same defaults", {
  options <- formals(cluster_map)
  options <- options[setdiff(names(options), c("cl", ".x", ".f", "..."))]
  expect_setequal(names(options), c(".more", ".env", ".reduce", ".init",
                                    paste0(".", names(clutch:::option_defaults))))
  first <- list(map = c(".x", ".f"), map2 = c(".x", ".y", ".f"), pmap = c(".l", ".f"),
                imap = c(".x", ".f"))
  walk <- c(map = "cluster_walk", map2 = "cluster_walk2", pmap = "cluster_pwalk",
            imap = "cluster_iwalk")
  for (family in families) {
    for (name in c(paste0("cluster_", family), walk[[family]], typed_name(family, types))) {
      arguments <- formals(exported(name))
      expect_identical(names(arguments), c("cl", first[[family]], "...", names(options)),
                       info = name)
      expect_identical(arguments[names(options)], options, info = name)
    }
  }
  for (name in names(clutch:::option_defaults))
    expect_identical(eval(options[[paste0(".", name)]]), clutch:::option_defaults[[name]],
                     info = name)
})

test_that("values have the type, and names", {
  with_two(function(cl) {
    expect_identical(cluster_map2_dbl(cl, c(a = 1, b = 2), 3, `+`), c(a = 4, b = 5))
    expect_identical(cluster_map2_int(cl, 1:2, 3:4, function(x, y) x * y), c(3L, 8L))
    expect_identical(cluster_map2_chr(cl, c("a", "b"), 1:2, paste0), c("a1", "b2"))
    expect_identical(cluster_map2_lgl(cl, 1:3, 2, `<`), c(TRUE, FALSE, FALSE))
    expect_identical(cluster_map2_dfr(cl, 1:2, 3:4, function(x, y) list(x = x, y = y)),
                     data.frame(x = 1:2, y = 3:4))
    rows <- data.frame(n = 2:3, what = c("a", "b"))
    expect_identical(cluster_pmap_chr(cl, rows, function(what, n) strrep(what, n)), c("aa", "bbb"))
    expect_identical(cluster_pmap_dbl(cl, list(c(u = 1, v = 2), 2, 3), sum), c(u = 6, v = 7))
    expect_identical(cluster_pmap_int(cl, list(1:2, 3:4), max), 3:4)
    expect_identical(cluster_pmap_lgl(cl, list(a = 1:2, b = 2:1), function(a, b) a < b),
                     c(TRUE, FALSE))
    expect_identical(
      cluster_pmap_dfr(cl, rows, function(n, what) data.frame(n = rep(n, 1), what = what)), rows
    )
    expect_identical(cluster_imap_chr(cl, c(a = 1, b = 2), function(x, i) paste(i, x)),
                     c(a = "a 1", b = "b 2"))
    expect_identical(cluster_imap_int(cl, c(10L, 20L), function(x, i) x + i), c(11L, 22L))
    expect_identical(cluster_imap_dbl(cl, c(10, 20), `*`), c(10, 40))
    expect_identical(cluster_imap_lgl(cl, list(a = "a", b = "z"), `==`), c(a = TRUE, b = FALSE))
    expect_identical(cluster_imap_dfr(cl, c(a = 1), function(x, i) list(name = i, value = x)),
                     data.frame(name = "a", value = 1))
  })
})

test_that("of nothing come empty vectors of the type", {
  with_two(function(cl) {
    empty <- list(dbl = numeric(), int = integer(), chr = character(), lgl = logical(),
                  dfr = data.frame())
    for (type in types) {
      expect_identical(exported(typed_name("map", type))(cl, list(), identity), empty[[type]],
                       info = type)
      expect_identical(exported(typed_name("map2", type))(cl, list(), 1, sum), empty[[type]],
                       info = type)
      expect_identical(exported(typed_name("pmap", type))(cl, list(), sum), empty[[type]],
                       info = type)
      expect_identical(exported(typed_name("imap", type))(cl, NULL, sum), empty[[type]],
                       info = type)
    }
  })
})

test_that("a value of another type is an error that names the element and the function", {
  with_two(function(cl) {
    wrong <- list(dbl = "a", int = 1.5, chr = 1, lgl = 1L, dfr = 1)
    for (type in types) for (family in families) {
      value <- wrong[[type]]
      right <- switch(type, dbl = 1, int = 1L, chr = "a", lgl = TRUE, dfr = list(a = 1))
      f <- function(x, ...) if (x == 2) value else right
      x <- if (family == "pmap") list(1:3, 1) else 1:3
      rest <- if (family == "map2") list(.y = 1)
      e <- error_of(do.call(exported(typed_name(family, type)), c(list(cl, x), rest, list(.f = f))))
      expect_s3_class(e, "clutch_value")
      expect_identical(e$element, 2L)
      expect_match(conditionMessage(e),
                   paste0("^element 2: ", typed_name(family, type), "\\(\\) wants"))
    }
    e <- error_of(cluster_pmap_int(cl, list(1:2, 3), function(...) 1:2))
    expect_match(conditionMessage(e), "this is integer of length 2", fixed = TRUE)
  })
})

test_that("elements that have failed are NA, and rows that are not there", {
  with_two(function(cl) {
    f <- function(x, y) if (x == 2) stop("not two") else x
    x <- suppressWarnings(cluster_map2_int(cl, 1:3, 1, f, .on_error = "continue"))
    expect_identical(x, c(1L, NA, 3L))
    x <- suppressWarnings(cluster_pmap_dfr(cl, list(1:3, 1), function(x, y) list(a = f(x, y)),
                                           .on_error = "continue"))
    expect_identical(x, data.frame(a = c(1L, 3L)))
    expect_warning(cluster_imap_dbl(cl, 1:3, f, .on_error = "continue"), "1 of 3 elements failed",
                   class = "clutch_failed")
  })
})

test_that("values are converted as one vector takes them, whatever their attributes", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  mixed <- list(a = 1L, b = TRUE, c = NA, d = NA_integer_, e = -0.5, f = NaN, g = NA_real_)
  expect_identical(cluster_map_dbl(cl, mixed, identity),
                   c(a = 1, b = 1, c = NA, d = NA, e = -0.5, f = NaN, g = NA))
  expect_identical(cluster_map_int(cl, mixed[1:4], identity), c(a = 1L, b = 1L, c = NA, d = NA))
  expect_identical(cluster_map_int(cl, list(factor("x", c("w", "x")), 3L), identity), 2:3)
  expect_identical(cluster_map_dbl(cl, list(as.Date("1970-01-03"), 1), identity), c(2, 1))
  expect_identical(cluster_map_chr(cl, list(c(n = "\u00e4"), NA_character_), identity),
                   c("\u00e4", NA))
  expect_identical(cluster_map_lgl(cl, list(), identity), logical())
  for (bad in list(1.5, NULL, 1:2, "1", list(1L), quote(x), new.env(), sum)) {
    e <- expect_error(cluster_map_int(cl, list(1L, bad), function(x) x), class = "clutch_value")
    expect_identical(e$element, 2L)
  }
})
