# Settings of nodes (see launch-fork.R): a fork server applies them to itself, and the nodes that
# it forks inherit them.

# Sets what the nodes that follow inherit from this process. The value is NULL, or the text of the
# error.
apply_settings <- function(s) {
  tryCatch({
    set_variables(s$env_set, s$env_unset)
    if (isTRUE(s$by_exec)) {
      Sys.setenv(CLUTCH_NODE = paste(s$nice, s$announce, s$share_from, sep = ","),
                 CLUTCH_STARTING = "1")
      Sys.unsetenv(paste0("CLUTCH_WAS_", quick_start_variables)) # of another cluster's nodes
      do.call(Sys.setenv, as.list(quick_start_of_nodes(s)))
    }
    set_libraries(s$libraries)
    Sys.umask(s$umask)
    if (is.null(s$wd)) {
      # without a name (it was deleted) the session's link leads there, where the system has such
      try(setwd(sprintf("/proc/%d/cwd", s$session)), silent = TRUE)
    } else {
      setwd(s$wd)
    }
    if (isTRUE(s$by_exec) && isTRUE(the_node$by_program)) {
      env <- effective_env(NULL)
      set_more_variables(env_changes(with_packages_later(env), env)$env_set)
    }
    options(clutch.share_from = s$share_from)
    the_node$announce <- s$announce
    the_node$nice <- s$nice
    .Call(ffi_fork_server_begins, isTRUE(s$announce) || !is.na(s$nice))
    if (!is.null(s$nodes)) .Call(ffi_fork_server_expect, s$nodes)
    if (!isTRUE(s$by_exec)) .Call(ffi_fork_server_warm_up) # variables and folder have changed
    NULL
  }, error = function(e) conditionMessage(e))
}

# On another host this process knows best what there is to change.
quick_start_of_nodes <- function(s) {
  if (!is.null(s$quick_start)) return(s$quick_start)
  env <- effective_env(NULL)
  env_changes(quick_start_node(env, .libPaths()), env)$env_set
}

# NULL: those that this R has found when it was started.
set_libraries <- function(paths) {
  if (is.null(paths)) paths <- the_node$libraries
  if (identical(paths, .libPaths())) return(invisible())
  has_site <- "include.site" %in% names(formals(.libPaths)) # from R 4.1 on
  if (has_site) .libPaths(paths, include.site = FALSE) else .libPaths(paths)
}

# Relative to the environment in which the server was started: what the settings before, perhaps
# those of another cluster, have changed is put back first.
set_variables <- function(set, unset) {
  before <- the_node$variables
  if (anyNA(before)) Sys.unsetenv(names(before)[is.na(before)])
  before <- before[!is.na(before)]
  if (length(before)) do.call(Sys.setenv, as.list(before))
  the_node$variables <- Sys.getenv(as.character(unset), NA, names = TRUE)
  if (length(unset)) Sys.unsetenv(unset)
  set_more_variables(set)
}

set_more_variables <- function(set) {
  if (!length(set)) return()
  before <- Sys.getenv(setdiff(names(set), names(the_node$variables)), NA, names = TRUE)
  the_node$variables <- c(the_node$variables, before)
  do.call(Sys.setenv, as.list(set))
}
