# Objects that are there before the nodes are forked: `preload` of make_cluster().
#
# The session makes a request of the expression: its code, the variables that it needs, and the
# packages. A fork server evaluates that before it forks, so that nodes have the objects without a
# copy. Such a server is that of one cluster only, see own_server() in launch-fork-server.R. Where
# nodes are not forked each of them evaluates the request.
#
# preload_before_fork() evaluates the request in the server's workspace, closes what it has left
# open, and reports its error, its warnings, and whether it has started threads, which is an
# error.

# ---- in the session ----

# The request, or NULL: there is none. `code`: what the user wrote for `preload`; `env`: where.
preload_request <- function(code, env) {
  code <- preload_code(code, env)
  if (is.null(code)) return(NULL)
  frame <- locals_of(code, env)
  needs <- find_needs(list(eval(call("function", NULL, code), frame)), TRUE, env)
  local <- setdiff(ls(frame, all.names = TRUE), "...")
  variables <- c(namespace_variables(code, topenv(env, NULL)), needs$globals)
  variables[local] <- mget(local, envir = frame)
  list(code = code, variables = variables, attach = needs$attach, load = needs$load, wd = getwd())
}

# Where the expression was written: in `frame`, which has made `call`, or, where that hands on the
# `...` of a function, in the frame that has called this function.
written_in <- function(call, frame) {
  has_dots <- function(call) any(vapply(as.list(call)[-1L], identical, NA, quote(...)))
  while (!"preload" %in% names(call) && has_dots(call)) {
    dots <- frame
    while (!exists("...", dots, inherits = FALSE)) dots <- parent.env(dots)
    number <- Position(function(f) identical(f, dots), sys.frames()) # eval() comes later
    if (is.na(number)) break # its call has ended
    call <- sys.call(number)
    frame <- sys.frame(sys.parents()[[number]])
  }
  frame
}

# The code itself, or code that a call of quote() or a variable gives.
preload_code <- function(code, env) {
  if (is.symbol(code)) {
    value <- get0(as.character(code), env)
    if (is.language(value) && !inherits(value, "formula")) return(preload_code(value, baseenv()))
    if (is.null(value) && exists(as.character(code), env)) return(NULL)
  }
  quotes <- c("quote", "bquote", "expression", "substitute")
  if (is.call(code) && is.symbol(code[[1L]]) && as.character(code[[1L]]) %in% quotes) {
    code <- eval(code, env)
  }
  if (is.expression(code)) as.call(c(list(quote(`{`)), as.list(code))) else code
}

# A function of a package sees what is not exported, the workspace of a fork server does not.
namespace_variables <- function(code, top) {
  if (!isNamespace(top) || !is.language(code)) return(list())
  names <- intersect(all.names(code, unique = TRUE), names(top))
  imported <- intersect(setdiff(all.names(code, unique = TRUE), names), names(parent.env(top)))
  c(mget(names, envir = top), mget(imported, envir = parent.env(top)))
}

# The code in one line, for print() and the dry run.
preload_text <- function(request) {
  code <- request$code
  if (is.call(code) && identical(code[[1L]], quote(`{`)) && length(code) > 1L) {
    more <- length(code) > 2L
    code <- code[[2L]]
  } else {
    more <- FALSE
  }
  text <- deparse(code, width.cutoff = 60L, nlines = 2L)
  paste0(text[[1L]], if (more || length(text) > 1L) " ...")
}

# ---- in a node, or in a fork server ----

# It is sent to nodes of base R, too, which have nothing of this package.
preload_here <- function(request) {
  for (package in request$load) requireNamespace(package, quietly = TRUE)
  for (package in rev(request$attach)) {
    suppressPackageStartupMessages(suppressWarnings(
      library(package, character.only = TRUE, logical.return = TRUE)
    ))
  }
  list2env(request$variables, globalenv())
  eval(request$code, globalenv())
  NULL
}
environment(preload_here) <- baseenv()

# The value is what came of it in a fork server: list(error, warnings, threads, open). `error`: its
# text, or NULL; `threads`: whether it has started some; `open`: what it has left open and all nodes
# would share, which is closed now.
preload_before_fork <- function(request) {
  threads <- .Call(ffi_thread_count)
  connections <- getAllConnections()
  warnings <- character()
  heard <- function(w) {
    warnings <<- c(warnings, message_of(w))
    tryInvokeRestart("muffleWarning")
  }
  error <- tryCatch({
    if (!is.null(request$wd)) setwd(request$wd)
    withCallingHandlers(preload_here(request), warning = heard)
  }, error = message_of)
  open <- c(close_devices(), close_connections(connections))
  list(error = error, warnings = warnings, open = open,
       threads = isTRUE(.Call(ffi_thread_count) > threads))
}

close_devices <- function() {
  n <- length(grDevices::dev.list())
  grDevices::graphics.off()
  if (n) "graphics devices"
}

close_connections <- function(but) {
  while (sink.number() > 0L) sink()
  new <- setdiff(getAllConnections(), but)
  for (k in new) try(close(connection_at(k)), silent = TRUE)
  if (length(new)) "connections"
}
