# Nodes that have died while tasks are done, and those that come in their place.
#
# A node on this machine is there in a moment, and is waited for. One on another host, which perhaps
# cannot be reached, is inspected now and then, by see_to_replacements(). What fails is tried again,
# after longer and longer pauses, as long as others are there. In both cases the others work
# meanwhile, and their limits are in force.
#
# `t` is the environment of a cluster's tasks. `t$replacements` has, by rank, those that are under
# way and those that are to be tried again: list(index, pause) and either `coming`, see
# launch-tcp.R, or `at`, a time by clock(). `t$problem` is the last that went wrong.
#
# A new node is behind the same handle, and gets what cluster_setup() and cluster_export() have
# said. Some deaths in a row in which nothing was started give the node up for this map: see
# most_in_a_row().

START_LIMIT <- 60 # seconds that a node may take to come
PAUSES <- c(1, 60) # seconds before it is tried again: the first and the longest
USUAL <- 5 # seconds that one on a host within reach takes at most
SETTLE_SLICE <- 0.02 # seconds between two checks of the others while one is waited for

# A new process behind the same handle: whether it is there, or to be expected.
replace_dead <- function(t, index) {
  if (index %in% t$info$stopped) return(invisible(FALSE)) # it had died before, unseen
  key <- format(index)
  if (may_come_again(t, index)) return(invisible(TRUE))
  if (is_under_way(t$replacements[[key]])) return(invisible(TRUE))
  launcher <- launcher_of(t$info)
  if (!is.null(launcher$replace)) {
    # to start a node there in vain may be the way to see that the host ends
    is_there <- replace_now(t, index, launcher$replace) || may_come_again(t, index)
    return(invisible(is_there))
  }
  begin_replacement(t, index, PAUSES[[1L]])
  if (is_local(t, index)) settle(t, t$replacements[key])
  invisible(is.null(t$replacements[[key]]) || is_under_way(t$replacements[[key]]))
}

replace_now <- function(t, index, replace) {
  fresh <- tryCatch(replace(t$info, as.integer(index), START_LIMIT), clutch_error = identity)
  if (inherits(fresh, "error")) {
    t$problem <- conditionMessage(fresh)
    tell_event("replacement", t$info, index, t$problem, ok = FALSE)
    return(FALSE)
  }
  put_in_place(t, index, fresh)
  TRUE
}

is_under_way <- function(r) !is.null(r$coming)

# Tells whether another host is to come for a node whose host has ended.
may_come_again <- function(t, index) !is.null(t$manager) && t$manager$may_come_again(t, index)

is_local <- function(t, index) is_this_machine(t$info$hosts[[index]])

# When the work is done: calls that follow find the nodes of hosts within reach.
settle_replacements <- function(t) if (length(t$replacements)) settle(t, t$replacements)

# Waits for those of them that are under way, as long as each may take. The other nodes work
# meanwhile: what they answer is read, they get more, and their limits are in force. If one of them
# dies, the next step hears of it. `usual`: how long one on another host may take.
settle <- function(t, those, usual = USUAL) {
  is_open <- function(r) may_still_come(t, r, usual)
  while (length(open <- Filter(is_open, those))) {
    wait_for_coming(open[[1L]]$coming, min(SETTLE_SLICE, time_left(t, open[[1L]], usual)))
    see_to_replacements(t)
    .Call(ffi_tasks_step, t$ptr, NULL, 0, 0)
  }
}

# A call needs this node and no other.
settle_needed <- function(t, rank) {
  settle(t, Filter(function(r) r$index == rank, t$replacements), START_LIMIT)
}

may_still_come <- function(t, r, usual) {
  now <- t$replacements[[format(r$index)]]
  is_under_way(r) && identical(now$coming$handle, r$coming$handle) && time_left(t, r, usual) > 0
}

time_left <- function(t, r, usual) {
  r$coming$began + (if (is_local(t, r$index)) START_LIMIT else usual) - clock()
}

# ---- those that take their time ----

begin_replacement <- function(t, index, pause) {
  begin <- launcher_of(t$info)$begin
  coming <- tryCatch(begin(t$info, as.integer(index)), clutch_error = identity)
  if (inherits(coming, "error")) {
    try_again_later(t, index, pause, conditionMessage(coming))
  } else {
    t$replacements[[format(index)]] <- list(index = index, pause = pause, coming = coming)
  }
}

try_again_later <- function(t, index, pause, why) {
  host <- t$info$hosts[[index]]
  t$problem <- sprintf("node %d on %s cannot be replaced: %s", index, host, why)
  longer <- min(2 * pause, PAUSES[[2L]])
  again <- list(index = index, at = clock() + pause, pause = longer)
  t$replacements[[format(index)]] <- again
  tell_event("replacement", t$info, index, why, ok = FALSE, again_in = pause)
}

# Inspects each of them once.
see_to_replacements <- function(t) {
  for (r in t$replacements) {
    if (is_under_way(r)) {
      see_to_coming(t, r)
    } else if (clock() >= r$at) {
      begin_replacement(t, r$index, r$pause)
    }
  }
}

see_to_coming <- function(t, r) {
  coming <- r$coming
  if (wait_for_coming(coming, 0)) {
    t$replacements[[format(r$index)]] <- NULL
    settle_coming(coming)
    set_cluster(t$info, port = coming$acceptor$port)
    put_in_place(t, r$index, coming$handle)
  } else if (clock() >= coming$began + START_LIMIT || coming_has_failed(coming)) {
    e <- coming_failure(t$info, r$index, coming, START_LIMIT)
    drop_coming(coming)
    try_again_later(t, r$index, r$pause, conditionMessage(e))
  }
}

# No node is there: waits for one that is under way. FALSE: there is none either.
await_replacement <- function(t, seconds) {
  under_way <- Filter(is_under_way, t$replacements)
  if (!length(under_way)) return(FALSE)
  wait_for_coming(under_way[[1L]]$coming, seconds)
  TRUE
}

drop_replacements <- function(t) {
  if (is.null(t)) return(invisible())
  for (r in Filter(is_under_way, t$replacements)) drop_coming(r$coming)
  t$replacements <- NULL
  invisible()
}
