# The process of an actor: a task that takes messages until the actor has ended. Or a node that
# takes them besides its tasks: a task has made the actor there, and has ended
# (cluster_actor(exclusive = FALSE); src/r/actor/settled.c says when it is served).

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
  own <- new.env(parent = emptyenv())
  on.exit({
    give_up_journal(own)
    .Call(ffi_actor_end, ACTOR_ENDED)
  })
  if (!is.null(journal)) own$log <- open_actor_journal(journal)
  methods <- call_given(make, args)
  check_methods(methods)
  if (!is.null(own$log)) {
    replay_actor_journal(own$log, function(method, args) call_method(methods, method, args))
    own$log$calls <- NULL
  }
  .Call(ffi_actor_set, name, ACTOR_UP, NULL)
  while (!is.null(kind <- .Call(ffi_actor_next, TRUE))) {
    if (!serve_one(methods, kind, own$log, FALSE)) break
  }
  give_up_journal(own)
  if (!is.null(kind)) .Call(ffi_actor_answer, NULL)
  .Call(ffi_actor_set, name, ACTOR_ENDED, NULL)
  invisible()
}

# Its journal, `x$log`, is free: who hears that the actor has ended may begin another one with it.
give_up_journal <- function(x) {
  log <- x$log
  x$log <- NULL
  if (!is.null(log)) close_actor_journal(log)
}

# FALSE: the actor is to end.
serve_one <- function(methods, kind, log, is_settled) {
  if (kind == "s") return(!.Call(ffi_actor_begin_call, "stop"))
  # one that cannot be read is an error of its caller
  x <- tryCatch(.Call(ffi_actor_message), error = identity)
  if (!inherits(x, "error")) return(serve_message(methods, x[[1L]], x[[2L]], log, is_settled))
  answer_caller(list(error = x))
  TRUE
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
# it is let in nowhere else. Of a node it may be meant for the task that has called, which will be
# interrupted, too.
serve_message <- function(methods, method, args, log, is_settled) {
  answer <- NULL
  is_given_up <- suspendInterrupts({
    if (!.Call(ffi_actor_begin_call, method)) return(TRUE)
    answer <- tryCatch(allowInterrupts(call_method(methods, method, args)), interrupt = identity)
    .Call(ffi_actor_end_call)
  })
  is_cut <- inherits(answer, "interrupt")
  if (is_cut && !is_given_up) {
    if (!is_settled) return(FALSE)
    answer <- list(error = simpleError("the call was interrupted"))
  }
  if (!is.null(log) && !is_cut) record_in_actor_journal(log, method, args)
  if (!is_given_up) answer_caller(answer)
  TRUE
}

call_method <- function(methods, method, args) {
  if (inherits(methods, "error")) return(list(error = methods)) # see serve_some()
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

# ---- beside the tasks of a node ----

# A task. `needs`: the variables and packages of the actor's code, which tasks do not see. Where it
# is cancelled, the actor may begin in another process.
settle_actor <- function(name, make, args, journal, needs) {
  repeat {
    begun <- .Call(ffi_actor_begin, name, tempdir())
    if (!isFALSE(begun)) break
  }
  if (is.null(begun)) return(invisible())
  x <- new.env(parent = emptyenv())
  x$name <- name
  becomes <- ACTOR_ENDED
  on.exit(if (!is.null(becomes)) {
    give_up_journal(x)
    .Call(ffi_actor_end, becomes)
  })
  withCallingHandlers(make_settled(x, make, args, journal, needs), interrupt = function(e) {
    becomes <<- ACTOR_DOWN
  })
  .Call(ffi_actor_settle, name, x, tempdir())
  .Call(ffi_actor_set, name, ACTOR_UP, NULL)
  becomes <- NULL
  .Call(ffi_actor_turn_end)
  invisible()
}

make_settled <- function(x, make, args, journal, needs) {
  if (!is.null(journal)) x$log <- open_actor_journal(journal)
  moved <- move_to_own_workspace(list(make = make, args = args), needs)
  x$methods <- do.call(moved$make, moved$args, quote = TRUE)
  check_methods(x$methods)
  if (!is.null(x$log)) {
    replay_actor_journal(x$log, function(method, args) call_method(x$methods, method, args))
    x$log$calls <- NULL
  }
  x$warn <- getOption("warn")
  x$seed <- globalenv()[[".Random.seed"]]
}

# Does what waits for this actor now. `x`: see settle_actor(). Called by src/r/actor/settled.c.
serve_settled <- function(x) {
  n <- .Call(ffi_actor_turn, x$name)
  if (n == 0) return(invisible())
  is_apart <- FALSE
  on.exit({
    .Call(ffi_actor_turn_end)
    if (is_apart) x$seed <- .Call(ffi_apart_end)
  })
  problem <- tryCatch({
    .Call(ffi_apart_begin, x$seed, x$warn)
    is_apart <- TRUE
    NULL
  }, error = identity)
  end <- tryCatch(serve_some(x, n, problem), error = conditionMessage)
  if (isFALSE(end)) return(invisible())
  give_up_journal(x)
  .Call(ffi_actor_set, x$name, ACTOR_ENDED, if (is.character(end)) end)
  x$methods <- NULL
  .Call(ffi_actor_unsettle, x$name)
  invisible()
}

# `n` messages at most. TRUE: the actor is to end. `problem`: an error, which is that of each call;
# NULL: there is none.
serve_some <- function(x, n, problem = NULL) {
  methods <- if (is.null(problem)) x$methods else problem
  log <- if (is.null(problem)) x$log
  while (n > 0) {
    kind <- .Call(ffi_actor_next, FALSE)
    if (isFALSE(kind)) return(FALSE)
    if (is.null(kind)) return(TRUE)
    if (!serve_one(methods, kind, log, TRUE)) {
      give_up_journal(x)
      .Call(ffi_actor_answer, NULL)
      return(TRUE)
    }
    n <- n - 1
  }
  FALSE
}
