# What ends an R on another host that has been started and has not connected, when the session has
# ended: shell code for hosts, and for nodes that rshcmd starts.
#
# R on another host runs the user's profiles before it can do anything of ours, and these may not
# end. So ssh starts R by a shell there (WATCHED_START), with a watcher beside it, which ends R
# when the standard input ends, that is, with ssh. host_main() ends the watcher. Nodes that
# `rshcmd` starts have a watcher until they have joined.

# The first line on the standard input of a shell there, which runs its arguments as R: a program
# for it. R is given what follows, as far as the line "end". When the standard input ends before
# end_watcher() is called, ssh, or what else passes it on, has ended, or the session has: nobody
# waits for R any more. R may be in code of the user's that does not end (a profile), so another
# process, the watcher, ends it, with its process group where it can have one of its own: by
# SIGUSR2, at which R removes its temporary folder, and by SIGKILL. R that has just been started
# has such a folder, and does not know SIGUSR2: so it gets a second, in which it may also end by
# itself, and on Linux up to five more until it does. From end_watcher() on the relay looks whether
# ssh is there, and a node ends with its connection. The secret is on no command line: `printf` has
# to be the shell's own.
WATCHER <- c(
  "f=/proc/$r/status",
  "early() { grep -q \"^Name:.R$\" $f && ! grep -q \"^SigCgt:.*[89a-f]..$\" $f; }",
  "%s", "sleep 1", "for i in 1 2 3 4 5; do early && sleep 1; done",
  "trap \"\" USR2", "kill -s USR2 -- \"$g$r\"",
  "for i in 1 2 3 4 5 6 7 8 9; do kill -0 $r && sleep 1; done", "kill -s KILL -- \"$g$r\""
)
watcher_of <- function(wait) sprintf(paste(WATCHER, collapse = "; "), wait)
UNDER_WATCH <- paste(
  "g=$1; shift; r=$$",
  sprintf("w=$({ %s; } <&3 >/dev/null 2>&1 & echo $!)",
          watcher_of("while read -r l; do :; done")),
  "CLUTCH_WATCHER=$w; export CLUTCH_WATCHER", "exec \"$@\" 3<&-",
  sep = "; "
)
WATCHED_START <- paste(
  "[ \"$(command -v printf)\" = printf ] || exec \"$@\"",
  "n=$(echo; echo .); n=${n%.}; t=",
  "while IFS= read -r l; do t=$t$l$n; [ \"$l\" = end ] && break; done",
  "s=$(command -v setsid)", "exec 3<&0",
  sprintf("printf %%s \"$t\" | $s sh -c '%s' sh \"${s:+-}\" \"$@\"", UNDER_WATCH),
  sep = "; "
)

# A script with the same for a host that reads its settings in a file, the first argument: the
# session's keeper removes that when the session has ended. It may take a while until another host
# sees it. No process group of its own: there are schedulers that know a job by that.
WATCHED_FILE <- "start.sh" # its name
WATCHED_SCRIPT <- c(
  "#!/bin/sh", "s=$1 g= r=$$", "shift",
  sprintf("w=$({ %s; } </dev/null >/dev/null 2>&1 & echo $!)", watcher_of(paste(
    "for i in 1 2 3 4 5 6 7 8 9; do [ -e \"$s\" ] || sleep 2; done",
    "while [ -e \"$s\" ]; do sleep 1; done", sep = "; "
  ))),
  "CLUTCH_WATCHER=$w; export CLUTCH_WATCHER", "exec \"$@\""
)

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
