# Conditions of tasks are those that the same code signals here, whatever the way they take.

# The conditions that `expr` signals, all muffled.
conditions_of <- function(expr) {
  seen <- list()
  note <- function(how) function(c) {
    seen[[length(seen) + 1L]] <<- c
    invokeRestart(how)
  }
  withCallingHandlers(expr, warning = note("muffleWarning"), message = note("muffleMessage"))
  seen
}

test_that("warnings and messages of all kinds arrive as they are", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  latin1 <- "\xe9"
  Encoding(latin1) <- "latin1"
  given <- function(...) simpleWarning(...)
  fs <- list(
    function() warning("plain"),
    function() warning("no call", call. = FALSE),
    function() warning("caf\u00e9"),
    function() message("caf\u00e9"),
    function() warning(given(latin1)),
    function() message(""),
    function() message("two\nlines", appendLF = FALSE),
    function() warning(given("")),
    function() warning(given("with a call", quote(g(x, a = 1, "b", NULL)[, 2]))),
    function() warning(given("with data", call("g", mtcars, function(x) x, c(a = 1)))),
    function() warning(structure(given("with more"), data = 1:3)),
    function() warning(given(c(name = "named"))),
    function() warning(structure(list(call = NULL, message = "turned"),
                                 class = c("simpleWarning", "warning", "condition"))),
    function() warning(structure(list(message = "mine", call = NULL, data = mtcars),
                                 class = c("mine", "simpleWarning", "warning", "condition"))),
    function() message(structure(list(message = "mine\n", call = quote(f(1))),
                                 class = c("mine", "message", "condition"))),
    function() message(simpleMessage("given\n", quote(f(.x)))),
    function() warning(strrep("long ", 1500)),
    function() for (k in 1:100) warning("many ", k),
    # more places than are remembered
    function() for (k in 1:30) warning(given("a place", call(letters[k %% 15 + 1]))),
    function() for (k in c(1:20, 20:1)) eval(call("warning", paste("place", k)))
  )
  signal <- function(k) {
    f <- fs[[k]]
    f()
    k
  }
  n <- length(fs)
  all <- function(order) for (k in order) signal(k)
  # a call with data in it is that of the function's name
  slim <- function(seen) {
    lapply(seen, function(c) {
      if (identical(conditionMessage(c), "with data")) c$call <- NULL
      c
    })
  }
  here <- slim(conditions_of(lapply(seq_len(n), signal)))
  expect_gt(length(here), 180)
  for (relay in c("ordered", "live")) {
    there <- slim(conditions_of(cluster_map(cl[1], seq_len(n), signal, .relay = relay)))
    expect_identical(there, here)
    expect_identical(lapply(there, function(c) Encoding(c$message)),
                     lapply(here, function(c) Encoding(c$message)))
  }
  # all of one task
  for (order in list(seq_len(n), rev(seq_len(n)), c(seq(1, n, 2), seq(2, n, 2)))) {
    here <- slim(conditions_of(all(order)))
    expect_identical(slim(conditions_of(cluster_map(cl, list(order), all))), here)
  }
})

test_that("restarts of a task's own give its values, and code behind a warning goes on", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  f <- function(i) {
    ended <- character()
    w <- function(text) {
      on.exit(ended <<- c(ended, text))
      warning(text)
      "went on"
    }
    signal <- function(c) {
      signalCondition(c)
      "went on"
    }
    list(
      value = warning("a"),
      behind = w("b"),
      own = withRestarts(signal(simpleWarning("c")), muffleWarning = function() "muffled"),
      null = withRestarts(signal(simpleWarning("d")), muffleWarning = function() NULL),
      with_arguments = withRestarts(signal(simpleWarning("e")), muffleWarning = function(x = 1) x),
      several = withRestarts(w("f"), mine = function() "mine",
                             muffleWarning = function() "muffled"),
      inner = withRestarts(signal(simpleWarning("g")), muffleWarning = function() NULL,
                           mine = function() "mine"),
      message = withRestarts(signal(simpleMessage("h")), muffleMessage = function() "muffled"),
      behind_message = {
        message("i")
        "went on"
      },
      ended = ended
    )
  }
  quiet <- function(expr) suppressMessages(suppressWarnings(expr))
  here <- quiet(lapply(1, f))
  expect_identical(here[[1]]$own, "muffled")
  expect_null(here[[1]]$null)
  expect_identical(here[[1]]$ended, c("b", "f"))
  for (relay in c("ordered", "live")) {
    expect_identical(quiet(cluster_map(cl, 1, f, .relay = relay)), here)
  }
})

test_that("what tasks of a cluster within a task signal comes out", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  f <- function(i) {
    inner <- clutch::make_cluster(1)
    on.exit(clutch::stop_cluster(inner))
    clutch::cluster_map_int(inner, 1:3, function(k) {
      warning("warned ", k)
      message("said ", k)
      k
    })
  }
  value <- NULL
  seen <- conditions_of(value <- cluster_map(cl, 1, f))
  expect_identical(value, list(1:3))
  expect_identical(trimws(vapply(seen, conditionMessage, "")),
                   paste(c("warned", "said"), rep(1:3, each = 2)))
})

test_that("messages are shown, or muffled by their restart, one by one", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  f <- function(x) {
    message("said ", x)
    if (x == 3) message(structure(list(message = "mine\n", call = NULL),
                                  class = c("mine", "message", "condition")))
    if (x == 4) warning("warned")
    message("and ", x)
    x
  }
  shown <- function(expr, muffled) {
    restarts <- character()
    note <- function(c) {
      restarts <<- c(restarts, computeRestarts(c)[[1]]$name)
      if (grepl(muffled, conditionMessage(c))) invokeRestart("muffleMessage")
    }
    text <- capture.output(
      withCallingHandlers(invisible(expr), message = note,
                          warning = function(c) invokeRestart("muffleWarning")),
      type = "message"
    )
    list(text, restarts)
  }
  for (muffled in c("said", "mine", "[24]", "nothing", ".")) {
    expect_identical(shown(cluster_walk(cl, 1:6, f), muffled), shown(lapply(1:6, f), muffled))
  }
  # a handler may leave the map, and the next one finds the cluster as it was
  expect_identical(tryCatch(cluster_walk(cl, 1:3, f), message = conditionMessage), "said 1\n")
  expect_identical(suppressMessages(cluster_map_int(cl, 1:3, f)), 1:3)
})
