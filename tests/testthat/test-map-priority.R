# `.priority`: what is handed out first.

test_that("tasks with a higher priority are done first, then in the order of submission", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  folder <- tempfile("order")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE), add = TRUE)
  go <- file.path(folder, "go")
  log <- file.path(folder, "log")
  blocking <- cluster_submit(cl, {
    file.create(file.path(folder, "begun"))
    while (!file.exists(go)) Sys.sleep(0.01)
  })
  while (!file.exists(file.path(folder, "begun"))) Sys.sleep(0.01)
  note <- function(text, priority) {
    force(text)
    cluster_submit(cl, cat(text, "\n", sep = "", file = log, append = TRUE),
                   .priority = priority)
  }
  tasks <- list(note("a", 0), note("b", 0), note("low", -1), note("high", 5), note("higher", 7),
                note("high again", 5), note("c", 0))
  file.create(go)
  collect_all(tasks)
  expect_identical(readLines(log), c("higher", "high", "high again", "a", "b", "c", "low"))
})

test_that("a map with a priority comes before tasks that wait, and gives the same values", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  tasks <- lapply(1:100, function(i) cluster_submit(cl, Sys.sleep(0.1))) # 5 s
  values <- cluster_map_dbl(cl, 1:4, sqrt, .priority = 1)
  expect_identical(values, sqrt(1:4))
  expect_false(all(resolved(tasks)))
  for (task in tasks) cancel(task)
  for (where in list(cl, "here"))
    expect_identical(cluster_map(where, 1:3, identity, .priority = -2), list(1L, 2L, 3L))
  old <- options(clutch.priority = 3)
  on.exit(options(old), add = TRUE)
  expect_identical(collect(cluster_submit(cl, 1)), 1)
  options(clutch.priority = "first")
  expect_error(cluster_submit(cl, 1), "clutch.priority", class = "clutch_argument")
  options(old)
  for (bad in list("a", NA_real_, Inf, 0.5, 1001, 1:2, NULL))
    expect_error(cluster_map(cl, 1:2, sqrt, .priority = bad), class = "clutch_argument")
})
