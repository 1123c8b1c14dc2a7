#!/usr/bin/env bash
# Runs a command and ends it when the content of FILE has been the same for SECONDS. A command that is
# slow but goes on is never ended.
#   progress-limit.sh SECONDS FILE COMMAND [ARGUMENT ...]
# FILE.stalled is made before the command is ended: by SIGTERM, and 10 s later by SIGKILL.
# The seconds are counted by sleep, not by a clock: while a machine is suspended none are counted.
limit=$1 file=$2
shift 2
command=$$ # by exec below

watch() {
  local idle=0 last='' now
  while [ $idle -lt "$limit" ]; do
    sleep 1
    kill -0 $command || return
    now=$(cat "$file")
    if [ "$now" = "$last" ]; then idle=$((idle + 1)); else idle=0 last=$now; fi
  done
  touch "$file.stalled"
  kill $command
  for _ in $(seq 10); do
    sleep 1
    kill -0 $command || return
  done
  kill -KILL $command
}
# In a subshell of its own: the command has no child that it has not started. No output of the caller is
# held open.
rm -f "$file.stalled"
(watch </dev/null >/dev/null 2>&1 &)
exec "$@"
