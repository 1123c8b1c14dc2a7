# Errors of this package: one function throws them all. Class "clutch_<what>", then "clutch_error".

throw <- function(what, text, ...) stop(error_of(what, text, ...))

error_of <- function(what, text, ...) {
  errorCondition(text, ..., class = c(paste0("clutch_", what), "clutch_error"), call = NULL)
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
  if (identical(i$by_signal, TRUE) && identical(i$code, 9L) && oom_kills() > node$info$oom_kills)
    how <- paste0(how, "; the system's out-of-memory killer was at work meanwhile")
  throw("node_died",
        sprintf("node %d of the cluster (pid %d on %s) %s: %s", i$rank, i$pid, node$host,
                if (before) "is dead" else "died during a call", how),
        node = i$rank, pid = i$pid, host = node$host,
        signal = if (identical(i$by_signal, TRUE)) i$code else NA_integer_,
        status = if (identical(i$by_signal, FALSE)) i$code else NA_integer_)
}

# How often the kernel has killed for want of memory; 0 where it does not tell.
oom_kills <- function() {
  lines <- tryCatch(readLines("/proc/vmstat", warn = FALSE), error = function(e) "", warning = function(w) "")
  n <- as.numeric(sub("oom_kill ", "", grep("^oom_kill ", lines, value = TRUE), fixed = TRUE))
  if (length(n)) n else 0
}
