# browser() in a task: the prompt is the session's. R asks its console for a line, that is this file
# (src/r/node/console.c). The prompt goes to the session as a condition, with the path of a socket;
# the session's user types a line (task-prompt.R), and it comes by that socket.
#
# One node of a machine does so at a time, from its first prompt until its task has ended: it has
# made the link "browse", which leads to the number of its process. The others wait.

# Called by src/r/node/console.c, once: a function that gives the line for a prompt, or NULL at the
# end of all lines. With NULL: the task has ended.
line_reader <- function(unused) {
  function(prompt) if (is.null(prompt)) end_browsing() else read_line(prompt)
}

read_line <- function(prompt) {
  # other code collects what would be shown; on other hosts nobody can connect
  if (sink.number() > 1L || !is.null(the_node$host)) return(NULL)
  if (is.null(the_node$browse)) the_node$browse <- begin_browsing()
  at <- the_node$browse
  if (!nzchar(prompt)) prompt <- "Browse[1]> " # it was made before R was told to make prompts
  fields <- list(message = "", call = NULL, prompt = prompt, path = at$path, key = at$key)
  wish <- structure(fields, class = c("clutch_prompt", "condition"))
  if (.Call(ffi_work_log, wish, TRUE)) await_line(at)
}

begin_browsing <- function() {
  root <- frozen_root()
  lock <- file.path(root, "browse")
  while (!suppressWarnings(file.symlink(as.character(Sys.getpid()), lock))) {
    owner <- suppressWarnings(as.integer(Sys.readlink(lock)))
    if (!is.na(owner) && !.Call(ffi_processes_are_there, owner)) {
      unlink(lock)
      .Call(ffi_remove_folder, folder_of_browser(root, owner))
    }
    Sys.sleep(0.05)
  }
  folder <- folder_of_browser(root, Sys.getpid())
  dir.create(folder, mode = "0700")
  path <- file.path(folder, "s")
  key <- paste(as.character(.Call(ffi_secret_bytes, 16L)), collapse = "")
  list(lock = lock, folder = folder, path = path, key = key,
       listener = socket_listen(path = path, slot = FALSE))
}

folder_of_browser <- function(root, pid) file.path(root, sprintf("browse-%d", pid))

end_browsing <- function() {
  at <- the_node$browse
  if (is.null(at)) return()
  the_node$browse <- NULL
  close(at$listener)
  .Call(ffi_remove_folder, at$folder)
  unlink(at$lock)
}

# A connection of somebody who does not know the key is closed.
await_line <- function(at) {
  repeat {
    socket <- socket_accept(at$listener, blocking = TRUE, open = "r+b", timeout = 1e6,
                            slot = FALSE)
    given <- tryCatch(socket_receive(socket), error = function(e) NULL)
    close(socket)
    if (is.list(given) && .Call(ffi_same_secret, given$key, at$key)) return(given$line)
  }
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
