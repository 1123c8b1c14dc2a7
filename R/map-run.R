# A map is driven here: its steps, from the first task to the values.
#
# Ctrl-C leaves run_map() through its on.exit: the job is cancelled, and the event loop runs for
# at most 80 ms. Tasks that still run are cancelled: their results are thrown away, and the next
# call waits for the node.

# `o`: from task_options(), and `needs`, where find_needs() was asked before; `env`: the frame in
# which names in `o$globals` are looked up.
run_map <- function(cl, elements, f, more, o, env) {
  in_job_span("cluster_map", list(clutch.elements = length(elements)), function(span) {
    run_map_in(span, cl, elements, f, more, o, env)
  })
}

# `span`: of OpenTelemetry, or NULL.
run_map_in <- function(span, cl, elements, f, more, o, env) {
  began <- clock()
  n <- length(elements)
  # R code of others may run in there
  needs <- o$needs
  if (is.null(needs) && n > 0L) needs <- find_needs(list(f, elements, more), o$globals, env)
  t <- tasks_of(cl)
  if (n == 0L) return(structure(list(), names = if (!is.null(names(elements))) character()))
  record <- if (is.null(o$begun)) journal_begin(o, f, more, needs, n) else journal_go_on(o$begun, o)
  if (!is.null(record)) {
    on.exit(journal_end(record))
    o["seed"] <- list(record$seed)
    o$record <- record
  }
  job <- job_new(t, traced_function(f, span), elements, more, needs, o)
  on.exit(.Call(ffi_job_end, job, 0.08), add = TRUE, after = FALSE)
  if (!is.null(o$reduce)) reduce_in_order(job, o)
  if (!is.null(record)) {
    journal_attach(record, job, elements)
    tell_kept(record)
  }
  on.exit(span_job_ended(span, job), add = TRUE)
  span_of_job(span, t, job)
  job_start(t, job)
  bar <- if (is.null(o$bar)) progress_new(o$progress, n, began) else o$bar
  if (bar$on) on.exit(progress_end(bar), add = TRUE)
  finish_map(t, job, elements, o, bar)
}

# The values of a map that has been begun.
finish_map <- function(t, job, elements, o, bar) {
  n <- length(elements)
  values <- drive_map(t, job, n, o, bar)
  progress_end(bar)
  if (!is.null(o$record)) check_journal(o$record, flush = TRUE)
  settle_replacements(t)
  tell_shortage(job)
  if (is.null(values)) values <- values_or_errors(t, job, n)
  if (!is.null(o$record)) count_run(o$record)
  if (!is.null(o$reduce)) return(reduced(o$reduce))
  if (!is.null(names(elements))) names(values) <- names(elements)
  values
}

# On the session's own cluster. While that starts, what is large is shared, and its fork server
# loads packages.
on_own <- function(elements, f, more, o, env) {
  load <- character()
  if (length(elements)) {
    ahead <- begin_ahead(the$own, f, elements, more, o$globals, env)
    o$needs <- ahead$needs
    more <- ahead$more
    load <- ahead$load
  }
  on_budget(length(elements), function(cl) run_map(cl, elements, f, more, o, env), load)
}

# A map of which nothing but elements and function is said, done in C as long as nothing is out of
# the ordinary; NULL: something was before it was begun. No vector has no elements. `code`: what was
# written for `f`.
run_plain_map <- function(cl, elements, f, code) {
  if (is_at_prompt() || isNamespaceLoaded("progressr")) return(NULL) # there may be a progress bar
  if (has_other_libraries(cl) || has_other_source(cl) || has_registered()) return(NULL)
  otel <- the$otel
  if (!is.null(otel) && !is.list(otel$tracer_provider) && is_tracing_now()) return(NULL)
  globals <- if (is.function(f)) .Call(ffi_objects_alone, list(f, elements))
  if (is.null(globals)) return(NULL)
  fun <- compiled_once(f, length(cl), length(elements))
  job <- .Call(ffi_map_begin, cl, elements, fun, globals, code)
  if (is.null(job)) return(NULL)
  on.exit(.Call(ffi_job_end, job, 0.08))
  values <- .Call(ffi_map_values, job)
  if (!is.null(values)) return(values)
  .Call(ffi_job_keep, job, list(f, NULL, list(globals = globals), elements, NULL))
  finish_map(info_of(cl)$tasks, job, elements, checked_defaults, no_bar)
}

# All steps of a map: until it is done, or until the error of an element ends it. The values, if no
# element has failed or said anything; else NULL.
drive_map <- function(t, job, n, o, bar) {
  known <- 0L # failures
  shown <- 0  # elements whose output was relayed
  slice <- if (bar$on) 0.1 else 0.25
  repeat {
    event <- task_step(t, job, slice, known)
    if (!is.null(o$record)) check_journal(o$record)
    if (event == "done" && !bar$on && is.null(o$reduce)) {
      values <- .Call(ffi_job_plain_values, job)
      if (!is.null(values)) return(values)
    }
    # whatever there is to do: what a failed element has said came before its error
    relay_queue(t, job, bar)
    if (event %in% c("failed", "done")) {
      f <- .Call(ffi_job_failures, job, known)
      is_end <- length(f$element) && (o$on_error == "stop" || lacks_package(job, f))
      if (is_end) stop_map(t, job, f, known, shown, o, bar)
      known <- known + length(f$element)
    }
    if (o$relay == "ordered") shown <- relay_ready(t, job, shown, bar = bar)
    if (!is.null(o$reduce)) reduce_ready(job, o)
    if (bar$on) progress_show(bar, n - .Call(ffi_job_state, job)$left, known)
    if (event == "done") return(NULL)
  }
}

# The values of all elements. Some have failed, perhaps: there is a warning.
values_or_errors <- function(t, job, n) {
  failures <- .Call(ffi_job_failures, job, 0)
  values <- map_values(t, job, n, failures)
  if (length(failures$element)) warn_failed(values, failures$element, n)
  values
}

# Raises the error of the first element, in order, of those that have failed. `f`: failures from
# number `known` on.
stop_map <- function(t, job, f, known, shown, o, bar) {
  f <- all_failures(t, job, f, known)
  relay_queue(t, job, bar)
  k <- which.min(f$element)
  element <- f$element[[k]]
  if (o$relay == "ordered") relay_failed(t, job, shown, element, bar)
  value <- .Call(ffi_job_values, job)$values[[element]]
  work <- work_of(job)
  if (!is.null(work)) hear_of_copy(t, job, f, known, k, work)
  stop_in_frames(task_error(t, f, k, value, work = work))
}

# The failures known when all before the first of them has ended, or 20 ms after it was known: which
# of several is told shall not depend on which node was heard first.
all_failures <- function(t, job, f, known) {
  deadline <- clock() + 0.02
  repeat {
    left <- deadline - clock()
    if (.Call(ffi_job_ready, job) >= min(f$element) - 1 || left <= 0) return(f)
    task_step(t, job, min(left, 0.002), known + length(f$element))
    f <- .Call(ffi_job_failures, job, known)
  }
}

# Another node makes the copy for the message of failure `k`. It tells of that with its own failure,
# which is waited for, a second at most. `f`: failures from number `known` on.
hear_of_copy <- function(t, job, f, known, k, work) {
  values <- .Call(ffi_job_values, job)$values
  text <- function(k) {
    value <- values[[f$element[[k]]]]
    if (is.list(value)) value$text else f$why[[k]]
  }
  told <- function(k) told_copy(t, failure_at(t, f, k), values[[f$element[[k]]]])
  if (!identical(told(k), ELSEWHERE)) return(invisible())
  wanted <- text(k)
  deadline <- clock() + 1
  repeat {
    for (i in seq_along(f$element)) {
      if (!is.list(told(i)) || !identical(text(i), wanted)) next
      copy <- copy_of(t, failure_at(t, f, i), values[[f$element[[i]]]])
      work$copies <- c(work$copies, list(copy))
      return(invisible())
    }
    left <- deadline - clock()
    if (left <= 0) return(invisible())
    task_step(t, job, min(left, 0.01), known + length(f$element))
    f <- .Call(ffi_job_failures, job, known)
    values <- .Call(ffi_job_values, job)$values
  }
}

# Tells whether a package of `.packages` cannot be attached: no element can be done then.
lacks_package <- function(job, f) {
  answered <- f$element[f$why == "error"]
  values <- .Call(ffi_job_values, job)$values[answered]
  any(vapply(values, function(v) isTRUE(v$cond$of_job), NA))
}

# The values of all elements; errors in place of those that have failed.
map_values <- function(t, job, n, failures) {
  # or NULL would stand for a value that was lost
  if (.Call(ffi_job_ready, job) < n) throw("memory", "not enough memory for the results")
  values <- .Call(ffi_job_values, job)$values
  work <- if (length(failures$element)) work_of(job)
  for (k in seq_along(failures$element)) {
    element <- failures$element[[k]]
    values[[element]] <- task_error(t, failures, k, values[[element]], work = work)
  }
  values
}
