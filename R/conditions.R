# Errors of this package: one function throws them all. Class "clutch_<what>", then "clutch_error".

throw <- function(what, text, ...) stop(error_of(what, text, ...))

error_of <- function(what, text, ...) {
  errorCondition(text, ..., class = c(paste0("clutch_", what), "clutch_error"), call = NULL)
}

# The number that an option of this package is, not below `least`, or above it. NA, texts and vectors are errors.
option_number <- function(name, default, least = 0, above = FALSE) {
  x <- getOption(name, default)
  if (is.numeric(x) && length(x) == 1L && !is.na(x) && (if (above) x > least else x >= least)) return(as.double(x))
  throw("argument", sprintf("option '%s' has to be a number, %s", name,
                            if (above) sprintf("above %g", least) else sprintf("%g or more", least)))
}

# Seconds by a clock that nobody can set: R's own proc.time() follows the wall clock.
clock <- function() .Call(ffi_clock)

say <- function(text) cli::cli_inform(c(i = "{text}"))

# "killed by signal 9 (SIGKILL)", "exit status 3"
how_ended <- function(by_signal, code) {
  if (is.na(by_signal) || is.na(code)) return("how it ended is not known")
  if (by_signal) sprintf("killed by signal %d%s", code, signal_name(code))
  else sprintf("it ended with exit status %d", code)
}

signal_name <- function(code) {
  known <- c(SIGHUP = 1L, SIGINT = 2L, SIGQUIT = 3L, SIGILL = 4L, SIGABRT = 6L, SIGFPE = 8L, SIGKILL = 9L,
             SIGSEGV = 11L, SIGPIPE = 13L, SIGALRM = 14L, SIGTERM = 15L)
  name <- names(known)[match(code, c(known, use.names = FALSE))]
  what <- c(SIGSEGV = ", a segmentation fault", SIGABRT = ", an abort", SIGFPE = ", an arithmetic fault")
  if (is.na(name)) "" else sprintf(" (%s%s)", name, if (name %in% names(what)) what[[name]] else "")
}

# The nodes' error. `before`: it was dead when it was asked to do something. `i`: of the node that has died, which
# may be another one of the same call.
throw_node_died <- function(node, before = FALSE, i = .Call(ffi_node_info, node$handle)) {
  if (i$state == "stopped")
    throw("stopped", "this cluster has been stopped: make a new one with make_cluster()")
  how <- if (!is.null(i$refusal)) i$refusal
    else if (i$server_ended && is.na(i$by_signal)) server_end_text(i$server_pid, node$info$server, node$info$lost_servers)
    else how_ended(i$by_signal, i$code)
  if (killed_for_memory(i, node$info)) how <- paste0(how, killer_text)
  throw("node_died",
        sprintf("node %d of the cluster (pid %d on %s) %s: %s", i$rank, i$pid, node$host,
                if (before) "is dead" else "died during a call", how),
        node = i$rank, pid = i$pid, host = node$host,
        signal = if (identical(i$by_signal, TRUE)) i$code else NA_integer_,
        status = if (identical(i$by_signal, FALSE)) i$code else NA_integer_)
}

killer_text <- "; the system's out-of-memory killer was at work meanwhile"

# Whether the kernel has ended this node for want of memory. It tells how many processes it has killed and not which, so
# each kill since the cluster's start is taken for one death by SIGKILL, in whatever cluster of the session. The answer is
# kept while the node has no successor: it may be asked for again.
killed_for_memory <- function(i, info) {
  if (!identical(i$by_signal, TRUE) || !identical(i$code, 9L)) return(FALSE)
  rank <- format(i$rank)
  if (identical(info$by_killer[[rank]]$pid, i$pid)) return(info$by_killer[[rank]]$was)
  accounted <- max(info$oom_kills, the$oom_kills)
  was <- oom_kills() > accounted
  if (was) the$oom_kills <- accounted + 1
  info$by_killer[[rank]] <- list(pid = i$pid, was = was)
  was
}

# How often the kernel has killed for want of memory: in the control group that this process and its nodes are in, or
# where that does not tell, on the whole machine, which may be others' affair. 0: nothing tells.
oom_kills <- function() {
  group <- read_lines("", "proc/self/cgroup")
  if (is.null(the$oom_files) || !identical(group, the$oom_group)) { # to look for the folder takes 3 ms
    the$oom_files <- oom_files("")
    the$oom_group <- group
  }
  count_oom_kills(the$oom_files)
}

oom_files <- function(root) {
  own <- function(controller, name) {
    vapply(cgroup_folders(root, controller), function(dirs) file.path(dirs[[1L]], name), "", USE.NAMES = FALSE)
  }
  c(own("memory", "memory.oom_control"), own("", "memory.events"), paste0(root, "/proc/vmstat"))
}

count_oom_kills <- function(files) {
  for (f in files) {
    lines <- tryCatch(readLines(f, warn = FALSE), error = function(e) "", warning = function(w) "")
    n <- as.numeric(sub("oom_kill ", "", grep("^oom_kill [0-9]+$", lines, value = TRUE), fixed = TRUE))
    if (length(n)) return(n[[1L]])
  }
  0
}
