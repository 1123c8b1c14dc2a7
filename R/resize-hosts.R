# Hosts that come and go while a cluster is there, as of slurm(nodes = ): each is asked for, gets
# its nodes when it is there, and is released. When, says resize-size.R.
#
# `t` is the environment of a cluster's tasks. `t$resize`, an environment; NULL: the cluster keeps
# its size.
#   at        by number of the host: "none", "asked" (its job was submitted), "there"
#   ending    by number of the host: when it was seen that it will not come, by clock(); NA: it was
#             not. What it has printed is known a moment later
#   next_check  when resize-size.R acts next, by clock()
#   failures  so many in turn have not come; `again`: when the next is asked for; `pause`: before
#             the one after that
#   short_since  since when hosts are wanted that may be asked for together, by clock(); NULL: none
#             are
#   surplus_since  since when more are asked for than are of use; NULL: they are not
#   held      the commands that hold jobs, see hold_commands()

# ---- how many there may be ----

# Numbers of hosts, at least and at most, and of nodes on each, of a function's `nodes` and `each`.
host_bounds <- function(nodes, each) {
  if (is.null(each)) each <- 1L
  check_one(each, "`each`", is_whole, "a number of nodes, 1 or more")
  bounds <- bounds_of(nodes)
  if (is.null(bounds) || is.infinite(bounds[[2L]])) {
    text <- "`nodes` has to be the least and the most nodes, 1 or more, as c(10, 200) or 10:200"
    if (length(nodes) == 1L) text <- paste0(text, "; a number that stays is `hosts`")
    throw("argument", text)
  }
  least <- ceiling(bounds[[1L]] / each)
  most <- floor(bounds[[2L]] / each)
  if (most < least) {
    text <- "`nodes`: no number of hosts with %d nodes each has %.0f to %.0f nodes"
    throw("argument", sprintf(text, as.integer(each), bounds[[1L]], bounds[[2L]]))
  }
  list(hosts = as.integer(most), least = as.integer(least), each = as.integer(each))
}

check_no_hosts <- function(hosts) {
  if (is.null(hosts)) return(invisible())
  throw("argument", "either `hosts`, a number that stays, or `nodes`, the least and the most")
}

# ---- what is known of them ----

new_resize <- function(info) {
  r <- new.env(parent = emptyenv())
  n <- length(info$plan$launch$each)
  r$at <- rep("none", n)
  r$at[first_hosts(info$plan$launch)] <- "there"
  r$ending <- rep(NA_real_, n)
  r$next_check <- 0
  no_failures(r)
  r$held <- hold_commands(info)
  r
}

no_failures <- function(r) {
  r$failures <- 0L
  r$again <- 0
  r$pause <- RESIZE_PAUSES[[1L]]
}
RESIZE_PAUSES <- c(1, 60) # seconds before another one is asked for: the first and the longest

# Tells whether a node's host has ended and may come again, in a cluster that grows.
host_may_come_again <- function(t, index) {
  !is.null(t$resize) && host_is_away(t, t$info$host_of[[index]])
}

# In a cluster that grows: this host has ended, or is about to, and may come again, see
# resize-size.R.
host_is_away <- function(t, k) {
  t$resize$at[[k]] != "there" || !is.null(t$info$remote$ends[[format(k)]]) ||
    host_has_ended(t$info$remote$servers[[k]])
}

ranks_at <- function(info, k) which(info$host_of == k)

# ---- it is asked for ----

# These hosts are asked for, by as few commands as their kind needs.
ask_for_hosts <- function(t, hosts) {
  info <- t$info
  suspendInterrupts({ # a job of which nobody knows would stay
    for (k in hosts) {
      forget_host(info, k)
      # numbers of the link process in turn, by which those of one command know each other
      set_host(info, k, link_host(info$remote$link, host_setup(info)))
    }
    for (launch in commands_now(info, hosts)) {
      unlink(printed_files(info, launch, seq_along(launch$hosts) - 1L)) # of hosts before
      run_and_note(info, launch, settings_for(info, launch, info$remote$patience))
      note_asked(t, command_of(info, launch$hosts[[1L]]))
    }
  })
}

# `command`: an element of info$remote$commands, which was just run.
note_asked <- function(t, command) {
  info <- t$info
  x <- info$plan$launch
  t$resize$held$handles <- c(t$resize$held$handles, list(command$handle))
  for (k in command$hosts) {
    t$resize$at[[k]] <- "asked"
    t$resize$ending[[k]] <- NA
    if (k %in% first_hosts(x)) next
    server <- info$remote$servers[[k]]$handle
    .Call(ffi_tasks_host, t$ptr, k, ranks_at(info, k), server, command$handle,
          task_of(command, k), x$idle)
  }
}

# Forgets what is known of the host before.
forget_host <- function(info, k) {
  key <- format(k)
  command <- command_of(info, k)
  if (length(command$hosts) == 1L) unlink(command$log)
  forget_command(info, k)
  set_end_of_host(info, key, NULL)
  set_job(info, key, NULL)
  name_host(info, k, info$plan$launch$hosts[[k]])
}

# ---- it is there ----

OPEN_LIMIT <- 20 # seconds that its nodes may take to start

# It has reported. Its nodes have their part in the work from now on.
open_host <- function(t, k) {
  info <- t$info
  end <- clock() + OPEN_LIMIT
  left <- function() max(end - clock(), 0.01)
  check_reports(info, k)
  set_up_hosts(info, k, left)
  # who was interrupted here comes again
  finish_places(t, ranks_at(info, k), is_new = TRUE)
  is_wanted <- function(rank) {
    .Call(ffi_node_info, info$handles[[rank]])$state %in% c("stopped", "dead")
  }
  ranks <- Filter(is_wanted, ranks_at(info, k))
  handles <- spawn_on_hosts(info, ranks, left)
  for (i in seq_along(ranks)) put_in_place(t, ranks[[i]], handles[[i]], is_new = TRUE)
  show_nodes(info, ranks)
  .Call(ffi_tasks_host_there, t$ptr, k)
  t$resize$at[[k]] <- "there"
  remove_settings(t, k)
  no_failures(t$resize)
  tell_event("start", info, text = "a host has come", host = name_of_host(info, k),
             nodes = length(ranks))
  ask_new_host(t, k)
}

# ---- it goes ----

# Nothing is left of these hosts in a moment. `text`: why.
release_hosts <- function(t, hosts, text) {
  info <- t$info
  for (k in hosts) host_end(info$remote$servers[[k]])
  end_commands(info, hosts)
  for (k in hosts) {
    nodes <- sum(t$resize$at[[k]] == "there") * info$plan$launch$each[[k]]
    .Call(ffi_tasks_host_gone, t$ptr, k)
    t$resize$at[[k]] <- "none"
    remove_settings(t, k)
    name <- name_of_host(info, k)
    if (is.null(name)) name <- info$plan$launch$hosts[[k]]
    tell_event("stop", info, text = text, host = name, nodes = nodes)
  }
}

# The file with the settings of host `k` goes when none of its command is to read it any more.
remove_settings <- function(t, k) {
  command <- command_of(t$info, k)
  if (is.null(command$settings) || any(t$resize$at[command$hosts] == "asked")) return(invisible())
  unlink(file.path(t$info$remote$folder, command$settings))
}

# It does not come. Others are asked for after a pause.
host_failed <- function(t, k, why) {
  r <- t$resize
  release_hosts(t, k, why)
  r$failures <- r$failures + 1L
  r$again <- clock() + r$pause
  r$pause <- min(2 * r$pause, RESIZE_PAUSES[[2L]])
  t$problem <- paste("no host comes:", why)
  if (r$failures > 1L) return(invisible())
  text <- paste0("the cluster cannot grow now: ", why)
  name <- t$info$plan$launch$hosts[[k]]
  warning(warningCondition(text, class = "clutch_hosts_missing", hosts = name))
}

# The jobs of these hosts end. Of an array only they do, and its command ends with the last one.
end_commands <- function(info, hosts) {
  for (command in info$remote$commands) {
    of <- intersect(hosts, command$hosts)
    if (!length(of)) next
    if (is.null(command$tasks)) {
      end_command(command$handle)
    } else {
      words <- paste(task_of(command, of), collapse = " ")
      .Call(ffi_psock_say, command$handle, paste0(words, "\n"))
    }
  }
}

# A command that holds a job sees to its end when it is told to end.
end_command <- function(handle) {
  i <- .Call(ffi_node_info, handle)
  if (i$state == "starting" && !is.na(i$started)) tools::pskill(i$started, tools::SIGTERM)
}

# Commands that are garbage are killed, and then nobody cancels a job that waits. So their handles
# are kept for as long as the session is there. When the cluster is garbage they are told to end.
hold_commands <- function(info) {
  held <- new.env(parent = emptyenv())
  held$handles <- list()
  the$held <- c(Filter(has_running, the$held), list(held))
  reg.finalizer(info, ends_commands(held))
  held
}

has_running <- function(held) {
  is_running <- function(handle) {
    tryCatch(.Call(ffi_node_info, handle)$state == "starting", clutch_error = function(e) FALSE)
  }
  !isTRUE(held$is_over) || any(vapply(held$handles, is_running, NA))
}

# A function that does not know the cluster.
ends_commands <- function(held) {
  force(held)
  function(info) {
    held$is_over <- TRUE
    for (handle in held$handles) tryCatch(end_command(handle), clutch_error = function(e) NULL)
  }
}
