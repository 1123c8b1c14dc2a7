# What runs in the fork server and in a node. Nothing here is called in the user's session.

the_node <- new.env(parent = emptyenv())

# Arguments: library of this package, seconds of idleness, packages of nodes started by exec (joined by
# commas), what TMPDIR is for others ("TMPDIR=value", or "" for unset), then the command that starts an R:
# program and arguments.
fork_server_main <- function(args) {
  the_node$seed <- as.numeric(.Call(ffi_random_seeds, 1L))
  move_temp_dir(args[[4L]])
  exec <- c(args[-(1:4)], system.file("node", "node.R", package = "clutch", lib.loc = args[[1L]]),
            args[[1L]], args[[3L]])
  .Call(ffi_fork_server_begin, exec, as.numeric(args[[2L]]))
  repeat {
    todo <- .Call(ffi_fork_server_serve)
    switch(todo$what,
           setup = .Call(ffi_fork_server_answer, "ready", 0, serialize(prepare(todo$object), NULL)),
           settings = .Call(ffi_fork_server_answer, "applied", todo$seq, apply_settings(todo$object)),
           quiet = gc(),
           child = return(forked_node_main(todo$seq)),
           end = break)
  }
  quit(save = "no", runLast = FALSE)
}

# Until here the temporary folder was within one that the session removes, should this process end before it can
# do that itself. From now on it is where that of any R is. Paths that the profile has stored lead there, too.
move_temp_dir <- function(tmpdir) {
  old <- tempdir()
  if (nzchar(tmpdir)) Sys.setenv(TMPDIR = sub("^TMPDIR=", "", tmpdir)) else Sys.unsetenv("TMPDIR")
  .Call(ffi_fork_server_temp)
  files <- list.files(old, all.files = TRUE, no.. = TRUE)
  moved <- suppressWarnings(file.rename(file.path(old, files), file.path(tempdir(), files)))
  if (all(moved) && unlink(old, recursive = TRUE) == 0L) file.symlink(tempdir(), old)
}

# Attaches packages and tells what came of it. Objects that a collection has met are old: the collections
# in the nodes leave their pages alone, and so shared. A full one also sorts the free cells, so that a node
# begins to write on fewer pages: its start takes a fifth less.
prepare <- function(setup) {
  report <- list(error = NULL, threads = character(), start_threads = .Call(ffi_thread_count))
  for (p in setup$packages) {
    before <- .Call(ffi_thread_count)
    report$error <- tryCatch({
      suppressPackageStartupMessages(library(p, character.only = TRUE))
      NULL
    }, error = function(e) conditionMessage(e))
    if (!is.null(report$error)) {
      report$failed <- p
      break
    }
    if (!is.na(before) && .Call(ffi_thread_count) > before) report$threads <- c(report$threads, p)
  }
  report$search <- search()
  report$tmp <- tempdir()
  rehearse()
  starting_is_over()
  suppressWarnings(rm(list = ".Random.seed", envir = globalenv()))
  gc(full = FALSE) # a tenth of the time of a full one, which follows when there is nothing to do
  report
}

# Functions are read from disk when they are first used: those that every node uses, here and once.
rehearse <- function() {
  set.seed(1L)
  try(tempdir(TRUE), silent = TRUE)
  for (f in list(forked_node_main, node_serve, node_end, announce, on_error, on_message, on_warning, on_condition, withCallingHandlers, new.env, globalenv, tryCatch, structure,
                 conditionMessage, unlink, sink.number, getAllConnections, ls, rm, grDevices::dev.list)) force(f)
  tryCatch(stop("rehearsed"), error = function(e) structure(conditionMessage(e), class = c("snow-try-error", "try-error")),
           interrupt = function(e) NULL)
  invisible()
}

# What the nodes that follow inherit from this process. NULL, or the text of the error.
apply_settings <- function(s) {
  tryCatch({
    if (length(s$env_unset)) Sys.unsetenv(s$env_unset)
    if (length(s$env_set)) do.call(Sys.setenv, as.list(s$env_set))
    if (isTRUE(s$by_exec)) Sys.setenv(CLUTCH_NODE = paste(s$nice, s$announce, sep = ","), CLUTCH_STARTING = "1")
    Sys.umask(s$umask)
    # without a name (it was deleted) the session's link leads there, where the system has such
    if (!is.null(s$wd)) setwd(s$wd) else try(setwd(sprintf("/proc/%d/cwd", s$session)), silent = TRUE)
    the_node$announce <- s$announce
    the_node$nice <- s$nice
    NULL
  }, error = function(e) conditionMessage(e))
}

forked_node_main <- function(id) {
  seed <- (the_node$seed + id * 2654435761) %% 2^32
  if (seed >= 2^31) seed <- seed - 2^32
  set.seed(if (seed == -2^31) 1L else as.integer(seed))
  if (!is.null(the_node$nice) && !is.na(the_node$nice)) tools::psnice(value = the_node$nice)
  if (isTRUE(the_node$announce)) announce()
  .Call(ffi_node_begin)
  node_serve()
}

# A node that was started by exec. Arguments: library, packages, then from the supervisor: number of its
# slot in the shared memory, whether TMPDIR was set, to what, and the folder that is the node's own.
exec_node_main <- function(args) {
  if (args[[4L]] == "set") Sys.setenv(TMPDIR = args[[5L]]) else Sys.unsetenv("TMPDIR")
  for (p in strsplit(args[[2L]], ",", fixed = TRUE)[[1L]])
    suppressPackageStartupMessages(library(p, character.only = TRUE))
  set.seed(.Call(ffi_random_seeds, 1L))
  settings <- strsplit(Sys.getenv("CLUTCH_NODE"), ",", fixed = TRUE)[[1L]] # nice, announce
  Sys.unsetenv("CLUTCH_NODE")
  starting_is_over()
  if (settings[[1L]] != "NA") tools::psnice(value = as.integer(settings[[1L]]))
  if (settings[[2L]] == "TRUE") announce()
  .Call(ffi_node_begin_exec, as.integer(args[[3L]]), args[[6L]])
  node_serve()
}

# ---- starting ----

# A profile, or a package that is attached, may make a cluster. Were it made in a fork server or node that is
# starting, each of its nodes would read the same profile and make another one. So a process that starts has a
# mark in its environment, which what it starts inherits, and which it removes before it serves. Where the session
# cannot set the environment (behind `rshcmd`, or started by hand) the command line tells.
is_starting <- function() {
  if (nzchar(Sys.getenv("CLUTCH_STARTING"))) return(TRUE)
  args <- commandArgs()
  if (any(grepl("$.__join__(", args, fixed = TRUE) | grepl("clutch/node/join.R", args, fixed = TRUE)))
    return(!isTRUE(the_node$joined))
  worker <- str2lang("parallel:::.workRSOCK")
  "parallel:::.workRSOCK()" %in% args && !any(vapply(sys.calls(), function(call) identical(call[[1L]], worker), NA))
}

# An R that is not interactive ends at an error of its profile. The profile of one that is starting goes on, or is at
# the worst left at a later error which comes of having no cluster.
refuse_while_starting <- function() {
  options(error = expression(NULL))
  e <- error_of("starting", paste("this process is a node, or a fork server, that is starting:",
                                  "a cluster made here, in its profile or by a package, would start others without end"))
  signalCondition(e)
  message("make_cluster() starts nothing: ", conditionMessage(e))
  structure(list(), class = c("clutch_cluster", "cluster"))
}

starting_is_over <- function() {
  Sys.unsetenv("CLUTCH_STARTING")
  if (identical(getOption("error"), expression(NULL))) options(error = NULL)
}

announce <- function() {
  cat(sprintf("starting worker pid=%d on localhost at %s\n", Sys.getpid(), format(Sys.time(), "%H:%M:%OS3")))
}

# Error values are as base R's workers make them. The frame in which functions are called has the
# workspace as parent: a function given by name is looked up there first.
node_serve <- function() {
  the_node$serving <- TRUE
  failed <- function(e) {
    if (!is.null(.Call(ffi_node_at_task))) return(task_failure(e))
    .Call(ffi_work_unreadable, structure(list(cond = e, calls = NULL), class = "clutch_task_failure"))
    structure(message_of(e, 1e6), class = c("snow-try-error", "try-error"))
  }
  interrupted <- function(e) .Call(ffi_node_interrupted, failed(simpleError("the call was interrupted on its node")))
  repeat {
    over <- tryCatch(
      tryCatch(
        withCallingHandlers(
          .Call(ffi_node_loop, new.env(parent = globalenv())),
          error = on_error, message = on_message, warning = on_warning, condition = on_condition),
        error = function(e) answer_failure(failed(e)),
        interrupt = interrupted),
      interrupt = interrupted) # a second signal may come while the first is answered
    if (over) break
  }
  node_end()
}

# The end that was asked for. What the user's code left open is closed, and finalizers of what is in the
# workspace run; those of what was there before the fork are not this process's.
node_end <- function() {
  try(silent = TRUE, {
    while (sink.number() > 0L) sink()
    if (length(grDevices::dev.list())) grDevices::graphics.off()
    for (con in getAllConnections()[-(1:3)]) close(getConnection(con))
    if (length(objects <- ls(globalenv(), all.names = TRUE)) > 1L) {
      rm(list = objects, envir = globalenv())
      gc()
    }
  })
  if (.Call(ffi_node_closed)) quit(save = "no", status = 74L, runLast = FALSE) # see how_ended()
  if (isTRUE(the_node$joined)) quit(save = "no", runLast = FALSE) # an R of its own: removes its temporary folder
  .Call(ffi_node_end)
}

# Found by the scripts in inst/node without the cost of `:::`, which would attach nothing but look odd.
.__fork_server__ <- function(args) fork_server_main(args)
.__node__ <- function(args) exec_node_main(args)
.__join__ <- function(args) join_main(args)
