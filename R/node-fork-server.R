# This file runs in a fork server. Nothing here is called in a session.

# Called by the script inst/node/fork-server.R: `:::` would look odd there. The arguments are those
# of server_command().
.__fork_server__ <- function(args) {
  fork_server_main(lib = args[[1L]], idle = as.numeric(args[[2L]]), packages = args[[3L]],
                   tmpdir = args[[4L]], command = args[-(1:4)])
}

# `lib`: library of this package; `idle`: after so many seconds without a node it ends; `packages`:
# of nodes started by exec, joined by commas; `tmpdir`: what TMPDIR is for others, "TMPDIR=value",
# or "" for unset; `command`: what starts an R, program and arguments.
fork_server_main <- function(lib, idle, packages, tmpdir, command) {
  options(clutch.joins = NULL)
  take_default_packages()
  attach_default_packages(forks = TRUE)
  if (is.null(the_node$host)) move_temp_dir(tmpdir)
  exec <- c(command, file.path(lib, "clutch", "node", "node.R"), lib, packages)
  exec <- without_front_end(exec, effective_env(NULL))
  # what else the front end would set this process has already
  default_packages <- exec$env["R_DEFAULT_PACKAGES"]
  the_node$by_program <- !is.na(default_packages)
  is_bare <- "--no-init-file" %in% commandArgs() # see bare_server()
  if (the_node$by_program && is_bare) Sys.setenv(R_DEFAULT_PACKAGES = default_packages)
  .Call(ffi_fork_server_begin, exec$argv, idle)
  remove_temp_dir_at_end()
  answer <- function(what, seq, value) .Call(ffi_fork_server_answer, what, seq, value)
  repeat {
    todo <- serve(forks = TRUE)
    if (is.null(todo)) node_end() # a node, forked in that call
    switch(todo$what,
      setup = {
        answer("ready", 0, serialize(prepare(todo$object), NULL))
        if (is.null(the_node$host)) listen_for_observers()
      },
      observer = observer_main(), # in a child
      settings = {
        the_node$number <- todo$seq
        settings_of_stay(todo$object$stay)
        answer("applied", todo$seq, apply_settings(todo$object))
        keep_settings(todo$seq, todo$object)
      },
      program = run_program(settings_of(todo$seq), todo$seq, todo$object), # in a node
      failed = stop(todo$object),
      end = if (!await_session(todo$seq == 1)) break
    )
  }
  quit(save = "no", runLast = FALSE)
}

# Without a folder for it nobody can ask. What processes have left there that were killed goes.
listen_for_observers <- function() {
  for (try in 1:100) {
    path <- view_path(.Call(ffi_fork_server_session), Sys.getpid(), create = TRUE)
    if (is.null(path)) return()
    left <- list.files(dirname(path), "^[0-9]+-[0-9]+$", full.names = TRUE)
    # by package tools this would take 0.1 s, and each node would have its objects
    is_dead <- !.Call(ffi_processes_are_there, as.integer(sub("^.*-", "", left)))
    unlink(left[is_dead])
    if (.Call(ffi_fork_server_listen, path, owns_view_folder())) return()
    # another fork server that has ended meanwhile has removed it
    if (dir.exists(dirname(path))) return()
  }
}

# Attaches packages and tells what came of it.
prepare <- function(setup) {
  if (!is.null(the_node$stay$report)) return(answer_again(setup))
  the_node$libraries <- .libPaths()
  set_libraries(setup$libraries)
  if (!is.null(setup$stay)) begin_to_stay(setup$stay)
  report <- attach_packages(setup$packages)
  report$threads <- c(report$threads, load_before_fork(setup$load), uncounted_threads())
  forks <- !length(report$threads) && !isTRUE(report$start_threads > 1L) && is.null(report$error)
  if (!is.null(setup$preload) && forks) report$preload <- preload_before_fork(setup$preload)
  report$search <- search()
  report$tmp <- tempdir()
  if (!is.null(the_node$host)) {
    report$host <- host_report(setup$compare)
    count_oom_kills_here()
  }
  is_larger <- length(setup$packages) || length(setup$load) || !is.null(setup$preload)
  settles <- !setup$by_exec && (is_larger || !isTRUE(the_node$settled))
  if (settles) warm_up()
  starting_is_over()
  put_session_seed(NULL)
  if (!setup$by_exec) .Call(ffi_fork_server_warm_up)
  if (isFALSE(setup$preload$collects)) the_node$collected <- TRUE
  if (settles) settle_memory(is_larger && !isFALSE(setup$preload$collects))
  remember_report(setup, report)
  report
}

# Which package cannot be attached and why; which of them start threads.
attach_packages <- function(packages) {
  start_threads <- .Call(ffi_thread_count)
  report <- list(error = NULL, threads = character(), start_threads = start_threads)
  for (p in packages) {
    before <- .Call(ffi_thread_count)
    report$error <- attach_problem(p)
    if (!is.null(report$error)) {
      report$failed <- p
      break
    }
    if (!is.na(before) && .Call(ffi_thread_count) > before) report$threads <- c(report$threads, p)
  }
  report
}

# Which packages that are loaded start threads, by name, where the system does not tell how many
# threads there are. A daemon of mirai hangs when it was forked from one that has loaded nanonext.
uncounted_threads <- function() {
  if (is.na(.Call(ffi_thread_count))) intersect("nanonext", loadedNamespaces())
}
