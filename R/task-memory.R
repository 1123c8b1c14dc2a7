# The budget of memory: how much the tasks of a session may have together. src/core/tasks/room.c
# says what is done to keep within it.

# Compiled code is told what option `clutch.memory` says, whenever a job is made.
set_memory_budget <- function() .Call(ffi_memory_budget, memory_budget(getOption("clutch.memory")))

# It is told, too, whether the session leaves cores to others: see src/core/tasks/cores.c.
set_politeness <- function() .Call(ffi_polite, option_flag("clutch.polite", FALSE))

# Number of bytes; 0: what the system has left; -1: nobody looks at memory.
memory_budget <- function(x) {
  if (is.null(x) || isTRUE(x)) return(0)
  if (isFALSE(x)) return(-1)
  what <- option_text("clutch.memory")
  bytes <- check_size(x, what)
  most <- .Call(ffi_memory_limit)
  if (bytes <= most) return(bytes)
  throw("argument", sprintf("%s is %s, and this machine has %s", what, mb(bytes), mb(most)))
}

# Number of bytes that a size is: a number of bytes, or text such as "2 GB" or "512 MiB".
check_size <- function(x, what) {
  bytes <- if (is.numeric(x)) x else if (is_string(x)) size_in_bytes(x) else NA
  if (length(bytes) == 1L && is.finite(bytes) && bytes >= 1) return(as.double(bytes))
  has_to_be(what, "a size above 0: a number of bytes, or text such as \"2 GB\"")
}

# NA: that is no size.
size_in_bytes <- function(text) {
  parts <- regmatches(text, regexec("^ *([0-9.]+) *([kKMGT]?)(i?)B? *$", text))[[1L]]
  if (!length(parts)) return(NA_real_)
  base <- if (nzchar(parts[[4L]])) 1024 else 1000
  power <- match(toupper(parts[[3L]]), c("", "K", "M", "G", "T")) - 1
  suppressWarnings(as.numeric(parts[[2L]])) * base^power
}

# ---- what a map is told ----

# Memory was short for so many seconds at least: below that nobody has noticed.
LEAST_SHORTAGE <- 0.2

# One message at the end of a map whose tasks did not fit side by side.
tell_shortage <- function(job) {
  use <- room_of(job)
  if (use$short < LEAST_SHORTAGE) return(invisible())
  message(structure(
    class = c("clutch_memory_short", "message", "condition"),
    list(message = paste0(shortage_text(use), "\n"), call = NULL, limit = use$limit,
         peak = use$peak, seconds = use$short, at_once = use$went)
  ))
}

# The value is what was found out about the memory of a job, or of all jobs of a cluster: a list of
# numbers, in bytes and seconds.
room_of <- function(job) room_list(.Call(ffi_job_room, job))
room_of_tasks <- function(t) room_list(.Call(ffi_tasks_room, t$ptr))

room_list <- function(x) {
  as.list(stats::setNames(x, c("limit", "expected", "peak", "short", "went", "width")))
}

# Tells which nodes of a cluster are stopped since memory is short, by rank.
held_nodes <- function(info) {
  if (is.null(info$tasks)) return(integer())
  which(.Call(ffi_tasks_held, info$tasks$ptr))
}

shortage_text <- function(use) {
  # tasks that ask for memory may not have been looked at
  peak <- if (use$peak >= 1e6) sprintf("nodes had up to %s each, and ", mb(use$peak)) else ""
  text <- paste("for %.1f s memory was short: %sthere are %s for all.",
                "On average %.1f tasks were at work meanwhile")
  sprintf(text, use$short, peak, mb(use$limit), use$went)
}

mb <- function(bytes) sprintf("%.0f MB", bytes / 1e6)

# ---- nodes that were ended ----

# Tells whether it was ended since memory was short on this machine. `d`: one of ffi_tasks_deaths().
ended_for_room <- function(d) !is.null(d$killed) && d$killed %in% c("yields", "no_room")

room_text <- function(d) {
  if (d$killed == "no_room") {
    text <- "it had %s of the %s that there are, needed more, and was ended"
    return(sprintf(text, mb(d$memory), mb(d$room)))
  }
  text <- paste("memory was short, and it was ended so that older tasks could go on:",
                "it had %s of the %s that there are")
  sprintf(text, mb(d$memory), mb(d$room))
}
