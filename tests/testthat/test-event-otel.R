# Spans of OpenTelemetry, where packages otel and otelsdk are there.

sdk <- "otelsdk" # not among the packages that are suggested: it takes long to compile
otel_lib <- Sys.getenv("CLUTCH_NEWER_LIB")
has_otel <- nzchar(otel_lib) && file.exists(file.path(otel_lib, sdk, "DESCRIPTION"))
needs_otel <- function() {
  skip_if_not(has_otel || requireNamespace(sdk, quietly = TRUE),
              "needs otelsdk (tools/deps.sh adapters)")
  for (p in c("otel", sdk)) {
    if (!isNamespaceLoaded(p)) loadNamespace(p, lib.loc = c(if (has_otel) otel_lib, .libPaths()))
  }
}
# A data frame of the spans that `code` makes, and what they are.
spans_of <- function(code) {
  traces <- getExportedValue(sdk, "with_otel_record")(code, what = "traces")$traces
  text <- function(name) vapply(traces, function(s) s[[name]], "", USE.NAMES = FALSE)
  spans <- data.frame(name = text("name"), id = text("span_id"), parent = text("parent"),
                      status = text("status"))
  spans$seconds <- vapply(traces, function(s) s$duration, 1)
  spans$start <- vapply(traces, function(s) as.numeric(s$start_time), 1)
  spans$about <- lapply(traces, function(s) s$attributes)
  spans$events <- lapply(traces, function(s) vapply(s$events, function(e) e$name, ""))
  spans
}
named <- function(spans, name) spans[spans$name == name, ]

test_that("a map is a span, and its elements in it, with their times; without a tracer none is", {
  needs_otel()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  cluster_map(cl, 1:4, identity)
  expect_false(clutch:::is_tracing())
  began <- as.numeric(Sys.time())
  spans <- spans_of(cluster_map(cl, c(a = 1, b = 2, c = 3), function(x) Sys.sleep(0.3)))
  map <- named(spans, "cluster_map")
  tasks <- named(spans, "task")
  expect_identical(nrow(map), 1L)
  expect_identical(tasks$parent, rep(map$id, 3L))
  expect_true(map$status != "error" && all(tasks$status != "error"))
  expect_true(all(tasks$seconds > 0.29 & tasks$seconds < map$seconds))
  expect_true(all(tasks$start > began & tasks$start + tasks$seconds < began + map$seconds + 1))
  about <- tasks$about
  expect_identical(sort(vapply(unname(about), function(a) a$clutch.element, 1)), c(1, 2, 3))
  expect_identical(unique(vapply(unname(about), function(a) a$clutch.host, "")), "localhost")
  expect_identical(map$about[[1L]]$clutch.nodes, 2)
  expect_identical(map$about[[1L]]$clutch.elements, 3)
  expect_length(clutch:::the$spans, 0L)
  expect_false(clutch:::the$has_spans)
  expect_false(clutch:::is_tracing())
})

test_that("values are those of a map without tracing, whatever variant and function", {
  needs_otel()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  all <- function() list(
    cluster_map_dbl(cl, 1:3, ~ .x + 1), cluster_map2(cl, c(a = 1), 2, `+`),
    cluster_pmap(cl, list(1:2, 3:4), function(a, b) a * b), cluster_imap(cl, c(x = 1), paste),
    cluster_map(cl, 1:2, function(x) rnorm(1), .seed = 1), cluster_map(cl, list(), identity)
  )
  without <- all()
  with <- NULL
  spans <- spans_of(with <- all())
  expect_identical(with, without)
  expect_identical(nrow(named(spans, "cluster_map")), 6L)
})

test_that("failures are errors of their spans, and deaths are events", {
  needs_otel()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  spans <- spans_of(task_error_of(cluster_map(cl, list(1, "a"), log)))
  expect_identical(named(spans, "cluster_map")$status, "error")
  expect_identical(sum(named(spans, "task")$status == "error"), 1L)

  spans <- spans_of(suppressWarnings(
    cluster_map(cl, list(1, "a", "b"), log, .on_error = "continue")
  ))
  map <- named(spans, "cluster_map")
  expect_identical(map$status, "error")
  expect_identical(map$about[[1L]]$clutch.failed, 2)

  die_once <- function(i) {
    if (i == 2 && clutch::task_attempt() == 1L) tools::pskill(Sys.getpid(), 9)
  }
  spans <- spans_of(cluster_map(cl, 1:3, die_once, .retries = 1))
  map <- named(spans, "cluster_map")
  expect_true(map$status != "error")
  expect_setequal(map$events[[1L]], c("clutch.death", "clutch.replacement", "clutch.retry"))
  expect_true(2 %in% vapply(named(spans, "task")$about, function(a) a$clutch.attempt, 1))
})

test_that("a death that is of no map is a span of its own", {
  needs_otel()
  cl <- make_cluster(1)
  on.exit(stop_cluster(cl))
  tools::pskill(pids(cl), 9)
  expect_true(eventually(cluster_status(cl)$state != "idle"))
  spans <- spans_of(try(parallel::clusterCall(cl, identity, 1), silent = TRUE))
  expect_identical(spans$name, "clutch.death")
  expect_identical(spans$status, "error")
  expect_identical(spans$about[[1L]]$clutch.node, 1)
})

test_that("submitted tasks are spans until they are collected or cancelled", {
  needs_otel()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  spans <- spans_of({
    task <- cluster_submit(cl, 1 + 1)
    failing <- cluster_submit(cl, log("a"), .label = "mine")
    slow <- cluster_submit(cl, Sys.sleep(60))
    expect_identical(collect(task), 2)
    task_error_of(collect(failing))
    cancel(slow)
  })
  submits <- named(spans, "cluster_submit")
  expect_identical(submits$status == "error", c(FALSE, TRUE, TRUE))
  expect_identical(submits$about[[2L]]$clutch.label, "mine")
  expect_true(all(named(spans, "task")$parent %in% submits$id))
  expect_length(clutch:::the$spans, 0L)
  expect_false(clutch:::the$has_spans)
})

test_that("starts are spans, and all are within what is active in the session", {
  needs_otel()
  spans <- spans_of({
    outer <- otel::start_local_active_span("outer", tracer = "user")
    cl <- make_cluster(1)
    cluster_map(cl, 1, identity)
    stop_cluster(cl)
    try(make_cluster(1, packages = "no.such.package"), silent = TRUE)
    outer$end()
  })
  outer <- named(spans, "outer")
  starts <- named(spans, "make_cluster")
  expect_identical(starts$parent, rep(outer$id, 2L))
  expect_identical(starts$status == "error", c(FALSE, TRUE))
  expect_identical(named(spans, "cluster_map")$parent, outer$id)
})

test_that("loops of foreach and futures are spans", {
  needs_otel()
  skip_if_not_installed("foreach")
  cl <- make_cluster(2)
  registerDoClutch(cl)
  on.exit({
    foreach::registerDoSEQ()
    stop_cluster(cl)
  })
  `%dopar%` <- foreach::`%dopar%`
  spans <- spans_of(x <- foreach::foreach(i = 1:5, .combine = c) %dopar% i^2)
  expect_identical(x, (1:5)^2)
  expect_identical(nrow(named(spans, "foreach")), 1L)
  expect_identical(nrow(named(spans, "task")), 5L)
})

test_that("of a large map no more tasks than the option says are spans", {
  needs_otel()
  cl <- make_cluster(2)
  on.exit(stop_cluster(cl))
  old <- options(clutch.trace_spans = 10)
  on.exit(options(old), add = TRUE)
  spans <- spans_of(cluster_map_int(cl, 1:5000, identity))
  expect_identical(nrow(named(spans, "task")), 10L)
  options(clutch.trace_spans = 0)
  expect_identical(spans_of(cluster_map_int(cl, 1:5, identity))$name, "cluster_map")
  options(clutch.trace_spans = "all") # it is looked at before anything is done
  expect_error(spans_of(cluster_map(cl, 1, function(i) stop("done"))),
               "option 'clutch.trace_spans'", class = "clutch_argument")
})

test_that("what a node traces belongs to its task, and that to the map", {
  skip_if_not(has_otel, "needs otelsdk (tools/deps.sh adapters)")
  skip_if_not_installed("jsonlite")
  folder <- tempfile()
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  old <- .libPaths()
  on.exit(.libPaths(old), add = TRUE)
  .libPaths(c(otel_lib, old)) # for the script
  s <- start_script(fixture = "otel-nodes", folder = folder)
  .libPaths(old)
  expect_done(s, 120)
  expect_identical(readLines(s$out), c(
    "strategy: fork_server ", # no thread of an exporter is in the fork server
    "session: make_cluster cluster_map cluster_submit cluster_map ",
    "node: mine mine mine mine task task task task task ",
    "in tasks: TRUE ", "in maps: TRUE ", "one trace each: TRUE ", "errors: 1 1 ", "done"
  ))
})

test_that("nodes of other hosts trace as the session's environment says", {
  needs_otel()
  skip_if_not_installed("jsonlite")
  libraries <- paste(c(if (has_otel) otel_lib, .libPaths()), collapse = ":")
  hosts <- hosts_or_skip("alpha", env = c(R_LIBS = libraries))
  file <- tempfile()
  on.exit({
    Sys.unsetenv(c("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_FILE"))
    expect_true(stop_hosts(hosts))
    unlink(file)
  })
  Sys.setenv(OTEL_TRACES_EXPORTER = "otlp/file", OTEL_EXPORTER_OTLP_TRACES_FILE = file)
  spans <- spans_of({
    cl <- make_cluster(hosts("alpha", ssh = c("ssh", "-F", hosts$config)))
    cluster_map(cl, 1:2, identity)
    stop_cluster(cl)
  })
  expect_setequal(spans$name, c("make_cluster", "cluster_map"))
  map <- named(spans, "cluster_map")
  expect_true(eventually(file.exists(file)))
  text <- function() paste(readLines(file, warn = FALSE), collapse = "")
  expect_true(eventually(lengths(regmatches(text(), gregexpr(map$id, text()))) == 2L))
})
