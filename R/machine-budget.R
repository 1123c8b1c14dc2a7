# A budget of cores, which all processes of a user on this machine share: how many nodes of a
# cluster that nobody gave a size compute at a time. src/core/base/budget.h says what a token is,
# src/core/tasks/cores.c when tokens are taken.
#
# clu_engine_fit() takes tokens, gives them back, and sets clu_sched_limit(). The files of the
# locks are in a folder of the user. In a task that waits for its map, the map computes on the
# core of the task: on_budget() in cluster-own.R.

# How many tokens there are; 0: no budget. The nodes of a session have its number. `cores`: of this
# process.
budget_size <- function(cores = available_cores()) {
  wanted <- getOption("clutch.budget")
  if (isFALSE(wanted)) return(0L)
  if (!is.null(wanted) && !isTRUE(wanted))
    return(as.integer(min(option_number("clutch.budget", 1, least = 1), 1024)))
  of_session <- Sys.getenv("CLUTCH_BUDGET")
  if (grepl("^[0-9]{1,4}$", of_session)) return(as.integer(of_session))
  as.integer(min(cores, 1024L))
}

# Takes up to `n` tokens: how many it got. Never waits. All `n` where there is no budget.
budget_take <- function(n, size = budget_size()) {
  n <- max(as.integer(n), 0L)
  if (size == 0L || n == 0L) return(n)
  .Call(ffi_budget_take, n, size, budget_folder())
}

budget_folder <- function() Sys.getenv("CLUTCH_BUDGET_FOLDER", "/tmp")

# Gives back `n` cores, as many as budget_take() has told.
budget_give <- function(n) {
  .Call(ffi_budget_give, as.integer(n))
  invisible()
}
