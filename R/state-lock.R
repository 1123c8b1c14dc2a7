#' A lock for tasks that must not run at the same time
#'
#' `with_lock()` evaluates an expression while no other process does so with the same lock: tasks
#' that write to one file, to one database, or that use a device of which there is one.
#'
#' @section Guarantees: One process at a time has the lock. It is given back when the expression has
#'   been evaluated, has failed, or was interrupted. When a process ends that has it, the system
#'   hands the lock on at once, and the next one is told by a warning: what the lock protects may be
#'   half done. Who waits gets it in no certain order.
#'
#'   A process that has the lock can take it again, also in a method of an actor that lives in that
#'   node and is called while the one that has the lock waits: see [cluster_actor()], *Where it
#'   lives*. Its forked children, as those of [parallel::mclapply()], do not have it: one that asks
#'   for it waits for its parent.
#' @section Where it works: In the process that has made it, in tasks on nodes of this machine, and
#'   in processes that these have started with such an object as argument, on Linux, macOS and the
#'   BSDs. It exists as long as the object in the process that has made it: keep it while tasks use
#'   it. On Linux and FreeBSD who waits is woken by the system; elsewhere it looks every
#'   millisecond.
#'
#'   In tasks on other hosts, too, where `cl` is a cluster that has nodes there, of [hosts()],
#'   [slurm()] or [hosts_command()]. They ask this machine, over the session's connection with their
#'   host: each use takes the time of a message and its answer. A process of this machine stands for
#'   each of theirs, and its number is what is said of them here. It ends when the other does, when
#'   its host is lost, and when the session ends, but not by a cut that [hosts()] survive.
#' @param cl cluster made by [make_cluster()], whose nodes are to use it, also those that it has
#'   later. `NULL`: nodes of this machine will.
#' @param lock object made by `cluster_lock()`.
#' @param expr expression to be evaluated.
#' @param timeout number of seconds to wait for the lock, at most.
#' @return
#' * `cluster_lock()`: object of class `clutch_lock`. It travels to nodes as any variable does.
#' * `with_lock()`: value of `expr`.
#' * `lock_info()`: list with `pid` (the process that has it, `NA`: none), `taken` (how often it was
#'   taken) and `died` (how often its holder has ended with it). Numbers.
#' @section Errors: `clutch_timeout`: the lock was not free within `timeout` seconds.
#'   `clutch_state_gone`: the lock does not exist any more, or the machine where it is cannot be
#'   asked. `clutch_argument`: nodes of `cl` are on other machines, without a connection for this.
#'   A warning of class `clutch_holder_died`, with a field `pid`: the process that had the lock
#'   before has ended with it. `expr` is evaluated nevertheless, unless a handler of that warning
#'   prevents it.
#' @references The robust mutexes of POSIX threads are documented in `pthread_mutexattr_setrobust`
#'   of the Open Group's base specifications, issue 7.
#' @seealso [cluster_counter()], [cluster_rate()], [cluster_table()]
#' @examplesIf .Platform$OS.type == "unix"
#' cl <- make_cluster(2)
#' file <- tempfile()
#' lock <- cluster_lock(cl)
#' done <- cluster_map(cl, 1:10, function(i) {
#'   with_lock(lock, {
#'     n <- if (file.exists(file)) as.numeric(readLines(file)) else 0
#'     writeLines(format(n + i), file)
#'   })
#' })
#' readLines(file)  # 55
#' stop_cluster(cl)
#' @export
cluster_lock <- function(cl = NULL) new_state("lock", cl)

#' @rdname cluster_lock
#' @export
with_lock <- function(lock, expr, timeout = Inf) {
  if (!missing(timeout)) check_timeout(timeout)
  x <- .Call(ffi_lock_with, lock, timeout, environment())
  if (is.null(x)) x <- with_lock_there(lock, timeout, environment())
  if (x$visible) x$value else invisible(x$value)
}

# C code calls this, with the lock.
tell_of_holder <- function(pid) {
  text <- sprintf("process %d has ended while it had the lock: what that protects may be half done",
                  pid)
  class <- c("clutch_holder_died", "clutch_warning")
  warning(warningCondition(text, pid = pid, class = class, call = NULL))
}

#' @rdname cluster_lock
#' @export
lock_info <- function(lock) or_there(lock_info_here(lock), "lock_info", lock)

# The lock of a process that has ended is free, though nobody has taken it since. NULL: it is on
# another host.
lock_info_here <- function(lock) {
  x <- .Call(ffi_lock_info, lock)
  if (is.null(x) || is.na(x$pid)) return(x)
  is_there <- .Call(ffi_processes_are_there, x$pid) &&
    !.Call(ffi_process_letter, x$pid) %in% c("Z", "X")
  if (!is_there) x$pid <- NA_integer_
  x
}

#' @export
format.clutch_lock <- function(x, ...) {
  holder <- lock_info(x)$pid
  paste("clutch lock,", if (is.na(holder)) "free" else paste("taken by process", holder))
}

# ---- on another host ----

# A delegate has the lock for this process, which has a connection to it meanwhile. When this
# process ends so does that. `the$locks_there` has, by the lock's name, the process that has it: a
# child of that does not. `env`: has `expr`.
with_lock_there <- function(lock, timeout, env) {
  evaluate <- function() eval(quote(withVisible(expr)), env)
  if (has_lock_there(lock)) return(evaluate())
  socket <- connect_forwarder()
  suspendInterrupts({
    tryCatch({
      taken <- allowInterrupts(ask_by(socket, "take_lock", list(lock, timeout), timeout))
      before <- value_of_answer(taken)
      say_has_lock(socket)
      the$locks_there[[lock$name]] <- Sys.getpid()
      allowInterrupts({
        if (before != 0) tell_of_holder(before)
        evaluate()
      })
    }, finally = give_lock_there(lock, socket))
  })
}

has_lock_there <- function(lock) identical(the$locks_there[[lock$name]], Sys.getpid())

# Where it was not taken the process there has nothing to give, or ends.
give_lock_there <- function(lock, socket) {
  if (has_lock_there(lock)) {
    the$locks_there[[lock$name]] <- NULL
    tryCatch(ask_by(socket, "give_lock", list(lock), 5), clutch_error = function(e) NULL)
  }
  close(socket)
}
