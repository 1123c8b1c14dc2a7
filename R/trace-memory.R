# Memory of nodes over time, as the session has sampled it: see src/core/tasks/memory-history.h.

# `first`: the time that is 0.
memory_in_trace <- function(t, first) {
  x <- .Call(ffi_tasks_memory, t$ptr)
  data.frame(time = x$time - first, node = x$node, memory = x$memory / 2^20)
}

# The value has the first, largest and last memory of each node, in MB. NULL: nothing is known.
memory_of_nodes <- function(memory) {
  if (is.null(memory)) return(NULL)
  by_node <- split(memory$memory, memory$node)
  figure <- function(f) vapply(by_node, f, 1, USE.NAMES = FALSE)
  data.frame(node = as.numeric(names(by_node)), first = figure(function(m) m[[1L]]),
             most = figure(max), last = figure(function(m) m[[length(m)]]))
}

# MB that all had at a time: of each the last sample counts.
most_together <- function(memory) {
  if (!nrow(memory)) return(0)
  o <- order(memory$node, memory$time)
  x <- memory[o, , drop = FALSE]
  before <- c(0, x$memory[-nrow(x)])
  before[!duplicated(x$node)] <- 0
  max(cumsum((x$memory - before)[order(x$time)]))
}

# MB of this machine, or of what this process may have of it by its control group. NA: not known.
machine_memory <- function(root = "") {
  if (!nzchar(root) && !is.null(the$machine_memory)) return(the$machine_memory)
  total <- grep("^MemTotal:", read_lines(root, "proc/meminfo"), value = TRUE)
  all <- as.numeric(sub("^MemTotal: *([0-9]+) kB$", "\\1", total)) / 1024
  all <- suppressWarnings(c(all, as.numeric(cgroup_memory(root)) / 2^20))
  all <- all[!is.na(all)]
  most <- if (length(all)) min(all) else NA_real_
  if (!nzchar(root)) the$machine_memory <- most
  most
}

# Limits of its control group and of those around it, as texts; "max" is none.
cgroup_memory <- function(root) {
  view <- cgroup_view(root)
  of <- function(controller, name) {
    folders <- unlist(cgroup_folders(view, controller), use.names = FALSE)
    unlist(lapply(folders, function(dir) read_lines(dir, name)))
  }
  c(of("", "memory.max"), of("memory", "memory.limit_in_bytes"))
}
