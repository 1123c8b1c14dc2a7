# Maps with a journal: what is done is not done again, and nothing wrong is ever taken from one.

# As functions of the workspace are, which bring nothing of the test's frame.
workspace <- function(f) {
  environment(f) <- globalenv()
  f
}

new_journal <- function() {
  folder <- tempfile("journal-")
  dir.create(folder)
  file.path(folder, "fits.journal")
}

# The values of a map, and how many elements it has computed. What says what was kept is silent.
counted_map <- function(cl, x, f, ...) {
  folder <- tempfile("count-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  Sys.setenv(CLUTCH_TEST_COUNT = folder)
  parallel::clusterCall(cl, Sys.setenv, CLUTCH_TEST_COUNT = folder)
  values <- suppressMessages(cluster_map(cl, x, f, ...))
  list(values = values, computed = length(list.files(folder)))
}
# In functions of maps
count_me <- quote(file.create(tempfile("", Sys.getenv("CLUTCH_TEST_COUNT"))))
counting <- function(f) {
  body(f) <- call("{", count_me, body(f))
  environment(f) <- globalenv()
  f
}
# As a new session: how often maps were called is forgotten, and nobody has seeded the generator
new_session <- function() {
  runs <- clutch:::the$journal_runs
  rm(list = ls(runs), envir = runs)
  suppressWarnings(rm(".Random.seed", envir = globalenv()))
}

test_that("what is done is not done again: added, removed, in another order, twice", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- counting(function(i) i^2)
  expect_identical(counted_map(cl, 1:10, f, .journal = path),
                   list(values = as.list((1:10)^2), computed = 10L))
  expect_identical(counted_map(cl, 1:10, f, .journal = path),
                   list(values = as.list((1:10)^2), computed = 0L))
  expect_identical(counted_map(cl, c(12:3, 3L), f, .journal = path),
                   list(values = as.list(c(12:3, 3)^2), computed = 2L))
  expect_identical(counted_map(cl, c(a = 5L), f, .journal = path),
                   list(values = list(a = 25), computed = 0L))
  expect_identical(counted_map(cl, list(1L, 2), f, .journal = path)$computed, 1L) # 2 is no integer
  rows <- journal_read(path, values = TRUE)
  expect_identical(nrow(rows), 13L)
  expect_setequal(rows$value, as.list((c(1:12, 2))^2))
  expect_true(all(rows$state == "done"))
})

test_that("all maps have a journal, and each has its own keys", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  run <- function() {
    suppressMessages(list(
      cluster_map_dbl(cl, 1:3, function(i) i + 0.5, .journal = path),
      cluster_map2(cl, 1:3, 4:6, function(x, y) x * y, .journal = path),
      cluster_pmap(cl, list(a = 1:2, b = 3:4), function(a, b) a - b, .journal = path),
      cluster_imap(cl, c(x = 1, y = 2), function(v, n) paste(n, v), .journal = path),
      cluster_map_dfr(cl, 1:2, function(i) data.frame(i = i), .journal = path),
      cluster_walk(cl, 1:2, identity, .journal = path)
    ))
  }
  first <- run()
  n <- nrow(journal_read(path, all = TRUE))
  expect_identical(n, 14L)
  expect_identical(run(), first)
  expect_identical(nrow(journal_read(path, all = TRUE)), n)
})

test_that("functions of R and of packages have a journal", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  run <- function() {
    suppressMessages(list(cluster_map(cl, 1:3, sqrt, .journal = path),
                          cluster_map(cl, list(1:3, 4:6), stats::median, .journal = path),
                          cluster_walk(cl, 1:2, print, .journal = path),
                          cluster_map(cl, list(list(a = 1), list(a = 2)), "a", .journal = path)))
  }
  utils::capture.output(first <- run())
  n <- nrow(journal_read(path, all = TRUE))
  expect_identical(n, 9L)
  utils::capture.output(expect_identical(run(), first))
  expect_identical(nrow(journal_read(path, all = TRUE)), n)
  # a large variable is no list of its elements
  assign("large", numeric(1e7), globalenv())
  on.exit(rm("large", envir = globalenv()), add = TRUE)
  expect_identical(cluster_map(cl, 1, workspace(function(i) length(large)), .journal = path),
                   list(10000000L))
})

test_that("results of another version of a package are kept, with a warning", {
  record <- list(path = "j", packages = "stats")
  versions <- clutch:::package_versions(record)
  expect_silent(clutch:::warn_versions(record, list(list(packages = versions))))
  w <- tryCatch(clutch:::warn_versions(record, list(list(packages = c(stats = "0.1")))),
                warning = identity)
  expect_s3_class(w, "clutch_journal_versions")
  expect_identical(w$packages, "stats")
  # as a map calls it
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  cluster_map(cl, 1:2, stats::median, .journal = path)
  rows <- journal_read(path)
  ptr <- .Call(clutch:::ffi_journal_open, path, Inf, NULL, NULL)
  jobs <- clutch:::journal_jobs(ptr)
  .Call(clutch:::ffi_handle_end, ptr)
  expect_identical(jobs[[1L]]$packages, versions)
})

test_that("a message says what has changed, or an error before anything starts", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  assign("beta", 2, globalenv())
  on.exit(rm("beta", envir = globalenv()), add = TRUE)
  f <- workspace(function(i, k) i * beta + k)
  map <- function(...) cluster_map(cl, 1:3, f, ..., .journal = path)
  map(k = 1)
  expect_message(map(k = 1), "3 of 3 elements were done before")
  expect_message(map(k = 2), "argument `k` has changed .*0 of 3 elements are kept")
  assign("beta", 3, globalenv())
  expect_message(map(k = 2), "variable `beta` has changed")
  f <- workspace(function(i, k) k + i * beta)
  expect_message(map(k = 2), "`.f` has changed")
  f <- workspace(function(i, k) k + i * beta * 2)
  e <- tryCatch(map(k = 3, .journal_if_changed = "error"), error = identity)
  expect_s3_class(e, c("clutch_journal_changed", "clutch_error"), exact = FALSE)
  expect_identical(e$parts, c("`.f`", "argument `k`"))
  expect_identical(map(k = 3), list(9, 15, 21))
})

test_that("another map of the same session and journal is no change of the first one", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- workspace(function(i) i + 1)
  g <- workspace(function(i) i * 2)
  script <- function() {
    c(cluster_map_dbl(cl, 1:2, f, .journal = path, .journal_if_changed = "error"),
      cluster_map_dbl(cl, 1:2, g, .journal = path, .journal_if_changed = "error"))
  }
  expect_silent(x <- script())
  expect_identical(suppressMessages(script()), x)
  # in a new session the only map that there is may be this one, as it was before
  path <- new_journal()
  cluster_map_dbl(cl, 1:2, f, .journal = path)
  maps <- clutch:::the$journal_maps
  rm(list = ls(maps), envir = maps)
  expect_message(cluster_map_dbl(cl, 1:2, g, .journal = path), "`.f` has changed")
})

test_that("an element that has used random numbers has its stream in its key", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- counting(function(i) if (i > 5) rnorm(1) else i)
  set.seed(1)
  undisturbed <- counted_map(cl, 1:10, f)$values
  set.seed(1)
  first <- counted_map(cl, 1:6, f, .journal = path)
  expect_identical(first$values, undisturbed[1:6])
  set.seed(1)
  expect_identical(counted_map(cl, 1:10, f, .journal = path),
                   list(values = undisturbed, computed = 4L))
  # without a seed of the user's: the streams that were recorded, in a new session
  new_session()
  expect_identical(counted_map(cl, 1:10, f, .journal = path),
                   list(values = undisturbed, computed = 0L))
  # the same map a second time in a session: other numbers
  second <- counted_map(cl, 1:10, f, .journal = path)
  expect_identical(second$computed, 5L)
  expect_identical(second$values[1:5], undisturbed[1:5])
  expect_false(any(second$values[6:10] %in% undisturbed[6:10]))
  # and in the next session both again
  new_session()
  expect_identical(counted_map(cl, 1:10, f, .journal = path)$values, undisturbed)
  expect_identical(counted_map(cl, 1:10, f, .journal = path),
                   list(values = second$values, computed = 0L))
  # another place, another stream
  new_session()
  expect_identical(counted_map(cl, c(1, 6:10), f, .journal = path)$computed, 6L) # no integers
  new_session()
  expect_identical(counted_map(cl, c(2L, 6:10), f, .journal = path)$computed, 5L)
  expect_identical(counted_map(cl, 1:10, f, .seed = 3, .journal = path)$computed, 5L)
  expect_identical(counted_map(cl, 1:10, f, .seed = 3, .journal = path)$computed, 0L)
})

test_that("set.seed() in the function counts as random numbers that were used", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- counting(function(i) {
    set.seed(i)
    1
  })
  counted_map(cl, 1:2, f, .seed = 11, .journal = path)
  expect_identical(counted_map(cl, 1:2, f, .seed = 12, .journal = path)$computed, 2L)
  expect_identical(counted_map(cl, 1:2, f, .seed = FALSE, .journal = path)$computed, 2L)
})

test_that("random numbers without a stream are those of a place in a run", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- workspace(function(x) rnorm(1))
  map <- function() {
    unlist(suppressMessages(cluster_map(cl, rep(1, 4), f, .seed = FALSE, .journal = path)))
  }
  first <- map()
  expect_identical(anyDuplicated(first), 0L)
  second <- map() # another run: other numbers
  expect_false(any(second %in% first))
  new_session()
  expect_identical(map(), first)
  expect_identical(map(), second)
})

test_that("a function that puts the state back has used it, as far as its code says so", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- workspace(function(i) {
    state <- .Random.seed
    on.exit(assign(".Random.seed", state, globalenv()))
    rnorm(1)
  })
  map <- function(seed) {
    unlist(suppressMessages(cluster_map(cl, 1:2, f, .seed = seed, .journal = path)))
  }
  first <- map(1)
  expect_false(any(map(2) %in% first))
  expect_identical(map(1), first)
})

test_that("set.seed() in the session decides, whatever was recorded", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- workspace(function(i) rnorm(1))
  map <- function() unlist(suppressMessages(cluster_map(cl, 1:3, f, .journal = path)))
  set.seed(1)
  one <- map()
  new_session()
  set.seed(2)
  two <- map()
  expect_false(any(two %in% one))
  set.seed(1)
  expect_identical(map(), one)
})

test_that("maps without a journal, and those with a seed of their own, do not seed the session", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- workspace(function(i) rnorm(1))
  run <- function() {
    suppressMessages({
      cluster_map(cl, 1:2, f)
      cluster_map(cl, 1:3, f, .seed = 1, .journal = path)
      cluster_map(cl, 1:2, sqrt)
      collect(cluster_submit(cl, 1))
      cluster_map(cl, 1:3, f, .journal = path)
    })
  }
  new_session()
  first <- run()
  new_session()
  expect_identical(run(), first)
})

test_that("code that looks at the generator without using it does not seed the session", {
  is_unseeded <- function() .Call(clutch:::ffi_is_unseeded)
  new_session()
  expect_true(is_unseeded())
  script <- c("is_unseeded <- function() .Call(clutch:::ffi_is_unseeded)",
              # what R makes of its generator when it is first asked for
              "clutch_seed <- function(time) {",
              "  x <- as.numeric(time) %% 65536 + 65536 * 20000",
              "  set.seed(as.integer(x)) }",
              "clutch_seed(Sys.time()); cat('time', is_unseeded(), '\n')",
              "x <- clutch:::stream_of_seed(TRUE); cat('ours', is_unseeded(), '\n')",
              "assign('.Random.seed', .Random.seed + 0L, globalenv())",
              "cat('copy', is_unseeded(), '\n')",
              "x <- runif(1); cat('drawn', is_unseeded(), '\n')",
              "clutch_seed(Sys.time() + 100); cat('later', is_unseeded(), '\n')",
              "for (seed in c(1, 42, 12345, 20261127, 1e9)) {",
              "  set.seed(seed); cat('chosen', is_unseeded(), '\n') }",
              "RNGkind(\"L'Ecuyer-CMRG\"); cat('kind', is_unseeded(), '\n')",
              "cat('done\n')")
  s <- start_script(script)
  expect_done(s)
  expect_identical(trimws(readLines(s$out)),
                   c("time TRUE", "ours TRUE", "copy TRUE", "drawn FALSE", "later FALSE",
                     rep("chosen FALSE", 5), "kind FALSE", "done"))
})

test_that("it is said where random numbers begin elsewhere", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- workspace(function(i) rnorm(1))
  new_session()
  set.seed(1)
  expect_silent(cluster_map(cl, 1:3, f, .journal = path))
  expect_silent(cluster_map(cl, 1:3, f, .journal = path)) # meant to be others
  new_session()
  set.seed(2)
  expect_message(cluster_map(cl, 1:3, f, .journal = path), "random numbers begin elsewhere")
  suppressMessages(cluster_map(cl, 1:3, sqrt, .journal = path))
  new_session()
  set.seed(3)
  said <- capture_messages(cluster_map(cl, 1:3, sqrt, .journal = path))
  expect_length(said, 1L)
  expect_match(said, "3 of 3 elements were done before")
})

test_that("a value goes before an error that came before the function had drawn", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  flag <- tempfile()
  g <- workspace(function(i, flag) {
    if (!file.exists(flag)) stop("no connection")
    rnorm(1)
  })
  map <- function(...) {
    set.seed(1)
    suppressWarnings(suppressMessages(
      cluster_map(cl, 1, g, flag = flag, .journal = path, .on_error = "continue", ...)
    ))
  }
  expect_s3_class(map()[[1L]], "clutch_task_error")
  file.create(flag)
  value <- map()
  unlink(flag)
  expect_identical(map(), value)
  expect_identical(map(.journal_errors = "keep"), value)
})

test_that("the body of a loop of foreach is in its key", {
  skip_if_not_installed("foreach")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  registerDoClutch(cl, journal = new_journal())
  on.exit({
    registerDoClutch(cl)
    foreach::registerDoSEQ()
  }, add = TRUE)
  `%dopar%` <- foreach::`%dopar%`
  expect_identical(foreach::foreach(i = 1:2, .combine = c) %dopar% (i + 1), c(2, 3))
  expect_identical(foreach::foreach(i = 1:2, .combine = c) %dopar% (i + 2), c(3, 4))
})

test_that("options that change what mclapply() computes count", {
  path <- new_journal()
  f <- workspace(function(i) format(pi))
  run <- function() suppressMessages(clutch::mclapply(1:2, f, mc.cores = 2, .journal = path))
  on.exit(end_own_cluster(), add = TRUE)
  expect_identical(run()[[1L]], "3.141593")
  old <- options(digits = 3)
  on.exit(options(old), add = TRUE)
  expect_identical(run()[[1L]], "3.14")
})

test_that("any session reads a journal, also one without a cluster", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  cluster_map(cl, 1:3, identity, .journal = path)
  script <- start_script(c(
    sprintf("path <- %s", deparse(path)),
    "cat('rows', nrow(journal_read(path)), '\n')",
    "journal_compact(path)",
    "cat('rows', nrow(journal_read(path)), dir(dirname(path)), '\n')"
  ))
  expect_true(said(script, "^rows.*journal"))
  expect_identical(trimws(grep("^rows", readLines(script$out), value = TRUE)),
                   c("rows 3", "rows 3 fits.journal"))
})

test_that("a journal of an earlier version has all that it had", {
  # fixtures/journal-1.journal was written by these maps; other keys, or another format, would have
  # users compute everything again: JOURNAL_FORMAT counts such changes
  path <- new_journal()
  file.copy(test_path("fixtures", "journal-1.journal"), path)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  f <- function(x) {
    file.create(tempfile("", Sys.getenv("CLUTCH_TEST_COUNT")))
    if (is.null(x)) stop("no value")
    if (is.numeric(x)) x * 2 + offset else rev(x)
  }
  assign("offset", 0.25, envir = globalenv())
  on.exit(rm("offset", envir = globalenv()), add = TRUE)
  x <- list(1, 2L, NA_real_, NaN, "a", NA_character_, TRUE, NULL, c(b = 1.5), 1:300,
            data.frame(x = 1:2))
  maps <- list(
    suppressWarnings(counted_map(cl, x, workspace(f), .journal = path, .on_error = "continue",
                                 .journal_errors = "keep")),
    counted_map(cl, c(1, NA, 3), workspace(f), .journal = path),
    counted_map(cl, 1:2, workspace(function(i) {
      file.create(tempfile("", Sys.getenv("CLUTCH_TEST_COUNT")))
      rnorm(1)
    }), .seed = 1, .journal = path)
  )
  for (map in maps) expect_identical(map$computed, 0L)
  expect_s3_class(maps[[1L]]$values[[8L]], "clutch_task_error")
  expect_identical(maps[[1L]]$values[-8L], lapply(x[-8L], function(x) {
    if (is.numeric(x)) x * 2 + 0.25 else rev(x)
  }))
  expect_identical(maps[[2L]]$values, list(2.25, NA_real_, 6.25))
  expect_equal(maps[[3L]]$values, list(0.4608108, -0.4853957), tolerance = 1e-6)
})

test_that("a link leads to the same journal, and one that is removed in use is missed", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  cluster_map(cl, 1:2, identity, .journal = path)
  link <- file.path(dirname(path), "link.journal")
  file.symlink(path, link)
  expect_message(cluster_map(cl, 1:2, identity, .journal = link), "2 of 2")
  task <- cluster_submit(cl, Sys.sleep(60), .journal = path)
  on.exit(cancel(task), add = TRUE)
  unlink(c(path, link))
  expect_error(cluster_map(cl, 1:2, identity, .journal = path), "was removed",
               class = "clutch_journal")
})

test_that("a link leads to the same journal when that is not there yet", {
  path <- new_journal()
  link <- file.path(dirname(path), "link.journal")
  other <- file.path(dirname(path), "other.journal")
  on.exit(unlink(c(link, other)), add = TRUE)
  file.symlink(path, link)
  file.symlink("link.journal", other)
  before <- clutch:::journal_path(other)
  file.create(path)
  expect_identical(clutch:::journal_path(other), before)
  expect_identical(before, normalizePath(path))
})

test_that("a journal that is not opened after a warning has no lock", {
  path <- new_journal()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  cluster_map(cl, 1:20, identity, .journal = path)
  bytes <- readBin(path, "raw", 1e6)
  bytes[[length(bytes) - 200L]] <- xor(bytes[[length(bytes) - 200L]], as.raw(1))
  writeBin(bytes, path)
  old <- options(warn = 2)
  on.exit(options(old), add = TRUE)
  expect_error(clutch:::open_journal(clutch:::journal_path(path), Inf), "damaged")
  expect_false(file.exists(paste0(path, ".lock")))
  expect_null(.Call(clutch:::ffi_journal_shared, clutch:::journal_path(path)))
})

test_that("a lock that cannot be written is not left behind", {
  lock <- tempfile()
  file <- tempfile(fileext = ".R") # Rscript writes what follows -e to a file
  on.exit(unlink(file))
  code <- ".Call(clutch:::ffi_file_new, '%s', 'text')"
  writeLines(sprintf("cat(tryCatch(%s, error = conditionMessage))", sprintf(code, lock)), file)
  out <- system(sprintf("ulimit -f 0; R_LIBS=%s %s --vanilla %s 2>&1",
                        shQuote(paste(.libPaths(), collapse = ":")),
                        shQuote(file.path(R.home("bin"), "Rscript")), shQuote(file)), intern = TRUE)
  expect_match(out, "cannot be written", all = FALSE)
  expect_false(file.exists(lock))
})

test_that("a lock is touched as long as its owner is there, and not taken from another", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  lock <- paste0(path, ".lock")
  task <- cluster_submit(cl, Sys.sleep(60), .journal = path, .journal_sync = 0)
  before <- file.mtime(lock)
  Sys.setFileTime(lock, Sys.time() - 3600)
  expect_true(eventually(file.mtime(lock) >= before - 1, 30))
  # somebody else has taken it over meanwhile: it is theirs
  writeLines("elsewhere 17 1234 -", lock)
  cancel(task)
  expect_identical(readLines(lock), "elsewhere 17 1234 -")
})

test_that("a lock that this session could not remove keeps it from nothing", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  lock <- paste0(path, ".lock")
  writeLines(paste(unlist(clutch:::this_owner()), collapse = " "), lock)
  expect_identical(cluster_map_int(cl, 1:3, identity, .journal = path), 1:3)
  expect_false(file.exists(lock))
  # that of another process of this session is no such lock
  other <- parallel::mcparallel({
    writeLines(paste(unlist(clutch:::this_owner()), collapse = " "), lock)
    Sys.sleep(60)
  })
  expect_true(eventually(file.exists(lock) && length(readLines(lock)) == 1L))
  expect_error(cluster_map(cl, 1:3, identity, .journal = path), class = "clutch_journal_locked")
  tools::pskill(other$pid, 9L)
  suppressWarnings(parallel::mccollect(other))
  unlink(lock)
})

test_that("who removes the lock of one that is gone lets nobody in who finds another's", {
  path <- new_journal()
  lock <- paste0(path, ".lock")
  line <- paste(unlist(clutch:::this_owner()), collapse = " ")
  gone <- list(host = "here", pid = "17", started = "1", boot = "2")
  writeLines(line, lock) # another session was quicker, and has it
  read <- clutch:::owner_of
  taken <- FALSE
  # and a third one tries to take it whenever the second one looks
  on.exit(utils::assignInNamespace("owner_of", read, "clutch"))
  utils::assignInNamespace("owner_of", function(lock) {
    taken <<- taken || .Call(clutch:::ffi_file_new, paste0(path, ".lock"), "third 1 2 3\n")
    read(lock)
  }, "clutch")
  clutch:::remove_lock(lock, gone)
  expect_false(taken)
  expect_identical(readLines(lock), line)
  expect_identical(dir(dirname(lock)), basename(lock))
  clutch:::remove_lock(lock, clutch:::this_owner())
  expect_identical(dir(dirname(lock)), character())
})

test_that("errors are recorded; they are computed again, or kept with their class and calls", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- counting(function(i) {
    if (i == 2) stop(errorCondition("no such thing", class = "my_error"))
    if (i == 3) tools::pskill(Sys.getpid(), 9L)
    i
  })
  map <- function(...) {
    suppressWarnings(counted_map(cl, 1:4, f, .journal = path, .on_error = "continue", ...))
  }
  first <- map()
  expect_identical(first$computed, 4L)
  rows <- journal_read(path)
  rows <- rows[order(rows$element), ]
  expect_identical(rows$state, c("done", "error", "died", "done"))
  expect_identical(rows$error, c(NA, "no such thing", NA, NA))
  expect_identical(map()$computed, 2L)
  kept <- map(.journal_errors = "keep")
  expect_identical(kept$computed, 1L) # who died is tried again
  expect_s3_class(kept$values[[2L]], "clutch_task_error")
  expect_s3_class(kept$values[[2L]]$parent, "my_error")
  expect_identical(kept$values[[2L]]$calls, first$values[[2L]]$calls)
  e <- task_error_of(suppressMessages(suppressWarnings(
    cluster_map(cl, 1:2, f, .journal = path, .journal_errors = "keep")
  )))
  expect_identical(e$element, 2)
})

test_that("what elements have said is said again", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- counting(function(i) {
    cat("out", i, "\n")
    if (i == 2) warning("careful")
    i
  })
  map <- function() {
    warnings <- character()
    out <- utils::capture.output(suppressMessages(withCallingHandlers(
      cluster_map(cl, 1:3, f, .journal = path),
      warning = function(w) {
        warnings <<- c(warnings, conditionMessage(w))
        invokeRestart("muffleWarning")
      }
    )))
    list(out, warnings)
  }
  parallel::clusterCall(cl, Sys.setenv, CLUTCH_TEST_COUNT = tempdir())
  first <- map()
  expect_length(grep("^out", first[[1L]]), 3L)
  expect_identical(map()[[2L]], first[[2L]])
  expect_identical(grep("^out", map()[[1L]], value = TRUE),
                   grep("^out", first[[1L]], value = TRUE))
})

test_that("values of each kind come back as they were", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  make <- workspace(function(i) {
    switch(i, NULL, 1L, c(a = 1.5), "Z\u00fcrich", NA, list(1, list("b")), data.frame(x = 1:3),
           factor("u"), function(x) x + 1, quote(a + b), as.raw(1:3), 1i, numeric(5e5) + 1,
           rep(c("long", NA), 1e5), lm(dist ~ speed, cars), as.Date("2026-01-01"), 1:1e6)
  })
  first <- cluster_map(cl, 1:17, make)
  suppressMessages({
    recorded <- cluster_map(cl, 1:17, make, .journal = path)
    again <- cluster_map(cl, 1:17, make, .journal = path)
  })
  expect_equal(recorded, first)
  expect_equal(again, first)
  expect_equal(journal_read(path, values = TRUE)$value[order(journal_read(path)$element)], first)
})

test_that("a torn end is cut off and said, and a flipped bit loses one element", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- counting(function(i) i + 0.25)
  counted_map(cl, 1:20, f, .journal = path)
  whole <- readBin(path, "raw", file.size(path))
  writeBin(utils::head(whole, -5L), path)
  # which element is lost is not known: it is that which was recorded last
  expect_message(suppressWarnings(cluster_map(cl, 100, f, .journal = path)), # counts nowhere
                 "last .* bytes were not whole")
  expect_identical(counted_map(cl, 1:20, f, .journal = path),
                   list(values = as.list(1:20 + 0.25), computed = 1L))
  whole <- readBin(path, "raw", file.size(path))
  bits <- sample(seq_len(8 * (length(whole) - 128L)), 30L)
  for (bit in bits) {
    at <- 128L + (bit - 1L) %/% 8L + 1L
    broken <- whole
    broken[[at]] <- xor(broken[[at]], as.raw(2^((bit - 1L) %% 8L)))
    writeBin(broken, path)
    x <- suppressWarnings(counted_map(cl, 1:20, f, .journal = path))
    expect_identical(x$values, as.list(1:20 + 0.25))
    expect_lte(x$computed, 1L)
  }
  writeBin(charToRaw("some other file, which is longer than the head of a journal is"), path)
  expect_error(cluster_map(cl, 1:2, f, .journal = path), "is no journal",
               class = "clutch_journal")
  expect_identical(file.size(path), 62)
})

test_that("a journal of another format is refused, and stays as it is", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  cluster_map(cl, 1:3, identity, .journal = path)
  whole <- readBin(path, "raw", file.size(path))
  whole[[8L]] <- charToRaw("2")
  writeBin(whole, path)
  uses <- list(function() cluster_map(cl, 1:3, identity, .journal = path),
               function() journal_read(path), function() journal_compact(path))
  for (use in uses) {
    e <- tryCatch(use(), error = identity)
    expect_s3_class(e, "clutch_journal")
    expect_match(conditionMessage(e), "format is one of another version of clutch", fixed = TRUE)
  }
  expect_identical(readBin(path, "raw", file.size(path) + 1), whole)
  expect_identical(list.files(dirname(path)), basename(path))
})

test_that("a full disk ends the map with its error, and what is there stays good", {
  skip_if_not(file.exists("/dev/full"))
  outside_checks_only()
  skip_if_not(Sys.info()[["effective_user"]] == "root")
  folder <- tempfile("small-")
  dir.create(folder)
  mounted <- system2("mount", c("-t", "tmpfs", "-o", "size=256k", "none", folder),
                     stdout = FALSE, stderr = FALSE)
  skip_if_not(mounted == 0L, "no small file system can be made here")
  on.exit({
    system2("umount", folder)
    unlink(folder, recursive = TRUE)
  }, add = TRUE)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- file.path(folder, "j")
  f <- workspace(function(i) rep(i + 0.5, 1000))
  e <- tryCatch(cluster_map(cl, 1:100, f, .journal = path), error = identity)
  expect_s3_class(e, c("clutch_journal", "clutch_error"), exact = FALSE)
  expect_match(conditionMessage(e), "what is in it is whole")
  expect_false(file.exists(paste0(path, ".lock")))
  kept <- journal_read(path, values = TRUE)
  expect_gt(nrow(kept), 10L)
  expect_equal(kept$value, lapply(kept$element, f))
  # on a larger disk the rest is computed
  larger <- new_journal()
  file.copy(path, larger)
  x <- suppressMessages(cluster_map(cl, 1:100, f, .journal = larger))
  expect_equal(x, lapply(1:100, f))
})

test_that("another session that writes is named; one that has ended leaves no lock", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  lock <- paste0(path, ".lock")
  script <- start_script(c(
    "cl <- make_cluster(1)",
    sprintf("cluster_map(cl, 1:2, function(i) Sys.sleep(60), .journal = %s)", deparse(path))
  ))
  on.exit(tools::pskill(script$pid, 9L), add = TRUE)
  expect_true(eventually(file.exists(lock) && length(readLines(lock)) == 1L))
  e <- tryCatch(cluster_map(cl, 1, identity, .journal = path), error = identity)
  expect_s3_class(e, c("clutch_journal_locked", "clutch_error"), exact = FALSE)
  expect_identical(e$pid, script$pid)
  expect_match(conditionMessage(e), e$host, fixed = TRUE)
  expect_error(journal_compact(path), class = "clutch_journal_locked")
  expect_identical(nrow(journal_read(path)), 0L) # to read is no problem
  tools::pskill(script$pid, 9L)
  expect_true(eventually(!alive(script$pid)))
  expect_identical(cluster_map(cl, 1, identity, .journal = path), list(1))
  expect_false(file.exists(lock))
  # of another host: alive while its file is touched
  writeLines("elsewhere 17 1234 -", lock)
  expect_error(cluster_map(cl, 1, identity, .journal = path), "host 'elsewhere'",
               class = "clutch_journal_locked")
  Sys.setFileTime(lock, Sys.time() - 120)
  expect_message(cluster_map(cl, 1, identity, .journal = path), "1 of 1")
  # and one whose process has another start, or of another boot
  writeLines(sub(" [0-9]+ ", sprintf(" %d ", Sys.getpid()), paste(unlist(
    utils::modifyList(clutch:::this_owner(), list(started = "1"))
  ), collapse = " ")), lock)
  expect_message(cluster_map(cl, 1, identity, .journal = path), "1 of 1")
  expect_identical(dir(dirname(path)), basename(path))
})

test_that("two maps of a session may share a journal", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  tasks <- lapply(1:4, function(i) cluster_submit(cl, i * 10, .journal = path))
  x <- suppressMessages(cluster_map(cl, 1:4, function(i) i, .journal = path))
  expect_identical(x, as.list(1:4))
  expect_identical(collect_all(tasks), as.list(1:4 * 10))
  expect_false(file.exists(paste0(path, ".lock")))
  n <- nrow(journal_read(path))
  expect_identical(n, 8L)
  tasks <- lapply(1:5, function(i) cluster_submit(cl, i * 10, .journal = path))
  expect_identical(collect_all(tasks), as.list(1:5 * 10))
  expect_identical(nrow(journal_read(path, all = TRUE)), 9L)
  task <- cluster_submit(cl, Sys.sleep(60), .journal = path)
  cancel(task)
  expect_false(file.exists(paste0(path, ".lock")))
})

test_that("submitted tasks have random numbers of their own, the same in the next session", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  run <- function() {
    new_session()
    tasks <- lapply(1:5, function(i) cluster_submit(cl, c(i, rnorm(1)), .journal = path))
    tasks <- c(tasks, lapply(1:2, function(i) cluster_submit(cl, rnorm(1), .journal = path)))
    collect_all(tasks)
  }
  first <- run()
  expect_identical(anyDuplicated(unlist(first)), 0L)
  expect_identical(run(), first)
  expect_identical(nrow(journal_read(path, all = TRUE)), 7L)
})

test_that("loops of foreach and mclapply() have a journal", {
  skip_if_not_installed("foreach")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  registerDoClutch(cl, journal = path)
  on.exit({
    registerDoClutch(cl)
    foreach::registerDoSEQ()
  }, add = TRUE)
  `%dopar%` <- foreach::`%dopar%`
  x <- foreach::foreach(i = 1:5, .combine = c) %dopar% sqrt(i)
  n <- nrow(journal_read(path, all = TRUE))
  expect_identical(n, 5L)
  y <- suppressMessages(foreach::foreach(i = 1:7, .combine = c) %dopar% sqrt(i))
  expect_identical(y, sqrt(1:7))
  expect_identical(nrow(journal_read(path, all = TRUE)), 7L)
  # where iterations come slowly, there is a job for each few of them
  last <- 0
  slow <- structure(list(nextElem = function() {
    if (last == 6) stop("StopIteration", call. = FALSE)
    Sys.sleep(0.15)
    last <<- last + 1
    last
  }), class = c("abstractiter", "iter"))
  suppressMessages(foreach::foreach(i = slow) %dopar% (i + 0.25))
  expect_setequal(journal_read(path)$element[8:13], 1:6)
  other <- new_journal()
  f <- function(i) i + 0.5
  suppressMessages({
    clutch::mclapply(1:3, f, mc.cores = 2, .journal = other)
    expect_identical(clutch::mclapply(1:4, f, mc.cores = 2, .journal = other),
                     as.list(1:4 + 0.5))
  })
  expect_identical(nrow(journal_read(other, all = TRUE)), 4L)
  end_own_cluster()
})

test_that("a journal is made shorter, and what counts stays", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  f <- counting(function(i) if (i == 2) stop("no") else i + 0.5)
  for (k in 1:3) {
    suppressWarnings(counted_map(cl, 1:3, f, .journal = path, .on_error = "continue"))
  }
  before <- journal_read(path)
  expect_identical(nrow(journal_read(path, all = TRUE)), 5L)
  expect_gt(journal_compact(path), 0)
  expect_identical(nrow(journal_read(path, all = TRUE)), 3L)
  same <- c("key", "map", "element", "state", "seconds", "error")
  expect_identical(journal_read(path)[same], before[same])
  expect_identical(counted_map(cl, c(1L, 3L), f, .journal = path)$computed, 0L)
  expect_identical(dir(dirname(path)), basename(path))
})

test_that("many records are written together when a journal is made shorter", {
  io <- "/proc/self/io"
  skip_if_not(file.access(io, 4L) == 0L)
  written <- function() as.numeric(sub(".*: ", "", grep("^syscw", readLines(io), value = TRUE)))
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  n <- 3000L
  cluster_map(cl, seq_len(n), identity, .journal = path)
  before <- written()
  journal_compact(path)
  # each of them was brought to the disk by itself, which took some milliseconds
  expect_lt(written() - before, n / 10)
  expect_identical(nrow(journal_read(path)), n)
})

test_that("a journal that is in use is not made shorter, and is given up all the same", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  task <- cluster_submit(cl, Sys.sleep(60), .journal = path)
  expect_error(journal_compact(path), class = "clutch_journal_locked")
  cancel(task)
  expect_false(file.exists(paste0(path, ".lock")))
})

test_that("bad input is an error before anything starts", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  bad <- function(...) expect_error(cluster_map(cl, 1, identity, ...), class = "clutch_argument")
  bad(.journal = 1)
  bad(.journal = "")
  bad(.journal = c("a", "b"))
  bad(.journal = file.path(tempfile(), "j"))
  bad(.journal = tempdir())
  path <- new_journal()
  bad(.journal = path, .journal_if_changed = "perhaps")
  bad(.journal = path, .journal_sync = -1)
  bad(.journal = path, .journal_errors = TRUE)
  expect_false(file.exists(path))
  expect_error(journal_read(tempfile()), class = "clutch_journal")
  expect_error(journal_read(1), class = "clutch_argument")
  expect_error(journal_read(tempdir()), "`path`: ", fixed = TRUE, class = "clutch_argument")
  expect_error(journal_compact(tempdir()), "`path`: ", fixed = TRUE, class = "clutch_argument")
  expect_identical(cluster_map(cl, list(), identity, .journal = path), list())
})

test_that("Ctrl-C leaves what was done, and the next call goes on", {
  path <- new_journal()
  lines <- c(
    sprintf("path <- %s", deparse(path)),
    "cl <- make_cluster(2)",
    "f <- function(i) { Sys.sleep(0.05); i }",
    "n <- 0",
    "x <- tryCatch(cluster_map(cl, 1:400, f, .journal = path), interrupt = function(e) NULL)",
    "cat('interrupted', is.null(x), '\\n')",
    "y <- cluster_map(cl, 1:40, f, .journal = path)",
    "cat('right', identical(y, as.list(1:40)), '\\n')"
  )
  script <- start_script(lines)
  expect_true(eventually(file.exists(path) && file.size(path) > 3000))
  tools::pskill(script$pid, 2L)
  expect_true(eventually(any(grepl("right", readLines(script$out))), 60))
  out <- readLines(script$out)
  expect_true(any(grepl("interrupted TRUE", out)))
  expect_true(any(grepl("right TRUE", out)))
  expect_true(grepl("of 40 elements were done", gsub("\\s+", " ", paste(out, collapse = " "))))
})

test_that("a copy of a journal goes on by itself", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- new_journal()
  copy <- file.path(dirname(path), "copy.journal")
  first <- workspace(function(i) i + 1)
  second <- workspace(function(i) i + 2)
  third <- workspace(function(i) i + 3)
  run <- function(f, path) {
    suppressMessages(cluster_map(cl, 1:2, f, .journal = path))
  }
  run(first, path)
  file.copy(path, copy)
  suppressMessages(cluster_map(cl, 1:2, second, .journal = path))
  suppressMessages(cluster_map(cl, 1:2, third, .journal = copy))
  maps <- function(path) unique(journal_read(path)$map)
  expect_match(maps(path), "second", all = FALSE)
  expect_match(maps(copy), "third", all = FALSE)
  expect_match(maps(path), "second", all = FALSE)
  expect_no_match(maps(path), "third")
})

test_that("what lies beside a journal with a similar name stays there", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  path <- file.path(dirname(new_journal()), "fits[1].journal")
  beside <- c(paste0(path, ".new"), paste0(path, ".new.lock"),
              file.path(dirname(path), "fits1.journal.lock"))
  for (file in beside) writeLines("elsewhere 17 1234 -", file)
  cluster_map(cl, 1:2, identity, .journal = path)
  journal_compact(path)
  expect_identical(journal_read(path)$element, c(1, 2))
  writeLines("no journal", path)
  expect_error(cluster_map(cl, 1:2, identity, .journal = path), class = "clutch_journal")
  expect_setequal(dir(dirname(path), full.names = TRUE), c(path, beside))
  expect_identical(vapply(beside, readLines, "", USE.NAMES = FALSE),
                   rep("elsewhere 17 1234 -", 3L))
})
