# What people read, word for word; numbers that change from run to run are scrubbed.
scrub <- function(lines) {
  lines <- gsub("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}", "<time>", lines)
  lines <- gsub("in [0-9.]+ m?s\\b", "in <duration>", lines)
  lines <- gsub("pid [0-9]+", "pid <pid>", lines)
  gsub("pids: [0-9, ]+", "pids: <pids>", lines)
}

test_that("clusters and nodes are printed", {
  local_reproducible_output(unicode = FALSE)
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  expect_snapshot(cl, transform = scrub)
  expect_snapshot(cl[[2]], transform = scrub)
  tools::pskill(cluster_status(cl)$pid[2], 9L)
  expect_true(eventually(startsWith(cluster_status(cl)$state[2], "dead")))
  expect_snapshot(cl, transform = scrub)
  stop_cluster(cl)
  expect_snapshot(cl, transform = scrub)
})

# Each call, and the class and text of its error
show_errors <- function(...) {
  calls <- as.list(substitute(list(...)))[-1L]
  for (call in calls) {
    said <- tryCatch({ eval(call, parent.frame()); "no error" },
                     error = function(e) paste0("<", class(e)[[1L]], "> ", conditionMessage(e)))
    cat(deparse(call, 200L), "\n  ", scrub(said), "\n", sep = "")
  }
}

test_that("errors of arguments say what to do", {
  local_reproducible_output(unicode = FALSE)
  expect_snapshot(show_errors(
    make_cluster(0), make_cluster(-1), make_cluster(NA), make_cluster(2.5), make_cluster("a b"), make_cluster(character()),
    make_cluster(1e6), make_cluster(2, setup_timout = 3), make_cluster(2, strategy = "fork"), make_cluster(2, env = "A=1"),
    make_cluster(2, outfile = 7), make_cluster(2, setup_timeout = 0), make_cluster(2, manual = TRUE), cluster_status(1)))
})

test_that("errors of calls name the node and what happened to it", {
  local_reproducible_output(unicode = FALSE)
  cl <- make_cluster(3)
  on.exit(stop_cluster(cl))
  die <- function(i) if (i == 2) tools::pskill(Sys.getpid(), 9L)
  expect_snapshot(show_errors(
    parallel::clusterApply(cl, 1:2, die),
    parallel::clusterCall(cl[2], identity, 1),
    parallel::clusterCall(cl[1], quit, "no", 3),
    parallel::clusterCall(cl[3], stop, "as base R says it"),
    stop_cluster(cl),
    parallel::clusterCall(cl[3], identity, 1)))
})
