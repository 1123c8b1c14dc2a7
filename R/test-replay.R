# The session reads what nodes have logged of test files (test-node.R), and hands it to reporters:
# file by file in their order, as if the session had run them one after the other.
#
# A file is an environment: `name`; `log` and `output`, files that its node writes (two of output);
# `at`, how much of these was read; `waiting`, events that were read and not handed on; where its
# node is, see test-run.R. Or it is a part of a test file: `blocks`, numbers of its calls of
# test_that(); `parts`: how many the test file has; `is_first`, `is_last`: of these.

new_test_file <- function(name, folder, number) {
  path <- function(kind) file.path(folder, paste0(number, ".", kind))
  f <- new.env(parent = emptyenv())
  fields <- list(name = name, log = path("log"), output = path(c("out", "err")), at = 0,
                 blocks = NULL, parts = 1L, is_first = TRUE, is_last = TRUE,
                 printed = c(0, 0), waiting = list(), state = "waiting", test = NULL,
                 started = FALSE, is_in_test = FALSE,
                 is_over = FALSE, errors_first = FALSE, took = NA_real_, tail = character())
  list2env(fields, f)
}

# Reads what has come since.
read_log <- function(f) {
  size <- file.size(f$log)
  if (is.na(size) || size <= f$at) return(invisible())
  con <- file(f$log, "rb")
  on.exit(close(con))
  seek(con, f$at)
  bytes <- readBin(con, "raw", size - f$at)
  at <- 0
  while (length(bytes) >= at + 4) {
    n <- readBin(bytes[at + 1:4], "integer")
    if (length(bytes) < at + 4 + n) break # the rest is being written
    # a namespace that is not here is no matter: nothing of it is called
    events <- suppressWarnings(unserialize(bytes[at + 4 + seq_len(n)]))
    f$waiting <- c(f$waiting, events)
    at <- at + 4 + n
  }
  f$at <- f$at + at
  invisible()
}

# ---- to the reporters ----

# `r`: list(multi, user, list, ...), see new_reporters(). Hands on what has come of this file.
replay_log <- function(r, f) {
  while (length(f$waiting)) {
    event <- f$waiting[[1L]]
    f$waiting <- f$waiting[-1L]
    print_output(r, f, event$at)
    replay_event(r, f, event)
  }
}

replay_event <- function(r, f, event) {
  multi <- r$multi
  args <- event$args
  switch(event$what,
    start_file = {
      f$started <- TRUE
      if (f$is_first) multi$start_file(args[[1L]])
    },
    start_context = if (f$is_first) multi$.start_context(args[[1L]]),
    start_test = {
      f$test <- args[[2L]]
      f$is_in_test <- TRUE
      multi$start_test(multi$.context, args[[2L]])
    },
    add_result = if (f$is_first || f$is_in_test) { # code outside of blocks is run for each part
      has_taken(r$user, "timer", event$time) # of JunitReporter
      multi$add_result(multi$.context, args[[2L]], with_place(args[[3L]], f, r$dir))
    },
    end_test = {
      f$is_in_test <- FALSE
      r$times[[length(r$times) + 1L]] <- event$time
      has_taken(r$user, "current_test_start", event$time[[3L]]) # of SlowReporter
      multi$end_test(multi$.context, args[[2L]])
    },
    end_file = {
      f$took <- event$time
      f$is_over <- TRUE
      r$snapshots <- c(r$snapshots, args[[1L]])
      end_of_file(r, f, event$time)
    },
    message = f$errors_first <- TRUE,
    failed = f$failed <- args,
    done = f$done <- TRUE
  )
}

end_of_file <- function(r, f, took) {
  if (!f$is_last) return(invisible())
  if (!is.null(took)) has_taken(r$user, "ctxt_start_time", took) # of ProgressReporter
  r$multi$end_context_if_started()
  r$multi$end_file()
}

# A reporter that tells how long something took remembers in this field when it heard of its begin.
# The node has measured it.
has_taken <- function(reporter, field, seconds) {
  if (inherits(reporter, "MultiReporter")) {
    for (each in reporter$reporters) has_taken(each, field, seconds)
    return(invisible())
  }
  began <- reporter[[field]]
  if (!is.numeric(began)) return(invisible())
  reporter[[field]] <- if (length(began) == 1L) proc.time()[[3L]] - seconds
                       else proc.time() - seconds
}

# The text of the file is put back, see slim_result().
with_place <- function(result, f, dir) {
  if (!inherits(result$srcref, "clutch_place")) return(result)
  if (is.null(f$source)) {
    lines <- readLines(file.path(dir, f$name), warn = FALSE, encoding = "UTF-8")
    f$source <- srcfilecopy(f$name, lines, file.mtime(file.path(dir, f$name)), isFile = TRUE)
  }
  result$srcref <- structure(as.integer(result$srcref), srcfile = f$source, class = "srcref")
  result
}

# ---- what the tests have printed ----

# Repeats what was written up to here: to the output, and to the errors. NULL: all of it. Which of
# the two came first is known where a message was signalled between. What all files print before
# their first event (setup files) and behind their last one (teardown files) is shown once.
print_output <- function(r, f, to = NULL) {
  if (is.null(to)) to <- file.size(f$output)
  both <- if (f$errors_first) 2:1 else 1:2
  f$errors_first <- FALSE
  for (k in both) {
    if (is.na(to[[k]]) || to[[k]] <= f$printed[[k]]) next
    text <- text_between(f$output[[k]], f$printed[[k]], to[[k]])
    f$printed[[k]] <- to[[k]]
    f$tail <- utils::tail(c(f$tail, strsplit(text, "\n", fixed = TRUE)[[1L]]), 20L)
    if (!f$is_first && !f$is_in_test) next # as the first part has printed it
    if (f$is_over) {
      r$after[[k]] <- unique(c(r$after[[k]], text))
    } else if (f$started || !text %in% r$before) {
      cat(text, file = if (k == 1L) "" else stderr())
      if (!f$started) r$before <- c(r$before, text)
    }
  }
}

# Shows what teardown files have printed.
print_after <- function(r) {
  for (k in 1:2) cat(r$after[[k]], sep = "", file = if (k == 1L) "" else stderr())
}

text_between <- function(path, from, to) {
  con <- file(path, "rb")
  on.exit(close(con))
  seek(con, from)
  bytes <- readBin(con, "raw", to - from)
  text <- rawToChar(bytes[bytes != 0])
  if (!validUTF8(text)) return(iconv(text, "", "UTF-8", sub = "byte"))
  Encoding(text) <- "UTF-8"
  text
}

# ---- a file that did not come to its end ----

# `how`: how its node has ended, a text.
replay_crash <- function(r, f, how) {
  read_log(f)
  replay_log(r, f)
  print_output(r, f)
  multi <- r$multi
  if (!f$started && f$is_first) multi$start_file(f$name)
  test <- if (f$is_in_test) f$test
  said <- if (length(f$tail)) paste(c("", "It had printed:", f$tail), collapse = "\n") else ""
  # expectation() of testthat 3.3 signals it, too
  text <- paste0("R did not come back from this test file: ", how, ".", said)
  result <- testthat::new_expectation("error", text)
  result$test <- if (is.null(test)) "(code run outside of `test_that()`)" else test
  multi$add_result(multi$.context, test, result)
  if (f$is_in_test) {
    r$times[[length(r$times) + 1L]] <- c(NA_real_, NA_real_, NA_real_)
    multi$end_test(multi$.context, test)
  }
  end_of_file(r, f, NULL)
}

# ---- the reporters ----

# `reporter`: as testthat takes it.
new_reporters <- function(reporter, dir) {
  user <- testthat::with_reporter(reporter, NULL, start_end_reporter = FALSE)
  r <- new.env(parent = emptyenv())
  r$dir <- dir
  r$user <- user
  r$list <- testthat::ListReporter$new()
  r$multi <- testthat::MultiReporter$new(reporters = list(user, r$list))
  r$times <- list()
  r$snapshots <- r$before <- character()
  r$after <- list(character(), character())
  r
}

# Called while the fork server starts, when the session has nothing else to do: testthat is loaded,
# and a test is shown to a reporter that prints nothing. Else what R reads from disk and compiles at
# the first use would take 0.15 s when the tests have ended.
get_reporters_ready <- function() {
  loadNamespace("testthat")
  tryCatch(show_nothing(), error = function(e) NULL)
}

show_nothing <- function() {
  dir <- tempfile("clutch-test-")
  dir.create(dir)
  old <- setwd(dir)
  on.exit({
    setwd(old)
    unlink(dir, recursive = TRUE)
  })
  event <- function(what, ..., time = NULL) {
    list(what = what, args = list(...), at = c(0, 0), time = time)
  }
  r <- new_reporters("silent", dir)
  f <- new_test_file("test-ready.R", dir, 1L)
  success <- testthat::new_expectation("success", "")
  file.create(f$output)
  log_events(f$log, list(
    event("start_file", f$name), event("start_context", "ready"),
    event("start_test", "ready", "ready"), event("add_result", "ready", "ready", success),
    event("end_test", "ready", "ready", time = c(0, 0, 0)), event("end_context", "ready"),
    event("end_file", character(), time = 0), event("done", time = 0)
  ))
  read_log(f)
  testthat::with_reporter(r$multi, {
    replay_log(r, f)
    print_output(r, f)
  })
  clean_snapshots(r, f$name)
  as.data.frame(results_of(r))
}

# The width of the user's terminal and the like, as the reporters have found it.
look_of <- function(r) {
  names <- intersect(c("width", "unicode", "crayon", "rstudio", "hyperlinks"), names(r$multi))
  stats::setNames(lapply(names, function(n) r$multi[[n]]), names)
}

# The results as testthat has them. The times are those that the nodes have measured.
results_of <- function(r) {
  results <- r$list$get_results()
  at <- which(vapply(results, function(x) !is.na(x$test), NA))
  for (k in seq_along(at)) {
    time <- if (k <= length(r$times)) r$times[[k]]
    if (length(time) == 3L) results[[at[[k]]]][c("user", "system", "real")] <- as.list(time)
  }
  results
}

# Snapshots that no test has used are removed, as testthat does when it has run all files.
clean_snapshots <- function(r, files) {
  snapshots <- testthat::local_snapshotter("_snaps")
  snapshots$test_file_seen <- sub("[.][Rr]$", "", sub("^test[-_]", "", files))
  snapshots$snap_file_seen <- r$snapshots
  snapshots$end_reporter()
}
