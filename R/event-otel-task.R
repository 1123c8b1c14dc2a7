# The span of OpenTelemetry in which a node does a task: see event-otel.R.

# In the place of a job's function. `headers`: of the span of its job; `variables`: the session's.
function_in_span <- function(fun, headers, variables) {
  force(fun)
  force(headers)
  force(variables)
  function(...) in_task_span(headers, variables, fun(...))
}

# Without package otel, or where it is not set up, the task is done all the same.
in_task_span <- function(headers, variables, code) {
  span <- start_task_span(headers, variables)
  if (!is.null(span)) otel::local_active_span(span, end_on_exit = TRUE)
  code
}

start_task_span <- function(headers, variables) {
  if (!isNamespaceLoaded("otel")) {
    new <- variables[!nzchar(Sys.getenv(names(variables)))]
    if (length(new)) do.call(Sys.setenv, as.list(new))
    if (!requireNamespace("otel", quietly = TRUE)) return(NULL)
  }
  tracer <- otel::get_tracer("r.package.clutch")
  if (!otel::is_tracing_enabled(tracer)) return(NULL)
  parent <- otel::extract_http_context(as.list(headers))
  attributes <- list(clutch.pid = Sys.getpid(), clutch.host = Sys.info()[["nodename"]],
                     clutch.attempt = .Call(ffi_task_attempt))
  otel::start_span("task", attributes = attributes, tracer = tracer,
                   options = list(parent = parent, kind = "consumer"))
}
