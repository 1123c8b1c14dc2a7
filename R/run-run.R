#' Run a function on all nodes at the same time
#'
#' `cluster_run()` calls `f(rank, ...)` on every node of a cluster, at the same time, and returns
#' their values. Meanwhile these calls, the *parts* of the run, can send messages to each other, see
#' [node_send()], and compute together, see [node_barrier()]: that is what programs need whose nodes
#' depend on each other in each step, as in k-means, in parallel tempering, in a simulation on a
#' grid.
#'
#' @section Ranks: Each part has a rank, a number from 1 to the number of nodes. The part of rank
#'   `i` runs on node `cl[[i]]`. A node that is at a task when the run begins takes part when that
#'   task has ended; who needs it waits.
#' @section Failures: When a part fails, or its node dies, that is the error of the run. Other parts
#'   that wait for it, or for any, get an error, see [node_receive()]. A second later those that
#'   still go on are interrupted. The cluster can be used at once; a node that has died is replaced,
#'   and has the same rank in the next run. Messages belong to one run: nothing that was sent in an
#'   earlier one arrives in a later one.
#'
#'   Ctrl-C, or an error in the session, ends all parts.
#' @section Where it works: Nodes of one machine send messages through memory that they share. With
#'   nodes on several hosts, made by [hosts()], [slurm()] or [hosts_command()], that is so on each
#'   host. Between hosts messages go over the connections that the session has with them, encrypted
#'   as these are, and outlast a cut. Each host has one process more for that, while the run lasts.
#'   A value that is sent to many nodes of a host crosses once. Nodes on other machines that were
#'   started by strategy `"parallel"` cannot take part.
#'
#'   A run cannot be begun within a task.
#' @param cl cluster made by [make_cluster()]. `NULL`: the session's own, see [own-cluster].
#' @param f function, or the name of one, or a formula as in [cluster_map()]. Its first argument is
#'   the rank. The variables and packages that it needs travel with it.
#' @param ... further arguments of `f`, the same for all parts. One that is called `f`, or whose
#'   name begins like `cl`, goes into a function of its own: `function(rank) g(rank, f = 1)`.
#' @param .globals,.packages,.timeout,.relay,.max_memory,.priority,.fresh,.pointers as in
#'   [cluster_submit()].
#' @param .needs as in [cluster_submit()]: what each part asks for. A host has to have it for all of
#'   its nodes at the same time.
#' @param .seed as in [cluster_map()]: each rank has a random stream of its own.
#' @param .retries,.journal,.journal_sync,.journal_errors have to be as they are by default: a part
#'   cannot be begun again by itself.
#' @param .label string: what the run is called in errors. By default a part is called by its rank.
#' @return List with the value of each part, in the order of ranks.
#' @section Errors: `clutch_run_error`, and the classes of a task's error, see [cluster_map()]: a
#'   part has failed. The condition has a field `rank`: the first one that did for a reason of its
#'   own; and `errors`: a list of all parts' errors, `NULL` for those that have none.
#'   `clutch_node_died`, too: its node has died. `clutch_argument`: nodes on several machines
#'   without a connection for it, see *Where it works*. `clutch_start`: a host cannot take part.
#'   `clutch_resources`: all parts of a host together ask for more than it has.
#' @references The Message Passing Interface, \url{https://www.mpi-forum.org/docs/}, has the model:
#'   ranks, messages that keep their order for each pair, collective operations.
#' @seealso [node_send()], [node_barrier()]
#' @examplesIf .Platform$OS.type == "unix"
#' cl <- make_cluster(2)
#' cluster_run(cl, function(rank) {
#'   other <- 3 - rank
#'   node_send(other, sprintf("hello from %d", rank))
#'   node_receive(other)$value
#' })
#'
#' # the mean of numbers of which each node has some
#' cluster_run(cl, function(rank) {
#'   mine <- rnorm(1000, mean = rank)
#'   node_allreduce(sum(mine)) / node_allreduce(length(mine))
#' })
#' stop_cluster(cl)
#' @export
cluster_run <- new_submit(alist(cl = , f = , ... = ), function() { # nolint
  if (.Call(ffi_is_node)) throw("argument", "cluster_run() cannot be called within a task")
  given(f, "f")
  if (inherits(f, "clutch_cluster")) {
    throw("argument", paste("an argument whose name begins like `cl` was taken for the cluster:",
                            "call a function that has it, as function(rank) g(rank, c = 1)"))
  }
  cl <- cluster_or_own(cl)
  env <- parent.frame()
  code <- as.call(list(substitute(f), quote(...)))
  fun <- function_to_call(f, env)
  args <- check_dots(dots_in(environment()), fun, c(names(submit_arguments), ".label"))
  check_run_options(.retries, .journal)
  t <- tasks_of(cl) # an error where it knows no tasks, or was stopped
  o <- task_options(given_options(environment(), submit_options), submit_options)
  check_at_once(t, o$asked, t$ranks)
  o$called <- called_submit("cluster_run", .label, substitute(f))
  if (o$relay == "live") o$relay <- "ordered"
  needs <- find_needs(list(fun, args), o$globals, env) # R code of others may run
  run(cl, fun, args, needs, o, .label, code)
})

check_run_options <- function(retries, journal) {
  if (!identical(as.numeric(retries), 0) || !is.null(journal)) {
    throw("argument", paste("cluster_run() takes no `.retries` and no `.journal`: its parts depend",
                            "on each other"))
  }
}

run <- function(cl, fun, args, needs, o, label, code) {
  n <- length(cl)
  mesh <- run_memory(cl)
  tasks <- list()
  on.exit(end_run(cl, mesh, tasks))
  seed <- o$seed
  for (rank in seq_len(n)) {
    o["seed"] <- list(seed)
    if (!is.null(seed)) seed <- parallel::nextRNGStream(c(10407L, seed))[-1L]
    called <- paste0(if (!is.null(label)) paste0(label, ": "), "rank ", rank)
    tasks[[rank]] <- submit(tasks_of(cl[rank]), run_part, needs, o, called, code,
                            list(mesh$paths[[rank]], n, rank, mesh$names, fun, args))
    # for cluster_replay(), see task-failed.R
    .Call(ffi_job_keep, tasks[[rank]]$job, list(fun, args, needs, list(rank), o$packages))
  }
  await_parts(mesh, tasks)
  for (x in tasks) relay_once(x)
  errors <- lapply(tasks, function(x) x$outcome$error)
  failed <- which(!vapply(errors, is.null, NA))
  if (length(failed)) stop_in_frames(run_error(errors, failed, mesh$lost()))
  values <- lapply(tasks, function(x) x$outcome$value)
  remember_waits(tasks_of(cl), tasks, lapply(values, `[[`, "waited"))
  lapply(values, `[[`, "value")
}

# For the trace. `waited`: by rank, as of ffi_mesh_waited().
remember_waits <- function(t, tasks, waited) {
  jobs <- vapply(tasks, function(x) .Call(ffi_job_state, x$job)$number, 1)
  seconds <- do.call(rbind, waited)
  new <- data.frame(job = jobs, rank = seq_along(jobs), receive = seconds[, 1L],
                    send = seconds[, 2L], together = seconds[, 3L])
  t$waits <- utils::tail(rbind(t$waits, new), MOST_WAITS)
}
MOST_WAITS <- 10000L

# In the node.
run_part <- function(path, count, rank, hosts, f, args) {
  failed <- TRUE
  the$run_hosts <- hosts
  .Call(ffi_mesh_join, path, count, rank)
  on.exit(.Call(ffi_mesh_leave, failed))
  value <- call_given(f, args, list(rank))
  failed <- FALSE
  list(value = value, waited = .Call(ffi_mesh_waited))
}

# ---- waiting for the parts ----

RUN_GRACE <- 1 # seconds that others have after a failure

# Deaths are told to the other parts as soon as they are known. Waits for one part at a time, and
# looks after all others in between.
await_parts <- function(mesh, tasks) {
  open <- seq_along(tasks)
  until <- Inf
  repeat {
    has_ended <- !vapply(tasks[open], function(x) is.null(outcome(x)), NA)
    for (rank in open[has_ended]) {
      e <- tasks[[rank]]$outcome$error
      if (inherits(e, "clutch_task_died")) mesh$died(rank, e$signal, e$status)
      if (!is.null(e) && until == Inf) until <- clock() + RUN_GRACE
    }
    open <- open[!has_ended]
    if (!length(open)) return(invisible())
    if (until == Inf && length(mesh$lost())) until <- clock() + RUN_GRACE
    if (clock() > until) break
    step_for_task(tasks[[open[[1L]]]], 0.02)
    for (rank in open[-1L]) relay_queue(tasks[[rank]]$scheduler, tasks[[rank]]$job) # its prompts
  }
  mesh$end()
  for (rank in open) {
    cancel(tasks[[rank]])
    outcome(tasks[[rank]])
  }
}

# Whatever happened: no part goes on, and no node keeps anything.
end_run <- function(cl, mesh, tasks) {
  for (x in tasks) cancel(x)
  mesh$end()
  for (rank in mesh$keep()) tell_handle(.subset2(cl[[rank]], "handle"), forget_run, list())
  mesh$close()
}

forget_run <- function() .Call(ffi_mesh_forget)

# The error of the first part that failed for a reason of its own. `lost`: text, why the run could
# not go on; or character().
run_error <- function(errors, failed, lost) {
  follows <- vapply(errors[failed], function(e) inherits(e$parent, "clutch_run_stop"), NA)
  cancelled <- vapply(errors[failed], inherits, NA, "clutch_task_cancelled")
  own <- failed[!follows & !cancelled]
  rank <- c(own, failed[!cancelled], failed)[[1L]]
  e <- errors[[rank]]
  died <- if (inherits(e, "clutch_task_died")) "clutch_node_died"
  class(e) <- unique(c(died, "clutch_run_error", class(e)))
  if (!length(own) && length(lost)) e$message <- paste(c(e$message, lost), collapse = "\n")
  e$rank <- rank
  e$errors <- errors
  e
}
