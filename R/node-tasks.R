# Tasks, as a node sees them: what R has to do for a job before its tasks are done and behind them,
# and what is collected while a task runs. src/r/node/node-jobs.c does the rest, and calls these
# functions.

# The parts of a job's description, see src/core/wire/task-message.h.
job_parts <- c("fun", "more", "globals", "attach", "load", "order", "packages", "relay", "live",
               "warn", "fresh", "travel", "wishes", "given")

# Packages are attached, globals are put into the workspace. `x`: the description; NULL: there is
# none; or a failure to read it. list(problem, before): a condition, or NULL; what node_restore()
# needs.
node_prepare <- function(x) {
  before <- NULL
  problem <- tryCatch({
    if (is.null(x)) stop("the node knows nothing of the job of this task")
    if (inherits(x, "clutch_task_failure")) stop(x$cond)
    names(x) <- job_parts
    attach_as_found(x)
    for (p in x$packages) if (!is_attached(p)) attach_for_job(p)
    before <- mget(as.character(names(x$globals)), envir = globalenv(), inherits = FALSE,
                   ifnotfound = list(the_node))
    put_variables(x$globals)
    if (has_s4_methods(names(x$globals))) methods::cacheMetaData(globalenv(), TRUE)
    NULL
  }, error = identity)
  list(problem, before)
}

# Tells whether there are S4 methods for generics of packages, see s4_method_tables(). The generics
# are told of them, which takes some 10 ms.
has_s4_methods <- function(names) any(startsWith(as.character(names), ".__T__"))

# Globals are as they were before the job.
node_restore <- function(before) {
  has_methods <- has_s4_methods(names(before))
  if (has_methods) try(methods::cacheMetaData(globalenv(), FALSE), silent = TRUE)
  for (name in names(before)) put_back(name, before[[name]])
  # those of the node itself
  if (has_methods && any(grepl("^[.]__[CT]__", ls(globalenv(), all.names = TRUE)))) {
    try(methods::cacheMetaData(globalenv(), TRUE), silent = TRUE)
  }
}

# `seed`: NULL: there was none.
seed_restore <- function(seed) put_back(".Random.seed", if (is.null(seed)) the_node else seed)

# Into the workspace, where a task may have locked them.
put_variables <- function(values) {
  if (!length(values)) return()
  tryCatch(list2env(values, globalenv()), error = function(e) {
    there <- ls(globalenv(), all.names = TRUE)
    rm(list = intersect(names(values), there), envir = globalenv())
    list2env(values, globalenv())
  })
}

# `value`: what the variable was, or `the_node`: it was not there.
put_back <- function(name, value) {
  g <- globalenv()
  was_there <- !identical(value, the_node)
  if (exists(name, g, inherits = FALSE)) {
    is_fixed <- bindingIsLocked(name, g) || bindingIsActive(as.name(name), g)
    if (!was_there || is_fixed) rm(list = name, envir = g)
  }
  if (was_there) assign(name, value, envir = g)
}

# ---- conditions ----

# Calling handlers around all that a node evaluates. They do nothing but in a task.

on_error <- function(e) {
  if (is.null(.Call(ffi_node_at_task))) return()
  # the code that calls user_code() tells so of an error that this was called for
  if (inherits(e, c("clutch_tried", "clutch_future_failed"))) return()
  at <- signalled_in(sys.nframe())
  calls <- sys.calls()[seq_len(at)]
  the_node$calls <- tryCatch(task_calls(calls), error = function(e) NULL)
  freeze(e, at)
}

# Evaluates the user's code where other code handles its errors, of which this handler hears first.
user_code <- function(code) withCallingHandlers(code, error = on_error)

# For a calling handler in frame `n`: the number of the frame where its condition was signalled. R
# puts one between for errors of its own C code and of stop("text").
signalled_in <- function(n) {
  from_c <- n > 1L && identical(sys.function(n - 1L), .handleSimpleError)
  if (from_c) n - 2L else n - 1L
}

# Time is up, or a user has sent a signal. No second one is heard until the calls are text.
on_interrupt <- function(c) {
  if (inherits(c, "clutch_left") || is.null(.Call(ffi_node_at_task))) return()
  the_node$handler <- sys.nframe()
  .Call(ffi_stack_interrupted) # may not return
  the_node$handler <- NULL
  calls <- sys.calls()
  the_node$calls <- suspendInterrupts(tryCatch(stack_lines(calls), error = function(e) NULL))
  freeze(simpleCondition("time is up"), sys.nframe() - 1L, late = TRUE)
  the_node$calls <- c(the_node$calls, told_of_copy())
}

# Called by src/r/node/stack.c, once: a function that tells whether the calls at hand may be
# interrupted.
half_done_teller <- function(unused) function() is_half_done(sys.nframe())

# Tells whether R is at something that a jump would leave half done for good.
#
# lazyLoad() reads an environment of a package from disk: it registers it empty, and fills it then.
# The table of all S4 classes is one; it takes 20 ms. Package cli lays out a text, which takes some
# ms: a container without its style would make each later text fail, such as that of an error.
is_half_done <- function(n) {
  of_cli <- if (isNamespaceLoaded("cli")) asNamespace("cli")
  for (i in seq_len(n)) {
    f <- sys.function(i)
    if (identical(names(formals(f)), "n") && "lazyLoadDBfetch" %in% all.names(body(f))) return(TRUE)
    if (identical(environment(f), of_cli) && lays_out_text(f, of_cli)) return(TRUE)
  }
  FALSE
}

lays_out_text <- function(f, of_cli) {
  for (name in c("cli__fmt", "cli_server_default")) {
    of_name <- get0(name, of_cli, "function", inherits = FALSE)
    if (!is.null(of_name) && identical(body(f), body(of_name))) return(TRUE)
  }
  FALSE
}

# The calls of a task whose time is up go to the session as lines of text: the copy as one more.
told_of_copy <- function() {
  frozen <- take_frozen()
  if (is.null(frozen)) return(NULL)
  if (identical(frozen, ELSEWHERE)) return(paste0(FROZEN_LINE, ELSEWHERE))
  paste0(FROZEN_LINE, paste(frozen$pid, frozen$key, frozen$path))
}

on_message <- function(c) {
  if (.Call(ffi_work_message, c)) tryInvokeRestart("muffleMessage")
}

on_warning <- function(c) {
  if (.Call(ffi_work_warning, c)) tryInvokeRestart("muffleWarning")
}

# All others. Conditions of class "immediateCondition", as progressr signals them, are wanted at
# once.
on_condition <- function(c) {
  if (inherits(c, c("error", "warning", "message", "interrupt"))) return()
  if (is.null(.Call(ffi_node_at_task))) return()
  if (is.list(c)) attr(c, "clutch_restarts") <- restart_names(c)
  .Call(ffi_work_log, c, inherits(c, "immediateCondition"))
}

# The value has the restarts that a handler in the session may expect.
restart_names <- function(c) {
  names <- vapply(computeRestarts(c), function(r) as.character(r[[1L]]), "")
  setdiff(names, c("", "abort", "resume"))
}

# The stack of a task in text, a line a call, from the function of the map on. The calls themselves
# may hold large data. Of a deep recursion both ends are shown.
task_calls <- function(calls) {
  is_map <- vapply(calls, function(cl) identical(cl[[1L]], quote(FUN)), NA)
  first <- max(frame_of_given(calls), which.max(is_map))
  if (any(is_map)) calls <- calls[first:length(calls)]
  n <- length(calls)
  if (n > 200L) calls <- c(calls[1:100], quote(...), calls[(n - 99L):n])
  vapply(calls, call_text, "")
}

# The session is told this of a task that failed. The text of the condition is asked for here, where
# its methods are.
task_failure <- function(e) {
  calls <- the_node$calls
  the_node$calls <- NULL
  failure <- list(cond = .Call(ffi_work_slim, e), calls = calls, text = message_of(e),
                  lacks = the_node$lacks, frozen = take_frozen())
  structure(failure, class = "clutch_task_failure")
}

# The answer to what has failed. A condition that cannot be serialized is told in words.
answer_failure <- function(failure) {
  tryCatch(.Call(ffi_node_failed, failure), error = function(e) {
    if (inherits(failure, "clutch_task_failure")) failure$cond <- simpleError(failure$text)
    .Call(ffi_node_failed, failure)
  })
}
