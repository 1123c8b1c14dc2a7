# A process that is not on the session's machine asks it: a function that is known there by
# its name (one of FORWARDED, forward-serve.R) is called with an object that is there, by a
# delegate of this process. See forward-open.R.
#
# A process has one connection for all that it asks, in `the$forward`, and one for each lock that it
# has. A child of it makes its own. A request that was interrupted leaves an answer that nobody
# wants: this is said, its connection is closed, and the delegate is interrupted.

FORWARD_WAIT <- 10 # seconds until a forwarder is there, where the object was made on another host

# "": there can be none here.
forwarder_path <- function() {
  folder <- .Call(ffi_frozen_folder)
  if (nzchar(folder)) file.path(folder, "forward", "s") else ""
}

# Tells whether this process can ask for an object which it does not have.
is_forwarded <- function(x) {
  path <- forwarder_path()
  if (!nzchar(path)) return(FALSE)
  is_far <- !identical(x$host, Sys.info()[["nodename"]])
  until <- clock() + if (is_far) FORWARD_WAIT else 0
  while (!file.exists(path)) {
    if (clock() >= until) return(FALSE)
    Sys.sleep(0.02)
  }
  TRUE
}

connect_forwarder <- function() {
  tryCatch(socket_connect(path = forwarder_path(), blocking = TRUE, open = "r+b", timeout = 1e6,
                          slot = FALSE),
           clutch_error = function(e) throw("state_gone", no_forwarder(e)))
}
no_forwarder <- function(e) {
  paste("the session's machine cannot be asked from here any more:", conditionMessage(e))
}

# The value of the function of that name, called with these arguments, visible or not as there.
# `within`: number of seconds in which there has to be an answer, beside what the way takes.
#
# Messages from there are signalled here when the connection is free: code of the user's that hears
# of them may ask, too, and what the delegate has stays its.
ask_forwarded <- function(what, args, within = Inf) {
  value_of_answer(ask_by_own(what, args, within))
}

# While it is asked the connection is nobody else's: a finalizer may ask, too.
ask_by_own <- function(what, args, within) {
  link <- the$forward
  the$forward <- NULL
  if (!is.null(link) && link$pid == Sys.getpid() && link_has_ended(link)) {
    close(link$socket)
    link <- NULL
  }
  if (is.null(link) || link$pid != Sys.getpid()) {
    link <- list(socket = connect_forwarder(), pid = Sys.getpid())
    .Call(ffi_forward_linked, TRUE)
  }
  ok <- FALSE
  on.exit(if (!ok || !is.null(the$forward)) close(link$socket) else the$forward <- link)
  answer <- ask_by(link$socket, what, args, within)
  ok <- TRUE
  answer
}

# Nothing comes by a connection on which nothing was asked, but its end: a forwarder may have ended
# since, and another be there.
link_has_ended <- function(link) any(socket_select(list(link$socket), timeout = 0))

# Called by an idle node: src/r/node/node-loop.c. Its delegate stays where it has rows of a table,
# or what an actor is still to take.
leave_forwarder <- function(unused) {
  .Call(ffi_forward_linked, FALSE)
  link <- the$forward
  if (is.null(link) || isTRUE(the$forward_stays)) return()
  the$forward <- NULL
  if (link$pid == Sys.getpid()) close(link$socket)
}

# list(value, visible, said), or list(error, said).
ask_by <- function(socket, what, args, within = Inf) {
  request <- serialize(list(what, args), NULL, xdr = FALSE)
  waits <- FALSE
  on.exit(if (waits) say_gives_up(socket))
  tryCatch({
    socket_send(socket, request)
    waits <- TRUE
    comes <- is.infinite(within) ||
      any(socket_select(list(socket), timeout = within + ON_ITS_WAY))
    if (comes) {
      answer <- unserialize(socket_receive(socket))
      waits <- FALSE
      return(answer)
    }
  }, clutch_error = function(e) throw("state_gone", no_forwarder(e)))
  throw("timeout", sprintf("the session's machine has not answered within %g seconds", within))
}
ON_ITS_WAY <- 5 # seconds that a request and its answer may take

# Said where the answer has not come, and nobody will read it. It is not said at the cost of a wait.
GIVES_UP <- "gives up"
say_gives_up <- function(socket) {
  tryCatch({
    if (any(socket_select(list(socket), write = TRUE, timeout = 0))) socket_send(socket, GIVES_UP)
  }, clutch_error = function(e) NULL)
}

# Said of the lock that was taken for this process.
HAS_LOCK <- "has it"
say_has_lock <- function(socket) socket_send(socket, HAS_LOCK)

value_of_answer <- function(answer) {
  if (length(answer$said)) relay_said(answer$said)
  if (!is.null(answer$error)) stop(answer$error)
  if (answer$visible) answer$value else invisible(answer$value)
}

# ---- what is said meanwhile ----

SAID_MOST <- 1000L # messages and warnings of one call that are kept for its caller

# The value of a call, its error, and messages and warnings in their order: list(value, visible,
# said), or list(error, said).
call_and_keep <- function(f, args) {
  said <- list()
  keep <- function(x, restart) {
    if (length(said) < SAID_MOST) said[[length(said) + 1L]] <<- x
    tryInvokeRestart(restart)
  }
  value <- tryCatch(
    withCallingHandlers(
      withVisible(do.call(f, args, quote = TRUE)),
      warning = function(w) keep(w, "muffleWarning"),
      message = function(m) keep(m, "muffleMessage")
    ),
    error = function(e) list(error = e)
  )
  value$said <- said
  value
}

relay_said <- function(said) {
  for (x in said) if (inherits(x, "warning")) warning(x) else message(x)
}
