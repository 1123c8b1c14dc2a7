# The session's side of browser() in a task: node-browse.R says how a node asks for lines.
#
# One element of a job is at the prompt at a time, from its first one until it has ended. Those of
# others that have come meanwhile wait: the$prompts has a record for each job of which one is there,
# an environment with
#   job       its handle
#   current   the wish of the element that is at the prompt
#   waiting   wishes of others
#
# Lines for an element on another host go by its fork server, over the control channel. While the
# connection to that host is cut they wait for it; where the host is given up the element has ended.

# A wish has come: `x$piece`, of the task `x$element` of the job. `t`: the tasks of its cluster.
take_prompt <- function(t, job, x) {
  wish <- x$piece
  if (isTRUE(wish$is_far)) wish <- with_node(t, job, x$element, wish)
  if (!is_waiting(wish)) return(invisible())
  is_known <- function(at) identical(at$job, job) || length(at$waiting) || is_waiting(at$current)
  the$prompts <- Filter(is_known, the$prompts)
  at <- prompts_of(job)
  if (is.null(at)) {
    at <- list2env(list(job = job, current = wish, waiting = list()), parent = emptyenv())
    the$prompts <- c(the$prompts, list(at))
  }
  if (identical(at$current$path, wish$path) || !is_waiting(at$current)) {
    at$current <- wish
    answer_prompt(job, wish)
  } else {
    at$waiting <- c(at$waiting, list(wish))
  }
}

# Answers the wishes that wait, as far as it is their turn.
answer_waiting <- function(job) {
  if (!length(the$prompts)) return(invisible())
  at <- prompts_of(job)
  while (!is.null(at) && !is_waiting(at$current)) {
    if (!length(at$waiting)) return(forget_prompts(job))
    at$current <- at$waiting[[1L]]
    at$waiting <- at$waiting[-1L]
    if (is_waiting(at$current)) answer_prompt(job, at$current)
  }
}

prompts_of <- function(job) Find(function(at) identical(at$job, job), the$prompts)

forget_prompts <- function(job) {
  the$prompts <- Filter(function(at) !identical(at$job, job), the$prompts)
}

# A wish from another host, whose paths and process ids tell nothing here: `node` is the handle of
# the node that is at this task, `work` is what ffi_node_at() says of it. There is none, where the
# task has ended.
with_node <- function(t, job, task, wish) {
  wish$work <- as.double(c(wish$pid, .Call(ffi_job_state, job)$number, task))
  is_at_that <- function(node) identical(.Call(ffi_node_at, node$handle), wish$work)
  wish$node <- Find(is_at_that, nodes_in_plan(t$info))$handle
  wish
}

# Tells whether its element has not ended.
is_waiting <- function(wish) {
  if (isTRUE(wish$is_far)) {
    return(!is.null(wish$node) && identical(.Call(ffi_node_at, wish$node), wish$work))
  }
  if (!file.exists(wish$path)) return(FALSE)
  if (.Call(ffi_processes_are_there, wish$pid)) return(TRUE)
  .Call(ffi_remove_folder, dirname(wish$path)) # it was killed
  FALSE
}

# At the prompt of R's browser `Q` ends the map, or the task: its element fails, and what waits for
# it is left.
answer_prompt <- function(job, wish) {
  if (nzchar(wish$output)) cat(wish$output)
  lines <- typed_lines(wish$prompt)
  sent <- tryCatch(send_lines(wish, lines), clutch_error = identity)
  if (is.null(lines)) invokeRestart("abort")
  if (!inherits(sent, "error")) return(invisible())
  if (is_waiting(wish)) stop(sent)
  message("nobody waits for this line any more: the element has ended")
}

# Lines that R's browser takes by their names, and which are no code then.
BROWSER_COMMANDS <- c("", "n", "s", "f", "c", "cont", "r", "where", "help")

# All lines of what is typed, as the node's R reads them; NULL: `Q`.
typed_lines <- function(prompt) {
  text <- character()
  repeat {
    line <- one_line(if (length(text)) "+ " else prompt)
    if (is.null(line)) { # Ctrl-C
      text <- character()
      next
    }
    if (!length(text) && trimws(line) == "Q") return(NULL)
    if (!length(text) && trimws(line) %in% BROWSER_COMMANDS) return(paste0(line, "\n"))
    text <- c(text, line)
    code <- tryCatch(parse(text = text, keep.source = TRUE), error = identity)
    if (!inherits(code, "error") && length(code)) return(with_errors_shown(code))
    if (inherits(code, "error") && is_unfinished(code)) next
    if (inherits(code, "error")) message("Error: ", conditionMessage(code))
    text <- character()
  }
}

is_unfinished <- function(e) {
  grepl("unexpected end of input|unexpected INCOMPLETE_STRING", conditionMessage(e))
}

# Each expression is the argument of a call: so it is visible or not as ever, and is evaluated in
# the frame. It is not within braces: R would step through these.
with_errors_shown <- function(code) {
  text_of_ref <- function(ref) paste(as.character(ref), collapse = "\n")
  text <- vapply(attr(code, "srcref"), text_of_ref, "")
  for (i in seq_along(code)) {
    if (!is.call(code[[i]]) || !identical(code[[i]][[1L]], quote(`=`))) next
    call <- code[[i]]
    call[[1L]] <- quote(`<-`) # or it would name the argument
    text[[i]] <- paste(deparse(call), collapse = "\n")
  }
  paste0("tryCatch(\n", text, "\n, error = clutch:::show_typed_error)\n", collapse = "")
}

# NULL: Ctrl-C.
one_line <- function(prompt) {
  if (!is.null(the$read_line)) return(the$read_line(prompt))
  line <- line_or_null(prompt)
  if (is.null(line)) cat("\n")
  line
}

line_or_null <- function(prompt) tryCatch(readline(prompt), interrupt = function(c) NULL)

send_lines <- function(wish, lines) {
  if (isTRUE(wish$is_far)) {
    bytes <- serialize(list(key = wish$key, lines = lines), NULL, xdr = FALSE)
    if (is_waiting(wish) && .Call(ffi_node_deliver, wish$node, wish$path, bytes)) return()
    throw("gone", "the element has ended")
  }
  socket <- suppressWarnings(socket_connect(path = wish$path, blocking = TRUE, open = "r+b",
                                            timeout = 20, slot = FALSE))
  on.exit(close(socket))
  socket_send(socket, list(key = wish$key, lines = lines))
}

# Ctrl-C gives a new prompt, as that of R does.
line_at_prompt <- function(prompt) {
  repeat {
    line <- line_or_null(prompt)
    if (!is.null(line)) return(line)
    cat("\n")
  }
}
