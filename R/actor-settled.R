# Actors that live in a node of their cluster, as its session sees them: cluster_actor(exclusive =
# FALSE). A task makes the actor in the node, and ends. Then its record has no task, but the number
# and the process of the node, whose death is that of the actor.

# An error where the actor cannot live in a node of this cluster. `is_own`: it is the session's own.
check_home <- function(cl, is_own, needs) {
  no <- function(...) {
    throw("argument", paste0("`exclusive = FALSE`: ", ..., "; `exclusive = TRUE` can be used"))
  }
  if (is_own) {
    no("the nodes of the session's own cluster are made anew when its working directory or ",
       "environment changes, use one of make_cluster()")
  }
  if (!length(homes_of(cl))) no("no node of `cl` is a process of this machine")
  s4 <- grep("^[.]__[TC]__", names(needs$globals), value = TRUE)
  if (length(s4)) {
    no("S4 classes and methods of the workspace (", sub("^[.]__[TC]__", "", s4[[1L]]),
       ") would be those of all tasks of the node")
  }
}

# Numbers of the nodes of `cl` in which its actors may live: those of this machine that are there as
# long as the cluster. Of one that grows and shrinks with its work these are the first ones.
homes_of <- function(cl) {
  t <- tasks_of(cl)
  info <- t$info
  if (!is.null(info$remote)) return(integer())
  Filter(function(rank) is_this_machine(info$hosts[[rank]]), t$ranks)
}

settled_of <- function(t) {
  Filter(function(r) !is.null(r$rank) && !isTRUE(r$ended), as.list(t$actors))
}

# The node with the fewest actors, if it can be one that is there, and of these one that is idle. An
# actor that has died begins in one that is idle, if it can.
choose_home <- function(record, t) {
  ranks <- homes_of(record$home)
  others <- Filter(function(r) !identical(r$name, record$name), settled_of(t))
  has <- tabulate(match(vapply(others, function(r) r$rank, 1L), ranks), length(ranks))
  is <- .Call(ffi_tasks_busy, t$ptr, ranks)
  first <- if (length(record$deaths)) is else has
  ranks[order(is == 2L, first, has, is)][[1L]]
}

# `p`: as submit_actor() has it.
submit_settled <- function(record, p) {
  t <- tasks_of(record$home)
  record$rank <- choose_home(record, t)
  settle_in(record, .Call(ffi_node_info, t$info$handles[[record$rank]])$pid)
  own <- list(globals = p$needs$globals, packages = c(p$needs$attach, p$o$packages))
  p$needs[c("globals", "attach")] <- list(list(), character())
  p$o["packages"] <- list(NULL)
  p$o$only <- record$rank
  p$o$priority <- 1000 # tasks that wait may need it
  args <- list(record$name, p$fun, p$args, p$journal, own)
  called <- paste("actor", record$label)
  record$waits_since <- clock()
  record$task <- submit(t, settle_actor, p$needs, p$o, called, p$code, args)
}

# Tasks that wait for an actor that has died may be at work in all nodes: it could never begin.
HOME_WAIT <- 3 # seconds

waits_for_home <- function(record) {
  length(record$deaths) && clock() > record$waits_since + HOME_WAIT &&
    .Call(ffi_actor_info, record$name)$state == ACTOR_DOWN
}

# The task that has made it has ended.
has_settled <- function(record) {
  settle_in(record, .Call(ffi_actor_info, record$name)$pid)
  see_to_settled(record)
}

# It lives in this process now, or will.
settle_in <- function(record, pid) {
  if (identical(record$node, pid)) return(invisible())
  keep_home(record, FALSE)
  record$node <- pid
  keep_home(record, TRUE)
}

# Its node is not ended meanwhile because nobody needs it, or for its memory.
keep_home <- function(record, keeps) {
  if (is.null(record$node)) return(invisible())
  .Call(ffi_tasks_keep_node, record$of$ptr, record$rank, record$node, keeps)
}

# The error of its death; NULL: it has not died, as far as is known.
see_to_settled <- function(record) {
  if (is.null(record$node)) return(NULL)
  is <- .Call(ffi_actor_info, record$name)
  if (is$state == ACTOR_ENDED && !is$died) {
    record$ended <- TRUE
    # it was stopped; one that had died before is told
    if (!length(record$deaths)) forget_in(record$of$actors, record)
    leave_home(record)
    return(NULL)
  }
  t <- record$of
  i <- .Call(ffi_node_info, t$info$handles[[record$rank]])
  is_there <- identical(i$pid, record$node) && !i$state %in% c("dead", "stopped")
  # the actor alone has ended, for this reason; or it is not known here yet that the node has
  if (is_there && !nzchar(is$why)) return(NULL)
  how <- if (is_there) is$why else how_home_ended(record, i)
  keep_home(record, FALSE)
  record$node <- NULL
  text <- sprintf("the process of actor %s has died: %s", record$label, how)
  errorCondition(text, how = how, call = NULL, class = c("clutch_actor_died", "clutch_error"))
}

how_home_ended <- function(record, i) {
  t <- record$of
  of_node <- function() Filter(function(d) identical(d$pid, record$node), t$death_log)
  known <- of_node()
  if (!length(known)) {
    task_step(t, NULL, 0)
    hear_of_deaths(t)
    known <- of_node()
  }
  if (length(known)) return(known[[length(known)]]$how)
  if (identical(i$pid, record$node)) death_text(i, t$info) else "its node was replaced"
}

# Tells whether it was there. Environments, since a finalizer may do this at any moment.
forget_in <- function(env, record) {
  is_there <- exists(record$name, env, inherits = FALSE)
  if (is_there) rm(list = record$name, envir = env)
  is_there
}

# It lives nowhere any more. `quick`: as end_actor() has it. The cluster of one node that it may
# have is garbage then, too.
leave_home <- function(record, quick = FALSE) {
  if (quick) {
    if (is.null(record$home)) return(invisible())
    the$actors_left <- c(the$actors_left, list(record))
    .Call(ffi_actor_made, TRUE) # see_to_actors() comes to it
    return(invisible())
  }
  if (!is.null(record$cl)) return(stop_nodes(record$cl))
  keep_home(record, FALSE)
  record$node <- NULL
  if (!is.null(record$task)) cancel(record$task)
  invisible()
}

# The objects of these actors were garbage. In a child of the session they are the session's affair.
leave_homes <- function() {
  left <- the$actors_left
  the$actors_left <- NULL
  for (record in left) if (record$pid == Sys.getpid()) leave_home(record)
  see_to_no_more()
}

# Tells C code where there is nothing to see to.
see_to_no_more <- function() {
  if (!length(the$actors) && !length(the$actors_left)) .Call(ffi_actor_made, FALSE)
}
