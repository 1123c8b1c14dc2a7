# Errors of tasks.

# The error of number `k` of ffi_job_failures(), of class "clutch_task_error". `value`: what the
# node said, if anything. `label`: what the task is called; NULL: it is an element of a map. `work`:
# of work_of(), see task-failed.R.
task_error <- function(t, failures, k, value, label = NULL, work = NULL) {
  f <- failure_at(t, failures, k)
  f$what <- if (is.null(label)) sprintf("element %.0f", f$element) else label
  f$at <- if (is.na(f$node)) "" else sprintf(" on node %d%s", f$node, elsewhere_text(f$host))
  f$again <- if (f$attempt > 1L) sprintf(" (attempt %d)", f$attempt) else ""
  e <- switch(f$why,
    timeout = task_timeout_error(f),
    cancelled = task_cancelled_error(f),
    died = task_death_error(f, death_with(t, f$cause)),
    error = task_value_error(f, value)
  )
  remember_error(t, e)
  if (is.null(work)) e else with_work(e, work, t$info, copy_of(t, f, value))
}

# How many errors of each class there were, and what the first says: for cluster_report().
remember_error <- function(t, e) {
  t$errors <- counted(t$errors, if (is.null(e$parent)) e else e$parent, e)
}

# " (beta)" where that is another machine.
elsewhere_text <- function(host) if (is_this_machine(host)) "" else sprintf(" (%s)", host)

new_task_error <- function(f, class, text, ...) {
  errorCondition(text, ..., element = f$element, node = f$node, host = f$host,
                 attempt = f$attempt, class = c(class, "clutch_task_error", "clutch_error"),
                 call = NULL)
}

task_timeout_error <- function(f) {
  stack <- if (!is.na(f$stack)) strsplit(f$stack, "\n", fixed = TRUE)[[1L]]
  stack <- without_copy(stack)
  text <- sprintf("%s%s%s took longer than `.timeout` allows%s", f$what, f$at, f$again,
                  last_calls_text(stack))
  new_task_error(f, "clutch_task_timeout", text, stack = stack)
}

# See copy_of().
without_copy <- function(lines) lines[!startsWith(as.character(lines), FROZEN_LINE)]

# "; it was in h(z), called by g(y), called by f(x)": at most three, and not the function of the job
# itself.
last_calls_text <- function(stack) {
  inner <- rev(utils::tail(grep("^FUN\\(", stack, value = TRUE, invert = TRUE), 3L))
  if (!length(inner)) return("")
  paste0("; it was in ", paste(inner, collapse = ", called by "))
}

task_cancelled_error <- function(f) {
  new_task_error(f, "clutch_task_cancelled", sprintf("%s%s was cancelled", f$what, f$at))
}

# `d`: the death of its node, as from death_of(); NULL: not known any more.
task_death_error <- function(f, d) {
  if (is.null(d)) {
    d <- list(how = "it is gone", kind = "died", pid = NA_integer_, signal = NA_integer_,
              status = NA_integer_)
  }
  text <- if (is.na(f$node) || is.na(d$pid)) {
    sprintf("%s was not done: %s", f$what, d$how)
  } else {
    sprintf("%s%s%s: node %d (pid %d) died while it was at it: %s", f$what, f$at, f$again,
            f$node, d$pid, d$how)
  }
  class <- c(if (d$kind == "memory") "clutch_task_memory", "clutch_task_died")
  cause <- if (is.null(d$cause)) NA_character_ else d$cause
  new_task_error(f, class, text, pid = d$pid, signal = d$signal, status = d$status, cause = cause)
}

# The function has failed: `value` is what task_failure() has made of that on the node.
task_value_error <- function(f, value) {
  cond <- value$cond
  if (inherits(cond, "clutch_package") && isTRUE(cond$of_job)) return(task_package_error(f, cond))
  call <- tryCatch(conditionCall(cond), error = function(e) NULL)
  where <- if (is.null(call)) "" else sprintf(" in %s", quoted_call(call))
  text <- if (is.character(value$text)) value$text else message_of(cond)
  text <- sprintf("%s%s%s failed%s: %s%s", f$what, f$at, f$again, where, text,
                  failure_hint(text, value$lacks))
  new_task_error(f, NULL, text, parent = cond, calls = without_copy(value$calls), node_call = call)
}

quoted_call <- function(call) sQuote(deparse(call, nlines = 1L)[[1L]], FALSE)

task_package_error <- function(f, cond) {
  text <- sprintf("package '%s' cannot be attached%s: %s", cond$package, f$at,
                  conditionMessage(cond))
  error_of("package", text, package = cond$package, node = f$node)
}

# The text says what may be the cause of an error with this text. `lacks`: packages that the node
# could not load, and why.
failure_hint <- function(text, lacks) {
  hint <- missing_hint(text)
  if (!length(lacks) || !nzchar(hint)) return(hint)
  text <- paste0("\nPackage '%s', which the session has attached or loaded, ",
                 "cannot be had on the node: %s")
  paste0(sprintf(text, names(lacks)[[1L]], lacks[[1L]]), hint_for_source())
}

# An object that the session has and the node has not.
missing_hint <- function(text) {
  missing <- paste0("^(object '(.*)' (of mode '[a-z]+' was )?not found|",
                    "could not find function \"(.*)\")$")
  found <- regmatches(text, regexec(missing, text))[[1L]]
  if (!length(found)) return(hint_for_text(text))
  hint_for_name(paste0(found[[3L]], found[[5L]]))
}

# A map goes on when elements fail. `values`: of all `n`; `failed`: numbers of those that did.
warn_failed <- function(values, failed, n) {
  text <- sprintf("%d of %d elements failed; the first: %s", length(failed), n,
                  conditionMessage(values[[min(failed)]]))
  warning(warningCondition(text, class = "clutch_failed"))
}
