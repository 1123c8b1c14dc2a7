# future::plan(clutch): a backend of package future, version 1.40 or newer.
#
# plan() calls the factory, which makes a backend: an environment with our cluster. future hands a
# future to launchFuture(), which submits one task for it. The task is the call of future's own
# evalFuture() on a node: it returns an object of class FutureResult, in which values, errors,
# output and conditions are. adapt-future-result.R takes it. What future does not export is found in
# its namespace: all backends need it.

#' Futures on a cluster
#'
#' For package \pkg{future}: `plan(clutch)` has futures evaluated by the nodes of a cluster. So do
#' packages that use futures, such as \pkg{future.apply}, \pkg{furrr} and \pkg{doFuture}.
#'
#' `plan(clutch)` starts a cluster, in which package \pkg{future} is loaded before nodes are forked.
#' The next `plan()` stops it. A cluster that is given as `workers` is used as it is, and is not
#' stopped.
#'
#' A future has the globals and packages that \pkg{future} finds, and what these need in turn, as in
#' [cluster_map()]: methods of S3, S4 and R6 that the workspace has, and what functions in lists and
#' objects use. It has its random numbers. What it
#' assigns in the workspace, attaches, or sets as an option or environment variable is gone for the
#' next. Conditions of class `immediateCondition`, as \pkg{progressr} signals them, are relayed
#' while it runs. The session's options `clutch.timeout`, `clutch.retries` and `clutch.max_memory`
#' are in force, see [clutch-options].
#'
#' The error of a future can be given to [cluster_debug()], which opens the frames in which it was,
#' where copies of nodes are kept.
#'
#' `plan(clutch, journal = path)` records the result of each future in a journal, and takes from it
#' what is there, also in another session: see [cluster_map()], section *Journal*. A future is known
#' by its expression, globals, packages, random seed, and by what of its output is captured. Of
#' packages such as \pkg{future.apply} a future is a chunk of elements: with another number of
#' workers the chunks are others, and are computed again, unless there is one element in each
#' (`future.chunk.size = 1`). Output and conditions are relayed again, but for those that are
#' relayed at once. What has failed is computed again. As long as the plan is in force no other
#' session can write to the file.
#'
#' Within a node that has one core to itself, `plan(clutch)` evaluates futures one after another in
#' that process: nested plans, as in `plan(list(clutch, clutch))`, start no more processes than
#' there are cores. `workers = I(1)` starts one in any case.
#' @param ... further arguments by name that \pkg{future} has for all backends, such as
#'   `interrupts = FALSE`, `gc = TRUE`.
#' @param workers number of nodes, or hosts, as `spec` of [make_cluster()]; or a cluster that this
#'   has made; or a function that returns one of these.
#' @param journal string: the file of a journal. `NULL`: there is none, or that of option
#'   `clutch.journal`.
#' @return `clutch()` is not to be called. It has the attributes of a plan.
#' @section Errors: A call of `clutch()` is an error of class `clutch_argument`; of class
#'   `clutch_package` where \pkg{future} is older than 1.40. A future whose node has died is an
#'   error of class `FutureInterruptError`, at once; the node is replaced.
#' @seealso [make_cluster()], [cluster_submit()]
#' @examples
#' if (requireNamespace("future", quietly = TRUE) && packageVersion("future") >= "1.40.0") {
#'   future::plan(clutch, workers = 2)
#'   f <- future::future(Sys.getpid())
#'   print(future::value(f))
#'   future::plan("sequential")
#' }
#' @export
clutch <- function(..., workers = clutch::available_cores(), # evaluated where others like
                   journal = NULL) {
  check_future()
  throw("argument", "clutch() is not to be called: say future::plan(clutch)")
}

check_future <- function() need_package("future", "plan(clutch)", "1.40.0")

# Newer versions of future know those that every backend has.
class(clutch) <- c("clutch", "multiprocess", "future", "function")
attr(clutch, "init") <- TRUE
attr(clutch, "tweakable") <- c("workers", "journal", "interrupts", "hooks", "maxSizeOfObjects")
attr(clutch, "factory") <- function(workers = available_cores(), ..., journal = NULL) {
  check_future()
  check_option("journal", journal, "`journal`")
  if (is.function(workers)) workers <- workers()
  if (stays_in_this_process(workers)) return(in_future("SequentialFutureBackend")(...))
  backend <- in_future("MultiprocessFutureBackend")(..., workers = workers, reg = registry_name())
  backend$futureClasses <- c("ClutchFuture", backend$futureClasses)
  backend$journal <- journal
  class(backend) <- c("ClutchFutureBackend", class(backend))
  backend_cluster(backend)
  backend
}

# A node with one core of its own has nothing to gain from another process.
stays_in_this_process <- function(workers) {
  is_one <- is.numeric(workers) && !inherits(workers, "AsIs") && identical(as.double(workers), 1)
  is_one && isTRUE(the_node$serving)
}

# future keeps a list of futures by this name.
registry_name <- function() {
  the$registries <- (if (is.null(the$registries)) 0 else the$registries) + 1
  sprintf("clutch-%d-%.0f", Sys.getpid(), the$registries)
}

# ---- the cluster ----

# future uses a backend again whose workers it has stopped: with(plan(), ), plan(old). In a forked
# child of the session the cluster is none of its own.
backend_cluster <- function(backend) {
  given <- backend$workers
  if (inherits(given, "clutch_cluster")) return(given)
  pid <- Sys.getpid()
  if (is.null(backend$cluster) || backend$pid != pid) {
    backend$cluster <- cluster_for_futures(given)
    backend$pid <- pid
  }
  backend$cluster
}

# Package future is attached before the fork, from where this session has it. There it shall
# neither read the user's startup script nor set up the plan of this session.
cluster_for_futures <- function(spec) {
  plan <- Sys.getenv("R_FUTURE_PLAN", NA)
  if (!is.na(plan)) {
    Sys.unsetenv("R_FUTURE_PLAN")
    on.exit(Sys.setenv(R_FUTURE_PLAN = plan))
  }
  libraries <- if (is.numeric(spec)) c(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep))
  env <- c(R_FUTURE_STARTUP_SCRIPT = "FALSE", libraries)
  make_cluster(spec, packages = "future", env = env)
}

stop_workers <- function(backend, interrupt = TRUE, ...) {
  if (interrupt) for (f in active_futures(backend)) give_up(f)
  empty_registry(backend)
  # that of a forked child's parent is not the child's to stop
  if (!is.null(backend$cluster) && backend$pid == Sys.getpid()) stop_cluster(backend$cluster)
  backend$cluster <- NULL
  close_journal(backend)
  TRUE
}

count_workers <- function(evaluator) {
  workers <- evaluator$workers
  if (is.numeric(workers)) as.integer(workers) else most_nodes(workers)
}

# Futures that have ended and were not collected count as busy, as with other backends.
count_free <- function(evaluator, background = FALSE, ...) {
  max(0L, count_workers(evaluator) - length(active_futures(evaluator)))
}

active_futures <- function(backend) {
  in_future("FutureRegistry")(backend$reg, "list", earlySignal = FALSE)
}

# ---- to nodes ----

launch_future <- function(backend, future, ...) {
  cl <- backend_cluster(backend)
  await_worker(backend)
  data <- in_future("getFutureData")(future, mc.cores = 1L)
  reset <- data$context$reset # versions before 1.67 have none
  if (is.character(reset)) data$context$reset <- reset[!reset %in% reset_by_node]
  hear <- function(cond) if (inherits(cond, "clutch_live")) relay_live(future, cond$condition)
  needs <- needs_beside(data$core$expr, data$core$globals)
  called <- called_future(future)
  future[["task"]] <- submit_future(backend, cl, data, needs, isTRUE(future$gc), hear, called)
  future[["state"]] <- "running"
  register_future(backend, future)
  future
}

# A fresh workspace for each task puts this back: after the answer has left, and where something was
# changed. For future it takes a seventh of the time of a short future.
reset_by_node <- c("globalenv", "options", "envvars", "pwd")

# future sends the variables that the code of a future names, and attaches packages of which that
# uses something. These are needed besides: methods of the workspace, packages and variables that
# methods and functions in lists and objects use. Variables that the code names itself are future's
# affair: it was told which to send.
needs_beside <- function(expr, globals) {
  env <- list2env(as.list(globals), parent = globalenv())
  code <- eval(call("function", NULL, expr), env)
  needs <- find_needs(list(code), TRUE, env)
  named <- c(names(globals), all.names(expr))
  needs$globals <- needs$globals[setdiff(names(needs$globals), named)]
  needs
}

# The options that users have set for tasks are in force, but for those that future sees to itself.
# `hear` gets what is signalled on the node.
submit_future <- function(backend, cl, data, needs, collect_garbage, hear, called) {
  o <- list(seed = FALSE, relay = hear, fresh = TRUE)
  o$journal <- backend$journal
  o <- task_options(o, submit_options)
  o$called <- called
  o$max_size <- Inf # future has a limit of its own
  o$pointers <- "allow" # and its option future.globals.onReference
  records <- !is.null(o$journal)
  known <- if (records) known_by(data, needs)
  if (records) keep_journal_open(backend, o)
  label <- if (records && is.name(called[[2L]])) paste("future:", called[[2L]]) else "a future"
  submit(tasks_of(cl), run_future, needs, o, label, NULL, list(data, collect_garbage, records),
         known)
}

# A journal knows a future by this. The rest of `data` is other for each future, or is only about
# how it is evaluated.
known_by <- function(data, needs) {
  core <- data$core
  capture <- data$capture
  own <- stats::setNames(lapply(seq_along(core$globals), function(i) core$globals[[i]]),
                         names(core$globals))
  needs$globals <- c(own, needs$globals)
  needs$attach <- union(core$packages, needs$attach)
  classes <- as.character(capture$conditionClasses)
  list(fun = eval(call("function", NULL, core$expr), globalenv()), needs = needs,
       args = list(seed = core$seed, stdout = capture$stdout, conditions = classes))
}

# The journal is open as long as the plan is in force: else it would be read anew for each future.
keep_journal_open <- function(backend, o) {
  pid <- Sys.getpid()
  if (identical(backend$journal_pid, pid)) return(invisible())
  backend$open_journal <- open_journal(journal_path(o$journal), o$journal_sync)
  backend$journal_pid <- pid
}

close_journal <- function(backend) {
  if (identical(backend$journal_pid, Sys.getpid())) .Call(ffi_handle_end, backend$open_journal)
  backend$open_journal <- backend$journal_pid <- NULL
}

# The value is the label of the future's job, see task-job-label.R.
called_future <- function(future) {
  label <- future$label
  is_labelled <- is_filled(label)
  list("future", if (is_labelled) as.name(label) else future$expr)
}

# On a node. A cluster of the user's may have another future than this session. With a journal a
# future that has failed is a task that has: it is not to be taken from there as done. Also where
# copies of failed tasks are kept, see cluster_debug().
run_future <- function(data, collect_garbage, is_recorded = FALSE) {
  if (!isTRUE(the_node$serving)) return(replay_future(data$core))
  ns <- asNamespace("future")
  if (is.null(ns$evalFuture)) {
    text <- "package future of the node is %s, and has to be 1.40.0 or newer: %s"
    stop(sprintf(text, getNamespaceVersion(ns), getNamespaceInfo(ns, "path")), call. = FALSE)
  }
  if (collect_garbage) on.exit(gc())
  # future sets these for all futures: else the node would put them back after each
  before <- options("warn", "device", "future.startup.script")
  on.exit(options(before), add = TRUE)
  # where the session makes errors of warnings, it does so when they are relayed
  if (before$warn >= 2) options(warn = 0)
  leaves_copy <- !is.null(.Call(ffi_frozen_wanted))
  if (leaves_copy) data$core$expr <- as.call(list(USER_CODE, data$core$expr))
  result <- ns$evalFuture(data)
  if (!is_recorded && !leaves_copy) return(result)
  failed <- if (inherits(result, "FutureResult")) failure_in(result) else simpleError("no result")
  if (is.null(failed)) return(result)
  stop(errorCondition(message_of(failed, 1e6), class = "clutch_future_failed", result = result,
                      parent = failed, call = NULL))
}

# The error that a future ended with; NULL: it has a value.
failure_in <- function(result) {
  last <- result$conditions[length(result$conditions)]
  if (length(last) && inherits(last[[1L]]$condition, c("error", "interrupt"))) last[[1L]]$condition
}

# In the session, for cluster_replay().
replay_future <- function(core) {
  attach_here(core$packages)
  if (is.numeric(core$seed)) {
    seed <- session_seed()
    on.exit(put_session_seed(seed))
    put_session_seed(core$seed)
  }
  eval(core$expr, list2env(as.list(core$globals), parent = globalenv()))
}

# Until a node is free. Futures that have ended hold none, but future's list of them; with the first
# of them collected it has a place.
await_worker <- function(backend) {
  n <- count_workers(backend)
  registry <- in_future("FutureRegistry")
  while (length(futures <- active_futures(backend)) >= n) {
    await_any(futures)
    registry(backend$reg, "collect-first", earlySignal = TRUE)
  }
}

await_any <- function(futures) {
  tasks <- lapply(futures, function(f) f$task)
  while (all(vapply(tasks, function(x) is.null(outcome(x)), NA))) step_for_any(tasks, 1)
}

# ---- for package future, when it is loaded ----

register_future_backend <- function(ns) {
  on_backend <- list(launchFuture = launch_future, interruptFuture = give_up_future,
                     stopWorkers = stop_workers, nbrOfWorkers = count_workers,
                     nbrOfFreeWorkers = count_free)
  on_future <- list(resolved = future_resolved, result = future_result,
                    getFutureBackendConfigs = future_configs)
  for (g in names(on_backend)) add_method(ns, g, "ClutchFutureBackend", on_backend[[g]])
  for (g in names(on_future)) add_method(ns, g, "ClutchFuture", on_future[[g]])
  if (!is_starting()) return()
  setHook(packageEvent("future", "attach"), function(...) try(warm_up_future(ns), silent = TRUE))
}

# In a fork server that attaches package future: what every future needs is read from disk and
# compiled before the fork. In a node it would take as long as twenty futures.
warm_up_future <- function(ns) {
  code <- quote({
    message("warm-up")
    stop("warm-up")
  })
  for (i in 1:3) run_future(ns$getFutureData(ns$Future(code, substitute = FALSE)), FALSE)
}
