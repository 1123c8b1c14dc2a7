# A label is what a job is called, for people: in traces and views. src/r/tasks/job-label.h has the
# text.

# list(name, code) of a map whose function has this frame: how it was called, and what was written
# for its function. `the$called`: that of a function which calls maps, for the next of them.
called_as <- function(frame) {
  called <- the$called
  the$called <- NULL
  if (!is.null(called)) return(called)
  at <- Position(function(f) identical(f, frame), sys.frames())
  list(sys.call(at)[[1L]], eval(quote(substitute(.f)), frame))
}

# `label`: what the user has said; NULL: nothing.
called_submit <- function(name, label, code) {
  if (is.null(label)) list(name, code) else list(NULL, label)
}
