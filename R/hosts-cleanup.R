# The cleanup shell is there for as long as this session, and a moment longer, in which it
# undoes what would be left: a job, a folder.
#
# A command may end before its hosts come: a job that waits (slurm-job.R). Then this shell runs
# the command and stays. When it gets SIGTERM, from stop_cluster() or from the system at the
# session's end, it cancels the job. Another one removes the folder in which the secret was.

# `at_end`: lines of a shell about "$job", which is what the command has printed last.
cleanup_command <- function(argv, at_end) {
  program <- paste(shell_lines("cleanup", at_end = at_end), collapse = "\n")
  c("sh", "-c", program, "sh", format(Sys.getpid()), argv)
}

# For a command that submits an array of jobs, one a host. Each word that the shell reads is the
# number of a task that is not needed any more. `at_end`: as above; `some`: lines about "$job" and
# the tasks "$some", with commas between them.
array_command <- function(argv, tasks, at_end, some) {
  lines <- shell_lines("cleanup-array", tasks = format(tasks), at_end = at_end, some = some)
  c("sh", "-c", paste(lines, collapse = "\n"), "sh", argv)
}

# The handle of who removes this folder when the session has ended. The session does it when that
# shell has ended before it, as it does when its cluster is garbage.
# A job that begins or ends just then makes files there, and then rm does not remove the folder. So
# that gets another name first, as by ffi_remove_folder().
remove_folder_at_end <- function(folder) {
  both <- shell_words(c(folder, paste0(folder, "-gone")))
  remove <- paste("rm -rf", both)
  command <- cleanup_command("true", c(paste("mv", both), paste(remove, "||", remove)))
  run_command(command, effective_env(NULL), "/dev/null", folder = folder)
}
