# write_trace(): the file is read by a parser of JSON, and has the fields that the format wants.

events_of <- function(x, file = tempfile(fileext = ".json")) {
  on.exit(unlink(file))
  expect_identical(write_trace(x, file), file)
  text <- readLines(file, encoding = "UTF-8", warn = FALSE)
  expect_true(all(validUTF8(text)))
  jsonlite::fromJSON(paste(text, collapse = "\n"), simplifyVector = FALSE)$traceEvents
}
kind <- function(events, ph, cat = NULL) {
  Filter(function(e) e$ph == ph && (is.null(cat) || startsWith(e$cat, cat)), events)
}
field <- function(events, name) sapply(events, `[[`, name)

test_that("each task is a complete event on its node's thread, and jobs have their names", {
  skip_if_not_installed("jsonlite")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  nap <- function(s) Sys.sleep(s)
  cluster_walk(cl, c(0.02, 0.01, 0.02, 0.01), nap)
  suppressWarnings(cluster_map(cl, 1:2, function(i) if (i == 2) stop("no"), .on_error = "continue"))
  x <- cluster_trace(cl)
  events <- events_of(x)
  for (e in events) expect_true(all(c("ph", "name", "pid", "tid", "args") %in% names(e)))
  tasks <- kind(events, "X", "task")
  expect_length(tasks, 6)
  expect_setequal(field(tasks, "ts"), round(1e6 * x$began, 3))
  expect_equal(sort(field(tasks, "dur")), sort(1e6 * x$run), tolerance = 1e-3)
  expect_setequal(unique(field(tasks, "tid")), unique(x$node))
  expect_identical(sum(field(tasks, "cat") == "task,failed"), 1L)
  expect_identical(sum(field(tasks, "name") == "cluster_walk(nap)"), 4L)
  first <- tasks[[which(x$element == 1 & x$job == x$job[1])[1]]]
  expect_setequal(names(first$args), c("job", "element", "attempt", "bytes", "end", "queue", "wire",
                                       "run", "relay"))
  jobs <- kind(events, "X", "job")
  expect_identical(field(jobs, "name")[1], "cluster_walk(nap)")
  expect_true(all(field(jobs, "pid") == 1))
  named <- kind(events, "M")
  names <- vapply(Filter(function(e) e$name == "thread_name", named), function(e) e$args$name, "")
  expect_true(all(c("node 1", "node 2", "node 1: answers") %in% names))
  processes <- Filter(function(e) e$name == "process_name", named)
  expect_length(processes, 2)
  # spans of one thread do not overlap, as the format wants
  spans <- Filter(function(e) e$pid > 1, kind(events, "X"))
  for (tid in unique(field(spans, "tid"))) {
    mine <- Filter(function(e) e$tid == tid, spans)
    from <- field(mine, "ts")
    to <- (from + field(mine, "dur"))[order(from)]
    expect_true(all(utils::head(to, -1) <= sort(from)[-1] + 0.01))
  }
  counted <- kind(events, "C")
  expect_setequal(unique(field(counted, "name")), c("queued tasks", "running tasks"))
  expect_true(all(vapply(counted, function(e) e$args$tasks >= 0, NA)))
})

test_that("labels with any characters, other hosts, and tasks that never began are written", {
  skip_if_not_installed("jsonlite")
  odd <- c("a \"quoted\" \\ back\\slash", "\u00e4\u20ac\U0001F600", "tab\tnew\nline\001",
           "</script>", "")
  x <- data.frame(job = 1:5, label = odd, element = 1, node = c(1, 2, 3, 1, 0),
                  host = c("alpha", "beta \"b\"", "alpha", "alpha", NA), attempt = 1, queued = 0,
                  sent = c(0, 0, 0, 1, NA), began = c(0.1, 0.1, 0.1, 1.1, 2),
                  ended = c(0.5, 0.5, 0.5, 1.5, 2), received = c(0.6, 0.6, 0.6, 1.6, 2), bytes = 1,
                  ok = c(TRUE, TRUE, TRUE, TRUE, FALSE), end = c(rep("ok", 4), "died"),
                  stringsAsFactors = FALSE)
  x <- structure(clutch:::with_phases(x), class = c("clutch_trace", "data.frame"), nodes = 3)
  events <- events_of(x)
  expect_identical(field(kind(events, "X", "task"), "name"), odd[1:4])
  processes <- Filter(function(e) e$name == "process_name", events)
  expect_identical(vapply(processes, function(e) e$args$name, ""),
                   c("session", "host alpha", "host beta \"b\""))
  expect_identical(field(kind(events, "X", "job"), "name"), c(odd[1:4], "job 5"))
  # jobs that overlap are on threads of their own
  lanes <- field(kind(events, "X", "job"), "tid")
  expect_identical(length(unique(lanes[1:3])), 3L)
  expect_length(kind(events_of(x[0, ]), "X"), 0)
})

test_that("what cannot be written is said", {
  expect_error(write_trace(1, "f.json"), class = "clutch_argument")
  x <- structure(data.frame(), class = c("clutch_trace", "data.frame"))
  for (bad in list(1, NA_character_, "", character(), c("a", "b")))
    expect_error(write_trace(x, bad), class = "clutch_argument")
})
