# What runs in the fork server and in a node. Nothing here is called in a session.

# Called by the scripts in inst/node: `:::` would look odd there.
.__fork_server__ <- function(args) fork_server_main(args)
.__node__ <- function(args) exec_node_main(args)

# ---- fork server ----

# Arguments: library of this package, seconds of idleness, packages of nodes started by exec (joined
# by commas), what TMPDIR is for others ("TMPDIR=value", or "" for unset), then the command that
# starts an R: program and arguments.
fork_server_main <- function(args) {
  options(clutch.joins = NULL)
  take_default_packages()
  attach_default_packages(forks = TRUE)
  if (is.null(the_node$host)) move_temp_dir(args[[4L]])
  script <- file.path(args[[1L]], "clutch", "node", "node.R")
  exec <- c(args[-(1:4)], script, args[[1L]], args[[3L]])
  exec <- without_front_end(exec, effective_env(NULL))
  # what else the front end would set this process has already
  default_packages <- exec$env["R_DEFAULT_PACKAGES"]
  the_node$by_program <- !is.na(default_packages)
  is_bare <- "--no-init-file" %in% commandArgs() # see bare_server()
  if (the_node$by_program && is_bare) Sys.setenv(R_DEFAULT_PACKAGES = default_packages)
  .Call(ffi_fork_server_begin, exec$argv, as.numeric(args[[2L]]))
  remove_temp_dir_at_end()
  answer <- function(what, seq, value) .Call(ffi_fork_server_answer, what, seq, value)
  repeat {
    todo <- serve(ffi_fork_server_serve)
    if (is.null(todo)) node_end() # a node, forked in that call
    switch(todo$what,
      setup = {
        answer("ready", 0, serialize(prepare(todo$object), NULL))
        if (is.null(the_node$host)) listen_for_observers()
      },
      observer = observer_main(), # in a child
      settings = {
        the_node$number <- todo$seq
        answer("applied", todo$seq, apply_settings(todo$object))
        keep_settings(todo$seq, todo$object)
      },
      program = run_program(settings_of(todo$seq), todo$seq, todo$object), # in a node
      failed = stop(todo$object),
      end = break
    )
  }
  quit(save = "no", runLast = FALSE)
}

# R itself does not know it any more: see own_temp_dir() in src/r/node/fork-server-main.c.
remove_temp_dir_at_end <- function() {
  server <- Sys.getpid()
  folder <- tempdir()
  the_node$at_end <- new.env()
  reg.finalizer(the_node$at_end, function(e) {
    if (Sys.getpid() == server) unlink(folder, recursive = TRUE)
  }, onexit = TRUE)
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

# On the session's machine. Until here the temporary folder was within one that the session removes,
# should this process end before it can do that itself. From now on it is where that of any R is.
# Paths that the profile has stored lead there, too.
move_temp_dir <- function(tmpdir) {
  old <- tempdir()
  if (nzchar(tmpdir)) Sys.setenv(TMPDIR = sub("^TMPDIR=", "", tmpdir)) else Sys.unsetenv("TMPDIR")
  .Call(ffi_fork_server_temp)
  file.symlink(tempdir(), file.path(dirname(old), "moved")) # at once: see server_clean()
  files <- list.files(old, all.files = TRUE, no.. = TRUE)
  moved <- suppressWarnings(file.rename(file.path(old, files), file.path(tempdir(), files)))
  if (all(moved) && unlink(old, recursive = TRUE) == 0L) file.symlink(tempdir(), old)
}

# Attaches packages and tells what came of it.
prepare <- function(setup) {
  the_node$libraries <- .libPaths()
  set_libraries(setup$libraries)
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
  suppressWarnings(rm(list = ".Random.seed", envir = globalenv()))
  if (!setup$by_exec) .Call(ffi_fork_server_rehearse)
  if (settles) settle_memory(is_larger)
  report
}

# On another host, before the relay is forked: what prepare() does where nothing is attached. Done
# after that fork it would write to all of R's memory, and so copy it. That takes 0.1 s, and the
# relay keeps what was copied.
warm_up_host <- function() {
  warm_up()
  suppressWarnings(rm(list = ".Random.seed", envir = globalenv()))
  .Call(ffi_fork_server_rehearse)
  settle_memory(FALSE)
  the_node$settled <- TRUE
}

# Objects that a collection has met are old: the collections in the nodes leave their pages alone,
# and so shared, until a full one comes. After collect_early() that holds for two thirds of them.
# With packages or preloaded objects these are few, and there are millions of others: a full
# collection. Each takes as long here as in one node, which is a tenth of what these take to load.
#
# Then the cells that are free lie all over the heap. What a node allocates first is to lie
# together: so these are used up here. They are free again after the node's first collection.
settle_memory <- function(collect) {
  most <- 50000
  if (collect || !isTRUE(the_node$collected)) {
    cells <- gc()["Ncells", c("used", "gc trigger")]
    most <- (cells[[2L]] - cells[[1L]]) / 3
  }
  .Call(ffi_fork_server_use_up, most)
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

# Functions are read from disk when they are first used: those that every node uses, here and once.
warm_up <- function() {
  set.seed(1L)
  try(tempdir(TRUE), silent = TRUE)
  ours <- list(forked_node_begin, node_serve, node_end, announce, on_error, on_message, on_warning,
               on_condition)
  others <- list(withCallingHandlers, new.env, globalenv, tryCatch, structure, conditionMessage,
                 unlink, sink.number, getAllConnections, ls, rm)
  for (f in c(ours, others)) force(f)
  if (isNamespaceLoaded("grDevices")) force(grDevices::dev.list)
  as_failure <- function(e) {
    structure(conditionMessage(e), class = c("snow-try-error", "try-error"))
  }
  tryCatch(stop("warm-up"), error = as_failure, interrupt = function(e) NULL)
  stack_text(sys.calls())
  warm_up_compiler()
}

# R compiles a function at its second or third call. The compiler's own functions are read from disk
# then, which takes a node ten times as long as to compile a small function. Nothing is done where
# R_ENABLE_JIT says that nothing is compiled.
warm_up_compiler <- function() {
  code <- quote({
    y <- x + 1
    if (is.null(y)) y[[1L]] else sqrt(y)
  })
  # a function of the workspace, however small: of others only large ones are compiled
  f <- as.function(list(x = 0, code), envir = globalenv())
  for (i in 1:3) f(i)
  invisible()
}

# A closure that R would compile if it had not met the same body in another place: see
# src/r/node/compiled.c.
node_compile <- function(f) tryCatch(compiler::cmpfun(f), error = function(e) f)

# Functions that are part of compiled code where the workspace is above it, if base R's are found
# when it is compiled. All others are looked up when they are called.
node_language_functions <- function(unused) {
  get0("languageFuns", envir = asNamespace("compiler"), inherits = FALSE)
}

# What the nodes that follow inherit from this process. NULL, or the text of the error.
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
    if (!isTRUE(s$by_exec)) .Call(ffi_fork_server_rehearse) # variables and folder have changed
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

# ---- node ----

# Called in the child, within ffi_fork_server_serve(), which then goes on as the node's loop. Only
# where the settings say that one of the two is wanted: each page that is written to is copied.
forked_node_begin <- function(unused) {
  nice <- the_node$nice
  if (!is.na(nice)) tools::psnice(value = nice)
  if (isTRUE(the_node$announce)) announce()
}

# ---- programs, see launch-programs.R ----

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

# Those of the node with this number: the session gives the numbers of settings and nodes in a row.
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

# What ps shows, and what looks for such processes (package crew does) finds: the function's name
# only, for what it is called with may be secret.
show_program <- function(code) {
  .Call(ffi_node_title, sprintf("R -e %s(...)", deparse1(str2lang(code)[[1L]])))
}

# A node that was started by exec. Arguments: library, packages, then from the supervisor: number of
# its slot in the shared memory, whether TMPDIR was set, to what, the folder that is the node's own,
# its number if it runs a program, else 0, how often that was started before, and the pid of the
# supervisor.
exec_node_main <- function(args) {
  options(clutch.joins = NULL)
  take_default_packages()
  if (args[[4L]] == "set") Sys.setenv(TMPDIR = args[[5L]]) else Sys.unsetenv("TMPDIR")
  id <- as.numeric(args[[7L]])
  packages <- strsplit(args[[2L]], ",", fixed = TRUE)[[1L]]
  if (length(packages) || id > 0) attach_default_packages()
  for (p in packages) attach_package(p)
  set.seed(.Call(ffi_random_seeds, 1L))
  settings <- strsplit(Sys.getenv("CLUTCH_NODE"), ",", fixed = TRUE)[[1L]]
  Sys.unsetenv("CLUTCH_NODE")
  starting_is_over()
  names(settings) <- c("nice", "announce", "share_from")
  options(clutch.share_from = as.numeric(settings[["share_from"]]))
  if (settings[["nice"]] != "NA") tools::psnice(value = as.integer(settings[["nice"]]))
  if (settings[["announce"]] == "TRUE") announce()
  s <- if (id > 0) readRDS(program_file(dirname(args[[6L]])))
  .Call(ffi_node_begin_exec, as.integer(args[[3L]]), args[[6L]], id > 0,
        as.numeric(args[[9L]]))
  if (id > 0) run_program(s, id, as.numeric(args[[8L]]))
  node_serve()
}

announce <- function() {
  where <- if (is.null(the_node$host)) "localhost" else Sys.info()[["nodename"]]
  cat(sprintf("starting worker pid=%d on %s at %s\n", Sys.getpid(), where,
              format(Sys.time(), "%H:%M:%OS3")))
}

node_serve <- function() {
  serve(ffi_node_loop)
  node_end()
}

# Calls the native routine `loop`, a fork server's or a node's, until it has returned: NULL when a
# node has to end, or what a fork server is to do.
#
# A fork server serves within all that a node needs, and forks there: frames, handlers and stack are
# shared then, and the child runs hardly any code before it is of use.
#
# Error values are as base R's workers make them. The frame in which functions are called has the
# workspace as parent: a function given by name is looked up there first.
serve <- function(loop) {
  the_node$serving <- TRUE
  failed <- function(e) {
    if (!.Call(ffi_is_node)) stop(e) # the fork server ends, as any R that meets an error
    if (!is.null(.Call(ffi_node_at_task))) return(task_failure(e))
    unreadable <- structure(list(cond = e, calls = NULL), class = "clutch_task_failure")
    .Call(ffi_work_unreadable, unreadable)
    structure(message_of(e, 1e6), class = c("snow-try-error", "try-error"))
  }
  interrupted <- function(e) {
    .Call(ffi_node_interrupted, failed(simpleError("the call was interrupted on its node")))
  }
  repeat {
    todo <- tryCatch(
      tryCatch(
        withCallingHandlers(
          .Call(loop, new.env(parent = globalenv())),
          error = on_error, interrupt = on_interrupt, message = on_message, warning = on_warning,
          condition = on_condition
        ),
        error = function(e) answer_failure(failed(e)),
        interrupt = interrupted
      ),
      interrupt = interrupted # a second signal may come while the first is answered
    )
    if (is.list(todo)) return(todo)
    if (todo) return(NULL)
  }
}

# The end that was asked for, where there is something to do (see be_done() in
# src/r/node/node-loop.c). What the user's code left open is closed, and finalizers of what is in
# the workspace run; those of what was there before the fork are not this process's.
node_end <- function() {
  try(silent = TRUE, {
    while (sink.number() > 0L) sink()
    if (isNamespaceLoaded("grDevices") && length(grDevices::dev.list())) grDevices::graphics.off()
    for (con in getAllConnections()[-(1:3)]) close(getConnection(con))
    objects <- ls(globalenv(), all.names = TRUE)
    if (length(objects) > 1L) {
      rm(list = objects, envir = globalenv())
      gc()
    }
  })
  if (.Call(ffi_node_closed)) quit(save = "no", status = 74L, runLast = FALSE) # see how_ended()
  # an R of its own removes its temporary folder
  if (isTRUE(the_node$joined)) quit(save = "no", runLast = FALSE)
  .Call(ffi_node_end)
}
