# Errors of tasks, and how nodes ended, in words.

# The error of element `k` of ffi_job_failures(): class "clutch_task_error". `value`: what the node said, if anything.
task_error <- function(t, f, k, value, label = NULL) {
  element <- f$element[[k]]
  what <- if (is.null(label)) sprintf("element %.0f", element) else label
  node <- if (f$node[[k]] > 0L) f$node[[k]] else NA_integer_
  at <- if (is.na(node)) "" else sprintf(" on node %d", node)
  again <- if (f$attempt[[k]] > 1L) sprintf(" (attempt %d)", f$attempt[[k]]) else ""
  make <- function(class, text, ...) {
    errorCondition(text, ..., element = element, node = node, attempt = f$attempt[[k]],
                   class = c(class, "clutch_task_error", "clutch_error"), call = NULL)
  }
  why <- f$why[[k]]
  if (why == 2L) return(make("clutch_task_timeout", sprintf("%s%s%s took longer than `.timeout` allows", what, at, again)))
  if (why == 3L) return(make("clutch_task_cancelled", sprintf("%s%s was cancelled", what, at)))
  if (why == 1L) {
    d <- t$deaths[[format(f$cause[[k]])]]
    if (is.null(d)) d <- list(how = "it is gone", kind = "died", pid = NA_integer_, signal = NA_integer_, status = NA_integer_)
    text <- if (is.na(node) || is.na(d$pid)) sprintf("%s was not done: %s", what, d$how)
      else sprintf("%s%s%s: node %d (pid %d) died while it was at it: %s", what, at, again, node, d$pid, d$how)
    return(make(c(if (d$kind == "memory") "clutch_task_memory", "clutch_task_died"), text, pid = d$pid, signal = d$signal, status = d$status))
  }
  cond <- value$cond
  if (inherits(cond, "clutch_package") && isTRUE(cond$of_job)) {
    return(error_of("package", sprintf("package '%s' cannot be attached%s: %s", cond$package, at, conditionMessage(cond)),
                    package = cond$package, node = node))
  }
  call <- tryCatch(conditionCall(cond), error = function(e) NULL)
  text <- if (is.character(value$text)) value$text else message_of(cond)
  hint <- missing_hint(simpleError(text))
  if (length(value$lacks) && nzchar(hint)) {
    hint <- sprintf("\nPackage '%s', which the session has attached or loaded, cannot be had on the node: %s",
                    names(value$lacks)[[1L]], value$lacks[[1L]])
  }
  make(NULL, sprintf("%s%s%s failed%s: %s%s", what, at, again,
                     if (is.null(call)) "" else sprintf(" in %s", sQuote(deparse(call, nlines = 1L)[[1L]], FALSE)), text, hint),
       parent = cond, calls = value$calls, node_call = call)
}

# An object that the session has and the node has not.
missing_hint <- function(cond) {
  found <- regmatches(conditionMessage(cond), regexec("^(object '(.*)' not found|could not find function \"(.*)\")$", conditionMessage(cond)))[[1L]]
  if (!length(found)) return(hint_for_connection(conditionMessage(cond)))
  hint_for_name(paste0(found[[3L]], found[[4L]]))
}

killed_text <- c("it did not react when time was up and was ended", "it sent what makes no sense and was ended",
                 "there was not enough memory for what it was to be sent, and it was ended")

memory_text <- function(d) {
  what <- if (d$memory > 0) sprintf("it took more memory (%s) than `.max_memory` allows and was ended", mb(d$memory))
    else "it took more memory than `.max_memory` allows and was ended"
  if (d$began) what else paste0(what, " before it had begun anything: this is a node's own size, or what others have left in it")
}
