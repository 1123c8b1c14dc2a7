# Programs that nodes run in place of serving, see launch-programs.R: what is done in the fork
# server, and in the node.

# ---- in the fork server ----

# Loads these packages before the fork, so that nodes share what can be shared. The value has those
# that have started threads.
load_before_fork <- function(packages) {
  old <- Sys.getenv("CLI_NO_THREAD", NA)
  Sys.setenv(CLI_NO_THREAD = "1")
  on.exit(if (is.na(old)) Sys.unsetenv("CLI_NO_THREAD") else Sys.setenv(CLI_NO_THREAD = old))
  Filter(function(p) {
    before <- .Call(ffi_thread_count)
    requireNamespace(p, quietly = TRUE)
    isTRUE(.Call(ffi_thread_count) > before)
  }, packages)
}

# In the fork server: of nodes that run programs the settings are kept as long as one of these nodes
# may be started again, which may be when those of another cluster are in force.
keep_settings <- function(number, settings) {
  if (is.null(settings$program)) return()
  is_used <- function(s) {
    .Call(ffi_fork_server_keeps, s$number + 1, s$number + length(s$settings$program$code))
  }
  new <- list(number = number, settings = settings)
  if (isTRUE(settings$by_exec)) write_program(new)
  the_node$of_programs <- c(Filter(is_used, the_node$of_programs), list(new))
}

# The value has the settings of the node with this number: the session gives the numbers of settings
# and nodes in a row.
settings_of <- function(id) {
  before <- vapply(the_node$of_programs, function(s) s$number < id, NA)
  the_node$of_programs[[max(which(before))]]
}

# A node that is started by exec reads it before it says hello, and again when it is started again:
# see spec_of_programs().
write_program <- function(s) {
  file <- program_file(tempdir())
  new <- paste0(file, ".new")
  saveRDS(s, new, compress = FALSE)
  file.rename(new, file)
}

program_file <- function(folder) file.path(folder, "program.rds")

# ---- in the node ----

# In a node. `s`: number and settings; `id`: its own number in the session; `again`: how often it
# was started before. What ends the program by a jump (an interrupt, quit()) or a signal is a death,
# after which the fork server starts it again.
run_program <- function(s, id, again) {
  tryCatch({
    is_other <- !is.null(the_node$number) && s$number != the_node$number
    problem <- if (is_other) apply_settings(s$settings)
    if (!is.null(problem)) stop(problem)
    program <- s$settings$program
    code <- program$code[[id - s$number]]
    show_program(code)
    start_threads_of_loaded()
    program$run(code, again)
  }, error = function(e) message("Error in a node's program: ", conditionMessage(e)))
  .Call(ffi_node_program_done)
  node_end()
}

# ps shows this, and programs that look for such processes, as package crew does, find it. It is the
# function's name only, for what it is called with may be secret.
show_program <- function(code) {
  .Call(ffi_node_title, sprintf("R -e %s(...)", deparse1(str2lang(code)[[1L]])))
}

# Package cli has a thread that tells when to draw a progress bar anew. It was loaded without. cli's
# own functions start it: where they fail there is no thread, as without this one.
start_threads_of_loaded <- function() {
  if (!isNamespaceLoaded("cli") || nzchar(Sys.getenv("CLI_NO_THREAD"))) return()
  cli <- asNamespace("cli")
  needed <- c("cli_tick_set", "cli_tick_resume")
  # NA where the system does not tell: in a forked process there is one
  if (isTRUE(.Call(ffi_thread_count) > 1L) || !all(needed %in% names(cli))) return()
  suppressWarnings(try(cli$cli_tick_set(), silent = TRUE))
  cli$cli_tick_resume(FALSE)
}
