# `preload` of make_cluster() where nodes are not forked: each evaluates it by itself.

# Nodes that are not forked evaluate it themselves, as those that replace them do.
preload_on_nodes <- function(cl, request) {
  said <- call_to_set_up(cl, preload_tried, preload_here, request)
  bad <- which(!vapply(said, is.null, NA))
  if (length(bad)) stop(preload_error(said[[bad[[1L]]]], sprintf("on node %d", bad[[1L]])))
  info <- cl[[1L]]$info
  set_setup(info, c(setup_of(info), list(list(fun = preload_here, arg = request))))
}

# NULL, or the text of the error.
preload_tried <- function(fun, request) {
  tryCatch(fun(request), error = function(e) {
    paste(as.character(conditionMessage(e)), collapse = " ")
  })
}
environment(preload_tried) <- baseenv()
