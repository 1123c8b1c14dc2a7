# Closures from environments that R's compiler does not see into: see src/r/node/compiled.c.

# An environment as local() makes them, with hashed variables.
place <- function(...) list2env(list(...), new.env(parent = globalenv()))

# The code of a function that tells whether R has compiled it. It has a loop: R compiles no small
# functions without one.
code <- quote(function(i) {
  for (k in 1:2) i <- i + step
  list(i, typeof(.Internal(bodyCode(sys.function()))))
})

told <- function(...) eval(code, place(...))

# How the last of ten elements was done.
last_of <- function(values) values[[10L]]
compiled <- function(value) list(value, "bytecode")

test_that("R alone compiles such a closure at its first coming only", {
  bytes <- serialize(told(step = 1), NULL)
  once <- unserialize(bytes)
  expect_identical(last_of(lapply(1:10, once)), compiled(12))
  again <- unserialize(bytes)
  # what this test file is about; if R ever changes that, src/r/node/compiled.c has no purpose
  expect_identical(last_of(lapply(1:10, again)), list(12, "language"))
})

test_that("it is compiled in each map, whatever its variables are", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  f <- told(step = 1)
  for (k in 1:3) expect_identical(last_of(cluster_map(cl, 1:10, f)), compiled(12))
  environment(f)$step <- 2
  expect_identical(last_of(cluster_map(cl, 1:10, f)), compiled(14))
  expect_identical(last_of(cluster_map(cl, 1:10, told(step = 3))), compiled(16))
  # other variables: R would have to compile it again
  expect_identical(last_of(cluster_map(cl, 1:10, told(step = 3, other = 1))), compiled(16))
  # one of them in place of a function that compiled code takes to be base R's
  minus <- told(step = 3, `+` = function(x, y) x - y)
  for (k in 1:2) expect_identical(last_of(cluster_map(cl, 1:10, minus)), compiled(4))
  expect_identical(last_of(cluster_map(cl, 1:10, told(step = 3))), compiled(16))
})

test_that("a function of the user's in place of one of base R's is respected", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  f <- told(step = 1)
  for (k in 1:2) expect_identical(last_of(cluster_map(cl, 1:10, f)), compiled(12))
  minus <- list(`+` = function(x, y) x - y)
  # of the job
  for (k in 1:2)
    expect_identical(last_of(cluster_map(cl, 1:10, told(step = 1), .globals = minus)), compiled(8))
  expect_identical(last_of(cluster_map(cl, 1:10, told(step = 1))), compiled(12))
  # of the workspace, and of a call
  parallel::clusterEvalQ(cl, `+` <- function(x, y) x * y)
  for (k in 1:2) {
    expect_identical(last_of(parallel::parLapply(cl, 1:10, told(step = 3))), compiled(90))
    expect_identical(last_of(cluster_map(cl, 1:10, told(step = 3))), compiled(90))
  }
  parallel::clusterEvalQ(cl, rm(`+`))
  expect_identical(last_of(parallel::parLapply(cl, 1:10, told(step = 3))), compiled(16))
  # of what is attached
  parallel::clusterEvalQ(cl, attach(list(`+` = function(x, y) x / y), name = "mine"))
  for (k in 1:2) expect_identical(last_of(cluster_map(cl, 1:10, told(step = 1))), compiled(10))
})

test_that("new variables beside it are no reason against it", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  e <- place(step = 1)
  for (k in 1:3) {
    e[[paste0("result", k)]] <- cluster_map(cl, 1:10, eval(code, e))
    expect_identical(last_of(e[[paste0("result", k)]]), compiled(12))
  }
  memo <- told(step = 1)
  body(memo)[[3L]][[3L]] <- quote(i <<- typeof(.Internal(bodyCode(sys.function()))))
  for (k in 1:3)
    expect_identical(last_of(cluster_map(cl, 1:10, memo)), compiled(12))
})

test_that("so are those of parallel's functions, and of what is submitted", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  f <- told(step = 1)
  for (k in 1:3) expect_identical(last_of(parallel::parLapply(cl, 1:10, f)), compiled(12))
  for (k in 1:3) {
    task <- cluster_submit(cl, last_of(lapply(1:10, f)), .globals = list(f = f, last_of = last_of))
    expect_identical(collect(task), compiled(12))
  }
  # an error does not keep it from being remembered
  g <- told(step = 1)
  body(g)[[3L]] <- quote(if (i > 10) stop(typeof(.Internal(bodyCode(sys.function())))))
  for (k in 1:3)
    expect_error(parallel::clusterCall(cl, lapply, c(1:9, 20L), g), "bytecode")
})

test_that("and those that it calls: in its environment, in an object that is locked, in a list", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (k in 1:3) {
    helper <- told(step = 1)
    f <- eval(quote(function(i) helper(i)), place(helper = helper))
    expect_identical(last_of(cluster_map(cl, 1:10, f)), compiled(12))

    object <- new.env(parent = emptyenv())
    object$method <- told(step = 1, self = object)
    lockEnvironment(object, bindings = TRUE)
    values <- cluster_map(cl, 1:10, function(i) list(object$method(i), object))
    expect_identical(values[[10L]][[1L]], compiled(12))
    expect_true(bindingIsLocked("method", values[[10L]][[2L]]))

    many <- list(a = list(told(step = 1)))
    values <- cluster_map(cl, 1:10, function(i) many$a[[1L]](i))
    expect_identical(last_of(values), compiled(12))
  }
})

# The function, as written in a file behind some lines.
written <- function(lines, before = 0) {
  lines <- c(rep("# something", before), lines)
  eval(parse(text = lines, keep.source = TRUE), place(step = 1))
}

test_that("source references are no reason against it, and remain those of the function", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  line <- c("function(i) {", "  for (k in 1:2) i <- i + step", "  w <- function() sys.call()",
            "  list(attr(w(), 'srcref')[1], typeof(.Internal(bodyCode(sys.function()))))", "}")
  for (before in c(0, 0, 10, 10, 20)) {
    f <- written(line, before)
    expect_false(is.null(attr(f, "srcref")))
    expect_identical(last_of(cluster_map(cl, 1:10, f)), compiled(as.integer(before) + 4L))
  }
  for (version in c("one", "two", "one", "two")) {
    lines <- c("function(i) {", "  for (k in 1:2) i <- i + step",
               sprintf("  w <- function() { NULL # %s", version), "  }", "  w", "}")
    value <- cluster_map(cl, 1:10, written(lines))
    expect_match(deparse(last_of(value), control = "useSource")[1L], version)
  }
})

test_that("promises and active variables are not evaluated", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  e <- place(step = 1)
  delayedAssign("later", stop("forced"), assign.env = e)
  makeActiveBinding("active", function() stop("asked"), e)
  f <- eval(code, e)
  for (k in 1:3) expect_identical(last_of(parallel::parLapply(cl, 1:10, f)), compiled(12))
})

test_that("where R does not compile, nothing is compiled", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  f <- told(step = 1)
  cluster_map(cl, 1:10, f)
  parallel::clusterEvalQ(cl, compiler::enableJIT(0))
  expect_identical(last_of(cluster_map(cl, 1:10, told(step = 1))), list(12, "language"))
  known_otherwise <- told(step = 1, `+` = function(x, y) x - y)
  expect_identical(last_of(cluster_map(cl, 1:10, known_otherwise)), list(8, "language"))
})

test_that("environments and data are not kept for it", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  when_gone <- function(e) assign("gone", gone + 1, globalenv())
  environment(when_gone) <- globalenv()
  ends <- eval(quote(function(i) {
    for (k in 1:2) i <- i + step
    if (i == 3) reg.finalizer(parent.env(environment()), when_gone)
    i
  }), place(step = 1, when_gone = when_gone))
  parallel::clusterEvalQ(cl, gone <- 0)
  for (k in 1:3) {
    cluster_map(cl, 1:10, ends)
    parallel::clusterCall(cl, lapply, 1:10, ends)
  }
  cluster_map(cl, 1:10, identity)
  expect_identical(parallel::clusterEvalQ(cl, {
    gc()
    gone
  })[[1L]], 6)
})
