# A profile whose numbers are known: two nodes and the session.
made_profile <- function(memory = FALSE) {
  stacks <- list(
    calls = list(c(".f", "hot"), c(".f", "cold", "sort"), c(".f", "hot", "<GC>"), "cluster_map"),
    at = list(c("/a/b.R:3", "/a/b.R:1"), c("/a/b.R:4", "", ""), c("/a/b.R:3", "/a/b.R:1", ""), "")
  )
  samples <- data.frame(node = c(0L, rep(1L, 6), rep(2L, 3)),
                        stack = c(4L, 1L, 1L, 1L, 2L, 3L, 1L, 1L, 2L, 2L))
  if (memory) samples <- cbind(samples, memory = seq(10, 19), grown = c(0, rep(1, 9)))
  nodes <- data.frame(node = 0:2, host = c("localhost", "localhost", "other"), pid = 11:13,
                      samples = c(1L, 6L, 3L), cpu = c(0.01, 0.06, 0.06), note = c("", "", "late"))
  structure(list(value = 1, samples = samples, stacks = stacks, nodes = nodes, interval = 0.01,
                 elapsed = 1), class = "clutch_profile")
}

test_that("counts, shares and text", {
  p <- made_profile()
  s <- summary(p)
  expect_identical(s$name, c("hot", "sort", "<GC>", "cluster_map", ".f", "cold"))
  expect_identical(s$self, c(5, 3, 1, 1, 0, 0))
  expect_identical(s$total, c(6, 3, 1, 1, 9, 3))
  expect_identical(summary(p, node = 2)$self, c(2, 1, 0, 0))
  expect_identical(summary(p, "node")$name, c("node 1", "node 2", "session"))
  expect_identical(summary(p, "line")$name, c("/a/b.R:1", "/a/b.R:3", "/a/b.R:4"))
  d <- as.data.frame(p)
  expect_identical(sum(d$count), 10L)
  expect_equal(sum(d$seconds), 0.13)
  expect_identical(d$stack[d$node == 2L], c(".f;cold;sort", ".f;hot"))
  expect_snapshot(print(p))
  expect_snapshot(print(made_profile(TRUE), n = 2))
})

test_that("nodes that differ much are shown apart", {
  p <- made_profile()
  p$samples <- data.frame(node = rep(1:2, each = 100), stack = c(rep(1L, 90), rep(2L, 110)))
  expect_snapshot(print(p))
})

test_that("a function that calls itself counts once", {
  p <- made_profile()
  p$stacks$calls[[1L]] <- c(".f", "hot", "hot", "hot")
  p$stacks$at[[1L]] <- rep("", 4L)
  s <- summary(p)
  expect_identical(s$total[s$name == "hot"], 6)
})

test_that("speedscope's file has what its schema wants", {
  skip_if_not_installed("jsonlite")
  file <- tempfile(fileext = ".json")
  p <- made_profile()
  p$stacks$calls[[2L]][[3L]] <- "so\"rt\\ é"
  expect_identical(write_profile(p, file), file)
  x <- jsonlite::fromJSON(file, simplifyVector = FALSE)
  expect_identical(x[["$schema"]], "https://www.speedscope.app/file-format-schema.json")
  frames <- x$shared$frames
  names <- vapply(frames, function(f) f$name, "")
  known <- c("name", "file", "line", "col")
  expect_true(all(vapply(frames, function(f) all(names(f) %in% known), NA)))
  expect_true("so\"rt\\ é" %in% names)
  expect_identical(frames[[match("hot", names)]]$file, "/a/b.R")
  expect_length(x$profiles, 3L)
  expect_identical(vapply(x$profiles, function(q) q$name, ""),
                   c("session", "node 1 on localhost", "node 2 on other"))
  wanted <- c("type", "name", "unit", "startValue", "endValue", "samples", "weights")
  for (q in x$profiles) {
    expect_setequal(names(q), wanted)
    expect_identical(q$type, "sampled")
    expect_identical(q$unit, "seconds")
    expect_identical(length(q$samples), length(q$weights))
    expect_equal(q$endValue - q$startValue, sum(unlist(q$weights)))
    at <- unlist(q$samples)
    expect_true(all(at >= 0 & at < length(frames)))
  }
  # stacks begin with the outermost function; equal samples that follow each other are one
  one <- x$profiles[[2L]]
  expect_identical(names[unlist(one$samples[[1L]]) + 1L], c(".f", "hot"))
  expect_equal(unlist(one$weights), c(0.03, 0.01, 0.01, 0.01))
  write_profile(p, file, node = 2)
  expect_length(jsonlite::fromJSON(file, simplifyVector = FALSE)$profiles, 1L)
  unlink(file)
})

test_that("R and package profvis read the other format", {
  file <- tempfile(fileext = ".Rprof")
  write_profile(made_profile(), file)
  s <- summaryRprof(file)
  expect_equal(s$sample.interval, 0.013)
  expect_equal(s$by.self["\"hot\"", "self.pct"], 50)
  expect_equal(s$by.total["\"node_1@localhost\"", "total.pct"], 60)
  skip_if_not_installed("profvis")
  source <- tempfile(fileext = ".R") # profvis reads the source files
  writeLines(c("hot <- function() 1", "2", "hot()", "cold()"), source)
  for (memory in c(FALSE, TRUE)) {
    p <- made_profile(memory)
    p$stacks$at <- lapply(p$stacks$at, function(v) sub("/a/b.R", source, v, fixed = TRUE))
    write_profile(p, file)
    v <- profvis::profvis(prof_input = file)
    prof <- v$x$message$prof
    expect_identical(length(unique(prof$time)), 10L)
    expect_true(all(c("hot", "cold", "sort", "<GC>") %in% prof$label))
    expect_true(3L %in% prof$linenum[prof$label == "hot"]) # profvis tells where it was called
    expect_equal(v$x$message$interval, 13)
  }
  unlink(c(file, source))
})

test_that("bad arguments", {
  p <- made_profile()
  for (bad in list(NULL, 1, NA_character_, "", c("a", "b")))
    expect_error(write_profile(p, bad), "file", class = "clutch_argument")
  expect_error(write_profile(list(), "x"), "profile", class = "clutch_argument")
  expect_error(write_profile(p, "x", node = 9), "node", class = "clutch_argument")
})

test_that("boxes of the flame graph", {
  p <- made_profile()
  boxes <- function(...) clutch:::flame_boxes(p$stacks$calls, tabulate(p$samples$stack, 4L), ...)
  b <- boxes()
  width <- function(name, depth) {
    sum((b$right - b$left)[b$name == name & b$depth == depth])
  }
  expect_equal(width(".f", 1L), 9)
  expect_equal(width("hot", 2L), 6)
  expect_equal(width("<GC>", 3L), 1)
  expect_equal(width("cluster_map", 1L), 1)
  expect_identical(sum(b$name == "hot"), 1L)
  b <- boxes("hot")
  expect_identical(b$name, c("hot", "<GC>"))
  expect_equal(max(b$right), 6)
  expect_error(boxes("nobody"), "no samples", class = "clutch_argument")
  expect_error(boxes(1), "from", class = "clutch_argument")
})

test_that("a function that calls itself again and again has one box, however deep it is", {
  calls <- list(c(".f", rep("deep", 4)), c(".f", rep("deep", 90), "hot"), c(".f", "f", "f", "f"))
  b <- clutch:::flame_boxes(calls, c(1L, 1L, 1L))
  expect_identical(b$name, c(".f", "deep (recursive)", "f", "hot", "f", "f"))
  b <- clutch:::flame_boxes(calls, c(1L, 1L, 1L), "deep")
  expect_identical(b$name, c("deep (recursive)", "hot"))
})

test_that("the graph is drawn on small and large devices, with deep stacks and odd names", {
  p <- made_profile()
  p$stacks$calls[[1L]] <- c(".f", rep("deep", 300), "\u00e9\u4e2d", strrep("long", 200))
  p$stacks$at[[1L]] <- rep("", 303)
  old <- grDevices::dev.cur()
  old_options <- options(warn = 2) # what the device cannot write is no warning, and no error
  on.exit(options(old_options))
  for (size in list(c(3, 2), c(20, 10))) {
    grDevices::pdf(NULL, size[[1L]], size[[2L]])
    before <- graphics::par(c("mar", "mgp"))
    expect_identical(plot(p), p)
    expect_identical(graphics::par(c("mar", "mgp")), before)
    plot(p, node = 2, from = "cold", main = "t", xlab = "x")
    plot(p, node = 0)
    q <- p # of few samples, too, the graph has its width
    q$samples <- data.frame(node = 1L, stack = c(rep(1L, 5000), 2L))
    plot(q, from = "cold")
    grDevices::dev.off()
  }
  expect_identical(grDevices::dev.cur(), old)
  expect_error(plot(p, node = 5), "node", class = "clutch_argument")
})
