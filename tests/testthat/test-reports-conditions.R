# Errors, warnings, messages, output, and handlers around and within.

reports <- list(
  report("futureverse/future#25", "warnings come with the values", {
    heard(lap(1:2, function(i) {
      warning("careful ", i)
      i
    }))$said
  }, ways = "relays"),
  report("futureverse/future.apply#128", "messages keep their order", {
    heard(lap(1:3, function(i) {
      message("begin ", i)
      message("end ", i)
    }))$said
  }, ways = "relays"),
  report("futureverse/future#271", "what is printed comes in the order of elements", {
    heard(lap(1:3, function(i) {
      cat("element", i, "\n")
      print(i)
    }))$printed
  }, ways = "relays"),
  report("futureverse/future#403", "a condition that no one handles is no error", {
    odd <- structure(class = c("odd", "condition"), list(message = "odd", call = NULL))
    lap(1:2, function(i, odd) {
      signalCondition(odd)
      i
    }, odd = odd)
  }),
  report("futureverse/future.apply#128", "a message with a class of its own and data", {
    got <- NULL
    withCallingHandlers(lap(1L, function(i) {
      message(structure(class = c("step", "message", "condition"),
                        list(message = "step", call = NULL, at = 42)))
    }), step = function(m) {
      got <<- m$at
      invokeRestart("muffleMessage")
    })
    got
  }, ways = "relays"),
  report("r-lib/mirai#400", "an error's text arrives", {
    e <- caught(lap(1:2, function(i) stop("no luck with ", i)))
    grepl("no luck with [12]", conditionMessage(e))
  }, value = TRUE),
  report("r-lib/mirai#400", "an error's own class and fields can be had", {
    e <- caught(lap(1:2, function(i) {
      stop(errorCondition("refused", class = "refusal", code = 7))
    }))
    if (!inherits(e, "refusal")) e <- e$parent
    list(inherits(e, "refusal"), e$code)
  }, value = list(TRUE, 7), ways = c("cluster_map", "cluster_submit", "mclapply", "foreach",
                                     "future", "future_lapply")),
  report("ddimmery/tidyhte#1", "an error of package rlang, with its parent", {
    e <- caught(lap(1:2, function(i) {
      tryCatch(stop("inner"), error = function(e) rlang::abort("outer", parent = e, class = "deep"))
    }))
    if (!inherits(e, "deep")) e <- e$parent
    c(class(e)[[1L]], conditionMessage(e$parent))
  }, value = c("deep", "inner"), ways = c("cluster_map", "cluster_submit", "mclapply", "foreach",
                                          "future", "future_lapply"), needs = "rlang"),
  report("gaborcsardi/async#60", "errors are handled by tryCatch() within", {
    lap(1:3, function(i) tryCatch(if (i == 2) stop("two") else i, error = conditionMessage))
  }),
  report("r-lib/rlang#650", "finally and on.exit() run, in their order", {
    lap(1:2, function(i) {
      did <- character()
      f <- function() {
        on.exit(did <<- c(did, "exit"))
        tryCatch(stop("x"), error = function(e) NULL, finally = did <<- c(did, "finally"))
        invisible()
      }
      f()
      did
    })
  }),
  report("aryoda/tryCatchLog#14", "warnings are made errors within one element", {
    suppressWarnings(lap(1:2, function(i) {
      old <- options(warn = 2)
      on.exit(options(old))
      tryCatch(as.integer("x"), error = function(e) "was a warning")
    }))
  }, value = list("was a warning", "was a warning")),
  report("aryoda/tryCatchLog#14", "a calling handler and a restart within", {
    lap(1:2, function(i) {
      withCallingHandlers({
        warning("w")
        "went on"
      }, warning = function(w) invokeRestart("muffleWarning"))
    })
  }),
  report("r-lib/rlang#1224", "a restart of one's own", {
    lap(1:2, function(i) {
      withRestarts(invokeRestart("use", i * 10), use = function(v) v + 1)
    })
  }),
  report("futureverse/future#403", "suppressWarnings() and suppressMessages() within", {
    heard(lap(1:2, function(i) {
      suppressWarnings(warning("hidden"))
      suppressMessages(message("hidden"))
      i
    }))$said
  }, ways = "relays"),
  report("futureverse/future#271", "capture.output() and sink() within", {
    lap(1:2, function(i) {
      file <- tempfile()
      sink(file)
      print("into the file")
      sink()
      c(utils::capture.output(print(i)), readLines(file))
    })
  }),
  report("futureverse/future#403", "an error while a warning is pending tells the error", {
    e <- caught(suppressWarnings(lap(1:2, function(i) {
      warning("first")
      stop("then this")
    })))
    grepl("then this", conditionMessage(e))
  }, value = TRUE),
  report("r-lib/mirai#639", "one element only, which fails", {
    e <- caught(lap(1L, function(i) stop("the only one")))
    grepl("the only one", conditionMessage(e))
  }, value = TRUE, but = "mclapply"),
  report("r-lib/mirai#634", "an error without text, and with signs of formats", {
    e <- caught(lap(1:2, function(i) stop("100%s of %d {x} \\n")))
    grepl("100%s of %d {x}", conditionMessage(e), fixed = TRUE)
  }, value = TRUE),
  report("r-lib/mirai#634", "an error of an object that cannot be found", {
    e <- caught(lap(1:2, function(i) nowhere_to_be_found + i))
    grepl("nowhere_to_be_found", conditionMessage(e))
  }, value = TRUE),
  report("r-lib/mirai#607", "the error's call is that of the function", {
    e <- caught(lap(1:2, function(i) {
      inner_step <- function(v) stop("deep")
      inner_step(i)
    }))
    if (!is.null(e$parent)) e <- e$parent
    deparse(conditionCall(e))
  }, value = "inner_step(i)", ways = c("cluster_map", "cluster_submit", "mclapply", "foreach",
                                       "future", "future_lapply")),
  report("futureverse/future#35", "code that goes too deep is an error of the element", {
    deep <- caught(lap(1:2, function(i) {
      down <- function(n) down(n + 1)
      down(1)
    }))
    after <- lap(1:2, function(i) i)
    list(inherits(deep, "error"), after)
  }, value = list(TRUE, list(1L, 2L)),
  # bplapply() of R 4.6 gives such an error as a value, with SnowParam(), too
  but = if (getRversion() >= "4.6") "BiocParallel" else character()),
  report("futureverse/future#93", "maps go on after one that has failed", {
    caught(lap(1:4, function(i) if (i %% 2) stop("odd") else i))
    lap(1:4, function(i) i * 2)
  }),
  report("futureverse/doFuture#68", "a hundred warnings of one element", {
    length(heard(lap(1L, function(i) for (k in 1:100) warning(k)))$said)
  }, ways = "relays")
)

test_reports(reports, without = c("crew", "clusterApplyLB", "clusterMap"))
