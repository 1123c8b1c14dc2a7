# future::plan(clutch). The scripts run with a newer future than Debian's, which lacks what the
# backend is made of. CLUTCH_FUTURE_LIBS may name libraries with other versions, parted by colons.

futures <- function() {
  newer <- newer_future()
  others <- strsplit(Sys.getenv("CLUTCH_FUTURE_LIBS"), ":", fixed = TRUE)[[1]]
  c(list(newer), lapply(others, c, newer))
}

test_that("plan(clutch) in all its ways", {
  for (lib in futures()) {
    s <- start_script(fixture = "future-plans", lib = lib, eventually = eventually)
    expect_done(s, 120)
    expect_true(ends(s))
  }
})

test_that("futures end as futures do, whatever ends them", {
  for (lib in futures()) {
    s <- start_script(fixture = "future-ends", lib = lib, eventually = eventually)
    expect_done(s, 120)
    expect_true(ends(s))
  }
})

test_that("futures that a journal has are not computed again", {
  for (lib in futures()) {
    s <- start_script(fixture = "future-journal", lib = lib)
    expect_done(s, 120)
    expect_true(ends(s))
  }
})

test_that("a future that fails leaves a copy of its node, which cluster_debug() opens", {
  for (lib in futures()) {
    s <- start_script(fixture = "future-debug", lib = lib)
    expect_done(s, 120)
    expect_true(ends(s))
  }
})

test_that("clutch() is not to be called, and says which future it needs", {
  skip_if_not_installed("future")
  old <- utils::packageVersion("future") < "1.40.0"
  expect_error(clutch(), class = if (old) "clutch_package" else "clutch_argument")
  if (!old) return()
  e <- tryCatch(future::plan(clutch, workers = 2), error = identity)
  expect_s3_class(e, "clutch_package")
  expect_match(conditionMessage(e), "needs package future 1.40.0 or newer")
  future::plan("sequential")
})

test_that("after an interrupt the nodes are free", {
  for (lib in futures()) {
    if (!dir.exists(file.path(lib[length(lib)], "future.apply"))) skip("needs future.apply")
    if (utils::packageVersion("future", lib) < "1.49.0") next # has no cancel()
    s <- start_script(fixture = "future-interrupt", lib = lib, eventually = eventually)
    expect_done(s, 120)
    expect_true(ends(s))
  }
})

test_that("a forked child that has another plan leaves its parent's workers alone", {
  linux_only()
  skip_if_not_installed("future")
  loadNamespace("future")
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  backend <- list2env(list(cluster = cl, pid = Sys.getpid(), workers = 1, reg = "clutch-test"))
  child <- parallel::mcparallel(clutch:::stop_workers(backend))
  expect_identical(parallel::mccollect(child)[[1L]], TRUE)
  expect_identical(cluster_map(cl, 1, identity), list(1))
})
