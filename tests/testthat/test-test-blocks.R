# cluster_test(blocks = TRUE): a long test file in several processes.

# It takes 1.2 s: four blocks, and code outside of them that each part runs.
long_file <- function(pids) {
  tell <- sprintf("cat(Sys.getpid(), '\\n', file = '%s', append = TRUE)", pids)
  c("cat('outside\\n')", "three <- 3", "helping <- function() 4",
    "test_that('first', {", tell, "  cat('in the first\\n')", "  Sys.sleep(0.3)",
    "  expect_equal(add(1, 2), three)", "})",
    "warning('careful')",
    "test_that('second', {", tell, "  Sys.sleep(0.3)", "  expect_equal(add(1, 2), helping())", "})",
    "test_that('third', {", tell, "  Sys.sleep(0.3)", "  skip('not now')", "})",
    "three <- 4",
    "test_that('fourth', {", tell, "  Sys.sleep(0.3)", "  stop('oops')", "})")
}

short <- "test_that('short', expect_true(TRUE))"

# For each test what is told of it, with its lines.
told <- function(results) {
  lapply(results, function(x) {
    list(x$file, x$test, lapply(x$results, function(e) {
      list(class(e), conditionMessage(e), as.integer(e$srcref))
    }))
  })
}

test_that("a long file runs in several processes, and is told as one", {
  skip_if_not_installed("pkgload")
  pids <- tempfile("pids")
  on.exit(unlink(pids), add = TRUE)
  root <- new_package(list("test-a.R" = short, "test-b.R" = long_file(pids), "test-c.R" = short))
  run <- function(...) {
    unlink(pids)
    output <- utils::capture.output({
      r <- cluster_test(root, nodes = 2, reporter = "location", stop_on_failure = FALSE, ...)
    })
    list(told = told(r), found = found_in(r), output = output,
         n = length(unique(readLines(pids))))
  }
  whole <- run()
  expect_identical(whole$n, 1L)
  known <- clutch:::known_times(clutch:::suite_of(root, NULL, NULL))
  parts <- run(blocks = TRUE)
  expect_gt(parts$n, 1L)
  same <- c("told", "found", "output")
  expect_identical(parts[same], whole[same])
  expect_identical(sum(parts$output == "outside"), 1L)
  # the time is that of all parts
  again <- clutch:::known_times(clutch:::suite_of(root, NULL, NULL))
  expect_setequal(names(again), names(known))
  expect_gt(again[["test-b.R"]], 1.2)
})

test_that("a part that crashes is the failure of its test", {
  skip_if_not_installed("pkgload")
  pids <- tempfile("pids")
  on.exit(unlink(pids), add = TRUE)
  crash <- "test_that('crash', { Sys.sleep(0.3); if (file.exists(marker)) quit(status = 3) })"
  marker <- tempfile("marker")
  on.exit(unlink(marker), add = TRUE)
  root <- new_package(list("test-b.R" = c(sprintf("marker <- '%s'", marker), long_file(pids), crash,
                                          "test_that('last', expect_true(TRUE))")))
  utils::capture.output(tested(root))
  file.create(marker)
  utils::capture.output(r <- tested(root, blocks = TRUE))
  found <- found_in(r)
  found <- found[!is.na(found$test), ]
  expect_identical(found$test[1:5], c("first", "second", "third", "fourth", "crash"))
  expect_identical(found$error[1:5], c(FALSE, FALSE, FALSE, TRUE, TRUE))
  expect_match(conditionMessage(r[[which(as.data.frame(r)$test %in% "crash")]]$results[[1L]]),
               "exit status 3")
})

test_that("a file is divided only by calls of test_that() that stand alone", {
  count <- function(...) {
    path <- tempfile(fileext = ".R")
    on.exit(unlink(path))
    writeLines(c(...), path)
    clutch:::count_blocks(path)
  }
  two <- c("test_that('a', expect_true(TRUE))", "test_that('b', { expect_true(TRUE) })")
  expect_identical(count(two), 2L)
  expect_identical(count("x <- 1", two, "library(stats)"), 2L)
  expect_identical(count(two, "test_that('c', expect_snapshot(1))"), 0L)
  expect_identical(count(two, "see <- function() expect_snapshot_value(1)"), 0L)
  expect_identical(count(two, "for (i in 1:3) test_that('c', expect_true(TRUE))"), 0L)
  expect_identical(count(two, "describe('c', { it('d', expect_true(TRUE)) })"), 0L)
  expect_identical(count(two, "skip_on_cran()"), 0L)
  expect_identical(count(two, "expect_true(TRUE)"), 0L)
  expect_identical(count("this is (no code"), 0L)
})

test_that("only what takes longer than the share of a core is divided", {
  pids <- tempfile("pids")
  root <- new_package(list("test-a.R" = long_file(pids), "test-b.R" = long_file(pids)))
  s <- clutch:::suite_of(root, NULL, NULL)
  s[c("nodes", "blocks")] <- list(2, TRUE)
  parts <- function(...) {
    all <- clutch:::all_times()
    all[[s$dir]] <- c(...)
    clutch:::write_times(all)
    lapply(clutch:::blocks_of_files(s, c("test-a.R", "test-b.R")), lengths)
  }
  expect_identical(parts(), list(0L, 0L))
  expect_identical(parts(`test-a.R` = 1, `test-b.R` = 1), list(0L, 0L))
  expect_identical(parts(`test-a.R` = 9, `test-b.R` = 1), list(c(1L, 1L, 1L, 1L), 0L))
  expect_identical(parts(`test-a.R` = 0.8, `test-b.R` = 0.1), list(c(2L, 2L), 0L))
  expect_error(cluster_test(root, blocks = NA), class = "clutch_argument")
})
