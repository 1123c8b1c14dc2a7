# Nodes of this machine that come and go with the work of their cluster: make_cluster(c(2, 16)).
#
# core/tasks/grow.c decides and does it, also while the session computes. Here it is told what a
# node needs, and heard what has come of it. There are numbers for all nodes that there may be. `cl`
# is the list of the first nodes; info$handles has all. The handle of a node that is not there is of
# one that was stopped. It gets the new node by ffi_tasks_grown() or ffi_tasks_deaths(). One that
# has died is not replaced: another comes where one is needed.

GROW_LIMIT <- 20 # seconds that a fork server may take to be ready again
GROW_PAUSE <- 5 # seconds until that is tried again

# The manager of a cluster that grows, see manager_of().
manage_growth <- function(t) {
  begin_growth(t)
  list(step = see_to_growth, hear_of_ends = function(t) NULL, await = function(t, seconds) FALSE,
       may_come_again = function(t, rank) FALSE)
}

begin_growth <- function(t) {
  info <- t$info
  numbers <- c(info$plan$first, length(info$hosts), info$number, info$plan$idle)
  .Call(ffi_tasks_growth, t$ptr, info$server$handle, start_kind(info), as.double(numbers))
  tell_calls(info)
}

# In each step: for how many seconds that may wait at most.
see_to_growth <- function(t) {
  is_blocked <- .Call(ffi_tasks_growth_is_blocked, t$ptr) && clock() >= t$grow_again
  if (is_blocked) unblock_growth(t)
  Inf
}

# The fork server has ended, or has been given the settings of another cluster.
unblock_growth <- function(t) {
  t$grow_again <- clock() + GROW_PAUSE # what follows may be interrupted
  end <- clock() + GROW_LIMIT
  left <- function() max(end - clock(), 0.01)
  failed <- tryCatch({
    renew_server(t$info, 1L, left)
    send_settings(t$info, 1L, left)
    begin_growth(t)
    NULL
  }, clutch_error = conditionMessage)
  if (is.null(failed)) {
    t$grow_again <- 0
  } else {
    tell_event("start", t$info, text = failed, ok = FALSE)
  }
}

# Tells whether a node that has died is one of those that come and go.
comes_and_goes <- function(t, index) grows_here(t$info) && index > nodes_at_start(t$info)

# Some have come: what was wrong with what they were to call first is a warning.
warn_of_growth <- function(t) {
  failed <- .Call(ffi_tasks_growth_failure, t$ptr)
  if (is.null(failed)) return(invisible())
  why <- if (inherits(failed, "condition")) conditionMessage(failed) else as.character(failed)
  t$problem <- paste("what cluster_setup() says failed on a new node:", paste(why, collapse = " "))
  warning(warningCondition(paste("a node has come, but", t$problem), class = "clutch_setup"))
}
