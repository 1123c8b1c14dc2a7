# The process of an actor: a task that takes messages until the actor has ended.

# These are of enum clu_actor_state.
ACTOR_STATES <- c("new", "begins", "up", "down", "ended")
ACTOR_UP <- 2L
ACTOR_DOWN <- 3L
ACTOR_ENDED <- 4L

serve_actor <- function(name, make, args, journal) {
  repeat {
    begun <- .Call(ffi_actor_begin, name, tempdir())
    if (!isFALSE(begun)) break
  }
  if (is.null(begun)) return(invisible())
  on.exit(.Call(ffi_actor_end))
  log <- if (!is.null(journal)) open_actor_journal(journal)
  if (!is.null(log)) on.exit(close_actor_journal(log), add = TRUE)
  methods <- call_given(make, args)
  check_methods(methods)
  if (!is.null(log)) {
    replay_actor_journal(log, function(method, args) call_method(methods, method, args))
    log$calls <- NULL
  }
  .Call(ffi_actor_set, name, ACTOR_UP, NULL)
  while (!is.null(kind <- .Call(ffi_actor_next))) {
    if (kind == "s" && .Call(ffi_actor_begin_call, "stop")) break
    if (kind == "s") next
    # one that cannot be read is an error of its caller
    x <- tryCatch(.Call(ffi_actor_message), error = identity)
    if (inherits(x, "error")) answer_caller(list(error = x))
    else if (!serve_message(methods, x[[1L]], x[[2L]], log)) break
  }
  if (!is.null(kind)) .Call(ffi_actor_answer, NULL)
  .Call(ffi_actor_set, name, ACTOR_ENDED, NULL)
  invisible()
}

check_methods <- function(x) {
  names <- if (is.environment(x)) ls(x, all.names = TRUE) else names(x)
  is_fine <- length(names) && (is.environment(x) ||
    (is.list(x) && all(vapply(x, is.function, NA)) && all(nzchar(names))))
  if (is_fine) return()
  throw("argument", paste("the function of an actor has to return its methods: a list of functions",
                          "with names, or an environment of functions"))
}

# FALSE: the actor is to end. An interrupt that is meant for the call ends nothing but the call:
# it is let in nowhere else.
serve_message <- function(methods, method, args, log) {
  answer <- NULL
  is_given_up <- suspendInterrupts({
    if (!.Call(ffi_actor_begin_call, method)) return(TRUE)
    answer <- tryCatch(allowInterrupts(call_method(methods, method, args)), interrupt = identity)
    .Call(ffi_actor_end_call)
  })
  is_cut <- inherits(answer, "interrupt")
  if (is_cut && !is_given_up) return(FALSE)
  if (!is.null(log) && !is_cut) record_in_actor_journal(log, method, args)
  if (!is_given_up) answer_caller(answer)
  TRUE
}

call_method <- function(methods, method, args) {
  f <- tryCatch(methods[[method]], error = function(e) NULL)
  if (!is.function(f)) {
    text <- sprintf("the actor has no method '%s'", method)
    return(list(error = errorCondition(text, class = "clutch_no_method", call = NULL)))
  }
  call_and_keep(f, args)
}

# A value that cannot be serialized is an error of the call.
answer_caller <- function(answer) {
  tryCatch(.Call(ffi_actor_answer, answer), error = function(e) {
    .Call(ffi_actor_answer, list(error = e))
  })
}
