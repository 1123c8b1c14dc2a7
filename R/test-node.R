# The other side of cluster_test(): what its fork server does before it forks, and what a node does
# with a test file.
#
# The fork server loads the package and sources the helper files once. Each test file is a program
# (launch-programs.R) in a node of its own: testthat::test_file() with a reporter that writes all
# events to a log, which the session reads (test-replay.R). Setup and teardown files are run by
# testthat in each node, as in each process of its own parallel mode.
#
# The log is a series of records: the number of bytes, as an integer, and a serialized list of
# events. An event is list(what, args, at, time): a method of reporters and its arguments; how many
# bytes the node had written to its output and its errors before; seconds. "done", "failed"
# and "message" are no methods: the file has been run, or could not be; a message is about to be
# shown. "end_file" has the names of the files of
# snapshots that were used.
#
# `work` tells a node what to do: see new_work() and work_of_file() in test-run.R.

utils::globalVariables("super") # of R6

# ---- in the fork server ----

prepare_tests <- function(work) {
  old <- Sys.getenv("CLI_NO_THREAD", NA)
  Sys.setenv(CLI_NO_THREAD = "1")
  on.exit(if (is.na(old)) Sys.unsetenv("CLI_NO_THREAD") else Sys.setenv(CLI_NO_THREAD = old))
  tests_by <- "testthat" # R CMD check wants no library() of a package that it can read
  suppressPackageStartupMessages(library(tests_by, character.only = TRUE))
  the_node$tests <- list(env = NULL, has_helpers = FALSE, recorder = recorder_class())
  suppressWarnings(Sys.timezone()) # R asks once, and some systems warn: a file would, each time
  if (work$load == "source") load_quickly("pkgload")
  if (isTRUE(work$warm_up)) warm_up_tests()
  load_tested(work)
  env <- testthat::test_env(work$package)
  # one that fails does so again in each node, where testthat says how
  has_helpers <- tryCatch(source_helpers(work, env), error = function(e) FALSE)
  if (has_helpers) {
    the_node$tests$env <- env
    the_node$tests$has_helpers <- TRUE
  }
  invisible()
}

# Package pkgload makes functions out of R's own when it is loaded. R compiles what it does that
# with, which takes as long as all the rest.
load_quickly <- function(package) {
  jit <- compiler::enableJIT(0L)
  on.exit(compiler::enableJIT(jit))
  loadNamespace(package)
}

# Else each process would load and compile by itself what testthat needs: 0.3 s and more for each.
warm_up_tests <- function() {
  folder <- tempfile("clutch-warm-up-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  file.copy(system.file("node", "test-warm-up.R", package = "clutch"), folder)
  output <- file.path(folder, c("out", "err"))
  file.create(output)
  work <- list(file = "test-warm-up.R", log = file.path(folder, "log"), output = output)
  path <- file.path(folder, work$file)
  for (k in 1:2) {
    recorder <- the_node$tests$recorder$new(work)
    suppressMessages(testthat::test_file(path, reporter = recorder, stop_on_failure = FALSE))
  }
}

load_tested <- function(work) {
  switch(work$load,
    installed = library(work$package, character.only = TRUE),
    source = do.call(pkgload::load_all, c(list(work$root, quiet = TRUE), work$load_all))
  )
}

source_helpers <- function(work, env) {
  testthat::local_test_directory(work$dir, work$package)
  old <- options(topLevelEnvironment = parent.env(env))
  on.exit(options(old))
  testthat::source_test_helpers(".", env)
  TRUE
}

# ---- in the node ----

# The value is the function that start_next_program() wants.
program_of_file <- function(work) function(code, again) run_test_file(work)

run_test_file <- function(work) {
  if (is.null(the_node$tests)) prepare_tests(work) # a node that was not forked
  Sys.setenv(TESTTHAT_IS_PARALLEL = "true")
  options(work$options)
  recorder <- the_node$tests$recorder$new(work)
  env <- env_of_blocks(the_node$tests$env, work)
  error <- tryCatch(withCallingHandlers({
    for (d in work$patches) patch_tested(d, work$package)
    testthat::test_file(file.path(work$dir, work$file), reporter = recorder,
                        package = work$package, env = env,
                        load_helpers = !the_node$tests$has_helpers, stop_on_failure = FALSE)
    NULL
  }, message = function(m) recorder$add("message", list())), error = identity)
  recorder$finish(error)
  # what covr has counted is written by finalizers, and what gcov has by the C library: a node that
  # ends otherwise runs neither
  if (identical(Sys.getenv("R_COVR"), "true")) quit("no", 0L, runLast = FALSE)
}

# The test file's environment, in which test_that() runs only the blocks that are this part's.
env_of_blocks <- function(env, work) {
  if (is.null(work$blocks)) return(env)
  if (is.null(env)) env <- testthat::test_env(work$package)
  env <- new.env(parent = env)
  seen <- 0L
  env$test_that <- function(...) {
    seen <<- seen + 1L
    if (!seen %in% work$blocks) return(invisible())
    call <- sys.call()
    call[[1L]] <- quote(testthat::test_that)
    eval(call, parent.frame())
  }
  env
}

# Puts a function that was saved since into the package (test-depends.R), and wherever else the
# package's was: what is attached, and the environment of the tests, which may be a copy of the
# namespace.
patch_tested <- function(d, package) {
  space <- asNamespace(package)
  old <- get0(d$names, space, inherits = FALSE)
  value <- eval(d$placed[[1L]][[3L]], space)
  attached <- match(paste0("package:", package), search())
  places <- c(list(space), if (!is.na(attached)) list(as.environment(attached)), copies_of(space))
  for (env in places) {
    if (identical(get0(d$names, env, inherits = FALSE), old)) put_binding(d$names, value, env)
  }
  for (m in d$classes) registerS3method(m[[1L]], m[[2L]], value, space)
}

# The environment of the tests, where it has no namespace above it.
copies_of <- function(space) {
  env <- the_node$tests$env
  above <- env
  while (!is.null(above) && !identical(above, space) && !identical(above, emptyenv()))
    above <- parent.env(above)
  if (identical(above, emptyenv())) list(env) else list()
}

recorder_class <- function() {
  R6::R6Class("ClutchRecorder", inherit = testthat::Reporter, public = list(
    work = NULL,
    queue = NULL,
    flushed = 0,
    began = 0,
    test_began = NULL,
    result_at = 0,
    initialize = function(work) {
      super$initialize()
      for (name in names(work$shown_as)) self[[name]] <- work$shown_as[[name]]
      self$work <- work
      self$began <- self$result_at <- clock()
    },
    start_file = function(filename) self$add("start_file", list(filename)),
    start_context = function(context) self$add("start_context", list(context)),
    start_test = function(context, test) {
      self$test_began <- proc.time()
      self$add("start_test", list(context, test), now = TRUE)
    },
    add_result = function(context, test, result) {
      result <- slim_result(result, self$work$file)
      now <- clock()
      self$add("add_result", list(context, test, result), time = now - self$result_at)
      self$result_at <- now
    },
    end_test = function(context, test) {
      took <- as.double(proc.time() - self$test_began)[1:3]
      self$add("end_test", list(context, test), time = took)
    },
    end_context = function(context) self$add("end_context", list(context)),
    end_file = function() {
      seen <- getOption("testthat.snapshotter")$snap_file_seen
      self$add("end_file", list(seen), time = clock() - self$began)
    },
    add = function(what, args, time = NULL, now = FALSE) {
      at <- file.size(self$work$output)
      self$queue[[length(self$queue) + 1L]] <- list(what = what, args = args, at = at, time = time)
      if (now || clock() > self$flushed + 0.1) self$flush()
    },
    flush = function() {
      self$flushed <- clock()
      log_events(self$work$log, self$queue)
      self$queue <- NULL
    },
    # `error`: NULL, or why the file could not be run.
    finish = function(error) {
      if (is.null(error)) {
        self$add("done", list(), time = clock() - self$began, now = TRUE)
      } else {
        text <- message_of(error)
        self$add("failed", list(text, class(error)), now = TRUE)
      }
    }
  ))
}

log_events <- function(path, events) {
  if (!length(events)) return(invisible())
  bytes <- tryCatch(serialize(events, NULL, xdr = FALSE), error = function(e) {
    serialize(lapply(events, in_words), NULL, xdr = FALSE)
  })
  con <- file(path, "ab")
  on.exit(close(con))
  writeBin(length(bytes), con)
  writeBin(bytes, con)
}

# An event that cannot be serialized keeps what can be read.
in_words <- function(event) {
  if (event$what != "add_result") return(event)
  result <- event$args[[3L]]
  plain <- structure(list(message = message_of(result), test = result$test), class = class(result))
  event$args[[3L]] <- plain
  event
}

# The text of the file is in all places of it, and would be written each time. Successes have no
# trace that anybody shows.
slim_result <- function(result, file) {
  place <- result[["srcref"]]
  source <- attr(place, "srcfile")
  if (is.environment(source) && identical(basename(source$filename), file)) {
    result$srcref <- structure(as.integer(place), class = "clutch_place")
  }
  if (inherits(result, "expectation_success")) result$trace <- NULL
  result
}
