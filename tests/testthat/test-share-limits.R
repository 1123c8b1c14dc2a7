# Large vectors in shared memory and what a process may have: memory of its own, promised memory,
# address space, descriptors.

shares <- function() testthat::skip_if_not(is_shared(share(numeric(1e5))), "no shared memory")
workspace <- function(f) {
  environment(f) <- globalenv()
  f
}

test_that("memory of a node counts what it has written to, and not what is shared", {
  linux_only()
  needs("memory")
  shares()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  x <- numeric(1.25e7) # 100 MB
  own <- function() unlist(cluster_status(cl)$memory)
  cluster_export(cl, "x", environment())
  read <- workspace(function() {
    gc() # writes to every page of cells: later collections copy no more of them
    sum(x) + x[[7L]]
  })
  parallel::clusterCall(cl, read)
  before <- own()
  parallel::clusterCall(cl, read)
  expect_lt(max(before), 60)
  expect_lt(max(own() - before), 10)
  parallel::clusterCall(cl[1L], workspace(function() {
    x[1:5e6] <<- 1 # in place: 40 MB
    NULL
  }))
  after <- own()
  expect_gt(after[[1L]], before[[1L]] + 35)
  expect_lt(after[[2L]], before[[2L]] + 10)
  # 250 MB of constants may be read under a limit of 230 MB, and not be written to
  big <- numeric(3.125e7)
  sums <- cluster_map_dbl(cl, 1:4, function(i) sum(big) + i, .max_memory = 230e6)
  expect_identical(sums, as.numeric(1:4))
  e <- tryCatch(cluster_map(cl, 1:2, function(i) {
    big[] <- i
    end <- Sys.time() + 10 # longer than it takes to be noticed
    while (Sys.time() < end) Sys.sleep(0.01)
    sum(big)
  }, .max_memory = 230e6), error = identity)
  expect_s3_class(e, "clutch_task_memory")
})

block <- 1e8
# So many blocks of what was dropped a node has at the most: then it collects.
most_blocks <- function() {
  lines <- grep("^(MemTotal|SwapTotal):", readLines("/proc/meminfo"), value = TRUE)
  machine <- sum(as.numeric(gsub("[^0-9]", "", lines))) * 1024
  ceiling(min(max(machine / 16, 3.1e8), 2e9) / block)
}
mapped_there <- workspace(function() {
  sum(grepl("clutch-data.*\\(deleted\\)$", readLines("/proc/self/maps")))
})
# How many a node has mapped after each of `times` exports of `x`, and `code` there
mapped_after <- function(cl, times, x, code = function() NULL) {
  code <- workspace(code)
  vapply(seq_len(times), function(i) {
    cluster_export(cl, "x", environment())
    parallel::clusterCall(cl, code)
    parallel::clusterCall(cl, mapped_there)[[1L]]
  }, 1L)
}

# A node that evaluates little runs no finalizers of its own accord.
test_that("a node gives back what was dropped as soon as it has collected for that", {
  linux_only()
  shares()
  most <- most_blocks()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  has <- mapped_after(cl, 2 * most, numeric(block / 8))
  expect_lte(max(has), most)
  expect_gt(max(has), 2L)
})

test_that("what share() has made comes again without a collection, until a node writes to it", {
  linux_only()
  shares()
  most <- most_blocks()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  x <- share(numeric(block / 8))
  has <- mapped_after(cl, 3 * most, x)
  expect_gt(max(has), most)
  has <- mapped_after(cl, 3 * most, x, function() {
    x[[1L]] <<- 1
    NULL
  })
  expect_lte(max(has[-seq_len(most)]), 2 * most) # then there is a full collection
})

# A page fault for each page of each result is 244.
test_that("results of 1 MB take memory that the session has freed before", {
  linux_only()
  needs("proc")
  skip_if_not(any(grepl("libc.so.6", readLines("/proc/self/maps"), fixed = TRUE)), "no GNU libc")
  s <- start_script(fixture = "results-of-1-mb")
  expect_true(said(s, "^faults=", 60))
  expect_lt(as.numeric(value_of(s, "faults")), 60)
})

# A script on a system whose setting `name` of its memory says `value`: a file that says so lies
# over its own.
start_where <- function(name, value, ...) {
  file <- tempfile()
  writeLines(value, file)
  over <- sprintf("mount --bind %s /proc/sys/vm/%s", shQuote(file), name)
  can <- system2("unshare", c("-m", "sh", "-c", shQuote(over)), stdout = FALSE, stderr = FALSE)
  testthat::skip_if_not(can == 0L, "no name space of its own to mount in")
  shell <- tempfile()
  writeLines(c("#!/bin/bash", paste0("exec unshare -m bash -c ", shQuote(paste(
    over, "&& exec", shQuote(file.path(R.home("bin"), "Rscript")), "\"$@\"")), " R \"$@\"")), shell)
  Sys.chmod(shell, "700")
  start_script(program = shell, ...)
}

# As if vm.overcommit_memory were 2
test_that("where memory is not promised twice a mapping is read, and copied to be written to", {
  linux_only()
  needs("proc") # by which it knows
  outside_checks_only()
  s <- start_where("overcommit_memory", "2", fixture = "share-counted")
  expect_done(s)
  for (k in c("read_only", "shared", "same", "changed", "in_place", "others", "back", "again")) {
    expect_identical(value_of(s, k), "TRUE", info = k)
  }
})

test_that("there, too, code that writes through a pointer changes its own copy only", {
  linux_only()
  needs("proc")
  outside_checks_only()
  s <- start_where("overcommit_memory", "2", fixture = "share-counted-put", lib = compiled("put"))
  expect_done(s)
  lines <- lines_of(s)
  expect_identical(grep("=FALSE$", lines, value = TRUE), character())
  expect_gte(length(grep("=TRUE$", lines)), 5L * if (getRversion() >= "4.6") 8L else 7L)
})

# Without that R itself can allocate nothing large once the mappings of a process are used up.
test_that("half of the mappings that a process may have are left to R", {
  linux_only()
  needs("proc")
  outside_checks_only()
  s <- start_where("max_map_count", "400", fixture = "share-many-mapped")
  expect_done(s)
  for (k in c("same", "mapped", "strings", "share", "node", "again")) {
    expect_identical(value_of(s, k), "TRUE", info = k)
  }
})

test_that("an address space that is too small for a mapping means the socket", {
  linux_only()
  outside_checks_only()
  shares()
  s <- start_limited("ulimit -v 900000", c(
    "cl <- make_cluster(1)", "x <- runif(1e7)", # 80 MB
    "told <- parallel::clusterCall(cl, function(v) {",
    "  held <<- list()",
    "  repeat {", # until there is no room for another
    "    more <- tryCatch(numeric(8e6), error = function(e) NULL)",
    "    if (is.null(more)) break",
    "    held[[length(held) + 1L]] <<- more",
    "  }",
    "  length(held)",
    "}, 0)[[1L]]",
    "told <- tryCatch(parallel::clusterCall(cl, sum, x)[[1L]], error = conditionMessage)",
    "cat('full=', is.numeric(told) || grepl('memory|allocate', told), '\\n', sep = '')",
    "parallel::clusterEvalQ(cl, { held <- NULL; gc(); NULL })",
    "told <- parallel::clusterCall(cl, function(v) c(sum(v), clutch::is_shared(v)), x)[[1L]]",
    "cat('sum=', identical(told, c(sum(x), 1)), '\\n', sep = '')",
    "stop_cluster(cl)", "cat('done\\n')"))
  expect_done(s, 120)
  expect_identical(value_of(s, "full"), "TRUE")
  expect_identical(value_of(s, "sum"), "TRUE")
})

test_that("what cannot be received for want of descriptors is an error that names it", {
  linux_only()
  outside_checks_only()
  shares()
  s <- start_limited("ulimit -n 300", fixture = "share-no-descriptors")
  expect_done(s)
  cause <- "large vector cannot be received: this process .* has used up its file descriptors"
  for (k in c("collect", "map", "node", "node_map", "node_task")) {
    expect_match(value_of(s, k), cause, info = k)
  }
  expect_match(value_of(s, "call"), paste0("^clutch_limit .*", cause))
  expect_match(value_of(s, "collect"), "^clutch_task_error .*on node")
  expect_identical(trimws(value_of(s, "several")), "FALSE TRUE") # the small result is there
  expect_identical(value_of(s, "pids"), "TRUE") # no node was lost
  expect_identical(trimws(value_of(s, "after")), "1000000 1000000")
})

test_that("in a control group with little memory, garbage is collected before it is full", {
  linux_only()
  outside_checks_only()
  shares()
  g <- memory_group(900)
  if (is.character(g)) skip(g)
  on.exit(expect_true(g$remove()))
  s <- start_limited(g$join, c(
    "cl <- make_cluster(2)", "x <- as.numeric(seq_len(5e6)) %% 997", # 40 MB
    "told <- vapply(1:20, function(k) {",
    "  all(unlist(lapply(parallel::clusterCall(cl, `+`, x, k), `[`, 3L)) == 3 + k)",
    "}, NA)",
    "cat('same=', all(told), '\\n', sep = '')",
    "stop_cluster(cl)", "cat('done\\n')"))
  expect_done(s, 120)
  expect_identical(value_of(s, "same"), "TRUE")
  expect_true(ends(s))
})
