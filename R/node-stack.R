# Which calls a node is in, as text.
#
# When the time of a task is up, a calling handler for interrupts makes the text, and it travels
# with CANCELLED. That needs no shared memory.

# Called by src/r/node/stack.c, once: a function that gives the stack as one string. Little is
# allocated: a node that only sleeps would have to collect garbage, which makes the fork server's
# memory its own.
stack_teller <- function(unused) function() stack_text(sys.calls())

MOST_STACK_BYTES <- 7900L # CLU_STACK_TEXT has room for them

# `calls`: those of a node that evaluates something. The last one is the asker's. A line each, the
# innermost last, without those of the node's loop.
stack_text <- function(calls) {
  lines <- tryCatch(stack_lines(calls), error = function(e) character())
  enc2utf8(paste(lines, collapse = "\n"))
}

stack_lines <- function(calls) {
  n <- length(calls) - 1L
  from <- max(loop_frame(calls) + 1L, frame_of_given(calls))
  if (from > n) return(character())
  stack_ends(vapply(middle_left_out(calls[from:n]), line_of_call, ""))
}

# The frame of the node's loop is the last before the calls of who uses it; 0: it is not there. It
# is at the same place each time.
loop_frame <- function(calls) {
  last <- the_node$loop_frame
  if (!is.null(last) && last <= length(calls) && is_loop(calls[[last]])) return(last)
  for (i in seq_len(min(length(calls), 100L))) {
    if (is_loop(calls[[i]])) return(the_node$loop_frame <- i)
  }
  0L
}

# Such a frame is of serve().
is_loop <- function(call) {
  if (!identical(call[[1L]], quote(withCallingHandlers)) || length(call) < 2L) return(FALSE)
  inner <- call[[2L]]
  is.call(inner) && identical(inner[[1L]], quote(`if`)) && identical(inner[[2L]], quote(forks))
}

# Both ends of a deep recursion are shown, and most of the inner one.
middle_left_out <- function(calls) {
  n <- length(calls)
  if (n <= 60L) return(calls)
  c(calls[1:10], as.name(sprintf("... (%d calls)", n - 50L)), calls[(n - 39L):n])
}

# Lines that do not fit are left out behind the first ten.
stack_ends <- function(text) {
  text <- iconv(gsub("\n", " ", text, fixed = TRUE, useBytes = TRUE), to = "UTF-8", sub = "byte")
  size <- nchar(text, "bytes") + 1L
  while (sum(size) > MOST_STACK_BYTES && length(text) > 1L) {
    out <- min(11L, length(text) - 1L)
    text <- text[-out]
    size <- size[-out]
  }
  text
}

# The text is that of call_text(), and where the call is written, where that is known: f(x) at
# code.R:12
line_of_call <- function(call) {
  if (is.name(call)) return(as.character(call))
  paste0(call_text(call, NULL), place_of_call(call))
}

place_of_call <- function(call) {
  ref <- attr(call, "srcref")
  if (is.null(ref)) return("")
  name <- attr(ref, "srcfile")$filename
  if (!is.character(name) || length(name) != 1L || !nzchar(name)) return("")
  sprintf(" at %s:%d", basename(name), ref[[1L]])
}

# `control`: as of deparse(). With NULL a call takes a fifth of the memory.
call_text <- function(call, control = c("keepNA", "keepInteger", "niceNames", "showAttributes")) {
  text <- deparse(call, 100L, TRUE, control, 1L)[[1L]]
  if (nchar(text) > 120L) paste0(substr(text, 1L, 117L), "...") else text
}
