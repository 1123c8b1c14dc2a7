# plot(cluster_trace()): what is drawn, by the device's record of it.

drawn <- function(x, ...) {
  grDevices::pdf(NULL, width = 8, height = 4)
  on.exit(grDevices::dev.off())
  grDevices::dev.control("enable")
  plot(x, ...)
  calls <- lapply(grDevices::recordPlot()[[1L]], function(e) e[[2L]])
  named <- function(name) Filter(function(a) identical(a[[1L]]$name, name), calls)
  # arguments of C_rect: xleft, ybottom, xright, ytop, col, border
  rects <- do.call(rbind, lapply(named("C_rect"), function(a) {
    n <- length(a[[2L]])
    data.frame(left = a[[2L]], right = a[[4L]], height = a[[5L]] - a[[3L]],
               col = rep_len(a[[6L]], n), border = rep_len(a[[7L]], n))
  }))
  list(rects = rects, text = unlist(lapply(named("C_text"), function(a) a[[3L]])))
}
a_trace <- function(n, ok = TRUE, jobs = 1, span = 1) {
  x <- data.frame(job = rep_len(jobs, n), element = seq_len(n), node = rep_len(1:2, n), attempt = 1,
                  sent = 0,
                  began = (seq_len(n) - 1) / n * span, ended = seq_len(n) / n * span, bytes = 1,
                  ok = rep_len(ok, n))
  structure(x, class = c("clutch_trace", "data.frame"), nodes = 2L)
}
is_bar <- function(r) r$height > 0.5

test_that("failed tasks are told from others by colour and height, and the legend says so", {
  d <- drawn(a_trace(20, ok = c(rep(TRUE, 9), FALSE), jobs = c(1, 1, 2, 2)))
  bars <- d$rects[is_bar(d$rects), ]
  failed <- bars[bars$col == "black", ]
  expect_identical(nrow(failed), 2L)
  expect_true(all(failed$height > max(bars$height[bars$col != "black"])))
  expect_setequal(d$text, c("job 1", "job 2", "failed"))
  expect_null(drawn(a_trace(20))$text)
  expect_identical(drawn(a_trace(20), legend = TRUE)$text, "job 1")
  expect_identical(length(unique(clutch:::trace_colours(1:6, 1:6))), 6L)
  expect_identical(drawn(a_trace(20, jobs = 1:10))$text, c(paste("job", 1:6), "..."))
})

test_that("neighbours have an edge at any number of tasks", {
  for (n in c(10, 3000, 30000)) {
    x <- a_trace(n)
    d <- drawn(x)$rects
    d <- d[is_bar(d), ]
    expect_identical(nrow(d), as.integer(n))
    on_first <- d[match(x$began[x$node == 1], d$left), ]
    expect_true(all(on_first$col[-1] != on_first$col[-nrow(on_first)]))
  }
  # one failure among many is seen
  d <- drawn(a_trace(30000, ok = c(rep(TRUE, 29999), FALSE)))$rects
  expect_identical(d$border[d$col == "black" & is_bar(d)], "black")
  expect_identical(utils::tail(d$col, 1), "black")
})

test_that("the trace has each task, its summary the idle share, and it can be drawn", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  expect_identical(nrow(cluster_trace(cl)), 0L)
  cluster_map(cl, c(0.05, 0.01, 0.02), Sys.sleep)
  x <- cluster_trace(cl)
  expect_s3_class(x, c("clutch_trace", "data.frame"))
  expect_identical(sort(x$element), c(1, 2, 3))
  expect_true(all(x$ok) && all(x$ended >= x$began) &&
              all(x$ended[x$element == 1] - x$began[x$element == 1] >= 0.045))
  s <- summary(x)
  expect_true(s$idle >= 0 && s$idle <= 1 && s$tasks == 3L && s$failed == 0L)
  expect_output(print(s), "3 tasks, 0 failed")
  file <- tempfile(fileext = ".pdf")
  grDevices::pdf(file)
  plot(x)
  grDevices::dev.off()
  expect_gt(file.size(file), 1000)
})

test_that("the phases of a task follow each other, and together last from its job to its answer", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  cluster_walk(cl, c(0.03, 0.01, 0.02, 0.01, 0.01, 0.01), Sys.sleep, .chunk = 2)
  collect(cluster_submit(cl, Sys.sleep(0.02)))
  x <- cluster_trace(cl)
  plain <- as.data.frame(x)
  expect_identical(class(plain), "data.frame")
  expect_identical(names(plain), names(x))
  expect_setequal(names(attributes(plain)), c("names", "row.names", "class"))
  phases <- plain[c("queue", "wire", "run", "answer")]
  expect_true(all(phases >= 0))
  expect_equal(rowSums(phases), plain$received - plain$queued, ignore_attr = TRUE)
  expect_equal(plain$run, plain$ended - plain$began)
  expect_true(all(plain$run >= 0.009))
  # tasks of one node do not overlap, and what waits behind another queues
  for (k in 1:2) {
    y <- plain[plain$node == k, ]
    y <- y[order(y$began), ]
    expect_true(all(utils::head(y$ended, -1) <= y$began[-1] + 1e-9))
  }
  expect_gt(max(plain$queue), 0.009)
  expect_identical(plain$end, rep("ok", 7))
  expect_identical(unique(plain$label),
                   c("cluster_walk(Sys.sleep)", "cluster_submit(Sys.sleep(0.02))"))
})

test_that("tasks without an answer have only the phases that they have come to, and say why", {
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  f <- function(i) switch(i, 1, stop("no"), Sys.sleep(60), quit("no"))
  suppressWarnings(cluster_map(cl, 1:4, f, .on_error = "continue", .timeout = 1.5))
  x <- as.data.frame(cluster_trace(cl))
  x <- x[order(x$element), ]
  expect_identical(x$end, c("ok", "error", "timeout", "died"))
  expect_identical(x$ok, c(TRUE, FALSE, FALSE, FALSE))
  expect_true(all(is.na(x[4, c("wire", "run", "answer")])))
  expect_true(all(x$queue >= 0))
})

test_that("to write a large answer is no part of the next task", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  cluster_walk(cl, 1:2, function(i) NULL)
  # the second takes no time, and waits for the answer of the first, which is written once more
  r <- cluster_map(cl, 1:2, function(i) if (i == 1) stats::runif(3e6), .chunk = 2)
  x <- utils::tail(as.data.frame(cluster_trace(cl)), 2)
  expect_gt(x$wire[x$element == 2], x$run[x$element == 2])
})

test_that("the legend names the jobs, shortened where there are many", {
  x <- a_trace(20, jobs = c(1, 1, 2, 2))
  x$label <- ifelse(x$job == 1, "cluster_map(f)", strrep("long ", 20))
  text <- drawn(x)$text
  expect_identical(text[1], "job 1: cluster_map(f)")
  expect_match(text[2], "^job 2: long long .*\\.\\.\\.$")
  expect_lt(nchar(text[2]), 45)
})

test_that("a trace prints its first tasks, and how many more there are", {
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  expect_output(print(cluster_trace(cl)), "^trace of 0 tasks of 0 jobs$")
  cluster_walk(cl, 1, identity)
  expect_output(print(cluster_trace(cl)), "trace of 1 task of 1 job.*cluster_walk\\(identity\\)")
  cluster_walk(cl, 1:20, identity)
  x <- cluster_trace(cl)
  expect_output(expect_identical(print(x), x), "trace of 21 tasks of 2 jobs.*\\.\\.\\. and 11 more")
  expect_identical(length(capture.output(print(as.data.frame(x)[1:12, ]))),
                   length(capture.output(print(x, n = 12))) - 2L)
})

test_that("what is remembered are the last tasks, whatever the number of them", {
  old <- options(clutch.trace = 0)
  on.exit(options(old))
  ran <- c(paste(1, 1:300), paste(2, 1:400))
  for (most in c(0, 1, 100, 256, 257, 1000)) {
    options(clutch.trace = most)
    cl <- make_cluster(1)
    cluster_map(cl, 1:300, identity)
    cluster_map(cl, 1:400, identity)
    x <- cluster_trace(cl)
    stop_cluster(cl)
    expect_identical(paste(x$job, x$element), utils::tail(ran, most))
  }
})
