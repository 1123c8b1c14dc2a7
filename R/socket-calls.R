# Which call of R code reads or writes a connection. R tells a connection only that bytes are
# wanted, not by whom. These functions are called from C in the middle of such a call, and find its
# frame.

utils_namespace <- asNamespace("utils")

# Called when a connection is read, no call is known that reads it, and the function that reads may
# be a part of another call, see src/r/socket/connection-read.c. A list of two frames: of the
# function that reads, and of the call that it is a part of: the outermost one of base or utils, by
# who called whom. Only the first frame where it is not a part of another call. NULL: the calls of
# this reader are not followed.
reading_frames <- function() {
  n <- sys.nframe() - 1L
  if (n < 1L) return(NULL)
  reader <- sys.frame(n)
  if (!is_of_base(reader)) return(NULL)
  parents <- sys.parents()
  p <- parents[[n]]
  if (p == 0L || p >= n || !takes_connection(sys.frame(p))) return(reader)
  repeat {
    outer <- p
    p <- parents[[outer]]
    if (p == 0L || p >= outer || !takes_connection(sys.frame(p))) {
      return(list(reader, sys.frame(outer)))
    }
  }
}

is_of_base <- function(frame) {
  e <- parent.env(frame)
  identical(e, .BaseNamespaceEnv) || identical(e, utils_namespace)
}

# By the names that base and utils use for it. The values are not inspected: a value can be a
# promise that has not been evaluated yet.
takes_connection <- function(frame) {
  if (!is_of_base(frame)) return(FALSE)
  for (name in c("file", "con", "connection")) {
    if (exists(name, envir = frame, inherits = FALSE)) return(TRUE)
  }
  FALSE
}
