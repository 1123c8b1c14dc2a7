# What drives a map: its turns, from the first task to the values.

# `o`: from task_options(); `env`: the frame in which names in `o$globals` are looked up.
run_map <- function(cl, elements, f, more, o, env) {
  began <- clock()
  n <- length(elements)
  needs <- if (n > 0L) find_needs(list(f, elements, more), o$globals, env) # R code of others may run
  t <- tasks_of(cl)
  if (n == 0L) return(structure(list(), names = if (!is.null(names(elements))) character()))
  job <- job_new(t, f, elements, more, needs, o)
  on.exit(.Call(ffi_job_end, job, 0.08))
  job_start(t, job)
  bar <- progress_new(o$progress, n, began)
  if (bar$on) on.exit(progress_end(bar), add = TRUE)
  seen <- 0L
  shown <- 0
  failed <- list()
  repeat {
    code <- turn(t, job, if (bar$on) 0.1 else 0.25, seen)
    relay_queue(job, bar) # whatever there is to do: what a failed element has said came before its error
    if (code == 4L || code == 1L) {
      f <- .Call(ffi_job_failures, job, seen)
      if (length(f$element) && (o$on_error == "stop" || lacks_package(job, f))) {
        f <- all_failures(t, job, f, seen)
        relay_queue(job, bar)
        k <- which.min(f$element)
        if (o$relay == "ordered") relay_failed(job, shown, f$element[[k]], bar)
        stop(task_error(t, f, k, .Call(ffi_job_values, job)[[1L]][[f$element[[k]]]]))
      }
      seen <- seen + length(f$element)
      if (length(f$element)) failed <- c(failed, list(f))
    }
    if (o$relay == "ordered") shown <- relay_ready(job, shown, bar = bar)
    if (bar$on) progress_show(bar, n - .Call(ffi_job_state, job)$left)
    if (code == 1L) break
  }
  progress_end(bar)
  settle_replacements(t)
  if (.Call(ffi_job_ready, job) < n) throw("memory", "not enough memory for the results") # or NULL would stand for one
  values <- .Call(ffi_job_values, job)[[1L]]
  for (f in failed) for (k in seq_along(f$element)) values[[f$element[[k]]]] <- task_error(t, f, k, values[[f$element[[k]]]])
  names(values) <- names(elements)
  if (length(failed)) {
    errors <- Filter(function(v) inherits(v, "clutch_task_error"), values)
    warning(warningCondition(sprintf("%d of %d elements failed; the first: %s", sum(lengths(lapply(failed, `[[`, "element"))), n,
                                     conditionMessage(errors[[1L]])), class = "clutch_failed"))
  }
  values
}

# The failures known when all before the first of them has ended, or 20 ms after it was known: which of several is
# told shall not depend on which node was heard first.
all_failures <- function(t, job, f, seen) {
  deadline <- clock() + 0.02
  repeat {
    left <- deadline - clock()
    if (.Call(ffi_job_ready, job) >= min(f$element) - 1 || left <= 0) return(f)
    turn(t, job, min(left, 0.002), seen + length(f$element))
    f <- .Call(ffi_job_failures, job, seen)
  }
}

# Whether a package of `.packages` cannot be attached: no element can be done then.
lacks_package <- function(job, f) {
  values <- .Call(ffi_job_values, job)[[1L]]
  for (k in which(f$why == 0L)) if (isTRUE(values[[f$element[[k]]]]$cond$of_job)) return(TRUE)
  FALSE
}
