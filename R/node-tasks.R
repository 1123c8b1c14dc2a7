# Tasks, as a node sees them: jobs (what the tasks of one map have in common), the workspace that
# they want, and what is collected while a task runs. src/r/node/node-tasks.c calls these functions.

# A description has arrived: list(fun, more, globals, attach, load, order, packages, relay, live,
# seeded, bare, warn); or a failure to read it.
node_job <- function(id, x) {
  if (is.null(the_node$jobs)) the_node$jobs <- new.env(parent = emptyenv())
  job <- new.env(parent = emptyenv())
  if (inherits(x, "clutch_task_failure")) job$failure <- x else list2env(x, job)
  assign(job_name(id), job, envir = the_node$jobs)
}

job_name <- function(id) sprintf("%.0f", id)

node_job_end <- function(id, unused) {
  id <- job_name(id)
  if (is.null(the_node$jobs) || !exists(id, the_node$jobs, inherits = FALSE)) return()
  rm(list = id, envir = the_node$jobs)
}

# From now on tasks of this job are done: its packages are attached, its globals are in the
# workspace, and warnings are treated as in the session. What was there before comes back with
# node_leave().
node_enter <- function(id, unused) {
  job <- the_node$jobs[[job_name(id)]]
  env <- new.env(hash = FALSE, parent = globalenv()) # few variables, one of them set for each task
  call <- tryCatch(enter_job(job, env), error = function(e) {
    assign("problem", e, envir = env)
    quote(stop(problem))
  })
  list(env, call, isTRUE(job$relay), isTRUE(job$live))
}

# The call that does one task, to be evaluated in `env`.
enter_job <- function(job, env) {
  if (is.null(job)) stop("the node knows nothing of the job of this task")
  if (!is.null(job$failure)) stop(job$failure$cond)
  attach_as_found(job)
  for (p in job$packages) if (!is_attached(p)) attach_for_job(p)
  changed <- c(as.character(names(job$globals)), if (job$seeded) ".Random.seed")
  job$before <- mget(changed, envir = globalenv(), inherits = FALSE, ifnotfound = list(the_node))
  job$state <- state_now(job$seeded)
  options(warn = job$warn)
  put_variables(job$globals)
  if (job$relay) sink(.Call(ffi_work_output))
  task_call(job, env)
}

# FUN(.x, a = a, ...): arguments are variables of `env`, so that calls that are shown in errors do
# not have their values in them.
task_call <- function(job, env) {
  assign("FUN", job$fun, envir = env)
  more <- job$more
  names <- if (is.null(names(more))) rep("", length(more)) else names(more)
  own_name <- nzchar(names) & !names %in% c("FUN", ".x")
  vars <- ifelse(own_name, names, paste0("..arg", seq_along(more)))
  for (i in seq_along(more)) assign(vars[[i]], more[[i]], envir = env)
  args <- lapply(vars, as.name)
  names(args) <- names
  as.call(c(quote(FUN), if (!job$bare) quote(.x), args))
}

node_leave <- function(id, unused) {
  job <- the_node$jobs[[job_name(id)]]
  setTimeLimit() # a task's is not to end what follows
  if (is.null(job)) return()
  for (name in names(job$before)) put_back(name, job$before[[name]])
  job$before <- NULL
  if (!is.null(job$state)) try(state_put_back(job$state), silent = TRUE)
  job$state <- NULL
}

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
  the_node$calls <- tryCatch(task_calls(sys.calls()), error = function(e) NULL)
}

on_message <- function(c) {
  if (.Call(ffi_work_log, c, FALSE)) tryInvokeRestart("muffleMessage")
}

# Where options(warn =) makes it nothing, or an error, that is seen to here, and in the session only
# handlers see it.
on_warning <- function(c) {
  level <- getOption("warn")
  if (level < 0 || level >= 2) c <- structure(list(c), class = "clutch_quiet")
  if (.Call(ffi_work_log, c, FALSE) && level < 2) tryInvokeRestart("muffleWarning")
}

# All others. Conditions of class "immediateCondition", as progressr signals them, are wanted at
# once.
on_condition <- function(c) {
  if (inherits(c, c("error", "warning", "message", "interrupt"))) return()
  .Call(ffi_work_log, c, inherits(c, "immediateCondition"))
}

# The stack of a task in text, a line a call: from the function of the map to where the error was
# signalled. The calls themselves may hold large data. Of a deep recursion both ends are shown.
task_calls <- function(calls) {
  is_map <- vapply(calls, function(cl) identical(cl[[1L]], quote(FUN)), NA)
  if (any(is_map)) calls <- calls[which.max(is_map):length(calls)]
  n <- length(calls)
  if (n > 200L) calls <- c(calls[1:100], quote(...), calls[(n - 99L):n])
  text <- vapply(calls, call_text, "")
  of_handler <- "^(\\.handleSimpleError\\(|h\\(simpleError\\(|\\(function \\(e\\))"
  end <- grep(of_handler, text)
  if (length(end)) text <- utils::head(text, end[[1L]] - 1L)
  text
}

call_text <- function(call) {
  text <- deparse(call, width.cutoff = 100L, nlines = 1L)[[1L]]
  if (nchar(text) > 120L) paste0(substr(text, 1L, 117L), "...") else text
}

# What the session is told of a task that failed. What the condition says is asked for here, where
# its methods are.
task_failure <- function(e) {
  calls <- the_node$calls
  the_node$calls <- NULL
  failure <- list(cond = .Call(ffi_work_slim, e), calls = calls, text = message_of(e),
                  lacks = the_node$lacks)
  structure(failure, class = "clutch_task_failure")
}

# The answer to what has failed. A condition that cannot be serialized is told in words.
answer_failure <- function(failure) {
  tryCatch(.Call(ffi_node_failed, failure), error = function(e) {
    if (inherits(failure, "clutch_task_failure")) failure$cond <- simpleError(failure$text)
    .Call(ffi_node_failed, failure)
  })
}
