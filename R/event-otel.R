# OpenTelemetry: spans for starts of clusters, maps, submitted tasks and what is done for them, by
# package otel, where that is set up.
#
# A span of ours is an environment with
#   otel     the span of package otel
#   t        the tasks of its cluster; NULL: no job of it has begun
#   cluster, job     their numbers; of several jobs that of the last
#   failed   so many of its tasks
#   problem  what has ended it
# and is in the$spans while its jobs go on, so that events are added to it. the$has_spans tells
# whether there are any, where a search in them would be felt.

#' Spans of OpenTelemetry
#'
#' Where package \pkg{otel} is set up to trace, this package makes spans of what a cluster does.
#' Nothing has to be turned on here. Where nothing is traced, nothing is made.
#'
#' Set up is done by environment variables, before R starts or before package otel is first used,
#' for example `OTEL_TRACES_EXPORTER=otlp` with package \pkg{otelsdk}, see its help.
#'
#' @section Spans: Their scope is `r.package.clutch`.
#'   * `make_cluster`: the start of a cluster.
#'   * `cluster_map`: a map, of whatever function of this package. In it, a span `task` for each of
#'     its elements.
#'   * `foreach`: a loop of [registerDoClutch()], likewise.
#'   * `cluster_submit`: a submitted task or a future, from when it was submitted until its value or
#'     error was asked for, and in it a span `task`.
#'
#'   They are children of the span that is active in the session. Their status is an error where
#'   something has failed: then attribute `clutch.failed` is the number of elements. Deaths,
#'   replacements, retries and exceeded limits are events of the spans whose cluster they concern;
#'   while there is none, each is a span of its own, `clutch.death` and so on. Attributes begin
#'   with `clutch.`.
#' @section On the nodes: What code traces on a node belongs to the span `task` that it runs in.
#'   * Where the session's environment names an exporter (`OTEL_TRACES_EXPORTER` or
#'     `OTEL_R_TRACES_EXPORTER`), the nodes make the spans `task`, and what they run nests there.
#'     The `OTEL_` variables of the session travel to the nodes, also of other hosts, where package
#'     otelsdk has to be installed. A node that is killed loses its last spans, as far as its
#'     exporter has not sent them yet: `OTEL_BSP_SCHEDULE_DELAY`, by default 5 s.
#'   * Where a program has set a provider for the session only, spans `task` are made there, of what
#'     [cluster_trace()] remembers, when a map has ended: with their times, their node and host, and
#'     attempt. Of a map no more than option `clutch.trace_spans` has, the last ones, see
#'     [clutch-options].
#'
#'   The provider of a node is made in the node, so its threads do not hinder forks. If a package in
#'   `packages` or the expression of `preload` makes one, the cluster falls back to strategy
#'   `"spawn"`, as with other threads.
#' @seealso [clutch-log], [cluster_trace()]
#' @examples
#' if (requireNamespace("otel", quietly = TRUE)) {
#'   print(otel::is_tracing_enabled()) # whether there is somebody to record spans
#'   cl <- make_cluster(2)
#'   cluster_map(cl, 1:3, sqrt)
#'   stop_cluster(cl)
#' }
#' @name clutch-otel
NULL

# ---- whether ----

# the$otel is NULL where package otel is neither loaded nor wanted, else the environment in which it
# has its provider, or this one, until that is known.
otel_unknown <- new.env(parent = emptyenv())

# Tells whether spans are made. Where package otel is set up for nothing its provider is a list, and
# other providers are environments. (The same is written out where a call of this function would be
# felt: bench/otel.R.)
is_tracing <- function() {
  !is.null(otel <- the$otel) && !is.list(otel$tracer_provider) && is_tracing_now()
}

# The provider is another one when somebody has set one.
is_tracing_now <- function() {
  provider <- the$otel$tracer_provider
  if (!is.null(provider) && identical(provider, the$trace_provider)) return(the$traces)
  if (!requireNamespace("otel", quietly = TRUE)) {
    the$otel <- NULL
    return(FALSE)
  }
  the$otel <- get0("the", asNamespace("otel"), mode = "environment", inherits = FALSE)
  the$trace_provider <- otel::get_default_tracer_provider()
  the$tracer <- otel::get_tracer("r.package.clutch")
  the$traces <- otel::is_tracing_enabled(the$tracer)
  if (is.null(the$otel) || (the$traces && is.list(the$trace_provider))) the$otel <- otel_unknown
  the$traces
}

# At the start of a cluster, too: the environment may have changed.
detect_tracing <- function() {
  if (!isNamespaceLoaded("otel") && !exports_by_environment()) {
    the$otel <- NULL
  } else if (is.null(the$otel)) {
    the$otel <- otel_unknown
  }
}

exports_by_environment <- function() {
  exporter <- Sys.getenv(c("OTEL_R_TRACES_EXPORTER", "OTEL_TRACES_EXPORTER"), "")
  exporter <- exporter[nzchar(exporter)]
  length(exporter) > 0L && exporter[[1L]] != "none"
}

# ---- spans ----

# Evaluates `code` in a span, which ends with it.
in_span <- function(name, attributes, code) {
  if (!is_tracing()) return(code)
  otel::start_local_active_span(name, attributes = attributes, tracer = the$tracer)
  code
}

# `work` gets a span, NULL where there are none, and tells by span_of_job() what it is of.
in_job_span <- function(name, attributes, work) {
  if (!is_tracing()) return(work(NULL))
  span <- new_span(name, attributes)
  on.exit(end_span(span))
  withCallingHandlers(work(span), error = function(e) span$problem <- message_of(e, 500L))
}

new_span <- function(name, attributes) {
  span <- new.env(parent = emptyenv())
  span$most <- min(option_number("clutch.trace_spans", 1000), 1e6)
  span$otel <- otel::start_span(name, attributes = attributes, tracer = the$tracer)
  span
}

# From now on events of its cluster are told to it.
span_of_job <- function(span, t, job) {
  if (is.null(span)) return(invisible())
  span$job <- .Call(ffi_job_number, job)
  if (!is.null(span$t)) return(invisible())
  span$t <- t
  span$cluster <- cluster_number(t$info)
  span$otel$set_attribute("clutch.cluster", span$cluster)
  span$otel$set_attribute("clutch.nodes", length(t$info$handles))
  the$spans <- c(the$spans, span)
  the$has_spans <- TRUE
  invisible()
}

# A job of it has ended.
span_job_ended <- function(span, job) {
  if (is.null(span$t)) return(invisible())
  span$failed <- sum(span$failed, length(.Call(ffi_job_failures, job, 0)$element))
  if (!exports_by_environment()) spans_of_tasks(span, job)
}

# `problem`: what has failed; NULL: nothing, or what its elements say.
end_span <- function(span, problem = span$problem) {
  the$spans <- Filter(function(s) !identical(s, span), the$spans)
  the$has_spans <- length(the$spans) > 0L
  failed <- sum(span$failed)
  if (failed > 0) span$otel$set_attribute("clutch.failed", failed)
  if (is.null(problem) && failed > 0) problem <- sprintf("%d tasks failed", failed)
  if (!is.null(problem)) span$otel$set_status("error", problem)
  span$otel$end()
}

# Spans of what was done for a job are made as children of its span.
spans_of_tasks <- function(span, job) {
  x <- .Call(ffi_job_trace, span$t$ptr, job, span$most)
  since <- as.numeric(Sys.time()) - clock()
  for (k in seq_along(x$job)) span_of_task(span, lapply(x, `[[`, k), since)
}

# `r`: its record; `since`: when clock() was 0.
span_of_task <- function(span, r, since) {
  attributes <- list(clutch.job = r$job, clutch.element = r$element, clutch.attempt = r$attempt)
  if (r$node > 0) {
    attributes[c("clutch.node", "clutch.host")] <- list(r$node, span$t$info$hosts[[r$node]])
  }
  # otelsdk (0.2.4) ends a span now, whatever end is given: so its length is what it lasts until now
  start <- clock() - (r$ended - r$began)
  options <- list(parent = span$otel, start_system_time = since + r$began,
                  start_steady_time = start)
  task <- otel::start_span("task", attributes, options = options, tracer = the$tracer)
  if (!r$ok) task$set_status("error")
  task$end(list(end_steady_time = start + r$ended - r$began))
}

# ---- on the nodes ----

# The function of a job, for nodes that trace.
traced_function <- function(fun, span) {
  if (is.null(span) || !exports_by_environment()) return(fun)
  variables <- Sys.getenv()
  variables <- variables[startsWith(names(variables), "OTEL_")]
  function_in_span(fun, span$otel$get_context()$to_http_headers(), unclass(variables))
}

# ---- submitted tasks ----

submitted_span <- function(label) {
  if (!is_tracing()) return(NULL)
  new_span("cluster_submit", if (is.null(label)) NULL else list(clutch.label = label))
}

# Its outcome is known: list(value =) or list(error =).
end_submitted_span <- function(task) {
  span <- .subset2(task, "span")
  if (is.null(span)) return(invisible())
  task$span <- NULL
  span_job_ended(span, task$job)
  error <- task$outcome$error
  end_span(span, if (!is.null(error)) message_of(error, 500L))
}

# ---- events ----

# `event`: see event-tell.R. To the span of its job, else to those of its cluster; else it is one.
trace_event <- function(event) {
  if (event$kind %in% c("start", "stop")) return(invisible())
  is_known <- vapply(event, function(x) length(x) == 1L && !is.na(x), NA)
  attributes <- event[is_known & !names(event) %in% c("time", "kind")]
  names(attributes) <- paste0("clutch.", names(attributes))
  time <- as.POSIXct(event$time, origin = "1970-01-01")
  spans <- Filter(function(span) span$cluster == event$cluster, the$spans)
  own <- Filter(function(span) identical(span$job, event$job), spans)
  if (length(own)) spans <- own
  name <- paste0("clutch.", event$kind)
  for (span in spans) span$otel$add_event(name, attributes, time)
  if (length(spans)) return(invisible())
  span <- otel::start_span(name, attributes = attributes, tracer = the$tracer)
  if (event$kind == "death") span$set_status("error", event$text)
  span$end()
  invisible()
}
