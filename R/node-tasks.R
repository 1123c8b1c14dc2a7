# Tasks, as a node sees them: jobs (what the tasks of one map have in common), the workspace that they want, and
# what is collected while a task runs. glue-work.c calls these functions.

# A description has arrived: list(fun, more, globals, packages, relay, live, seeded, bare); or a failure to read it.
node_job <- function(id, x) {
  if (is.null(the_node$jobs)) the_node$jobs <- new.env(parent = emptyenv())
  job <- new.env(parent = emptyenv())
  if (inherits(x, "clutch_task_failure")) job$failure <- x
  else list2env(x, job)
  assign(format(id, digits = 15), job, envir = the_node$jobs)
}

node_job_end <- function(id, unused) {
  id <- format(id, digits = 15)
  if (!is.null(the_node$jobs) && exists(id, the_node$jobs, inherits = FALSE)) rm(list = id, envir = the_node$jobs)
}

# From now on tasks of this job are done: its packages are attached, its globals are in the workspace. What was
# there under these names comes back with node_leave().
node_enter <- function(id, unused) {
  job <- the_node$jobs[[format(id, digits = 15)]]
  env <- new.env(hash = FALSE, parent = globalenv()) # few variables, one of them set for each task
  call <- tryCatch({
    if (is.null(job)) stop("the node knows nothing of the job of this task")
    if (!is.null(job$failure)) stop(job$failure$cond)
    for (p in job$packages) attach_for_job(p)
    job$before <- mget(c(as.character(names(job$globals)), if (job$seeded) ".Random.seed"), envir = globalenv(), inherits = FALSE,
                       ifnotfound = list(the_node))
    list2env(job$globals, globalenv())
    if (job$relay) collect_output()
    task_call(job, env)
  }, error = function(e) {
    assign("problem", e, envir = env)
    quote(stop(problem))
  })
  list(env, call, isTRUE(job$relay), isTRUE(job$live))
}

# Where it is not there, it is no element that has failed.
attach_for_job <- function(p) {
  tryCatch(suppressPackageStartupMessages(library(p, character.only = TRUE)),
           error = function(e) stop(error_of("package", conditionMessage(e), package = p, of_job = TRUE)))
}

# FUN(.x, a = a, ...): arguments are variables of `env`, so that calls that are shown in errors do not have
# their values in them.
task_call <- function(job, env) {
  assign("FUN", job$fun, envir = env)
  more <- job$more
  names <- if (is.null(names(more))) rep("", length(more)) else names(more)
  vars <- ifelse(nzchar(names) & !names %in% c("FUN", ".x"), names, paste0("..arg", seq_along(more)))
  for (i in seq_along(more)) assign(vars[[i]], more[[i]], envir = env)
  args <- lapply(vars, as.name)
  names(args) <- names
  as.call(c(quote(FUN), if (!job$bare) quote(.x), args))
}

node_leave <- function(id, unused) {
  job <- the_node$jobs[[format(id, digits = 15)]]
  if (is.null(job)) return()
  if (isTRUE(job$relay) && sink.number() > 0L) sink()
  for (name in names(job$before)) {
    if (!identical(job$before[[name]], the_node)) assign(name, job$before[[name]], envir = globalenv())
    else if (exists(name, globalenv(), inherits = FALSE)) rm(list = name, envir = globalenv())
  }
  job$before <- NULL
}

collect_output <- function() {
  open <- !is.null(the_node$output) && tryCatch(isOpen(the_node$output), error = function(e) FALSE)
  if (!open) the_node$output <- .Call(ffi_work_output)
  sink(the_node$output)
}

# ---- conditions ----

# Calling handlers around all that a node evaluates. They do nothing but in a task.

on_error <- function(e) {
  if (!is.null(.Call(ffi_node_at_task))) the_node$calls <- task_calls(sys.calls())
}

on_message <- function(c) {
  if (!isTRUE(.Call(ffi_node_at_task))) return()
  .Call(ffi_work_log, c, FALSE)
  tryInvokeRestart("muffleMessage")
}

on_warning <- function(c) {
  if (!isTRUE(.Call(ffi_node_at_task))) return()
  .Call(ffi_work_log, c, FALSE)
  tryInvokeRestart("muffleWarning")
}

# All others. Conditions of class "immediateCondition", as progressr signals them, are wanted at once.
on_condition <- function(c) {
  if (inherits(c, c("error", "warning", "message", "interrupt")) || !isTRUE(.Call(ffi_node_at_task))) return()
  .Call(ffi_work_log, c, inherits(c, "immediateCondition"))
}

# The stack of a task in text, a line a call: from the function of the map to where the error was signalled. The calls
# themselves may hold large data.
task_calls <- function(calls) {
  text <- vapply(calls, function(cl) {
    s <- deparse(cl, width.cutoff = 100L, nlines = 1L)[[1L]]
    if (nchar(s) > 120L) paste0(substr(s, 1L, 117L), "...") else s
  }, "")
  from <- which(startsWith(text, "FUN("))
  if (length(from)) text <- text[from[[1L]]:length(text)]
  to <- grep("^(\\.handleSimpleError\\(|h\\(simpleError\\(|\\(function \\(e\\))", text)
  if (length(to)) text <- utils::head(text, to[[1L]] - 1L)
  text
}

# What the master is told of a task that failed.
task_failure <- function(e) {
  calls <- the_node$calls
  the_node$calls <- NULL
  if (utils::object.size(e$call) > 1e5) e$call <- NULL
  structure(list(cond = e, calls = calls), class = "clutch_task_failure")
}
