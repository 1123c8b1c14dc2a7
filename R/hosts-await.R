# Waits for hosts that were started, and says why some do not come.

# Until all hosts have reported, or more than may be missing will not: `least` are wanted.
await_hosts <- function(info, left, least) {
  repeat {
    waiting <- which(vapply(info$servers, function(host) is.null(host$report), NA))
    waiting <- setdiff(waiting, info$missing)
    if (!length(waiting)) return(invisible())
    for (k in waiting) {
      host <- host_ready(info$servers[[k]], if (k == waiting[[1L]]) 0.05 else 0)
      if (!is.null(host)) info$servers[[k]] <- host
    }
    see_to_tree(info, waiting[vapply(info$servers[waiting], function(h) is.null(h$report), NA)])
    info$kind$poll(info)
    is_lost <- function(k) is.null(info$servers[[k]]$report) && host_will_not_come(k, info)
    lost <- Filter(is_lost, waiting)
    if (length(lost)) {
      let_end(info, Filter(function(k) !is_not_run(info, k), lost))
      lost <- Filter(is_lost, waiting) # of one command several may fail together
      miss_hosts(info, lost, least)
      next
    }
    if (left() + info$kind$queued(info) <= 0.02) miss_hosts(info, waiting, least, is_late = TRUE)
  }
}

# Goes on without them, or throws. `least`: so many are wanted.
miss_hosts <- function(info, failed, least, is_late = FALSE) {
  n <- length(info$servers) - length(info$missing) - length(failed)
  if (n < least) throw_hosts_failed(info, c(info$missing, failed), is_late)
  text <- unlist(lapply(failed, host_failure_text, info))
  info$why_missing <- c(info$why_missing, text)
  info$missing <- c(info$missing, failed)
  for (k in failed) {
    host_end(info$servers[[k]])
    if (is_not_run(info, k)) next
    command <- command_of(info, k)
    if (all(command$hosts %in% info$missing)) .Call(ffi_nodes_stop, list(command$handle), 0, 2)
  }
}

# What a command prints last, and how it ends, is known a moment after its connection has ended.
let_end <- function(info, lost) {
  began <- clock()
  may_print <- function(k) {
    command <- command_of(info, k)
    if (length(command$hosts) == 1L) {
      return(.Call(ffi_node_info, command$handle)$state == "starting")
    }
    clock() < began + 0.5 || info$kind$may_print(info, k, command)
  }
  for (k in lost) while (clock() < began + 1 && may_print(k)) Sys.sleep(0.02)
}

# The command that has submitted a job ends well before that begins.
host_will_not_come <- function(k, info) {
  if (host_has_ended(info$servers[[k]])) return(TRUE)
  if (is_not_run(info, k)) return(FALSE)
  command <- command_of(info, k)
  i <- .Call(ffi_node_info, command$handle)
  if (i$state == "dead") return(is.null(info$folder) || i$by_signal || i$code != 0L)
  info$kind$will_not_come(info, k, command)
}

# ---- failure ----

throw_hosts_failed <- function(info, failed, is_late = FALSE) {
  x <- info$launch
  what <- if (is_late) "did not come within setup_timeout" else "could not be started"
  head <- sprintf("%d of %d hosts %s; nothing was left running", length(failed),
                  length(info$servers), what)
  lines <- unlist(lapply(utils::head(failed, 3L), host_failure_text, info))
  more <- if (length(failed) > 3L) paste("and", paste(x$hosts[failed[-(1:3)]], collapse = ", "))
  throw("start", paste(c(head, lines, more), collapse = "\n"), hosts = x$hosts[failed],
        nodes = which(info$host_of %in% failed), port = info$port)
}

host_failure_text <- function(k, info) {
  x <- info$launch
  if (is_not_run(info, k)) return(sprintf("%s: its turn to be started had not come", x$hosts[[k]]))
  command <- command_of(info, k)
  i <- .Call(ffi_node_info, command$handle)
  why <- if (i$state != "starting") {
    how_ended(i$by_signal, i$code)
  } else if (host_has_ended(info$servers[[k]])) {
    status_of_hosts(info)$why[[k]]
  } else {
    "it has not connected"
  }
  node <- list(host = x$hosts[[k]], rshcmd = shell_words(x$ssh), by_hosts = TRUE,
               has_library = !is.null(x$r$lib), by_name = !is.null(x$by_name))
  known <- list(why = why, i = i, printed = printed_of(info, command))
  better <- info$kind$failure(info, k, command, known$printed)
  known[names(better)] <- better
  advice <- advice_for(node, known$i, known$printed, info$port)
  c(
    sprintf("%s: %s%s", x$hosts[[k]], known$why, last_printed(known$printed)),
    sprintf("what was run for %s: %s", x$hosts[[k]], shell_words(command$argv)),
    if (length(advice)) paste("try:", advice)
  )
}
