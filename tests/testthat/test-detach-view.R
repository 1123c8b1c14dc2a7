# What is seen of a detached map, and a detached map as a promise.

workspace <- function(f) {
  environment(f) <- globalenv()
  f
}

# A map that waits for the file `go`.
waiting_map <- function(cl, go, ...) {
  f <- workspace(function(i, go) {
    while (!file.exists(go)) Sys.sleep(0.02)
    i
  })
  cluster_map(cl, 1:3, f, go = go, .journal = journal_file(), .detach = TRUE, ...)
}

is_busy_there <- function(job) {
  stacks <- tryCatch(cluster_stacks(job), clutch_stopped = function(e) NULL)
  sum(stacks$state == "busy") == 2L && all(lengths(stacks$stack[stacks$state == "busy"]) > 0L)
}

expect_nothing_to_see <- function(job) {
  for (look in list(cluster_stacks, cluster_top, function(x) cluster_dashboard(x, open = FALSE))) {
    expect_error(look(job), "the map 'fits'", class = "clutch_stopped")
  }
}

test_that("stacks, cluster_top() and the dashboard show a detached map", {
  linux_only()
  outside_checks_only()
  skip_if_not_installed("httpuv")
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  go <- tempfile()
  job <- waiting_map(2, go)
  expect_true(eventually(is_busy_there(job)))
  expect_true(eventually({ # now and then it is in file.exists()
    stacks <- cluster_stacks(job)
    any(grepl("Sys.sleep", unlist(stacks$stack[stacks$state == "busy"]), fixed = TRUE))
  }))
  shown <- capture.output(cluster_top(job))
  expect_match(shown, "busy", all = FALSE)
  expect_match(shown, "cluster_map(f)", fixed = TRUE, all = FALSE)
  page <- cluster_dashboard(job, open = FALSE)
  expect_identical(cluster_dashboard(job, open = FALSE)$url, page$url)
  site <- sub("/$", "", sub("[?].*$", "", page$url))
  html <- readLines(page$url, warn = FALSE)
  expect_match(html, "clutch", all = FALSE)
  expect_match(page$url, "^http://127[.]0[.]0[.]1:")
  # another session has no need of the handle that this one has
  other <- cluster_attach("fits")
  expect_true(eventually(is_busy_there(other)))
  file.create(go)
  expect_identical(collect(other, timeout = 60), list(1L, 2L, 3L))
  expect_nothing_to_see(job)
  expect_true(eventually(grepl("there is nothing to see of the map 'fits': it is gone",
                               tryCatch(cluster_stacks(job), clutch_stopped = conditionMessage),
                               fixed = TRUE)))
  expect_true(eventually(inherits(suppressWarnings(tryCatch(readLines(page$url, warn = FALSE),
                                                            error = identity)), "error")))
})

test_that("without a fork server a detached map has stacks, but no dashboard", {
  needs("proc")
  outside_checks_only()
  skip_if_not_installed("httpuv")
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  go <- tempfile()
  cl <- make_cluster(2, strategy = "parallel")
  on.exit(stop_cluster(cl), add = TRUE, after = FALSE)
  job <- waiting_map(cl, go)
  expect_true(eventually({
    stacks <- tryCatch(cluster_stacks(job), clutch_stopped = function(e) NULL)
    sum(stacks$state == "busy") == 2L
  }))
  expect_error(cluster_dashboard(job, open = FALSE), "no fork server", class = "clutch_limit")
  file.create(go)
  expect_identical(collect(job, timeout = 60), list(1L, 2L, 3L))
})

test_that("a detached map becomes a promise", {
  linux_only()
  outside_checks_only()
  skip_if_not_installed("promises")
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  got <- list()
  job <- cluster_map_dbl(2, c(a = 1, b = 4), sqrt, .journal = journal_file(), .detach = TRUE)
  expect_true(promises::is.promising(job))
  fails <- cluster_map(2, 1:2, workspace(function(i) stop("no ", i)), .journal = journal_file(),
                       .detach = "fails")
  promises::then(promises::as.promise(job), function(v) got$value <<- v)
  promises::catch(promises::as.promise(fails), function(e) got$error <<- e)
  for (i in 1:600) {
    if (length(got) == 2L) break
    later::run_now(0.1)
  }
  expect_identical(got$value, c(a = 1, b = 2))
  expect_match(conditionMessage(got$error), "no [12]")
  expect_identical(nrow(cluster_jobs()), 0L)
})

test_that("elements of a detached map ask for cores and units", {
  linux_only()
  outside_checks_only()
  folder <- new_jobs_folder()
  on.exit(end_jobs(folder))
  cl <- make_cluster(2, resources = list(gpu = c("a", "b")))
  on.exit(stop_cluster(cl), add = TRUE)
  f <- workspace(function(i) {
    Sys.sleep(0.1)
    clutch::task_resources()$gpu
  })
  job <- cluster_map(cl, 1:6, f, .needs = list(gpu = 1), .journal = journal_file(), .detach = TRUE)
  expect_setequal(unlist(collect(job, timeout = 60)), c("a", "b"))
  expect_error(cluster_map(cl, 1, f, .needs = list(gpu = 3), .journal = journal_file(),
                           .detach = "too-many"), class = "clutch_resources")
  none <- cluster_map(cl, list(), f, .needs = list(gpu = 1), .journal = journal_file(),
                      .detach = "none")
  expect_identical(collect(none, timeout = 60), list())
})
