# What tasks signal: errors of every kind, warnings under every options(warn =), many of them.

task_error_of <- function(expr) tryCatch(expr, clutch_task_error = identity)
with_options <- function(code, ...) {
  old <- options(...)
  on.exit(options(old))
  force(code)
}
a_warning <- function(i) if (i == 2) as.integer("a") else i

test_that("options(warn = 2) within an element makes its warnings errors", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  seen <- character()
  w <- function(i) {
    o <- options(warn = 2)
    on.exit(options(o))
    as.integer("a")
  }
  for (relay in c("ordered", "live", "none")) {
    e <- task_error_of(suppressWarnings(cluster_map(cl, 1:2, w, .relay = relay)))
    expect_s3_class(e, "clutch_task_error")
    expect_match(conditionMessage(e), "converted from warning")
  }
  # it does not stay
  x <- withCallingHandlers(cluster_map(cl, 1:2,
                                       function(i) as.integer("a")), warning = function(w) {
    seen <<- c(seen, conditionMessage(w))
    invokeRestart("muffleWarning")
  })
  expect_identical(seen, rep("NAs introduced by coercion", 2))
  expect_identical(x, list(NA_integer_, NA_integer_))
  t <- cluster_submit(cl, {
    options(warn = 2)
    as.integer("a")
  })
  expect_error(suppressWarnings(collect(t)), "converted from warning", class = "clutch_task_error")
})

test_that("options(warn =) of the session holds on the nodes", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  as_base <- list(1L, NA_integer_, 3L)
  for (relay in c("ordered", "live", "none")) with_options(warn = 2, {
    e <- tryCatch(
      withCallingHandlers(cluster_map(cl, 1:3, a_warning, .relay = relay),
                          warning = function(w) NULL), error = identity
    )
    expect_s3_class(e, "clutch_task_error")
    expect_identical(e$element, 2)
    # as lapply(): handlers of the warning come before it is an error
    if (relay != "none") {
      expect_identical(
        tryCatch(cluster_map(cl, 1:3, a_warning, .relay = relay), warning = function(w) "caught"),
        "caught"
      )
    }
    expect_identical(suppressWarnings(cluster_map(cl, 1:3, a_warning, .relay = relay)), as_base)
    # an element that takes care of it itself
    expect_identical(cluster_map(cl, 1:3, function(i) suppressWarnings(as.integer("a"))),
                     rep(list(NA_integer_), 3))
    expect_identical(suppressMessages(withCallingHandlers(cluster_map_dbl(
      cl, 1:3, function(i) tryCatch(as.integer("a"), error = function(e) -1)
    ),
      warning = function(w) NULL)), c(-1, -1, -1))
  })
  # what the element has chosen is no error in the session, and its map is not lost
  with_options(warn = 2, {
    out <- tempfile()
    on.exit(unlink(out), add = TRUE)
    con <- file(out, "w")
    sink(con, type = "message")
    x <- tryCatch(cluster_map(cl, 1:2, function(i) {
      options(warn = 1)
      as.integer("a")
    }), finally = sink(type = "message"))
    close(con)
    expect_identical(x, list(NA_integer_, NA_integer_))
    expect_identical(sum(grepl("NAs introduced", readLines(out))), 2L)
  })
  with_options(warn = -1,
               expect_identical(tryCatch(cluster_map(cl, 1:3, a_warning), error = identity),
                                as_base))
  for (warn in 0:1) with_options(warn = warn, {
    seen <- character()
    x <- withCallingHandlers(cluster_map(cl, 1:3, a_warning), warning = function(w) {
      seen <<- c(seen, conditionMessage(w))
      invokeRestart("muffleWarning")
    })
    expect_identical(x, as_base)
    expect_identical(seen, "NAs introduced by coercion")
  })
})

test_that("an element may signal whatever it wants: it fails, the others have their values", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  try_all <- function(make, what, ...) {
    x <- suppressMessages(suppressWarnings(cluster_map(cl, 1:3, function(i, make, ...) {
      if (i == 2) make(...)
      i
    }, make = make, .more = list(...), .on_error = "continue", .globals = FALSE)))
    expect_identical(x[-2], list(1L, 3L), info = what)
    x[[2]]
  }
  error_with <- function(message) {
    stop(structure(class = c("odd", "error", "condition"), list(message = message, call = NULL)))
  }
  warning_with <- function(message) {
    warning(structure(class = c("odd", "warning", "condition"),
                      list(message = message, call = NULL)))
  }
  message_with <- function(message) {
    message(structure(class = c("odd", "message", "condition"),
                      list(message = message, call = NULL)))
  }
  odd <- list(null = NULL, none = character(), two = c("a", "b"), number = 5, na = NA_character_,
              long = strrep("x", 1e7), list = list(1),
              call = quote(a + b), fun = sum, bytes = "\xff\xfe", raw = raw(3))
  for (n in names(odd)) {
    e <- try_all(error_with, n, odd[[n]])
    expect_s3_class(e, "clutch_task_error")
    expect_true(
      is.character(conditionMessage(e)) && length(conditionMessage(e)) == 1L && nchar(
        conditionMessage(e), "bytes"
      ) < 10000, info = n
    )
    expect_match(conditionMessage(e), "element 2 on node", info = n)
    expect_identical(e$parent$message, odd[[n]])
    for (make in list(warning_with, message_with)) {
      x <- try_all(make, n, odd[[n]])
      expect_true(identical(x, 2L) || inherits(x, "clutch_task_error"), info = n)
    }
  }
  others <- list(
    no_call = function() stop(structure(class = c("odd", "error", "condition"), list())),
    text = function() stop(structure("text", class = c("odd", "error", "condition"))),
    fun = function() stop(structure(function() 1, class = c("odd", "error", "condition"))),
    env = function() stop(structure(new.env(), class = c("odd", "error", "condition"))),
    method = function() {
      registerS3method("conditionMessage", "worse", function(c) stop("no message for you"),
                       envir = baseenv())
      registerS3method("conditionCall", "worse", function(c) stop("no call for you"),
                       envir = baseenv())
      stop(structure(class = c("worse", "error", "condition"), list(message = "text", call = NULL)))
    },
    dollar = function() {
      registerS3method("$", "worse2", function(x, name) stop("nothing for you"), envir = baseenv())
      stop(structure(class = c("worse2", "error", "condition"),
                     list(message = "text", call = NULL)))
    },
    s4 = function() {
      methods::setClass("clutchOdd", contains = "list", where = globalenv())
      x <- methods::new("clutchOdd", list(message = "s4", call = NULL))
      attr(x, "class") <- structure(c("clutchOdd", "error", "condition"), package = ".GlobalEnv")
      stop(x)
    },
    call = function() do.call(function(x) stop("large"), list(as.list(1:1e5))),
    interrupt = function() {
      signalCondition(structure(class = c("interrupt", "condition"),
                                list(message = NULL, call = NULL)))
    },
    deep = function() {
      f <- function(n) f(n + 1)
      f(1)
    })
  for (n in names(others)) {
    e <- try_all(others[[n]], n)
    expect_s3_class(e, "clutch_task_error")
  }
  e <- try_all(others$call, "call")
  expect_match(conditionMessage(e), "large")
  expect_lt(length(serialize(e, NULL)), 1e5)
  skip_if_not_installed("rlang")
  e <- try_all(function() {
    rlang::abort(c("first", i = "second"), class = "mine", parent = simpleError("deeper"))
  }, "rlang")
  expect_match(conditionMessage(e), "first.*second.*deeper")
  expect_s3_class(e$parent, "mine")
})

test_that("a condition with much data in its call is relayed without it", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  calls <- list()
  withCallingHandlers(cluster_map(cl, 1, function(i) {
    warned <- function(x, y) warning("w")
    do.call(warned, list(1, as.list(1:1e5)))
    do.call("warned", list(1, strrep("x", 1e6)))
    warned(1, c("a", "b"))
  }), warning = function(w) {
    calls <<- c(calls, list(conditionCall(w)))
    invokeRestart("muffleWarning")
  })
  expect_null(calls[[1]])
  expect_identical(calls[[2]], quote(warned()))
  expect_identical(calls[[3]], quote(warned(1, c("a", "b"))))
})

test_that("a handler of the session finds the restarts that there were on the node", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  mine <- structure(class = c("mine", "condition"), list(message = "m", call = NULL))
  signals <- function(i) {
    withRestarts({
      signalCondition(mine)
      i
    }, use = function(value) value, leave = function() NULL)
  }
  seen <- list()
  values <- withCallingHandlers(cluster_map(cl, 1:2, signals), mine = function(c) {
    seen <<- c(seen, list(c))
    invokeRestart("use", 5)
  })
  expect_identical(values, list(1L, 2L)) # the element has gone on long ago
  expect_identical(seen, list(mine, mine))
  expect_identical(cluster_map(cl, 1:2, function(i) {
    testthat::expect_equal(i, i) # its handler invokes one
    i
  }), list(1L, 2L))
  # at once, and handed over
  task <- cluster_submit(cl, {
    withRestarts(signalCondition(structure(mine, class = c("mine", "immediateCondition",
                                                           "condition"))), use = identity)
    3
  })
  use <- function(c) invokeRestart("use", 5)
  withCallingHandlers(expect_identical(collect(task), 3), mine = use)
  handed <- NULL
  cluster_map(cl, 1, signals, .relay = function(c) handed <<- c)
  expect_identical(handed, mine)
})

test_that("conditions and output of an element come in its order, muffled or not", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  f <- function(i) {
    for (k in 1:3) {
      cat("cat", i, k, "\n")
      message("message ", i, " ", k)
      print(k)
      warning("warning ", i, " ", k)
      signalCondition(structure(class = c("mine", "condition"),
                                list(message = paste("mine", i, k), call = NULL)))
    }
  }
  expected <- unlist(lapply(1:3, function(i) lapply(1:3, function(k)
    c(paste("cat", i, k), paste("message", i, k), paste("[1]", k), paste("warning", i, k),
      paste("mine", i, k)))))
  for (relay in c("ordered", "live")) for (muffle in c("muffleMessage", "muffleWarning", "both")) {
    out <- capture.output(suppressWarnings(suppressMessages(withCallingHandlers(cluster_walk(
      cl, 1:3, f, .relay = relay
    ), condition = function(c) {
      cat(trimws(conditionMessage(c)), "\n")
      if (inherits(c, "message") && muffle != "muffleWarning" || inherits(c, "warning") &&
          muffle != "muffleMessage") tryInvokeRestart(
        if (inherits(c, "message")) "muffleMessage" else "muffleWarning")
    }))), type = "output")
    out <- trimws(out)
    for (i in 1:3) { # live: what two elements say is mixed
      of <- grepl(paste0("^(cat|message|warning|mine) ", i), expected)
      expect_identical(grep(paste0("^(cat|message|warning|mine) ", i), out, value = TRUE),
                       expected[of])
    }
    if (relay == "ordered") expect_identical(out, expected)
  }
})

test_that("what a failing element says is relayed before its error", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  for (relay in c("ordered", "live")) for (k in 1:30) {
    out <- capture.output(e <- task_error_of(cluster_map(cl, 1:2, function(i) {
      cat("said\n")
      stop("failed")
    }, .relay = relay)))
    expect_s3_class(e, "clutch_task_error")
    expect_true("said" %in% out)
  }
})

test_that("ten thousand conditions of an element are relayed in time linear in their number", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  # a list that is searched for its end took 50 s and more for as many warnings
  n <- 0
  withCallingHandlers(cluster_map(cl, 1, function(i) for (k in 1:50000) {
    warning(k)
    cat("")
  }), warning = function(w) {
    n <<- n + 1
    invokeRestart("muffleWarning")
  })
  expect_identical(n, 50000)
  # the log itself, without what R needs for a condition: with such a list this takes minutes
  expect_identical(cluster_map(cl, 3e5,
                               function(n) {
                                 for (k in seq_len(n)) {
                                   signalCondition(structure(
                                     class = c("mine", "condition"), list()
                                   ))
                                 }
                               }, .timeout = 100),
                   list(NULL))
})

test_that("what an interrupted element has printed and signalled is not another's", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  f <- function(i) {
    cat("step", i, "\n")
    message("note ", i)
    if (i == 1) Sys.sleep(100)
    i
  }
  notes <- character()
  out <- capture.output(suppressWarnings(withCallingHandlers(
    r <- cluster_map(cl, 1:2, f, .timeout = 1.5, .on_error = "continue"),
    message = function(m) {
      notes <<- c(notes, conditionMessage(m))
      invokeRestart("muffleMessage")
    })))
  expect_s3_class(r[[1]], "clutch_task_timeout")
  expect_identical(r[[2]], 2L)
  expect_identical(out, "step 2 ")
  expect_identical(notes, "note 2\n")
})

test_that("what a submitted task signals at once is relayed while it is waited for", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  t <- cluster_submit(cl, {
    signalCondition(structure(class = c("mine", "immediateCondition", "condition"),
                              list(message = "at once", call = NULL)))
    Sys.sleep(0.5)
    7
  })
  seen <- 0
  v <- withCallingHandlers(collect(t), mine = function(c) seen <<- seen + 1)
  expect_identical(v, 7)
  expect_identical(seen, 1)
})
