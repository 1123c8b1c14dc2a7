# Control groups of memory for tests.

# A control group with a limit of memory, below our own: list(folder, join: a shell command,
# remove()), or a text that says why there is none.
memory_group <- function(mb) {
  view <- clutch:::cgroup_view("")
  of <- function(controller) unlist(lapply(clutch:::cgroup_folders(view, controller), `[[`, 1L))
  why <- "control groups of memory cannot be seen here"
  for (v in 1:2) for (parent in of(if (v == 1L) "memory" else "")) {
    folder <- file.path(parent, basename(tempfile("clutch-")))
    limit <- file.path(folder, if (v == 1L) "memory.limit_in_bytes" else "memory.max")
    if (!suppressWarnings(dir.create(folder, showWarnings = FALSE))) {
      why <- paste("no control group can be made in", parent)
      next
    }
    put <- function(file, text) {
      isTRUE(tryCatch({
        cat(text, file = file)
        TRUE
      }, error = function(e) FALSE, warning = function(w) FALSE))
    }
    number <- sprintf("%.0f", mb * 2^20) # whole pages, or it is rounded
    if (file.exists(limit) && put(limit, number) && identical(readLines(limit), number)) {
      # swapping is not dying
      for (swap in file.path(folder, c("memory.memsw.limit_in_bytes", "memory.swap.max")))
        if (file.exists(swap)) put(swap, if (v == 1L) number else "0")
      # not before its processes are gone
      remove <- function() eventually(system2("rmdir", folder, stderr = FALSE) == 0L)
      return(list(folder = folder, join = sprintf("echo $$ > %s/cgroup.procs || exit 1", folder),
                  remove = remove))
    }
    system2("rmdir", folder)
    why <- paste("no limit of memory can be set in", parent)
  }
  why
}
