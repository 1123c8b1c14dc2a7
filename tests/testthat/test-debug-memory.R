# cluster_debug() of elements that were ended for their memory.

linux_only()
needs("memory")

local_options <- function(..., env = parent.frame()) {
  old <- options(...)
  do.call(on.exit, list(substitute(options(old), list(old = old)), add = TRUE), envir = env)
}

# Takes 8 MB after the other, up to 800 MB.
take <- function(id, most = 100) {
  taken <- list()
  for (i in seq_len(most)) taken[[i]] <- rep(as.double(i), 1e6)
  length(taken)
}
environment(take) <- globalenv()

over_limit <- function(cl, f = take, x = 1:3, ...) {
  tryCatch(cluster_map(cl, x, f, .max_memory = 200e6, ...), clutch_task_memory = identity)
}

folders_of <- function(cl) unique(clutch:::info_of(cl)$tasks$copies)

test_that("a node that is over its limit leaves a copy, which outlives it", {
  local_options(clutch.frozen = 4)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  before <- pids(cl)
  e <- over_limit(cl, x = 7)
  expect_s3_class(e, "clutch_task_memory")
  expect_identical(cluster_map_int(cl, 1:3, function(i) i), 1:3)
  expect_false(identical(pids(cl), before))
  expect_match(cluster_debug(e)[[1L]], "FUN")
  expect_identical(cluster_debug(e, 1, quote(id)), 7)
  # as many as the limit has room for
  n <- cluster_debug(e, 1, quote(length(taken)))
  expect_gt(n, 15)
  expect_lt(n, 60)
  expect_identical(cluster_debug(e, 1, quote(taken[[5]][[1e6]])), 5)
  # the end of all nodes leaves it alone
  tools::pskill(pids(cl), 9L)
  expect_identical(cluster_map_int(cl, 1:3, function(i) i), 1:3)
  expect_identical(cluster_debug(e, 1, quote(id)), 7)
  f <- folders_of(cl)
  expect_true(all(dir.exists(f)))
  stop_cluster(cl)
  expect_false(any(dir.exists(f)))
  expect_error(cluster_debug(e), class = "clutch_gone")
})

test_that("one of a map is kept; it ends when nobody has its error any more", {
  local_options(clutch.frozen = 4)
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl), add = TRUE)
  x <- suppressWarnings(over_limit(cl, .on_error = "continue", .chunk = 1))
  expect_true(all(vapply(x, inherits, NA, "clutch_task_memory")))
  with_copy <- !vapply(x, function(e) is.null(e$failure$copy), NA)
  expect_identical(sum(with_copy), 1L)
  place <- folders_of(cl)
  expect_length(place, 1L)
  # the last failure is remembered
  e <- tryCatch(cluster_map(cl, 1, function(i) stop("other")), error = identity)
  rm(x, e)
  gc()
  cluster_map(cl, 1:2, identity)
  expect_true(eventually({
    gc()
    !dir.exists(place)
  }))
})

test_that("two clusters of a session have each their own", {
  local_options(clutch.frozen = 4)
  cl <- list(make_cluster(1), make_cluster(1))
  on.exit(lapply(cl, stop_cluster), add = TRUE)
  e <- lapply(cl, over_limit, x = 7)
  place <- vapply(cl, folders_of, "")
  expect_identical(anyDuplicated(place), 0L)
  expect_true(all(nchar(basename(place)) <= 16L)) # paths of sockets must not be long
  for (k in 1:2) expect_identical(cluster_debug(e[[k]], 1, quote(id)), 7)
  # what the first has worked with is forgotten, and its copy ends alone
  tryCatch(cluster_map(cl[[2]], 1, function(i) stop("other")), error = identity)
  e[[1]] <- 0
  expect_true(eventually({
    gc()
    !dir.exists(place[[1]])
  }))
  expect_identical(cluster_debug(e[[2]], 1, quote(id)), 7)
})

test_that("none is made where none is wanted, and interrupts of the user's are no way out", {
  local_options(clutch.frozen = 0)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  e <- over_limit(cl)
  expect_s3_class(e, "clutch_task_memory")
  expect_error(cluster_debug(e), class = "clutch_gone")
  options(clutch.frozen = 4)
  f <- function(id) {
    tryCatch(take(id), interrupt = function(c) "got away")
  }
  e <- over_limit(cl, f, 7, .globals = list(take = take))
  expect_s3_class(e, "clutch_task_memory")
  # code that hears of no interrupt
  g <- function(id) suspendInterrupts(take(id))
  e <- over_limit(cl, g, 7, .globals = list(take = take))
  expect_s3_class(e, "clutch_task_memory")
  expect_identical(cluster_map_int(cl, 1:3, function(i) i), 1:3)
})

test_that("it ends with its fork server", {
  outside_checks_only()
  s <- start_script(c(
    "options(clutch.frozen = 4)", "cl <- make_cluster(1)",
    sprintf("take <- %s", paste(deparse(take), collapse = "\n")),
    "e <- tryCatch(cluster_map(cl, 1, take, .max_memory = 200e6), error = identity)",
    "cat('pid', cluster_debug(e, 1, quote(Sys.getpid())), '\\n')", "Sys.sleep(60)"
  ))
  on.exit(tools::pskill(s$pid, 9L))
  said <- function() grep("^pid", readLines(s$out, warn = FALSE), value = TRUE)
  expect_true(eventually(length(said()) == 1L, 30))
  pid <- as.integer(gsub("[^0-9]", "", said()))
  expect_true(alive(pid))
  tools::pskill(s$pid, 9L)
  expect_true(eventually(!alive(pid), 10))
})
