# Actors. In R an actor is an environment with the name of its shared memory, which travels. The
# process that has made it has a record of it besides, in `the$actors` by that name: a cluster of
# one node, whose task serves the actor, and what is needed to submit that task again. Of one that
# lives in a node of its cluster, see actor-settled.R.

#' State that lives on one node
#'
#' `cluster_actor()` starts a process that keeps what the function `f` has made: an *actor*. With
#' `exclusive = FALSE` a node of the cluster keeps it besides its tasks. The session, tasks and
#' other actors call its methods: a model that is trained by many, a connection to a data base, a
#' cache, a queue with rules of its own.
#' * `actor_call()` calls a method and waits for its value.
#' * `actor_cast()` calls one and does not wait.
#' * `actor_stop()` ends the actor, when it has done what was asked before.
#' * `cluster_actors()` tells of all actors of a cluster, as [cluster_top()] and
#'   [cluster_dashboard()] do.
#'
#' @section Guarantees: An actor does one call at a time. Calls of one process are done in the order
#'   in which it has made them; those of several in no certain order. A call is begun once at most.
#'
#'   An error of a method is the error of the call; the actor goes on. Its messages and warnings are
#'   relayed to the caller. What is printed is not shown.
#' @section Where it lives: Each actor has a node of its own, beside those of `cl`, with what `cl`
#'   was made with: packages, `preload`, variables, [cluster_setup()] and [cluster_export()] so far.
#'   So a busy actor delays no map, and a map delays no actor. It is on this machine, also where
#'   nodes of `cl` are on other hosts.
#'
#'   With `exclusive = FALSE` there is no further process. The actor lives in a node of `cl` on this
#'   machine: the one with the fewest such actors. Any number may live in one node.
#'   * The node goes on with maps, tasks and calls. It does the actor's calls when it has nothing
#'     else to do, between two tasks, and while a task waits in a function of this package. While a
#'     task computes, calls wait: a call's `.timeout` and Ctrl-C are in force meanwhile. While a
#'     call is done, tasks of that node wait.
#'   * A task of that node that calls the actor has it done at once: first what waits there, then
#'     its own call. So has an actor that calls another one of its node. A process that such a task
#'     has forked cannot call the actor: `clutch_deadlock`.
#'   * A lock that a task has in [with_lock()] while it waits keeps the methods of its node's actors
#'     from nothing: they run in the same process, which has the lock. An actor with a node of its
#'     own waits for it.
#'   * Tasks and calls of the cluster do not see the actor's variables and packages, nor do its
#'     calls change their random numbers. Options, environment variables, the working directory and
#'     sinks that a method sets are put back when it has ended. S3 methods among the actor's
#'     variables are found where its own functions call the generic. The actor does not see the
#'     variables of tasks, but what [cluster_setup()] and [cluster_export()] put into the node.
#'   * A cluster that grows and shrinks, as `make_cluster(c(2, 16))`, has them in its first nodes,
#'     which stay. A node with an actor is neither ended since it is idle, nor stopped or ended for
#'     want of memory. A task that is cancelled, or whose time is up, does not end the node while
#'     that does a call for somebody else.
#'   * The node's death is the actor's: a crash, a task that ends R or does not react when its time
#'     is up, more memory than a map's `.max_memory`, in which the actor's state counts, and the
#'     end of the node by [stop_cluster()].
#'   * An error of class `clutch_argument` says where it cannot be: the session's own cluster
#'     (`cl = NULL`), clusters without a node on this machine, with `.max_memory`, and with S4
#'     classes or methods of the workspace.
#'
#'   An actor travels to tasks as any variable does, and to processes that these start on their
#'   machine. Tasks on hosts of [hosts()], [slurm()] or [hosts_command()] call it over the session's
#'   connection with their host, see [cluster_lock()], *Where it works*. It exists as long as the
#'   object in the process that has made it, and that process; it ends with [stop_cluster()] of
#'   `cl`, too.
#' @section Deaths: When its process dies, the call at work fails. With `restart = "never"`, so do
#'   all others. With `"always"` a new process calls `f` again, and calls that had not begun are
#'   done by it; casts that had not begun are lost. After more than `restarts` deaths within
#'   `period` seconds the actor has ended. The session starts the new process: when it waits in a
#'   function of this package, or is idle at the prompt with package \pkg{later} installed. With
#'   `exclusive = FALSE` that is another node of `cl`, or the one in place of the dead one, and the
#'   session begins it when it waits in such a function. Where no node takes it within some seconds,
#'   as when tasks that wait for it are at work in all nodes, it gets a node of its own.
#'
#'   With `.journal` the new process first does all calls and casts that had ended again, in their
#'   order, from the same random numbers: so its state is what it was, as far as methods depend on
#'   nothing else. So does an actor that another session makes with that journal. A call that was
#'   given up at work is not recorded: what it had done by half is not done again.
#'
#'   A large value that a process has cast is lost where that process ends before the actor has
#'   taken it.
#' @param cl cluster made by [make_cluster()]. `NULL`: the session's own, see [own-cluster].
#' @param f function, or the name of one: its value is the actor's methods, a list of functions with
#'   names, or an environment of functions, as an object of class \pkg{R6} is. The variables and
#'   packages that it needs travel with it.
#' @param args list: the arguments of `f`.
#' @param restart string, `"never"` or `"always"`: see *Deaths*.
#' @param restarts,period number of deaths, and of seconds: see *Deaths*.
#' @param exclusive `TRUE` (default): the actor has a node of its own. `FALSE`: it lives in a node
#'   of `cl`, which does its calls when no task is at work there, see *Where it lives*.
#' @param .journal string: file in which calls are recorded, see *Deaths*. It is made if it does not
#'   exist. `NULL`: none.
#' @param .globals,.packages,.seed,.max_memory,.pointers as in [cluster_submit()].
#' @param .label string: what the actor is called in errors and in `cluster_actors()`. By default
#'   the name of `f`, or a number.
#' @param actor object made by `cluster_actor()`.
#' @param method string: name of the method.
#' @param ... arguments of the method.
#' @param .timeout,timeout number of seconds to wait, at most. A call that is given up is not begun,
#'   or is interrupted; so is one that is interrupted by Ctrl-C.
#' @return
#' * `cluster_actor()`: object of class `clutch_actor`, when `f` has returned.
#' * `actor_call()`: the value of the method.
#' * `actor_cast()`: `NULL`, invisibly, when the message has been sent.
#' * `actor_stop()`: `TRUE`, or `FALSE` when it had ended; invisibly.
#' * `cluster_actors()`: data frame with a row for each actor: `label`, `pid`, `state` (`"begins"`,
#'   `"up"`, `"down"`, `"ended"`), `queue` (calls and casts that wait), `method` (at work, or `NA`),
#'   `done` (number of calls and casts), `busy` (seconds at work), `restarts` (number), `waits_for`
#'   (label of the actor for whose answer it waits, or `NA`).
#' @section Errors: All have class `clutch_error`.
#'   * `clutch_actor_error`: the method has failed. Fields `parent` (its error), `method`.
#'   * `clutch_actor_died`: the actor's process has died, with this call at work or before. Fields
#'     `how`, `pid`, and `begun`: whether the call was at work.
#'   * `clutch_actor_stopped`: the actor was stopped.
#'   * `clutch_state_gone`: on another host: the machine where the actor is cannot be asked.
#'   * `clutch_timeout`: there was no answer within the time.
#'   * `clutch_deadlock`: the actor waits for the caller, directly or by others.
#'   * `clutch_argument`: there is no such method, or nodes of `cl` are on other machines,
#'     without a connection for this, or the actor cannot live in a node of `cl`.
#'
#'   `cluster_actor()` raises the error of `f` as [collect()] does that of a task.
#' @references The behaviour `gen_server` and the restart strategies of Erlang/OTP,
#'   \url{https://www.erlang.org/doc/system/gen_server_concepts.html}, are what calls, casts and
#'   restarts here are after.
#' @seealso [cluster_lock()], [cluster_run()]
#' @examplesIf .Platform$OS.type == "unix"
#' cl <- make_cluster(2)
#' counter <- cluster_actor(cl, function() {
#'   n <- 0
#'   list(add = function(k) n <<- n + k, get = function() n)
#' })
#' actor_call(counter, "add", 1)
#' done <- cluster_map(cl, 1:10, function(i) actor_call(counter, "add", i))
#' actor_call(counter, "get")
#' cluster_actors(cl)
#' actor_stop(counter)
#'
#' # in a node of the cluster, without a further process
#' seen <- cluster_actor(cl, function() {
#'   names <- character()
#'   list(add = function(x) names <<- union(names, x), all = function() names)
#' }, exclusive = FALSE)
#' done <- cluster_map(cl, c("a", "b", "a"), function(x) actor_cast(seen, "add", x))
#' actor_call(seen, "all")
#' stop_cluster(cl)
#' @export
cluster_actor <- function(cl, f, args = list(), restart = c("never", "always"), restarts = 3,
                          period = 60, exclusive = TRUE, .journal = NULL, .globals = TRUE,
                          .packages = NULL, .seed = TRUE, .max_memory = Inf, .pointers = "error",
                          .label = NULL) {
  is_own <- !missing(cl) && is_own(cl)
  cl <- cluster_or_own(cl)
  given(f, "f")
  exclusive <- check_flag(exclusive, "`exclusive`")
  if (!exclusive && !missing(.max_memory)) {
    throw("argument", "`.max_memory` is a limit of the actor's node: not with `exclusive = FALSE`")
  }
  restart <- check_choice(restart[1L], "`restart`", c("never", "always"))
  check_number(restarts, "`restarts`", 0, "a number, 0 or more")
  check_number(period, "`period`", 0, "a number of seconds, 0 or more")
  if (!is.list(args)) has_to_be("`args`", "a list of arguments")
  if (!is.null(.journal)) .journal <- check_actor_journal(.journal)
  open_forwarders(cl, "actor")
  env <- parent.frame()
  code <- as.call(list(substitute(f), quote(...)))
  fun <- function_to_call(f, env)
  taken <- options_taken(c("globals", "packages", "seed", "max_memory", "pointers"))
  o <- task_options(given_options(environment(), taken), taken)
  label <- if (!is.null(.label)) check_label(.label) else if (is.name(substitute(f))) {
    as.character(substitute(f))
  } else {
    sprintf("number %d", the$actor_number + 1)
  }
  o$called <- called_submit("cluster_actor", paste("actor", label), substitute(f))
  o$relay <- "none"
  needs <- find_needs(list(fun, args), o$globals, env) # R code of others may run
  if (!exclusive) check_home(cl, is_own, needs)
  x <- new_actor(label, restart == "always")
  record <- the$actors[[x$name]]
  plan <- list(fun = fun, args = args, needs = needs, o = o, code = code, journal = .journal)
  # as bytes: see nothing_of_job
  if (restart == "always") record$plan <- serialize(plan, NULL, xdr = FALSE)
  record$restart <- list(always = restart == "always", most = restarts, period = period)
  started <- FALSE
  on.exit(if (!started) end_actor(record))
  if (exclusive) record$cl <- actor_cluster(cl) else record$home <- cl
  belongs_to(record, tasks_of(cl))
  submit_actor(record, plan)
  await_start(record)
  if (!is.null(record$task)) .Call(ffi_job_keep, record$task$job, nothing_of_job)
  started <- TRUE
  x
}

# A job keeps its function for the errors of its tasks, whose environment may have the
# actor itself, which would never be garbage.
nothing_of_job <- list(NULL, NULL, list(globals = list()), NULL, NULL)

check_label <- function(x) {
  if (!is_string(x)) has_to_be("`.label`", "a string")
  x
}

# ---- records ----

new_actor <- function(label, may_restart) {
  x <- new.env(parent = emptyenv())
  x$name <- .Call(ffi_actor_new, tempdir(), may_restart)
  x$label <- label
  x$pid <- Sys.getpid()
  x$host <- Sys.info()[["nodename"]]
  record <- new.env(parent = emptyenv())
  record$name <- x$name
  record$label <- label
  record$pid <- x$pid
  record$deaths <- numeric()
  record$number <- the$actor_number <- the$actor_number + 1
  assign(x$name, record, the$actors)
  .Call(ffi_actor_made, TRUE)
  reg.finalizer(x, drop_actor)
  class(x) <- "clutch_actor"
  lockEnvironment(x, bindings = TRUE)
  x
}

drop_actor <- function(x) {
  if (x$pid != Sys.getpid()) return()
  record <- the$actors[[x$name]]
  if (!is.null(record)) end_actor(record, quick = TRUE)
}

# Nobody calls it any more. `quick`: its node ends when R next collects garbage: this may be within
# a collection.
end_actor <- function(record, quick = FALSE) {
  if (record$pid != Sys.getpid() || !forget_in(the$actors, record)) return(invisible())
  record$ended <- TRUE
  .Call(ffi_actor_forget, record$name)
  see_to_no_more()
  if (!is.null(record$of)) forget_in(record$of$actors, record)
  leave_home(record, quick)
  invisible()
}

# `t`: the tasks of the cluster for which it was made, whose end is its end.
belongs_to <- function(record, t) {
  if (is.null(t$actors)) t$actors <- new.env(parent = emptyenv())
  record$of <- t
  assign(record$name, record, t$actors)
  .Call(ffi_view_actor, t$info$view, record$number, record$name, record$label)
  t$at_stop$actors <- end_actors_of
}

end_actors_of <- function(t) for (record in as.list(t$actors)) end_actor(record)

# One node with all that those of `cl` have.
actor_cluster <- function(cl) {
  info <- cl[[1L]]$info
  made <- info$plan$made_by
  if (is.null(made)) made <- made_by_default(1) # the session's own
  made$spec <- 1
  made[c("resources", "min_hosts", "idle")] <- list(NULL)
  one <- make_cluster_again(made, preload_of(info))
  setup <- setup_of(info)
  for (s in setup) call_all_nodes(one, s$fun, s$arg, "what the cluster was told before failed")
  if (length(setup)) set_setup(one[[1L]]$info, setup)
  one
}

# ---- starting ----

submit_actor <- function(record, p = unserialize(record$plan)) {
  if (!is.null(record$home)) return(submit_settled(record, p))
  args <- list(record$name, p$fun, p$args, p$journal)
  called <- paste("actor", record$label)
  record$task <- submit(tasks_of(record$cl), serve_actor, p$needs, p$o, called, p$code, args)
  # for cluster_replay(), see task-failed.R
  .Call(ffi_job_keep, record$task$job, list(p$fun, p$args, p$needs, NULL, p$o$packages))
}

await_start <- function(record) {
  repeat {
    if (.Call(ffi_actor_info, record$name)$state == ACTOR_UP) break
    step_for_task(record$task, 0.05)
    see_to_actor(record)
    if (is.null(record$task)) break # with restart = "always" there is another one
  }
  e <- record$error
  if (!is.null(e)) stop_in_frames(e)
}

# ---- deaths ----

# Does what this process has to do for its actors while it waits: C code calls this, too. Nothing
# happens within itself, where it steps.
see_to_actors <- function() {
  if (the$sees_to_actors || clock() < the$actors_seen + ACTOR_PAUSE) return(invisible())
  the$sees_to_actors <- TRUE
  on.exit(the$sees_to_actors <- FALSE)
  the$actors_seen <- clock()
  if (length(the$actors_left)) leave_homes()
  for (record in as.list(the$actors)) {
    if (record$pid != Sys.getpid()) next # a child of the session
    if (!is.null(record$task)) step_for_task(record$task, 0)
    see_to_actor(record)
  }
}
ACTOR_PAUSE <- 0.02 # seconds

see_to_actor <- function(record) {
  task <- record$task
  if (isTRUE(record$ended)) return(invisible())
  if (is.null(task)) return(restart_if(record, see_to_settled(record)))
  end <- outcome(task)
  if (is.null(end)) {
    if (!is.null(record$home) && waits_for_home(record)) move_out(record)
    return(invisible())
  }
  record$task <- NULL
  if (inherits(end$error, "clutch_task_died")) {
    return(restart_or_end(record, end$error, task$scheduler$latest$how))
  }
  if (!is.null(record$home) && is.null(end$error)) {
    return(restart_if(record, has_settled(record)))
  }
  record$ended <- TRUE
  record$error <- end$error
  if (!length(record$deaths)) {
    forget_in(record$of$actors, record) # it was stopped, or has never been
    .Call(ffi_actor_set, record$name, ACTOR_ENDED, NULL)
  } else if (!is.null(end$error)) {
    end_for_good(record, end$error)
  }
  leave_home(record)
}

# It gets a node of its own.
move_out <- function(record) {
  home <- record$home
  leave_home(record) # its task is cancelled
  record$home <- record$task <- record$rank <- NULL
  begin_again(record, {
    record$cl <- actor_cluster(home)
    submit_actor(record)
  })
}

# `death`: of see_to_settled().
restart_if <- function(record, death) {
  if (!is.null(death)) restart_or_end(record, death, death$how)
  invisible()
}

# `how`: its process has ended.
restart_or_end <- function(record, e, how) {
  r <- record$restart
  record$deaths <- c(record$deaths, clock())
  recent <- sum(record$deaths > clock() - r$period)
  again <- r$always && recent <= r$most
  state <- if (again) ACTOR_DOWN else ACTOR_ENDED
  .Call(ffi_actor_set, record$name, state, how)
  if (again) begin_again(record, submit_actor(record)) else end_with(record, e)
}

# `code` begins it. Where that cannot be, the actor has ended for good.
begin_again <- function(record, code) {
  e <- tryCatch({
    code
    NULL
  }, error = identity)
  if (is.null(e)) return(invisible())
  end_for_good(record, e)
  end_with(record, e)
}

end_with <- function(record, e) {
  record$ended <- TRUE
  record$error <- e
  leave_home(record)
}

# It could not be begun again.
end_for_good <- function(record, e) {
  why <- paste("it could not be begun again:", conditionMessage(e))
  .Call(ffi_actor_set, record$name, ACTOR_ENDED, why)
}

# ---- looking ----

#' @rdname cluster_actor
#' @export
cluster_actors <- function(cl) {
  cl <- cluster_or_own(cl)
  see_to_actors()
  actors <- tasks_of(cl)$actors
  records <- if (!is.null(actors)) unname(as.list(actors))
  records <- Filter(function(r) !is.null(the$actors[[r$name]]), records)
  records <- records[order(vapply(records, function(r) r$number, 1))]
  info <- lapply(records, function(r) .Call(ffi_actor_info, r$name))
  of <- function(name, kind) vapply(info, `[[`, kind, name)
  method <- of("method", "")
  waits <- of("waits", "")
  labels <- vapply(records, function(r) r$label, "")
  others <- lapply(as.list(the$actors), function(r) r$label) # of other clusters, too
  awaited <- vapply(waits, function(name) c(others[[name]], NA_character_)[[1L]], "")
  data.frame(
    label = labels, pid = of("pid", 1L), state = ACTOR_STATES[of("state", 1L) + 1L],
    queue = of("queue", 1), method = ifelse(nzchar(method), method, NA_character_),
    done = of("done", 1), busy = round(of("busy", 1), 6),
    restarts = vapply(records, function(r) length(r$deaths) - isTRUE(r$ended) *
                        !is.null(r$error), 1),
    waits_for = as.character(unname(awaited))
  )
}

# Tells whether it is on another host, which can be asked.
is_actor_there <- function(actor) !.Call(ffi_actor_is_here, actor) && is_forwarded(actor)

#' @export
format.clutch_actor <- function(x, ...) {
  if (is_actor_there(x)) return(ask_forwarded("format.clutch_actor", list(x)))
  is <- tryCatch(.Call(ffi_actor_info, x), clutch_actor_died = function(e) NULL)
  if (is.null(is)) return(sprintf("clutch actor %s that is gone", x$label))
  state <- ACTOR_STATES[[is$state + 1L]]
  if (state != "up") return(sprintf("clutch actor %s, %s", x$label, state))
  sprintf("clutch actor %s: process %d, %.0f calls done, %.0f wait", x$label, is$pid, is$done,
          is$queue)
}

#' @export
print.clutch_actor <- function(x, ...) {
  cat("<", format(x), ">\n", sep = "")
  invisible(x)
}
