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

# What "Trace Event Format" asks of each kind of event that Perfetto and chrome://tracing read; an
# empty vector: it is fine.
faults_of <- function(e) {
  is_text <- function(v) is.character(v) && length(v) == 1L && validUTF8(v)
  is_number <- function(v) is.numeric(v) && length(v) == 1L && is.finite(v)
  is_id <- function(v) is_number(v) && v == round(v) && v >= 0
  fields <- list(
    X = c("ph", "name", "cat", "pid", "tid", "ts", "dur", "args"),
    C = c("ph", "name", "pid", "tid", "ts", "args"), M = c("ph", "name", "pid", "tid", "args")
  )[[e$ph]]
  meta <- c(process_name = "name", thread_name = "name", process_sort_index = "sort_index",
            thread_sort_index = "sort_index")
  args <- e$args
  is_named <- length(args) == 0L || (!is.null(names(args)) && all(nzchar(names(args))))
  c(
    if (is.null(fields)) "no kind of event that is written",
    if (!setequal(names(e), fields)) "fields are missing, or there are others",
    if (anyDuplicated(names(e)) > 0L) "a field twice",
    if (!is_text(e$name) || !nzchar(e$name)) "name",
    if (!is.null(e$cat) && (!is_text(e$cat) || !nzchar(e$cat))) "cat",
    if (!is_id(e$pid) || !is_id(e$tid)) "pid or tid",
    if (e$ph != "M" && !(is_number(e$ts) && e$ts >= 0)) "ts", # Perfetto drops what is negative
    if (e$ph == "X" && (!is_number(e$dur) || e$dur < 0)) "dur",
    if (!is.list(args) || !is_named) "args",
    if (e$ph == "C" && !(length(args) > 0L && all(vapply(args, is_number, NA)))) "counter",
    if (e$ph == "M" && !identical(names(args), unname(meta[e$name]))) "metadata",
    if (e$ph == "M" && endsWith(e$name, "_name") && !is_text(args$name)) "name of metadata",
    if (e$ph == "M" && endsWith(e$name, "index") && !is_id(args$sort_index)) "index of metadata"
  )
}

# Of all together: processes and threads have one name each, those of events are named, no events
# are of flows or halves (b, e, s, f, B, E) that would need their other half, and spans of a thread
# are within each other or apart.
expect_valid <- function(events) {
  faults <- lapply(events, faults_of)
  expect_identical(unique(unlist(faults)), NULL)
  key <- function(es) vapply(es, function(e) paste(e$pid, e$tid), "")
  pid <- function(es) vapply(es, function(e) as.numeric(e$pid), 1)
  metadata <- kind(events, "M")
  is_named <- function(what) Filter(function(e) e$name == what, metadata)
  expect_identical(anyDuplicated(pid(is_named("process_name"))), 0L)
  expect_identical(anyDuplicated(key(is_named("thread_name"))), 0L)
  spans <- kind(events, "X")
  expect_true(all(pid(c(spans, kind(events, "C"))) %in% pid(is_named("process_name"))))
  of_nodes <- Filter(function(e) e$pid > 1, spans)
  expect_true(all(key(of_nodes) %in% key(is_named("thread_name"))))
  for (mine in split(spans, key(spans))) {
    from <- field(mine, "ts")
    to <- from + field(mine, "dur")
    o <- order(from, -to)
    open <- numeric()
    for (k in o) {
      open <- open[open > from[[k]] + 0.002]
      expect_true(all(to[[k]] <= open + 0.002))
      open <- c(open, to[[k]])
    }
  }
  # points of a counter in the order of time
  for (mine in split(kind(events, "C"), field(kind(events, "C"), "name"))) {
    expect_false(is.unsorted(field(mine, "ts")))
  }
}

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
  began <- 1e6 * (x$began - min(x$queued, attr(x, "memory")$time))
  expect_equal(sort(field(tasks, "ts")), sort(began), tolerance = 1e-6)
  expect_equal(sort(field(tasks, "dur")), sort(1e6 * x$run), tolerance = 1e-3)
  expect_setequal(unique(field(tasks, "tid")), unique(x$node))
  expect_identical(sum(field(tasks, "cat") == "task,failed"), 1L)
  expect_identical(sum(field(tasks, "name") == "cluster_walk(nap)"), 4L)
  first <- tasks[[which(x$element == 1 & x$job == x$job[1])[1]]]
  expect_setequal(names(first$args), c("job", "element", "attempt", "bytes", "end", "queue", "wire",
                                       "run", "answer"))
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
  of_memory <- grepl("^memory of node [12]$", field(counted, "name"))
  expect_setequal(unique(field(counted[!of_memory], "name")), c("queued tasks", "running tasks"))
  expect_true(all(vapply(counted[!of_memory], function(e) e$args$tasks >= 0, NA)))
  expect_identical(any(of_memory), clutch:::system_can("memory"))
  expect_true(all(vapply(counted[of_memory], function(e) e$args$MB >= 0, NA)))
  expect_valid(events)
})

test_that("every kind of event is as the format wants it, also of retries and deaths", {
  skip_if_not_installed("jsonlite")
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  gate <- tempfile()
  on.exit(unlink(gate), add = TRUE)
  suppressWarnings(cluster_map(cl, 1:6, function(i) {
    if (i == 3 && !file.exists(gate)) {
      file.create(gate)
      quit("no")
    }
    if (i == 5) stop("no")
    i
  }, .retries = 1, .on_error = "continue"))
  tasks <- lapply(1:3, function(i) cluster_submit(cl, Sys.sleep(0.01), .label = "a \"nap\""))
  collect_all(tasks)
  try(cluster_map(cl, 1:2, Sys.sleep, .timeout = 0.05, .more = list(), .globals = FALSE),
      silent = TRUE)
  cluster_map(cl, 1:2000, identity)
  expect_valid(events_of(cluster_trace(cl)))
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

test_that("tasks whose times are estimated do not overlap", {
  skip_if_not_installed("jsonlite")
  x <- data.frame(job = 1, label = "f", element = 1:3, node = c(1, 1, 2), host = "h", attempt = 1,
                  queued = 0, sent = 0, began = c(1e-6, 1.5e-6, 1e-6), ended = c(2e-6, 3e-6, 5e-6),
                  received = 1e-5, bytes = 1, ok = TRUE, end = "ok", stringsAsFactors = FALSE)
  x <- structure(clutch:::with_phases(x), class = c("clutch_trace", "data.frame"), nodes = 2)
  events <- events_of(x)
  expect_valid(events)
  expect_equal(field(kind(events, "X", "task"), "dur"), c(0.5, 1.5, 4))
})
