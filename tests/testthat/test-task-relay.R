# Output and conditions of tasks.

test_that("output and conditions come in order of elements, or as they come, or not at all", {
  of_each_strategy(function(cl) {
    f <- function(x) {
      if (x == 1) Sys.sleep(0.2)
      cat("out", x, "\n")
      message("msg ", x)
      if (x == 2) warning("warn ", x)
      signalCondition(structure(class = c("my_condition", "condition"),
                                list(message = "hi", call = NULL, x = x)))
      print(x)
      x
    }
    seen <- list()
    note <- function(what) function(c) {
      seen[[length(seen) + 1L]] <<- paste(what, trimws(conditionMessage(c)))
      for (r in c("muffleMessage", "muffleWarning")) {
        if (!is.null(findRestart(r, c))) invokeRestart(r)
      }
    }
    out <- capture.output(withCallingHandlers(r <- cluster_map(cl, 1:3, f), message = note("m"),
                                              warning = note("w"), my_condition = note("c")))
    expect_identical(r, list(1L, 2L, 3L))
    expect_identical(unlist(seen),
                     c("m msg 1", "c hi", "m msg 2", "w warn 2", "c hi", "m msg 3", "c hi"))
    expect_identical(out, c("out 1 ", "[1] 1", "out 2 ", "[1] 2", "out 3 ", "[1] 3"))
    out <- capture.output(cluster_walk(cl, 1:2, function(x) cat("live", x, "\n"), .relay = "live"))
    expect_setequal(out, c("live 1 ", "live 2 "))
    expect_identical(capture.output(cluster_walk(cl, 1:2, function(x) cat("no\n"), .relay = FALSE)),
                     character())
    # an ordinary call is none of it
    expect_silent(parallel::clusterCall(cl, function() cat("to the cluster's own output\n")))
  })
})
