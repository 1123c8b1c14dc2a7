# browser() in a task: the prompt is the session's. R asks its console for a line, that is this file
# (src/r/node/console.c). The prompt goes to the session as a condition, with the path of a socket;
# the session's user types lines (task-prompt.R), and they come by that socket. On another host it
# is the fork server there that connects to the socket, for the session (DELIVER,
# core/wire/frame.h).

# Called by src/r/node/console.c, once: a function that gives lines for a prompt, or NULL at the end
# of all lines. With NULL: the task has ended.
line_reader <- function(unused) {
  function(prompt) if (is.null(prompt)) end_browsing() else read_line(prompt)
}

# Tells whether lines can come here. Others than those beside the session need a fork server. Asked
# for each job, and so remembered.
can_ask_session <- function(wishes) {
  at <- attr(wishes, "at")
  is.character(at) && (is_beside_session(at) || nzchar(.Call(ffi_frozen_folder)))
}

# Tells whether the session is on this machine, and sees the same files: it can connect.
is_beside_session <- function(at) {
  if (!identical(at, the_node$session_at)) {
    is_beside <- identical(at[[1L]], Sys.info()[["nodename"]]) && dir.exists(at[[2L]])
    the_node$session_at <- at
    the_node$is_beside <- is_beside
  }
  the_node$is_beside
}

read_line <- function(prompt) {
  if (sink.number() > 1L) return(NULL) # other code collects what would be shown
  if (is.null(the_node$browse)) {
    the_node$browse <- suspendInterrupts(tryCatch(begin_browsing(), error = function(e) NULL))
  }
  at <- the_node$browse
  if (is.null(at)) return(NULL)
  output <- .Call(ffi_console_begin)
  fields <- list(message = "", call = NULL, prompt = prompt, output = output, path = at$path,
                 key = at$key, pid = Sys.getpid(), is_far = !the_node$is_beside)
  wish <- structure(fields, class = c("clutch_prompt", "condition"))
  if (.Call(ffi_work_log, wish, TRUE)) await_lines(at)
}

begin_browsing <- function() {
  folder <- file.path(frozen_root(), sprintf("browse-%d", Sys.getpid()))
  .Call(ffi_remove_folder, folder) # of a process that had this number
  dir.create(folder, mode = "0700")
  path <- file.path(folder, "s")
  key <- paste(as.character(.Call(ffi_secret_bytes, 16L)), collapse = "")
  list(folder = folder, path = path, key = key,
       listener = socket_listen(path = path, slot = FALSE))
}

end_browsing <- function() {
  at <- the_node$browse
  if (is.null(at)) return()
  the_node$browse <- NULL
  .Call(ffi_remove_folder, at$folder) # so the session knows
  close(at$listener)
}

# A connection of somebody who does not know the key is closed.
await_lines <- function(at) {
  repeat {
    socket <- socket_accept(at$listener, blocking = TRUE, open = "r+b", timeout = 1e6,
                            slot = FALSE)
    given <- tryCatch(socket_receive(socket), error = function(e) NULL)
    close(socket)
    if (!is.list(given) || !.Call(ffi_same_secret, given$key, at$key)) next
    if (!is.null(given$lines)) return(given$lines)
    # R's browser catches errors
    left <- list(message = "it was left by Q at the prompt", call = NULL)
    signalCondition(structure(left, class = c("clutch_left", "interrupt", "condition")))
  }
}

# Called by lines that were typed at the prompt, with an error of theirs: as R shows it. Else one
# that R's own C code signals would be that of the element.
show_typed_error <- function(e) {
  call <- conditionCall(e)
  if (is.call(call) && identical(call[[1L]], quote(doTryCatch))) call <- NULL # around the line
  text <- conditionMessage(e)
  head <- if (is.null(call)) "Error: " else paste0("Error in ", call_text(call), " : ")
  cat(head, text, "\n", file = stderr(), sep = "")
  invisible()
}

# ---- debug() ----

# Functions that are debugged in the session are debugged here, while their job is at work: a
# function may be the same object for a later one. `x`: the job's description; see wishes_of_user().
debug_as_wished <- function(x) {
  names(x) <- job_parts
  names <- attr(x$wishes, "debugged")
  the_node$debugged <- c(if ("" %in% names) list(x$fun),
                         mget(names[nzchar(names)], globalenv(), mode = "function"))
  for (f in the_node$debugged) debug(f)
}

debug_no_more <- function(unused) {
  for (f in the_node$debugged) if (isdebugged(f)) undebug(f)
  the_node$debugged <- NULL
}
