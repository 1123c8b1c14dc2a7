# Raises the error of an element within calls that are those of the element: so traceback(),
# options(error = ) and backtraces of rlang show them behind the session's own. The functions of
# these calls do nothing but the next one. Their arguments are not evaluated, and are not there:
# cluster_debug() has the frames themselves.

stop_in_frames <- function(e) {
  env <- new.env(parent = baseenv())
  env$condition <- e
  call <- quote(stop(condition))
  for (text in rev(e$calls)) {
    of <- call_of_text(text)
    fun <- function(...) NULL
    body(fun) <- call
    environment(fun) <- env
    env <- new.env(parent = baseenv())
    assign(as.character(of[[1L]]), fun, envir = env)
    call <- of
  }
  start <- function(...) NULL
  body(start) <- call
  environment(start) <- env
  start()
}

# The call with this text, whose function has a name. Where the text is not whole, that is the name.
call_of_text <- function(text) {
  call <- tryCatch(str2lang(text), error = function(e) NULL)
  if (!is.call(call)) return(as.call(list(as.name(if (text == "...") "more calls" else text))))
  if (!is.name(call[[1L]]) || identical(call[[1L]], quote(`...`)))
    call[[1L]] <- as.name(deparse(call[[1L]], nlines = 1L)[[1L]])
  call
}
