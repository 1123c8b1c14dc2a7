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
  # that it is dead is known a moment before how it ended
  expect_true(eventually(grepl("SIGKILL", cluster_status(cl)$state[2])))
  expect_snapshot(cl, transform = scrub)
  stop_cluster(cl)
  expect_snapshot(cl, transform = scrub)
})

# Each call, and the class and text of its error
show_errors <- function(...) {
  calls <- as.list(substitute(list(...)))[-1L]
  for (call in calls) {
    said <- tryCatch({
      eval(call, parent.frame())
      "no error"
    },
                     error = function(e) paste0("<", class(e)[[1L]], "> ", conditionMessage(e)))
    cat(deparse(call, 200L), "\n  ", scrub(said), "\n", sep = "")
  }
}

test_that("errors of arguments say what to do", {
  local_reproducible_output(unicode = FALSE)
  expect_snapshot(show_errors(
    make_cluster(0), make_cluster(-1), make_cluster(NA), make_cluster(2.5), make_cluster("a b"),
    make_cluster(character()),
    make_cluster(1e6), make_cluster(2, setup_timout = 3), make_cluster(2, strategy = "fork"),
    make_cluster(2, env = "A=1"),
    make_cluster(2, outfile = 7), make_cluster(2, setup_timeout = 0),
    make_cluster(c("localhost", "elsewhere"), strategy = "fork_server"), make_cluster(2, port = -1),
    cluster_status(1)))
})

# What is in the command besides is this machine's.
scrub_command <- function(lines) {
  lines <- gsub("CLUTCH_SECRET=[0-9a-f]{64}", "CLUTCH_SECRET=<secret>", scrub(lines))
  lines <- gsub("'[^' ]*/(Rscript|join\\.R)'", "'<path>/\\1'", lines)
  gsub("port [0-9]+", "port <port>",
       gsub("'PORT=[0-9]+'", "'PORT=<port>'", gsub("'LIB=[^']*'", "'LIB=<path>'", lines)))
}

test_that("a start over TCP that fails, and what is to be started by hand", {
  local_reproducible_output(unicode = FALSE)
  expect_snapshot(show_errors(
    make_cluster(1, "parallel", rscript_args = c("-e", "cat('it says why\n'); quit(status = 3)")),
    make_cluster(c("localhost", "127.0.0.2"), "parallel", manual = TRUE, setup_timeout = 0.2),
    make_cluster("elsewhere", master = "127.0.0.1", rshcmd = "no-such-program")),
    transform = scrub_command)
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
