# The loop of a node, from its first request to its end. Nothing here is called in a session.

# Called in the child, within ffi_fork_server_serve(), which then goes on as the node's loop. Only
# where the settings say that one of the two is wanted: each page that is written to is copied.
forked_node_begin <- function(unused) {
  nice <- the_node$nice
  if (!is.na(nice)) tools::psnice(value = nice)
  if (isTRUE(the_node$announce)) announce()
}

announce <- function() {
  where <- if (is.null(the_node$host)) "localhost" else Sys.info()[["nodename"]]
  cat(sprintf("starting worker pid=%d on %s at %s\n", Sys.getpid(), where,
              format(Sys.time(), "%H:%M:%OS3")))
}

node_serve <- function() {
  serve(forks = FALSE)
  node_end()
}

# Calls the loop of a fork server (`forks`) or of a node until it has returned: NULL when a node has
# to end, or what a fork server is to do.
#
# A fork server serves within all that a node needs, and forks there: frames, handlers and stack are
# shared then, and the child runs hardly any code before it is of use.
#
# Error values are as base R's workers make them. The frame in which functions are called has the
# workspace as parent: a function given by name is looked up there first.
serve <- function(forks) {
  the_node$serving <- TRUE
  failed <- function(e) {
    if (!.Call(ffi_is_node)) stop(e) # the fork server ends, as any R that meets an error
    if (!is.null(.Call(ffi_node_at_task))) return(task_failure(e))
    unreadable <- structure(list(cond = e, calls = NULL), class = "clutch_task_failure")
    .Call(ffi_work_unreadable, unreadable)
    structure(message_of(e, 1e6), class = c("snow-try-error", "try-error"))
  }
  interrupted <- function(e) {
    if (inherits(e, "clutch_left")) return(answer_failure(failed(simpleError(e$message))))
    .Call(ffi_node_interrupted, failed(simpleError("the call was interrupted on its node")))
  }
  repeat {
    todo <- tryCatch(
      tryCatch(
        withCallingHandlers(
          if (forks) {
            .Call(ffi_fork_server_serve, new.env(parent = globalenv()))
          } else {
            .Call(ffi_node_loop, new.env(parent = globalenv()))
          },
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
# src/r/node/node-loop.c). `.Last()` runs, as where an R of its own ends. What the user's code left
# open is closed, and finalizers of what is in the workspace run; those of what was there before the
# fork are not this process's.
node_end <- function() {
  if (.Call(ffi_node_was_told)) run_last()
  try(silent = TRUE, {
    while (sink.number() > 0L) sink()
    if (isNamespaceLoaded("grDevices") && length(grDevices::dev.list())) grDevices::graphics.off()
    for (con in getAllConnections()[-(1:3)]) close(connection_at(con))
    objects <- ls(globalenv(), all.names = TRUE)
    if (length(objects) > 1L) {
      rm(list = objects, envir = globalenv())
      gc()
    }
  })
  if (.Call(ffi_node_closed)) quit(save = "no", status = 74L, runLast = FALSE) # see how_ended()
  # an R of its own removes its temporary folder, but no sockets in it
  if (isTRUE(the_node$joined)) .Call(ffi_remove_folder, file.path(tempdir(), "frozen"))
  if (isTRUE(the_node$joined)) quit(save = "no", runLast = FALSE)
  .Call(ffi_node_end)
}

# Calls `.Last()` as quit(runLast = TRUE) does it, which looks for it where code of the workspace
# would. It may take as long as the session waits for the end of a node. An error of it is shown and
# does no harm.
run_last <- function() {
  last <- get0(".Last", globalenv(), mode = "function")
  if (is.null(last)) return(invisible())
  try(last())
}
