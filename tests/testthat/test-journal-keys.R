# Keys: the same function, however it is written, has the same key; one that may compute something
# else has another.

key <- function(x) clutch:::key_text(.Call(clutch:::ffi_key, x, NULL, FALSE, NULL))
same <- function(a, b) expect_identical(key(a), key(b))
other <- function(a, b) expect_false(identical(key(a), key(b)))
# A function from text, with or without source references
fun <- function(text, keep = TRUE) {
  old <- options(keep.source = keep)
  on.exit(options(old))
  eval(parse(text = text, keep.source = keep), globalenv())
}
# As another session would have it
again <- function(x) unserialize(serialize(x, NULL))

test_that("layout, comments and source references do not count", {
  base <- fun("function(x, n = 2) { y <- x + 1; y * n }")
  ways <- c(
    "function(x,n=2){y<-x+1;y*n}",
    "function(x, n = 2) {\n  y <- x + 1\n  y * n\n}",
    "function(x, n = 2) { # a comment\n y <- x + 1 # another\n y * n }",
    "function(x,\n         n = 2)\n{\n\n\n  y <- x + 1\n  y * n\n}",
    "\\(x, n = 2) { y <- x + 1; y * n }",
    "function(x, n = 2.0) { y <- x + 1; y * n }",
    "function(x, n = 2e0) { y <- x + 1; y * n }",
    "function(x, n = 0x2) { y <- x + 1e0; y * n }",
    "function(`x`, n = 2) { `y` <- x + 1; y * n }",
    "\tfunction(x, n = 2) {\ty <- x + 1;; y * n }",
    "function(x, n = 2) { x + 1 -> y; y * n }"
  )
  for (way in ways) {
    same(base, fun(way))
    same(base, fun(way, keep = FALSE))
  }
  same(fun("function(x) 'a'"), fun("function(x) \"a\""))
  same(fun("function(x) r\"(a\\b)\""), fun("function(x) 'a\\\\b'"))
  same(fun("function(x) x |> f(2)"), fun("function(x) f(x, 2)"))
  same(fun("function(x) function(y) y # z"), fun("function(x) function(y)   y"))
})

test_that("byte code, copies and other sessions do not count", {
  f <- fun("function(x, n = 2) { g <- function(z) z + n; for (i in 1:3) x <- g(x); x }")
  same(f, compiler::cmpfun(f))
  called <- f
  for (i in 1:5) called(i) # R compiles it
  same(f, called)
  same(f, again(f))
  same(f, again(compiler::cmpfun(f)))
  copy <- f
  environment(copy) <- globalenv()
  same(f, copy)
  file <- tempfile()
  for (version in 2:3) {
    saveRDS(f, file, version = version)
    same(f, readRDS(file))
  }
  saveRDS(f, file, ascii = TRUE)
  same(f, readRDS(file))
  dump("f", file, envir = environment())
  copies <- new.env()
  sys.source(file, copies)
  g <- copies$f
  environment(g) <- globalenv()
  same(f, g)
})

test_that("how a vector is stored does not count", {
  same(1:1000, as.integer(seq(1, 1000))) # ALTREP
  same(1:1000, again(1:1000))
  same(c(1, 2, 3), as.numeric(1:3))
  x <- c(3, 1, 2)
  same(sort(x), c(1, 2, 3))
  same(as.character(1:10), c("1", "2", "3", "4", "5", "6", "7", "8", "9", "10"))
  same(NA_real_, again(NA_real_))
  same(NaN, 0 / 0)
  same(NA_real_, NA_real_ + 1)
  latin1 <- iconv("Z\u00fcrich", "UTF-8", "latin1")
  same(latin1, "Z\u00fcrich")
  same(list(a = 1, b = latin1), list(a = 1, b = enc2utf8(latin1)))
  same(rev(1:3), c(3L, 2L, 1L))
  same(rep_len(1L, 5), c(1L, 1L, 1L, 1L, 1L))
})

test_that("the order of attributes and how rows are numbered do not count", {
  a <- structure(1:2, one = 1, two = 2)
  b <- structure(1:2, two = 2, one = 1)
  same(a, b)
  d <- data.frame(x = 1:3, y = c("a", "b", "c"))
  same(d, again(d))
  e <- d
  attr(e, "row.names") <- 1:3
  same(d, e)
  same(d, structure(list(x = 1:3, y = c("a", "b", "c")), row.names = c(NA, -3L),
                    class = "data.frame"))
  same(factor(c("a", "b")), structure(1:2, levels = c("a", "b"), class = "factor"))
  same(d, d[c(1, 2, 3), ])
  skip_if_not_installed("data.table")
  t <- data.table::data.table(x = 1:3)
  same(t, again(t))
  same(t, data.table::copy(t))
})

test_that("of an environment that counts which the code mentions", {
  make <- function(k, beside) {
    beside
    function(x) x + k
  }
  same(make(2, 1), make(2, "other"))
  same(make(2, 1), make(2, stdout()))
  same(make(2, 1), make(2, Sys.time()))
  other(make(2, 1), make(3, 1))
  same(make(2, 1), again(make(2, 1)))
  recursive <- function() {
    f <- function(n) if (n < 2) 1 else n * f(n - 1)
    f
  }
  same(recursive(), recursive())
  same(recursive(), again(recursive()))
  argument <- function(n) function(v, n = 2) paste(v, n, sapply(v, function(beside) beside))
  same(argument(1), argument(2)) # `n` is the function's own
  outer_argument <- function(n) function(v) sapply(v, function(m) m + n)
  other(outer_argument(1), outer_argument(2))
  local_clock <- function() {
    started <- Sys.time()
    cl <- structure(list(), class = c("clutch_cluster", "cluster"))
    k <- 5
    function(x) x * k
  }
  same(local_clock(), local_clock())
  two <- function(k) {
    f <- function(x) x + k
    g <- function(x) f(x) * k
    g
  }
  same(two(1), two(1))
  other(two(1), two(2))
})

test_that("code that asks for variables by other means has all of them", {
  by_name <- function(k) function(x) x + get("k")
  other(by_name(1), by_name(2))
  computed <- function(k) function(x) x + get(paste0("", "k"))
  other(computed(1), computed(2))
  evaluated <- function(k) function(x) eval(quote(x + k))
  other(evaluated(1), evaluated(2))
  parsed <- function(k) function(x) eval(parse(text = "x + k"))
  other(parsed(1), parsed(2))
  listed <- function(k) function(x) x + environment()$k
  other(listed(1), listed(2))
  called <- function(k) {
    helper <- function(x) x + k
    name <- "helper"
    function(x) do.call(name, list(x))
  }
  other(called(1), called(2))
  named <- function(k) {
    helper <- function(x) x + k
    function(x) sapply(x, "helper")
  }
  other(named(1), named(2))
  dots <- function(...) function(x) sum(x, ...)
  other(dots(1), dots(2))
  same(dots(1), dots(1))
  second <- function(...) function(x) x + ..2
  other(second(1, 2), second(1, 3))
})

test_that("code finds variables in ways that are no symbols of theirs", {
  text <- function(w) function(i) coef(lm(as.formula("dist ~ speed + w"), cars))[[3L]]
  other(text(1), text(2))
  pasted <- function(k) {
    helper <- function(x) x * k
    function(x) do.call(paste0("hel", "per"), list(x))
  }
  other(pasted(1), pasted(2))
  element <- function(k) {
    est_a <- function() k
    function(name) match.fun(name)()
  }
  other(element(1), element(2))
  caller <- function(k) {
    get_k <- function() get("k", envir = parent.frame())
    function(x) x + get_k()
  }
  other(caller(1), caller(2))
  columns <- function(cols) function(d) d[, ..cols]
  other(columns("a"), columns("b"))
  hidden <- function(k) {
    f <- function(x) x * k
    function(x, f = 2) f(x) * f
  }
  other(hidden(1), hidden(2))
  weighted <- function(w) dist ~ speed
  other(weighted(1), weighted(2))
  from_package <- function(k) function(i) base::get(paste0("", "k"))
  other(from_package(1), from_package(2))
  filled_in <- function(k, beside) function(i) cli::format_inline("{k + 1} of {n}")
  other(filled_in(1, 1), filled_in(2, 1))
  same(filled_in(1, 1), filled_in(1, 2))
  template <- function(k, beside) {
    line_of_k <- "k is {k}"
    function(i) fill_gaps(line_of_k)
  }
  other(template(1, 1), template(2, 1))
  same(template(1, 1), template(1, 2))
  compiled <- function(code) list(compiler::compile(code))
  other(compiled(quote(x + 1)), compiled(quote(x + 2)))
  same(compiled(quote(x + 1)), list(quote(x + 1)))
})

test_that("what the code assigns itself is no variable of those around", {
  make <- function(out) function(i) {
    out <- i^2
    out
  }
  same(make(1), make(2))
  maybe <- function(out) function(i) {
    if (i > 1) out <- i
    out
  }
  other(maybe(1), maybe(2))
})

test_that("attributes belong to the object that has them", {
  other(list(c(a = 1)), list(a = 1))
  other(structure(1, a = structure(2, b = 3)), structure(1, a = 2, b = 3))
  other(asS4(list(1)), list(1))
  skip_if_not_installed("data.table")
  t <- data.table::data.table(x = 1:3, y = 3:1)
  before <- key(t)
  data.table::setindexv(t, "y")
  expect_identical(key(t), before)
})

test_that("changes that matter make another key", {
  f <- fun("function(x, n = 2) x + n")
  changes <- c(
    "function(x, n = 3) x + n", "function(x, n = 2L) x + n", "function(x, m = 2) x + m",
    "function(x, n) x + n", "function(n = 2, x) x + n", "function(x, n = 2, ...) x + n",
    "function(x, n = 2) n + x", "function(x, n = 2) x - n", "function(x, n = 2) x + n + 0",
    "function(x, n = 2) (x + n)", "function(x, n = 2) { x + n }", "function(x, n = 2) x + 2",
    "function(x, n = 2) x + N", "function(x, n = 2) -x + n", "function(x, n = 2) x + n[1]",
    "function(x, n = 2) x + n[[1]]", "function(x, n = 2) `+`(x, n, 1)", "function(x, n = 2) NULL",
    "function(x, n = 2) 'x + n'", "function(x, n = 2) quote(x + n)",
    "function(x, n = 2) base::`+`(x, n)", "function(x, n = 2) x %+% n",
    "function(x, n = c(2)) x + n", "function(x = 1, n = 2) x + n", "function(x, n = -2) x + n"
  )
  expect_length(unique(c(key(f), vapply(changes, function(text) key(fun(text)), ""))),
                length(changes) + 1L)
})

test_that("values that differ have other keys", {
  values <- list(
    1, 1L, TRUE, "1", 1i, as.raw(1), list(1), c(1, 1), NULL, NA, NA_integer_, NA_real_, NaN,
    NA_character_, "NA", "", character(), numeric(), integer(), list(), 0, 2, 1 + 1e-15,
    c(a = 1), c(b = 1), structure(1, class = "a"), factor("a"), factor("a", levels = c("a", "b")),
    structure(1, class = "Date"), quote(a), quote(a + b), quote(b + a), expression(a),
    "a", "A", "a ", y ~ x, y ~ z,
    ~x, matrix(1:4, 2), matrix(1:4, 2, byrow = TRUE), 1:4, c(1, 2, 3, 4), .POSIXct(1, "UTC"),
    .POSIXct(1, "CET"), list(a = 1, b = 2), list(b = 2, a = 1), list(list(1)), sum, mean, `if`,
    Inf, -Inf, data.frame(x = 1), data.frame(y = 1), data.frame(x = 1, row.names = "a"),
    globalenv(), baseenv(), emptyenv(), asNamespace("stats"), "Z\u00fcrich", "Zurich"
  )
  keys <- vapply(values, key, "")
  expect_identical(anyDuplicated(keys), 0L)
  other(0, -0)
})

test_that("environments, objects with references, and cycles have keys by what is in them", {
  make <- function(n) {
    e <- new.env(parent = globalenv())
    e$self <- e
    e$n <- n
    e$add <- function() e$n + 1
    e
  }
  same(make(1), make(1))
  same(make(1), again(make(1)))
  other(make(1), make(2))
  e <- make(1)
  other(list(e, e), list(e, make(1))) # one environment is not two
  S <- methods::setRefClass("KeyTest", fields = list(x = "numeric"), where = globalenv())
  on.exit(methods::removeClass("KeyTest", where = globalenv()), add = TRUE)
  same(S$new(x = 1), S$new(x = 1))
  other(S$new(x = 1), S$new(x = 2))
  fit <- lm(dist ~ speed, cars)
  same(fit, again(fit))
  skip_if_not_installed("R6")
  C <- R6::R6Class("C", list(x = 1, add = function() self$x + 1))
  same(C$new(), C$new())
  changed <- C$new()
  changed$x <- 2
  other(C$new(), changed)
})

test_that("a package that load_all() has made counts with its code, another by its name", {
  make_namespace <- function(name, code, developed) {
    ns <- new.env(parent = baseenv())
    info <- new.env(parent = baseenv())
    assign("spec", c(name = name, version = "1.0"), envir = info)
    assign(".__NAMESPACE__.", info, envir = ns)
    if (developed) assign(".__DEVTOOLS__", new.env(), envir = ns)
    assign("helper", eval(code, ns), envir = ns)
    f <- eval(quote(function(x) helper(x)), ns)
    f
  }
  one <- quote(function(x) x + 1)
  two <- quote(function(x) x + 2)
  same(make_namespace("keytest", one, FALSE), make_namespace("keytest", two, FALSE))
  same(make_namespace("keytest", one, TRUE), make_namespace("keytest", one, TRUE))
  other(make_namespace("keytest", one, TRUE), make_namespace("keytest", two, TRUE))
  other(make_namespace("keytest", one, FALSE), make_namespace("keytest2", one, FALSE))
})

test_that("an element has the key that the node would see", {
  elements <- function(x) .Call(clutch:::ffi_element_keys, x, NULL, NULL)
  expect_identical(elements(c(1, 2)), elements(list(1, 2)))
  expect_identical(elements(1:3), elements(list(1L, 2L, 3L)))
  expect_identical(elements(c("a", NA)), elements(list("a", NA_character_)))
  expect_identical(elements(c(TRUE, NA)), elements(list(TRUE, NA)))
  reals <- c(NA, NaN, -NaN, Inf, 0, -0)
  expect_identical(elements(reals), elements(as.list(reals)))
  expect_identical(elements(c(NA, -1L)), elements(list(NA_integer_, -1L)))
  expect_length(elements(1:3), 48L)
  expect_length(elements(list()), 0L)
  start <- as.raw(1:16)
  expect_false(identical(elements(1), .Call(clutch:::ffi_element_keys, 1, start, NULL)))
  expect_identical(elements(1), .Call(clutch:::ffi_key, 1, NULL, FALSE, NULL))
})

test_that("a generic of the workspace counts with the methods that the workspace has", {
  on.exit({
    methods::removeGeneric("valueOf", globalenv())
    methods::removeClass("Child", globalenv())
    methods::removeClass("Parent", globalenv())
  })
  define <- function(code) eval(code, globalenv())
  define(quote({
    setClass("Parent", representation(v = "numeric"))
    setClass("Child", contains = "Parent")
    setGeneric("valueOf", function(o) standardGeneric("valueOf"))
    setMethod("valueOf", "Parent", function(o) o@v)
  }))
  generic <- function() get("valueOf", globalenv())
  before <- key(generic())
  # a call looks for the method of a class that has none of its own, and remembers it
  expect_identical(define(quote(valueOf(new("Child", v = 2)))), 2)
  expect_identical(key(generic()), before)
  define(quote(setMethod("valueOf", "Parent", function(o) o@v + 1)))
  changed <- key(generic())
  expect_false(identical(changed, before))
  define(quote(setMethod("valueOf", "Child", function(o) o@v + 1)))
  expect_false(key(generic()) %in% c(before, changed))
  define(quote(removeMethod("valueOf", "Child")))
  define(quote(setMethod("valueOf", "Parent", function(o) o@v)))
  expect_identical(key(generic()), before)
})

test_that("objects that are made again on nodes count with the data of which they are made", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  path <- tempfile(fileext = ".journal")
  # only what its pointer leads to tells one object from another
  behind <- new.env()
  object <- function(data) {
    x <- structure(list(ptr = .Call(clutch:::ffi_globals_new)), class = "kept_outside")
    assign(.Call(clutch:::ffi_address, x$ptr), data, behind)
    x
  }
  register_travel("kept_outside", function(x) get(.Call(clutch:::ffi_address, x$ptr), behind),
                  function(data) structure(list(data = data), class = "kept_outside"))
  on.exit(register_travel("kept_outside", NULL), add = TRUE)
  one <- object(1)
  two <- object(2)
  map <- function(...) suppressMessages(cluster_map_dbl(cl, ..., .journal = path))
  n <- function() nrow(journal_read(path, all = TRUE))
  data_of <- function(x) x$data
  expect_identical(map(list(one, two), data_of), c(1, 2))
  expect_identical(map(list(two, one, object(2), object(3)), data_of), c(2, 1, 2, 3))
  expect_identical(n(), 3L)
  constant <- function(i, x) x$data
  expect_identical(map(1, constant, x = one), 1)
  expect_identical(map(1, constant, x = two), 2)
  expect_identical(map(1, constant, x = object(1)), 1)
  closure <- function(x) function(i) x$data
  expect_identical(map(1, closure(one)), 1)
  expect_identical(map(1, closure(two)), 2)
  expect_identical(n(), 7L)
  task <- function(x) collect(cluster_submit_call(cl, data_of, list(x), .journal = path))
  expect_identical(c(task(one), task(two), task(one)), c(1, 2, 1))
  expect_identical(n(), 9L)
  skip_if_not_installed("foreach")
  registerDoClutch(cl, journal = path)
  on.exit(foreach::registerDoSEQ(), add = TRUE)
  on.exit(registerDoClutch(cl), add = TRUE, after = FALSE)
  `%dopar%` <- foreach::`%dopar%`
  loop <- function(all) suppressMessages(foreach::foreach(x = all) %dopar% x$data)
  expect_identical(loop(list(one)), list(1))
  expect_identical(loop(list(two)), list(2))
})

test_that("the order in which packages are attached counts", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  path <- tempfile(fileext = ".journal")
  map <- function(packages) {
    suppressMessages(cluster_map_int(cl, 1L, function(i) i, .packages = packages, .journal = path))
  }
  both <- c("stats4", "splines")
  map(both)
  map(both)
  expect_identical(nrow(journal_read(path)), 1L)
  map(rev(both)) # a function of one may mask that of the other
  expect_identical(nrow(journal_read(path)), 2L)
})

test_that("the keys of this version are those of every other", {
  # another key makes of each journal one that has nothing: JOURNAL_FORMAT counts such changes
  expect_identical(key(list(1, 2L, "a", TRUE, NULL, c(a = 1.5))),
                   "6f1f2635c021cde670fd37d250f976c6")
  expect_identical(key(fun("function(x, n = 2) x + n")), "5fd7251240fd273b7f31fcb84f4e41c9")
})

test_that("attached packages count where code finds names in them, and only there", {
  first <- list(weighted = function(x) x, other = function(x) x)
  attach(first, name = "package:first", warn.conflicts = FALSE)
  on.exit(detach("package:first", character.only = TRUE))
  f <- fun("function(x) weighted(x) + 1")
  g <- fun("function(x) { other <- x; other + 1 }")
  by_name <- fun("function(x) do.call(\"weighted\", list(x))")
  beside <- new.env(parent = globalenv())
  h <- f
  environment(h) <- beside
  formula <- y ~ weighted(x)
  environment(formula) <- globalenv()
  before <- lapply(list(f, by_name, h, formula), key)
  local <- key(g)
  # an object beside, of whatever class, is nobody's affair
  beside$unused <- structure(1, class = "of_package_first")
  expect_identical(key(h), before[[3L]])
  # another package masks the function
  attach(list(weighted = function(x) -x, other = 1), name = "package:second",
         warn.conflicts = FALSE)
  after <- tryCatch(lapply(list(f, by_name, h, formula), key),
                    finally = detach("package:second", character.only = TRUE))
  for (i in seq_along(before)) expect_false(identical(before[[i]], after[[i]]))
  expect_identical(key(g), local)
  expect_identical(lapply(list(f, by_name, h, formula), key), before)
})
