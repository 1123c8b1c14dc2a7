# Packages that the session finds, or has, and nodes that were there before do not.

# R CMD check would look for that package, if this were code.
by_name <- eval(str2lang("function(i) clutchtestlib::clutchtestlib_fun(i)"))
environment(by_name) <- globalenv()

# The library, in which the source is, too.
made_library <- function() {
  lib <- tempfile("library-")
  dir.create(lib)
  code <- c("clutchtestlib_fun <- function(x) hidden(x) + 1", "hidden <- function(x) 2 * x")
  install_made_package("clutchtestlib", code, lib, "export(clutchtestlib_fun)")
  lib
}

test_that("what .libPaths() is told after the start holds on nodes, replaced ones too", {
  lib <- made_library()
  before <- .libPaths()
  clusters <- lapply(c("fork_server", "spawn"), function(s) make_cluster(2, s))
  on.exit({
    lapply(clusters, stop_cluster)
    .libPaths(before)
    if (isNamespaceLoaded("clutchtestlib")) unloadNamespace("clutchtestlib")
    unlink(lib, recursive = TRUE)
  })
  for (cl in clusters) expect_identical(cluster_map_dbl(cl, 1:2, sqrt), sqrt(1:2))
  .libPaths(c(lib, before))
  fun <- getExportedValue("clutchtestlib", "clutchtestlib_fun")
  cluster_setup(clusters[[2L]], after <- "setup")
  # a part of a cluster first: the others are told, too
  for (cl in clusters) expect_identical(cluster_map(cl[1], 1, fun), list(3))
  for (cl in clusters) {
    expect_identical(cluster_map(cl[2], 1:3, fun), list(3, 5, 7))
    expect_identical(cluster_map(cl, 1:3, fun), list(3, 5, 7))
    expect_identical(collect(cluster_submit_call(cl, by_name, list(1))), 3)
    tools::pskill(pids(cl)[[1L]], tools::SIGKILL)
    expect_true(eventually(!alive(pids(cl)[[1L]])))
    expect_identical(cluster_map_dbl(cl, 1:20, function(i) {
      Sys.sleep(0.01)
      fun(i)
    }, .chunk = 1), 2 * 1:20 + 1)
  }
  expect_identical(unlist(parallel::clusterCall(clusters[[2L]], function() after)),
                   rep("setup", 2))
  # what nodes have been told besides stays
  parallel::clusterCall(clusters[[1L]], function(x) .libPaths(c(.libPaths(), x)), tempdir())
  .libPaths(before)
  expect_identical(cluster_map_dbl(clusters[[1L]], 1:2, fun), c(3, 5))
  kept <- cluster_map(clusters[[1L]], 1, function(i) .libPaths())[[1L]]
  expect_true(all(c(before, lib) %in% kept) && normalizePath(tempdir()) %in% normalizePath(kept))
})

test_that("a package that the session has from its source, and no copy: the error says it", {
  skip_if_not_installed("pkgload")
  lib <- made_library()
  on.exit({
    pkgload::unload("clutchtestlib")
    unlink(lib, recursive = TRUE)
  })
  pkgload::load_all(file.path(lib, "src", "clutchtestlib"), quiet = TRUE)
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl), add = TRUE)
  fun <- getExportedValue("clutchtestlib", "clutchtestlib_fun")
  attached <- function(i) clutchtestlib_fun(i)
  environment(attached) <- globalenv()
  calls <- list(fun, attached, by_name)
  for (f in calls) {
    expect_identical(cluster_map(cl, 1, f), list(3))
  }
  # as where a copy could not be written
  source <- clutch:::the$source
  source$packages$clutchtestlib$problem <- "the disk is full"
  source$number <- source$number + 1
  assign("source", source, envir = clutch:::the)
  for (f in calls) {
    expect_error(suppressWarnings(cluster_map(cl, 1, f)), "of its source: the disk is full",
                 fixed = TRUE, class = "clutch_task_error")
  }
})

test_that("objects of compiled code: the error says what to do", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  native <- get("C_rnorm", asNamespace("stats"))$address
  f <- function(i) .External(native, 1, 0, 1)
  expect_error(cluster_map(cl, 1, f), "`native` is an external pointer", class = "clutch_pointer")
  expect_error(cluster_map(cl, 1, f, .pointers = "allow"),
               "cannot be sent to a node.*make them on the nodes", class = "clutch_task_error")
})
