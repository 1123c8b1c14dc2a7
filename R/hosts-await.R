# Waits for hosts that were started, and says why some do not come.

# Until all hosts have reported, or more than may be missing will not: `least` are wanted. To look
# at all of a thousand hosts takes some ms: the pauses are long enough that it is a tenth of the
# time.
await_hosts <- function(info, left, least) {
  pause <- LEAST_PAUSE
  repeat {
    waiting <- setdiff(which(has_not_come(info)), info$remote$missing)
    if (!length(waiting)) return(invisible())
    for (k in waiting) {
      host <- host_ready(info$remote$servers[[k]], if (k == waiting[[1L]]) pause else 0)
      if (k == waiting[[1L]]) began <- clock()
      if (!is.null(host)) set_host(info, k, host)
    }
    see_to_tree(info, waiting[has_not_come(info, waiting)])
    info$plan$kind$poll(info)
    is_lost <- function(k) is.null(info$remote$servers[[k]]$report) && host_will_not_come(k, info)
    lost <- Filter(is_lost, waiting)
    if (length(lost)) {
      let_end(info, Filter(function(k) !is_not_run(info, k), lost))
      lost <- Filter(is_lost, waiting) # of one command several may fail together
      miss_hosts(info, lost, least)
      next
    }
    is_late <- left() + info$plan$kind$queued(info) <= 0.02
    if (is_late) miss_hosts(info, waiting, least, is_late = TRUE)
    pause <- min(max(LEAST_PAUSE, 9 * (clock() - began)), 0.5)
  }
}
LEAST_PAUSE <- 0.05 # seconds

# Which of these hosts have not reported.
has_not_come <- function(info, of = seq_along(info$remote$servers)) {
  vapply(info$remote$servers[of], function(host) is.null(host$report), NA)
}

# Goes on without them, or throws. `least`: so many are wanted.
miss_hosts <- function(info, failed, least, is_late = FALSE) {
  n <- length(info$remote$servers) - length(info$remote$missing) - length(failed)
  if (n < least) throw_hosts_failed(info, c(info$remote$missing, failed), is_late)
  text <- unlist(lapply(failed, host_failure_text, info))
  set_remote(info, why_missing = c(info$remote$why_missing, text),
             missing = c(info$remote$missing, failed))
  for (k in failed) {
    host_end(info$remote$servers[[k]])
    if (is_not_run(info, k)) next
    command <- command_of(info, k)
    all_missing <- all(command$hosts %in% info$remote$missing)
    if (all_missing) .Call(ffi_nodes_stop, list(command$handle), 0, 2)
  }
}

# The last output of a command, and how it ends, is known a moment after its connection has ended.
let_end <- function(info, lost) {
  began <- clock()
  may_print <- function(k) {
    command <- command_of(info, k)
    if (length(command$hosts) == 1L) {
      return(.Call(ffi_node_info, command$handle)$state == "starting")
    }
    clock() < began + 0.5 || info$plan$kind$may_print(info, k, command)
  }
  for (k in lost) while (clock() < began + 1 && may_print(k)) Sys.sleep(0.02)
}

# The command that has submitted a job ends well before that begins.
host_will_not_come <- function(k, info) {
  if (host_has_ended(info$remote$servers[[k]])) return(TRUE)
  if (is_not_run(info, k)) return(FALSE)
  command <- command_of(info, k)
  i <- .Call(ffi_node_info, command$handle)
  if (i$state == "dead") return(is.null(info$remote$folder) || i$by_signal || i$code != 0L)
  info$plan$kind$will_not_come(info, k, command)
}

# ---- failure ----

throw_hosts_failed <- function(info, failed, is_late = FALSE) {
  x <- info$plan$launch
  what <- if (is_late) "did not come within setup_timeout" else "could not be started"
  head <- sprintf("%d of %d hosts %s; nothing was left running", length(failed),
                  length(info$remote$servers), what)
  lines <- unlist(lapply(utils::head(failed, 3L), host_failure_text, info))
  more <- if (length(failed) > 3L) paste("and", paste(x$hosts[failed[-(1:3)]], collapse = ", "))
  throw("start", paste(c(head, lines, more), collapse = "\n"), hosts = x$hosts[failed],
        nodes = which(info$host_of %in% failed), port = info$port)
}

host_failure_text <- function(k, info) {
  x <- info$plan$launch
  if (is_not_run(info, k)) return(sprintf("%s: its turn to be started had not come", x$hosts[[k]]))
  command <- command_of(info, k)
  i <- .Call(ffi_node_info, command$handle)
  why <- if (i$state != "starting") {
    how_ended(i$by_signal, i$code)
  } else if (host_has_ended(info$remote$servers[[k]])) {
    status_of_hosts(info)$why[[k]]
  } else {
    "it has not connected"
  }
  node <- list(host = x$hosts[[k]], rshcmd = shell_words(x$ssh), by_hosts = TRUE,
               has_library = !is.null(x$r$lib), by_name = !is.null(x$by_name))
  known <- list(why = why, i = i, printed = printed_of(info, command, k))
  better <- info$plan$kind$failure(info, k, command, known$printed)
  known[names(better)] <- better
  advice <- advice_for(node, known$i, known$printed, info$port)
  c(
    sprintf("%s: %s%s", x$hosts[[k]], known$why, last_printed(known$printed)),
    sprintf("what was run for %s: %s", x$hosts[[k]], shell_words(command$argv)),
    if (length(advice)) paste("try:", advice)
  )
}
