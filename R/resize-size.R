# The size of a cluster that grows by hosts, as of slurm(nodes = ) and hosts_command(nodes = ): when
# one is asked for, and when one is released.
#
# It grows with the work that waits. So many nodes are wanted that each has work for WORK_EACH
# seconds, by the times that tasks have taken, or are taking. Jobs that wait in a queue are
# limited in number: when they start, more are submitted. After failures there are pauses.
#
# It shrinks by hosts that have nothing to do. Those end also while the session does nothing, or
# something else: src/core/tasks/idle.c sees to it. What is done here is done in the steps of
# maps and of who waits for tasks, and when tasks are submitted. It needs R's thread: a command has
# to be started, and what nodes are told depends on what their host reports.
#
# There are numbers for the nodes of all hosts that there may be, a job for each host. `cl` is the
# list of the first nodes; info$handles has all. The handle of a node that is not there is of a
# node that was stopped. It gets the new node by ffi_node_swap(), as in a replacement. In each
# step see_to_size() compares what is there with clu_sched_desired(), asks for hosts
# (resize-hosts.R), and takes those that have come. The compiled code that ends idle hosts
# knows the command that holds a job by its number. By SIGTERM that command cancels the job, if the
# end of the control channel has not ended it. A map without any node waits while a host is asked
# for, or is to be (await_some_host()). A process that is there already and could run sbatch would
# not make R's thread needless for growth: what new nodes are told is serialized by R.

RESIZE_EVERY <- 0.2  # seconds between two checks
WORK_EACH <- 5       # seconds of work that are worth a node
ASKED_AT_ONCE <- 8L  # hosts that are asked for at a time, or as many as are there
TOGETHER_AFTER <- 2  # seconds for which few hosts wait for others that are asked for with them
MOST_FAILURES <- 3L  # in turn, until a map that has no node fails

# The manager of hosts that may grow, see manager_of(). `hear_of_ends`: of their kind.
manage_hosts <- function(t, hear_of_ends) {
  if (!is.null(t$info$plan$first)) t$resize <- new_resize(t$info)
  list(step = see_to_size, hear_of_ends = hear_of_ends, await = await_some_host,
       may_come_again = host_may_come_again)
}

# In each step: for how many seconds that may wait at most.
see_to_size <- function(t) {
  r <- t$resize
  if (is.null(r)) return(Inf)
  now <- clock()
  if (now < r$next_check) return(r$next_check - now)
  r$next_check <- now + RESIZE_EVERY # what follows may be interrupted
  see_to_ended_hosts(t)
  see_to_asked_hosts(t)
  see_to_surplus(t)
  RESIZE_EVERY
}

see_to_ended_hosts <- function(t) {
  release_hosts(t, .Call(ffi_tasks_hosts_idle, t$ptr), "there was nothing to do for it")
  is_over <- function(k) {
    host_is_away(t, k) && .Call(ffi_tasks_are_gone, t$ptr, ranks_at(t$info, k))
  }
  release_hosts(t, Filter(is_over, which(t$resize$at == "there")), "the host has ended")
}

# ---- those that were asked for ----

see_to_asked_hosts <- function(t) {
  info <- t$info
  asked <- which(t$resize$at == "asked")
  if (length(asked)) info$plan$kind$ask(info)
  for (k in asked) {
    if (is.null(info$remote$servers[[k]]$report)) {
      host <- host_ready(info$remote$servers[[k]], 0)
      if (!is.null(host)) set_host(info, k, host)
    }
    is_there <- !is.null(info$remote$servers[[k]]$report)
    failed <- if (is_there) try_to_open(t, k) else why_not_coming(t, k)
    if (!is.null(failed)) host_failed(t, k, failed)
  }
}

# NULL, or why it cannot be used.
try_to_open <- function(t, k) {
  tryCatch({
    open_host(t, k)
    NULL
  }, clutch_error = conditionMessage)
}

# NULL: it may come.
why_not_coming <- function(t, k) {
  info <- t$info
  r <- t$resize
  if (is.na(r$ending[[k]])) {
    if (host_will_not_come(k, info)) r$ending[[k]] <- clock()
    waits <- info$plan$kind$waits_too_long(info, k)
    if (!is.null(waits)) return(waits)
    began <- info$plan$kind$began(info, k)
    is_late <- !is.null(began) && clock() - began > info$remote$patience
    return(if (is_late) paste(host_failure_text(k, info), collapse = "\n"))
  }
  # what it prints last may come a moment later
  if (clock() - r$ending[[k]] > 1) paste(host_failure_text(k, info), collapse = "\n")
}

# ---- more of them, or less ----

see_to_surplus <- function(t) {
  r <- t$resize
  x <- t$info$plan$launch
  nodes <- .Call(ffi_tasks_desired, t$ptr, WORK_EACH)
  wanted <- min(max(ceiling(nodes / x$each[[1L]]), x$least), length(x$each))
  have <- sum(r$at != "none")
  ask_for_more(t, wanted)
  give_up_asked(t, have - wanted)
}

ask_for_more <- function(t, wanted) {
  r <- t$resize
  now <- clock()
  if (now < r$again) return(invisible())
  how_many <- if (t$info$plan$kind$asks_together) hosts_to_ask_together else hosts_to_ask
  n <- how_many(r, wanted, now)
  if (n <= 0L) return(invisible())
  hosts <- utils::head(which(r$at == "none"), n)
  failed <- tryCatch({
    ask_for_hosts(t, hosts)
    NULL
  }, clutch_error = conditionMessage)
  if (is.null(failed)) return(invisible())
  # of several commands the first ones may have been run
  host_failed(t, c(hosts[r$at[hosts] == "none"], hosts)[[1L]], failed)
}

# How many hosts are asked for now, if so many are wanted. 0, or less: none.
hosts_to_ask <- function(r, wanted, now) {
  there <- sum(r$at == "there")
  asked <- sum(r$at == "asked")
  min(wanted - there - asked, max(ASKED_AT_ONCE, there) - asked)
}

# Does so where one command asks for many: it is not run for each few that come, nor for each few
# that are wanted. With every command there are twice as many, or it has waited for that. A command
# for many that was refused may be too much for a limit of the user's: then one is asked for.
hosts_to_ask_together <- function(r, wanted, now) {
  there <- sum(r$at == "there")
  asked <- sum(r$at == "asked")
  most <- max(ASKED_AT_ONCE, 2L * there)
  n <- min(wanted - there - asked, most - asked)
  if (n <= 0L) {
    r$short_since <- NULL
    return(0L)
  }
  if (is.null(r$short_since)) r$short_since <- now
  is_much <- n >= min(there + asked, most)
  if (asked > most / 4 || !(is_much || now - r$short_since >= TOGETHER_AFTER)) return(0L)
  r$short_since <- NULL
  if (r$failures > 0L) 1L else n
}

# `n` hosts of those that were asked for, and have not come, are too many. They may be needed in a
# moment, by the next map.
give_up_asked <- function(t, n) {
  r <- t$resize
  asked <- setdiff(which(r$at == "asked"), first_hosts(t$info$plan$launch))
  n <- min(n, length(asked))
  if (n <= 0L) {
    r$surplus_since <- NULL
  } else if (is.null(r$surplus_since)) {
    r$surplus_since <- clock()
  } else if (clock() - r$surplus_since > t$info$plan$launch$idle) {
    release_hosts(t, utils::tail(asked, n), "there was nothing to do for it")
  }
}

# ---- no node is there ----

# Waits for a host. FALSE: none is to be expected.
await_some_host <- function(t, seconds) {
  r <- t$resize
  if (is.null(r)) return(FALSE)
  asked <- which(r$at == "asked")
  first <- first_hosts(t$info$plan$launch)
  is_missing <- vapply(first, function(k) r$at[[k]] != "asked" && host_is_away(t, k), NA)
  if (!length(asked) && !any(is_missing)) return(FALSE)
  if (r$failures >= MOST_FAILURES) {
    no_failures(r) # the next one tries it again
    t$latest <- NULL # the last death is not what is in the way, but t$problem
    return(FALSE)
  }
  seconds <- min(seconds, RESIZE_EVERY)
  waiting <- Filter(function(k) is.null(t$info$remote$servers[[k]]$report), asked)
  if (length(waiting)) {
    .Call(ffi_server_wait, t$info$remote$servers[[waiting[[1L]]]]$handle, seconds)
  } else {
    Sys.sleep(seconds)
  }
  TRUE
}
