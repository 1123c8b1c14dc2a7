#!/bin/sh
# Runs its arguments from the second on as R with a watcher beside it. The first is the file with
# the settings of that R. When the session has removed it nobody waits for R any more.
# There is no process group of its own: some schedulers know a job by that.
# shellcheck disable=SC2034
s=$1
g=
r=$$
shift
w=$({ @watcher@; } </dev/null >/dev/null 2>&1 & echo $!)
CLUTCH_WATCHER=$w
export CLUTCH_WATCHER
exec "$@"
