# Frozen copies of a node: where a task fails the node forks, and the copy keeps all frames of what
# has failed. It sleeps until the session asks it. src/r/node/frozen.c has the process. A copy of a
# node that is busy is made when the session wants it, and ends when the session has done with it.
#
# The copies of one fork server are known by folders "frozen/<job>-<text>" in the folder that nodes
# have in common; `text` stands for the message of the error. In it are the copy's socket, `s`, and
# its output, `out`. Who removes the folder ends the copy within a second. A job keeps as many as
# its session wants, the first of each message; what earlier jobs have left makes room.

# Called where an error or interrupt is signalled, with the frames there: those up to number `to`
# are shown. The node remembers a copy in the_node$frozen: list(path, key, pid), for task_failure().
# Or that is ELSEWHERE: there is one of another node.
# `late`: time is up. An earlier error of the same task makes room: the task ends with the second
# one, as in on.exit().
freeze <- function(e, to, late = FALSE) {
  wanted <- .Call(ffi_frozen_wanted)
  if (is.null(wanted) || (late && wanted[[2L]] == 0)) return(invisible())
  .Call(ffi_frozen_drop)
  the_node$frozen <- suspendInterrupts(tryCatch(freeze_now(e, to, wanted),
                                                error = function(e) NULL))
  invisible()
}

# The copy of the task at hand, of which the session will hear; NULL: there is none.
take_frozen <- function() {
  frozen <- the_node$frozen
  the_node$frozen <- NULL
  # else it was made for an earlier task, which has gone on
  if (.Call(ffi_frozen_taken) || identical(frozen, ELSEWHERE)) frozen
}

freeze_now <- function(e, to, wanted) {
  text <- message_of(e, 300L)
  place <- frozen_place(wanted[[3L]], text, wanted[[1L]])
  if (is.null(place) || identical(place, ELSEWHERE)) return(place)
  fork_copy(place, text, to, "failed")
}

# `kind`: the task at hand is about to fail, "failed"; it goes on, "busy"; or the node is about to
# end, "last". NULL: there is no copy.
fork_copy <- function(place, text, to, kind) {
  path <- file.path(place, "s")
  key <- paste(as.character(.Call(ffi_secret_bytes, 16L)), collapse = "")
  pid <- .Call(ffi_frozen_fork, path, file.path(place, "out"), kind)
  if (is.na(pid)) {
    .Call(ffi_remove_folder, place)
    return(NULL)
  }
  if (pid == 0L) frozen_main(key, text, place, to, kind == "busy")
  list(path = path, key = key, pid = pid)
}

# Called by src/r/node/stack.c, once: a function that makes a copy of this node, which is busy, and
# says where it is: "pid key path"; "": there is none.
copy_teller <- function(unused) function() copy_while_busy(sys.nframe() - 1L)

copy_while_busy <- function(to) {
  copy <- tryCatch({
    # not tempfile(), which draws a random number of the C library
    place <- file.path(frozen_root(), paste(c(BUSY, .Call(ffi_secret_bytes, 4L)), collapse = "-"))
    dir.create(place, mode = "0700")
    fork_copy(place, "busy", to, "busy")
  }, error = function(e) NULL)
  place_text(copy)
}

place_text <- function(copy) if (is.null(copy)) "" else paste(copy$pid, copy$key, copy$path)

# Called so, too: a node that is over its memory limit makes its last copy, and ends behind that.
last_copy_teller <- function(unused) function() last_copy(sys.nframe() - 1L)

last_copy <- function(to) {
  if (!is.null(the_node$handler)) to <- the_node$handler - 1L
  wanted <- .Call(ffi_frozen_wanted)
  copy <- if (!is.null(wanted)) tryCatch({
    place <- frozen_place(wanted[[3L]], OVER_LIMIT, wanted[[1L]])
    if (!is.null(place) && !identical(place, ELSEWHERE)) fork_copy(place, OVER_LIMIT, to, "last")
  }, error = function(e) NULL)
  place_text(copy)
}

# It stands for all messages of such a copy: a job has one.
OVER_LIMIT <- "memory"

# How the folders of such copies begin.
BUSY <- "busy"

frozen_root <- function() {
  root <- .Call(ffi_frozen_folder)
  root <- file.path(if (nzchar(root)) root else tempdir(), "frozen")
  dir.create(root, showWarnings = FALSE, mode = "0700")
  root
}

# A new folder for this message; ELSEWHERE: there is one already; NULL: there are as many as are
# wanted. One node at a time: two of different jobs that fail at once would make room for each
# other, and neither copy was left.
frozen_place <- function(job, text, most) {
  root <- frozen_root()
  .Call(ffi_frozen_turn, root)
  on.exit(.Call(ffi_frozen_turn, NULL))
  # its name, see core/tasks/engine-state.h: short, since paths of sockets must not be long
  begin <- sprintf("%.0f.%.0f-", job %/% 2^32, job %% 2^32)
  mine <- paste0(begin, short_hash(text))
  there <- list.files(root, pattern = "^[0-9]")
  if (mine %in% there) return(ELSEWHERE)
  is_same_job <- startsWith(there, begin)
  if (sum(is_same_job) >= most) return(NULL)
  path <- file.path(root, mine)
  if (!dir.create(path, showWarnings = FALSE, mode = "0700")) {
    return(if (dir.exists(path)) ELSEWHERE) # the turn was not to be had
  }
  old <- file.path(root, there[!is_same_job])
  old <- old[order(file.mtime(old))]
  excess <- max(length(there) + 1L - most, 0L)
  for (place in utils::head(old, excess)) .Call(ffi_remove_folder, place)
  path
}

# Eight digits that stand for a text.
short_hash <- function(text) {
  codes <- utf8ToInt(enc2utf8(text))
  h <- 5381
  for (code in codes) h <- (h * 33 + code) %% 4294967296
  sprintf("%04x%04x", as.integer(h %/% 65536), as.integer(h %% 65536))
}

# ---- on another host, in the node ----

# For the session: the connection to a copy of this host is the node's.
pass_to_copy <- function(copy, what, x = NULL) {
  links <- the_node$links
  link <- links[[copy$path]]
  if (what == "open") {
    link <- socket_connect(path = copy$path, blocking = TRUE, open = "r+b", timeout = 1e6,
                           slot = FALSE)
    links[[copy$path]] <- link
    the_node$links <- links
    return(NULL)
  }
  if (what == "close") {
    links[[copy$path]] <- NULL
    the_node$links <- links
    close(link)
    return(NULL)
  }
  if (!is.null(x)) socket_send(link, x)
  if (what == "send") return(NULL)
  has_come <- FALSE
  on.exit(if (!has_come) tools::pskill(copy$pid, tools::SIGINT))
  repeat if (any(socket_select(list(link), timeout = 3600))) break
  has_come <- TRUE
  suspendInterrupts(socket_receive(link))
}

# ---- in the copy ----

# Does not return. `is_busy`: it is for one connection, which comes soon.
frozen_main <- function(key, text, place, to, is_busy) {
  on.exit(.Call(ffi_observer_end))
  the_node$copy <- new.env()
  the_node$copy$out <- file.path(place, "out")
  the_node$copy$shown <- 0
  options(expressions = 5e5) # the frames may be as many as R allows
  frames <- frozen_frames(to)
  while (sink.number() > 0L) sink()
  if (sink.number("message") != 2L) sink(type = "message")
  options(device = frozen_device, error = NULL, browserNLdisabled = FALSE, showErrorCalls = FALSE)
  .Call(ffi_frozen_console, frozen_line)
  repeat {
    socket <- .Call(ffi_socket_adopt, .Call(ffi_frozen_next, is_busy), 1e6)
    tryCatch(frozen_serve(socket, key, text, frames), error = function(e) NULL)
    try(close(socket), silent = TRUE)
    if (is_busy) end_copy(place)
  }
}

end_copy <- function(place) {
  .Call(ffi_remove_folder, place)
  .Call(ffi_observer_end)
}

# The frames of the user's function and what it calls, up to number `to`: list(calls, envs). The
# innermost is that which has called stop() or the like.
frozen_frames <- function(to) {
  calls <- sys.calls()
  while (to > 1L && is_signalling(calls[[to]], sys.function(to))) to <- to - 1L
  first <- max(first_of_user(calls[seq_len(to)]), loop_frame(calls) + 1L)
  if (first > to) first <- to <- sys.parents()[[first - 2L]] # the expression itself: where it is
  list(calls = calls[first:to], envs = sys.frames()[first:to])
}

# The value tells which of the calls on a node is that of the user's function. In mclapply() a
# function of ours is that of the map; within user_code() it calls the user's. A future has an
# expression in place of a function: the number is that of its first call, which may be one more
# than there are.
first_of_user <- function(calls) {
  calls_to <- function(f) vapply(calls, function(call) identical(call[[1L]], f), NA)
  future <- calls_to(USER_CODE)
  if (any(future)) return(which.max(future) + 2L)
  given <- frame_of_given(calls)
  if (given) return(given)
  is_map <- calls_to(quote(FUN))
  ours <- calls_to(quote(user_code))
  if (any(ours)) is_map[seq_len(which.max(ours))] <- FALSE
  if (!any(is_map)) return(1L)
  first <- which.max(is_map)
  if (calls_function_within(calls, first)) first + 1L else first
}

# Tells whether this frame is of a function of with_function(), map-function.R, which has called the
# user's.
calls_function_within <- function(calls, k) {
  k < length(calls) && identical(calls[[k + 1L]][[1L]], quote(.f)) &&
    identical(ls(environment(sys.function(k)), all.names = TRUE), ".f")
}

# Functions that signal an error that their caller wants, or are called by such.
SIGNALLING <- list(
  base = c("stop", "stopifnot", "warning", "signalCondition", ".signalSimpleWarning",
           "withRestarts", "withOneRestart", "doWithOneRestart"),
  methods = c("stop", ".stop"),
  rlang = c("abort", "warn", "signal_abort"),
  cli = c("cli_abort", "cli_warn")
)

is_signalling <- function(call, fun) {
  name <- call[[1L]]
  if (is.call(name) && length(name) == 3L) name <- name[[3L]] # of package::name
  if (!is.name(name) || is.null(environment(fun))) return(FALSE)
  package <- environmentName(topenv(environment(fun)))
  as.character(name) %in% SIGNALLING[[package]]
}

# The menu of utils::recover(). Arguments in calls may be large: the text of them all takes seconds.
frozen_labels <- function(calls) {
  utils::limitedLabels(lapply(calls, function(call) {
    structure(call_text(call), srcref = attr(call, "srcref"))
  }))
}

# One connection: who does not know the key hears nothing.
frozen_serve <- function(socket, key, text, frames) {
  copy <- the_node$copy
  copy$socket <- socket
  given <- socket_receive(socket)
  if (!is.character(given) || length(given) != 1L || !.Call(ffi_same_secret, given, key)) return()
  copy$shown <- file.size(copy$out)
  repeat {
    request <- socket_receive(socket)
    if (is.list(request$options)) do.call(options, request$options)
    answer <- switch(request$ask,
      frames = list(labels = frozen_labels(frames$calls), text = text),
      value = frozen_value(request$code, frames$envs[[request$frame]]),
      browse = frozen_browse(frames, request$frame),
      end = .Call(ffi_observer_end)
    )
    answer$output <- frozen_output()
    answer$plot <- frozen_plot()
    socket_send(socket, answer)
  }
}

# list(value or error, warnings)
frozen_value <- function(code, env) {
  .Call(ffi_frozen_running, TRUE)
  on.exit(.Call(ffi_frozen_running, FALSE))
  said <- list()
  hear <- function(w) {
    if (getOption("warn") >= 2L) return()
    said <<- c(said, list(w))
    tryInvokeRestart("muffleWarning")
  }
  # R's own restart would end all that this process does
  answer <- withRestarts(tryCatch(
    withCallingHandlers(list(value = eval_in_frame(code, env)), warning = hear),
    error = function(e) list(error = e),
    interrupt = function(c) list(error = simpleError("the evaluation was interrupted"))
  ), abort = function() list(error = simpleError("restart \"abort\" has ended the evaluation")))
  c(answer, list(warnings = said))
}

# Unlike eval() a promise has no frame of its own: sys.call(), parent.frame(), match.call() and
# nargs() are those of the frame. But return() would leave that frame, and all that is above it.
eval_in_frame <- function(code, env) {
  if ("return" %in% all.names(code)) return(eval(code, env))
  do.call(delayedAssign, list("value", code, env, environment()))
  get("value", inherits = FALSE)
}

# R's own browser, whose lines come from the session.
frozen_browse <- function(frames, k) {
  copy <- the_node$copy
  copy$browsing <- TRUE
  on.exit({
    copy$browsing <- FALSE
    .Call(ffi_frozen_running, FALSE)
  })
  again <- function(c) {
    cat("\n")
    invokeRestart("browser")
  }
  withRestarts(tryCatch(
    withCallingHandlers(eval_in_frame(quote(browser()), frames$envs[[k]]), interrupt = again),
    error = function(e) cat(sprintf("Error: %s\n", conditionMessage(e))),
    interrupt = function(c) NULL
  ), abort = function() NULL)
  list(done = TRUE)
}

# R's console asks this for a line. Nobody is there any more: the browser is left.
frozen_line <- function(prompt) {
  .Call(ffi_frozen_running, FALSE)
  copy <- the_node$copy
  if (!isTRUE(copy$browsing)) return("\n")
  line <- tryCatch({
    socket_send(copy$socket, list(prompt = prompt, output = frozen_output(),
                                  plot = frozen_plot()))
    socket_receive(copy$socket)$line
  }, error = function(e) "c")
  .Call(ffi_frozen_running, TRUE)
  paste0(line, "\n")
}

# The text that was printed since the last time, by whatever.
frozen_output <- function() {
  copy <- the_node$copy
  size <- file.size(copy$out)
  if (is.na(size) || size <= copy$shown) return("")
  con <- file(copy$out, "rb")
  on.exit(close(con))
  seek(con, copy$shown)
  bytes <- readBin(con, "raw", size - copy$shown)
  copy$shown <- size
  rawToChar(bytes[bytes != 0])
}

# A device that shows nothing and remembers what was drawn.
frozen_device <- function(...) {
  grDevices::pdf(NULL)
  grDevices::dev.control("enable")
}

# The picture that was drawn, if it is another one than the last; else NULL.
frozen_plot <- function() {
  if (!isNamespaceLoaded("grDevices") || is.null(grDevices::dev.list())) return(NULL)
  plot <- tryCatch(grDevices::recordPlot(), error = function(e) NULL)
  if (is.null(plot) || is.null(plot[[1L]]) || identical(plot, the_node$copy$plot)) return(NULL)
  the_node$copy$plot <- plot
  plot
}
