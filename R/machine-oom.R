# This file finds out whether the kernel has ended a node for want of memory.
#
# The kernel tells how many processes it has killed and not which. So each kill since the cluster's
# start is taken for one death by SIGKILL, in whatever cluster of the session. On other hosts the
# supervisor counts, as it has the same files there.

# How often the kernel has killed for want of memory: in the control group that this process and its
# nodes are in, or where that does not tell, on the whole machine, which may be others' affair.
# 0: nothing tells.
oom_kills <- function() {
  group <- read_lines("", "proc/self/cgroup")
  # to look for the folder takes 3 ms
  if (is.null(the$oom_files) || !identical(group, the$oom_group)) {
    the$oom_files <- oom_files("")
    the$oom_group <- group
  }
  count_oom_kills(the$oom_files)
}

oom_files <- function(root) {
  view <- cgroup_view(root)
  own <- function(controller, name) {
    folders <- cgroup_folders(view, controller)
    vapply(folders, function(dirs) file.path(dirs[[1L]], name), "", USE.NAMES = FALSE)
  }
  machine <- if (nzchar(root)) paste0(root, "/proc/vmstat") else proc_file("vmstat")
  c(own("memory", "memory.oom_control"), own("", "memory.events"), machine)
}

# The first file that has the count decides.
count_oom_kills <- function(files) {
  for (file in files) {
    lines <- grep("^oom_kill [0-9]+$", read_lines(file), value = TRUE)
    if (length(lines)) return(as.numeric(sub("oom_kill ", "", lines[[1L]], fixed = TRUE)))
  }
  0
}

# In the fork server of another host, which tells from now on what may be the killer's doing.
count_oom_kills_here <- function() {
  file <- Find(function(file) any(grepl("^oom_kill [0-9]+$", read_lines(file))), oom_files(""))
  if (!is.null(file)) .Call(ffi_fork_server_count_oom, file)
}
