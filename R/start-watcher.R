# A watcher ends an R on another host that has been started and has not connected, when the session
# has ended. Shell code does it, for hosts and for nodes that rshcmd starts.
#
# R on another host runs the user's profiles before it can do anything of ours, and these may not
# end. So ssh starts R by a shell there (watched_start()), with a watcher beside it, which ends R
# when the standard input ends, that is, with ssh. host_main() ends the watcher. Nodes that
# `rshcmd` starts have a watcher until they have joined.

# The first line on the standard input of a shell there, which runs its arguments as R: a program
# for it. R is given what follows, as far as the line "end". When the standard input ends before
# end_watcher() is called, ssh, or what else passes it on, has ended, or the session has: nobody
# waits for R any more. R may be in code of the user's that does not end (a profile), so another
# process, the watcher, ends it, with its process group where it can have one of its own: by
# SIGUSR2, at which R removes its temporary folder, and by SIGKILL. R that has just been started
# has such a folder, and does not know SIGUSR2: so it gets a second, in which it may also end by
# itself, and on Linux up to five more until it does. At SIGUSR2 R also saves its workspace in
# .RData, which is removed, and would replace the user's: where there is one that stays R gets
# SIGKILL only, and leaves its temporary folder.
# From end_watcher() on the proxy checks whether ssh is there, and a node ends with its connection.
# The secret is on no command line: `printf` has to be the shell's own.
watched_start <- function() {
  with_watcher <- shell_line("watcher-by-input", watcher = watcher_line("await-input"))
  shell_line("start-by-input", watcher_by_input = with_watcher)
}

# `await`: the program that ends when nobody waits for R any more.
watcher_line <- function(await) shell_line("watcher", await_end = shell_line(await))

# A script with the same for a host that reads its settings in a file, the first argument: the
# session's cleanup shell removes that when the session has ended. It may take a while until another
# host sees it. No process group of its own: there are schedulers that know a job by that.
watched_script <- function() {
  shell_lines("start-by-file", watcher = watcher_line("await-file"))
}
WATCHED_FILE <- "start.sh" # its name

# `else_run`: where there is no such line, as by ssh -n, R runs without a watcher.
run_watched <- function(command, else_run = FALSE) {
  code <- if (else_run) "read -r s || exec \"$@\"; eval \"$s\"" else "read -r s; eval \"$s\""
  c("sh", "-c", code, "sh", command)
}

# Runs in what was started, when somebody else looks after it. `psock_set_up_here()` has its own.
end_watcher <- function() {
  pid <- Sys.getenv("CLUTCH_WATCHER")
  Sys.unsetenv("CLUTCH_WATCHER")
  # package tools would take 10 ms to load
  if (nzchar(pid)) .Call(ffi_process_kill, as.integer(pid))
}
