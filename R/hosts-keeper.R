# The keeper: a shell that is there for as long as this session, and a moment longer, in which it
# undoes what would be left: a job, a folder.
#
# A command may end before its hosts come: a job that waits (slurm-job.R). Then the keeper runs
# the command and stays. When it gets SIGTERM, from stop_cluster() or from the system at the
# session's end, it cancels the job. Another keeper removes the folder in which the secret was.

# A shell's program that runs its arguments from the second on, and stays. What that has printed
# last is the number of a job. When it gets SIGTERM, from this session, or from the system when that
# has ended, however, it runs `at_end`: lines of shell about "$job". Where the system does not do
# that, it looks whether the session is there.
keeper_script <- function(at_end) {
  paste(c(
    "session=$1",
    "shift",
    "nap= told=",
    "end() {",
    "  trap '' TERM",
    "  [ -z \"$nap\" ] || kill \"$nap\" 2>/dev/null",
    paste0("  ", at_end),
    "  exit 0",
    "}",
    "trap 'told=1' TERM",
    "job=$(\"$@\") || exit",
    "echo \"$job\"",
    "job=$(echo \"$job\" | tail -n 1)",
    "trap end TERM",
    "[ -z \"$told\" ] || end",
    "while kill -0 \"$session\" 2>/dev/null; do",
    "  sleep 5 & nap=$!",
    "  wait \"$nap\"",
    "done",
    "end"
  ), collapse = "\n")
}

keeper_command <- function(argv, at_end) {
  c("sh", "-c", keeper_script(at_end), "sh", format(Sys.getpid()), argv)
}

# The handle of who removes this folder when the session has ended. The session does it when that
# keeper has ended before it, as it does when its cluster is garbage.
# A job that begins or ends just then makes files there, and then rm does not remove the folder. So
# that gets another name first, as by ffi_remove_folder().
keep_folder <- function(folder) {
  both <- shell_words(c(folder, paste0(folder, "-gone")))
  remove <- paste("rm -rf", both)
  command <- keeper_command("true", c(paste("mv", both), paste(remove, "||", remove)))
  run_command(command, effective_env(NULL), "/dev/null", folder = folder)
}
