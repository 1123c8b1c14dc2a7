# What elements do to the R they run in: what the next map finds put back, and what ends the node.

outside_checks_only()

# A value for each kind of state, as the next comer sees it; all found in the node's own functions,
# nothing travels.
state_here <- function(i) {
  list(options = options()[names(options())], folder = getwd(), locale = Sys.getlocale(),
       env = Sys.getenv(),
       kind = RNGkind(), sinks = c(sink.number(), sink.number("message")))
}
environment(state_here) <- globalenv()

test_that("the next map finds options, variables, folder, locale, sinks, generator as before", {
  for (s in c("fork_server", "sequential")) {
    cl <- make_cluster(1, s)
    on.exit(stop_cluster(cl))
    parallel::clusterEvalQ(cl, {
      options(clutch.of_a_call = 1)
      Sys.setenv(CLUTCH_OF_A_CALL = "1")
      NULL
    })
    for (seed in list(TRUE, FALSE)) for (relay in c("ordered", "none")) {
      before <- cluster_map(cl, 1, state_here, .seed = seed, .relay = relay)[[1]]
      expect_identical(before$options$clutch.of_a_call, 1)
      expect_identical(before$env[["CLUTCH_OF_A_CALL"]], "1")
      cluster_map(cl, 1, function(i) {
        options(digits = 3, warn = 1, OutDec = ",", clutch.new = 1, scipen = 5,
                stringsAsFactors = NULL, clutch.of_a_call = NULL)
        RNGkind("Wichmann-Hill", "Box-Muller", "Rejection")
        setwd(tempdir())
        Sys.setenv(CLUTCH_NEW = "new", HOME = "/nowhere", EMPTY = "a=b=c")
        Sys.unsetenv("CLUTCH_OF_A_CALL")
        suppressWarnings({
          Sys.setlocale("LC_COLLATE", if (Sys.getlocale("LC_COLLATE") == "C") "C.UTF-8" else "C")
          Sys.setlocale("LC_TIME", if (Sys.getlocale("LC_TIME") == "C") "C.UTF-8" else "C")
        })
        sink(tempfile())
        sink(file(tempfile(), "w"), type = "message")
        setTimeLimit(elapsed = 1000)
      }, .seed = seed, .relay = relay)
      expect_identical(cluster_map(cl, 1, state_here, .seed = seed, .relay = relay)[[1]], before,
                       info = paste(s, seed, relay))
      # and after a map, a call
      expect_identical(parallel::clusterCall(cl, function() getOption("digits"))[[1]], 7L)
    }
    # elements of one map see what those before have set, as with lapply()
    expect_identical(cluster_map(cl, 1:2, function(i) {
      if (i == 1) options(digits = 3)
      getOption("digits")
    }, .chunk = 2), list(3L, 3L))
    # what calls do, stays
    parallel::clusterEvalQ(cl, {
      options(digits = 4)
      NULL
    })
    cluster_setup(cl, options(scipen = 3))
    for (k in 1:2) {
      expect_equal(cluster_map(cl, 1, function(i) c(getOption("digits"), getOption("scipen"))),
                   list(c(4, 3)))
    }
    stop_cluster(cl)
    on.exit()
  }
})

test_that("options that a package sets when an element loads it stay", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  lib <- tempfile()
  on.exit(unlink(lib, recursive = TRUE), add = TRUE)
  name <- "setsoptions"
  install_made_package(name, lib = lib, namespace = "export(opt)", code = c(
    ".onLoad <- function(libname, pkgname) {",
    "  options(setsoptions.a = 'set')",
    "  Sys.setenv(SETSOPTIONS = 'set')",
    "}",
    "opt <- function() c(getOption('setsoptions.a'), Sys.getenv('SETSOPTIONS'))"
  ))
  for (k in 1:3) {
    expect_identical(
      cluster_map(cl, 1, function(i, name, lib) loadNamespace(name, lib.loc = lib)$opt(),
                  name = name, lib = lib), list(c("set", "set"))
    )
  }
})

test_that("what one element does to its node is not seen by the next", {
  deeds <- list(
    unload = function() unloadNamespace("clutch"),
    unload_and_load = function() {
      unloadNamespace("clutch")
      clutch::task_attempt()
    },
    close_connections = function() {
      closeAllConnections()
      file(tempfile(), "w") # its number is that of the connection that collected output
    },
    sink = function() sink(),
    sinks = function() while (sink.number()) sink(),
    sink_to_file = function() for (k in 1:3) sink(tempfile()),
    sink_split = function() sink(tempfile(), split = TRUE),
    sink_both = function() {
      sink()
      sink(tempfile(), split = TRUE)
    },
    sink_messages = function() sink(file(tempfile(), "w"), type = "message"),
    lock = function() lockEnvironment(globalenv()),
    lock_all = function() lockEnvironment(globalenv(), TRUE),
    lock_binding = function() {
      for (n in ls(globalenv(), all.names = TRUE)) lockBinding(n, globalenv())
    },
    rm_local = function() rm(list = ls(parent.frame(), all.names = TRUE), envir = parent.frame()),
    rm_global = function() rm(list = ls(globalenv(), all.names = TRUE), envir = globalenv()),
    exchange_global = function() {
      rm("of_the_map", envir = globalenv())
      assign("of_nobody", 1, globalenv())
    },
    rm_frame = function() rm(list = ls(sys.frame(-2), all.names = TRUE), envir = parent.frame(2)),
    active = function() makeActiveBinding("of_the_map", function() stop("active"), globalenv()),
    time_limit = function() setTimeLimit(elapsed = 0.01),
    handlers = function() try(globalCallingHandlers(NULL), silent = TRUE),
    clear_options = function() options(warn = NULL, digits = 3))
  for (s in c("fork_server", "sequential")) {
    cl <- make_cluster(1, s)
    on.exit(stop_cluster(cl))
    for (n in names(deeds)) {
      of_the_map <- 10
      check <- function(x, from) {
        expect_identical(x$values[-2], as.list(c(11, 13:16)[seq_along(x$values[-2])]),
                         info = paste(s, n, from))
        expect_identical(x$out, paste("out", c(1, 3:6)), info = paste(s, n, from))
      }
      f <- function(i, deed) {
        if (i != 2) {
          cat("out", i, "\n")
          return(of_the_map + i)
        }
        deed()
        12
      }
      environment(deeds[[n]]) <- environment(f) <- globalenv()
      out <- trimws(capture.output(suppressWarnings(x <- cluster_map(cl, 1:6, f, deed = deeds[[n]],
                                                                     .globals = list(
                                                                       of_the_map = 10
                                                                     ),
                                                                     .on_error = "continue",
                                                                     .timeout = 60))))
      check(list(values = x, out = setdiff(out, "out 2")), "same map")
      expect_true(identical(x[[2]], 12) || inherits(x[[2]], "clutch_task_error"), info = n)
      out <- trimws(capture.output(x <- cluster_map(
        cl, 1:6, f, deed = function() NULL, .globals = list(of_the_map = 10), .on_error = "continue"
      )))
      check(list(values = x, out = out), "next map")
      expect_true(works(cl), info = n)
    }
    stop_cluster(cl)
    on.exit()
  }
})

# It crashed: the package loaded again did not know that it is that of a node, and unloaded its code
test_that("a node whose elements unload the package and load it again stays, each time", {
  f <- function(i) {
    unloadNamespace("clutch")
    clutch::task_attempt()
    Sys.getpid()
  }
  for (s in c("fork_server", "sequential")) {
    cl <- make_cluster(1, s)
    on.exit(stop_cluster(cl))
    expect_length(unique(cluster_map(cl, 1:4, f, .globals = FALSE)), 1L)
    stop_cluster(cl)
  }
})

test_that("variables that an element removes are there for the next, however many there are", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  for (n in c(8, 9, 30)) {
    variables <- structure(as.list(seq_len(n)), names = paste0("of_the_map_", seq_len(n)))
    f <- function(i) {
      values <- mget(ls(globalenv(), pattern = "^of_the_map_"), globalenv())
      if (i == 2) rm(list = names(values)[[1L]], envir = globalenv())
      sum(unlist(values))
    }
    environment(f) <- globalenv()
    expect_identical(cluster_map(cl, 1:4, f, .globals = variables), rep(list(sum(seq_len(n))), 4),
                     info = n)
  }
})

test_that("quit() and closed descriptors end the node with a cause, and no other element", {
  skip_on_os("windows")
  dir <- tempfile()
  dir.create(dir)
  on.exit(unlink(dir, recursive = TRUE))
  file.copy(test_path("fixtures", "closer.c"), dir)
  old <- setwd(dir)
  built <- system2(file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "closer.c"), stdout = FALSE,
                   stderr = FALSE)
  setwd(old)
  skip_if(built != 0, "no compiler")
  so <- file.path(dir, paste0("closer", .Platform$dynlib.ext))
  starts <- list(fork_server = function() make_cluster(1),
                 sequential = function() make_cluster(1, "sequential"),
                 tcp = function() make_cluster("localhost"))
  for (n in names(starts)) {
    cl <- starts[[n]]()
    tryCatch({
      f <- function(i, so, to) {
        if (i == 2) {
          dyn.load(so)
          .C("close_fds", 3L, to)
          if (to > 20L) i <- numeric(1e5) # too large for the memory that node and session share
        }
        i
      }
      x <- suppressWarnings(cluster_map(cl, 1:4, f, so = so, to = 20L, .on_error = "continue",
                                        .globals = FALSE))
      expect_identical(x, as.list(1:4), info = n)
    }, finally = stop_cluster(cl))
    cl <- starts[[n]]()
    tryCatch({
      suppressWarnings(x <- cluster_map(cl, 1:4, f, so = so, to = 1000L, .on_error = "continue",
                                        .globals = FALSE))
      expect_identical(x[-2], list(1L, 3L, 4L), info = n)
      expect_s3_class(x[[2]], "clutch_task_died")
      expect_match(conditionMessage(x[[2]]), "closed its connection to the session")
      suppressWarnings(x <- cluster_map(cl, 1:4, function(i) if (i == 2) q("no", 3) else i,
                                        .on_error = "continue"))
      expect_identical(x[-2], list(1L, 3L, 4L), info = n)
      expect_s3_class(x[[2]], "clutch_task_died")
      expect_match(conditionMessage(x[[2]]), "exit status 3")
      expect_identical(cluster_map(cl, 1:4, identity), as.list(1:4))
    }, finally = stop_cluster(cl))
  }
})

test_that("a node that is idle keeps no memory for values to come", {
  linux_only()
  needs("release")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  of_its_own <- function() {
    l <- readLines(file.path("/proc", cluster_status(cl)$pid, "smaps_rollup"))
    as.numeric(gsub("\\D", "", grep("^Private_Dirty:", l, value = TRUE))) / 1024
  }
  collected <- function() {
    gc()
    NULL
  }
  environment(collected) <- globalenv()
  x <- 1:125000 + 0.5 # no sequence, which would travel as two numbers
  for (i in 1:100) parallel::clusterCall(cl, identity, x)
  parallel::clusterCall(cl, collected)
  # some 25 MB of these are R's own objects, which a full collection writes to
  expect_true(eventually(of_its_own() < 45))
})
