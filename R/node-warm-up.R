# A fork server does this once so that its nodes need not: functions are read from disk, and the
# heap is laid out so that nodes share its pages.

# Functions are read from disk when they are first used: those that every node uses, here and once.
warm_up <- function() {
  set.seed(1L)
  try(tempdir(TRUE), silent = TRUE)
  ours <- list(forked_node_begin, node_serve, node_end, announce, on_error, on_message, on_warning,
               on_condition)
  others <- list(withCallingHandlers, new.env, globalenv, tryCatch, structure, conditionMessage,
                 unlink, sink.number, getAllConnections, ls, rm)
  for (f in c(ours, others)) force(f)
  if (isNamespaceLoaded("grDevices")) force(grDevices::dev.list)
  as_failure <- function(e) {
    structure(conditionMessage(e), class = c("snow-try-error", "try-error"))
  }
  tryCatch(stop("warm-up"), error = as_failure, interrupt = function(e) NULL)
  stack_text(sys.calls())
  warm_up_compiler()
}

# R compiles a function at its second or third call. The compiler's own functions are read from disk
# then, which takes a node ten times as long as to compile a small function. Nothing is done where
# R_ENABLE_JIT says that nothing is compiled.
warm_up_compiler <- function() {
  code <- quote({
    y <- x + 1
    if (is.null(y)) y[[1L]] else sqrt(y)
  })
  # a function of the workspace, however small: of others only large ones are compiled
  f <- as.function(list(x = 0, code), envir = globalenv())
  for (i in 1:3) f(i)
  invisible()
}

# On another host, before the proxy is forked: what prepare() does where nothing is attached. Done
# after that fork it would write to all of R's memory, and so copy it. That takes 0.1 s, and the
# proxy keeps what was copied.
warm_up_host <- function() {
  warm_up()
  put_session_seed(NULL)
  .Call(ffi_fork_server_warm_up)
  settle_memory(FALSE)
  the_node$settled <- TRUE
}

# Objects that a collection has met are old: the collections in the nodes leave their pages alone,
# and so shared, until a full one comes. After collect_for_forks() that holds for most of them.
# With packages or preloaded objects these are few, and there are millions of others: a full
# collection. Each takes as long here as in one node, which is a tenth of what these take to load.
#
# Then the cells that are free lie all over the heap. What a node allocates first is to lie
# together: so these are used up here. They are free again after the node's first collection.
settle_memory <- function(collect) {
  most <- 50000
  if (collect || !isTRUE(the_node$collected)) {
    cells <- gc()["Ncells", c("used", "gc trigger")]
    most <- (cells[[2L]] - cells[[1L]]) / 3
  }
  .Call(ffi_fork_server_use_up, most)
}
