#!/usr/bin/env bash
# Runs a command and ends it when the contents of FILE and of all FILE.* have been the same for SECONDS.
# A command that is slow but goes on is never ended.
#   progress-limit.sh SECONDS FILE COMMAND [ARGUMENT ...]
# FILE.stalled is made before the command is ended: by SIGTERM, and 10 s later by SIGKILL. A command
# that leads its process group (setsid) is ended with its group.
# The seconds are counted by sleep, not by a clock: while a machine is suspended none are counted.
limit=$1 file=$2
shift 2
command=$$ # by exec below
target=$command
if [ "$(ps -o pgid= -p $command | tr -d ' ')" = $command ]; then target=-$command; fi

watch() {
  local idle=0 last='' now
  while [ $idle -lt "$limit" ]; do
    sleep 1
    kill -0 $command || return
    now=$(cat "$file" "$file".*)
    if [ "$now" = "$last" ]; then idle=$((idle + 1)); else idle=0 last=$now; fi
  done
  touch "$file.stalled"
  trap '' TERM # this shell is in the group, too
  kill -TERM -- $target
  for _ in $(seq 10); do
    sleep 1
    kill -0 -- $target || return
  done
  kill -KILL -- $target
}
# In a subshell of its own: the command has no child that it has not started. No output of the caller is
# held open.
rm -f "$file.stalled"
(watch </dev/null >/dev/null 2>&1 &)
exec "$@"
