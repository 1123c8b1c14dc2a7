# Packages that the fork server of the session's own cluster loads before it forks the nodes.

test_that("what takes long to load is loaded ahead, and only that", {
  skip_if_not_installed("nlme")
  ahead <- function(...) clutch:::packages_ahead(list(attach = character(), load = c(...)))
  expect_identical(ahead("nlme"), "nlme")
  expect_identical(ahead("stats", "tools", "splines"), character())
  expect_identical(ahead("R6"), character())
  expect_identical(ahead("no such package"), character())
  expect_identical(ahead("nlme", "R6", "stats"), c("nlme", "R6"))
  expect_identical(ahead(), character())
  old <- options(clutch.load_ahead = FALSE)
  on.exit(options(old))
  expect_identical(ahead("nlme"), character())
})

test_that("of a package of load_all() no installed version is loaded", {
  skip_if_not_installed("pkgload")
  folder <- tempfile("pkg-")
  dir.create(file.path(folder, "R"), recursive = TRUE)
  on.exit(unlink(folder, recursive = TRUE))
  about <- c("Package: clutchtrial", "Version: 0.1", "Title: T", "Description: D.",
             "License: GPL-2")
  writeLines(about, file.path(folder, "DESCRIPTION"))
  writeLines("f <- function() 1", file.path(folder, "R", "f.R"))
  pkgload::load_all(folder, quiet = TRUE)
  on.exit(pkgload::unload("clutchtrial"), add = TRUE, after = FALSE)
  expect_false(clutch:::is_installed_one("clutchtrial"))
})

# Whether each node had loaded it before its first task.
was_there <- function(cl) {
  look <- function(i) isNamespaceLoaded("nlme")
  environment(look) <- globalenv()
  unlist(parallel::clusterCall(cl, look, 1))
}

test_that("the first map of the session's own cluster has the package from its fork server", {
  linux_only()
  skip_if_not_installed("nlme")
  outside_checks_only()
  # a fork server that another file has left would be used as it is
  end_own_cluster()
  fork_server_stop()
  on.exit(stop_cluster())
  f <- function(i) class(nlme::gls(distance ~ age, data = nlme::Orthodont))
  environment(f) <- globalenv()
  expect_identical(cluster_map(NULL, 1, f), list("gls"))
  expect_true(all(was_there(clutch:::the$own$cl)))
  # what is made anew has it as well
  Sys.setenv(CLUTCH_TEST_X = "other")
  on.exit(Sys.unsetenv("CLUTCH_TEST_X"), add = TRUE)
  cluster_map(NULL, 1, sqrt)
  expect_true(all(was_there(clutch:::the$own$cl)))
})

test_that("mclapply() has it, too", {
  linux_only()
  skip_if_not_installed("nlme")
  outside_checks_only()
  if (!is.null(clutch:::the$pool)) clutch:::drop_own(clutch:::the$pool$cl)
  the <- clutch:::the
  the$pool <- NULL
  f <- function(i) class(nlme::gls(distance ~ age, data = nlme::Orthodont))
  expect_identical(clutch::mclapply(1:2, f, mc.cores = 2), list("gls", "gls"))
  expect_true(all(was_there(the$pool$cl)))
})

test_that("a package that starts threads is left to the nodes", {
  linux_only()
  skip_if_not_installed("nanonext")
  outside_checks_only()
  cl <- clutch:::start_own(1, "nanonext")
  on.exit(stop_cluster(cl))
  expect_identical(clutch:::info_of(cl)$strategy, "fork_server")
  there <- function() isNamespaceLoaded("nanonext")
  environment(there) <- globalenv()
  expect_identical(parallel::clusterCall(cl, there), list(FALSE))
})
