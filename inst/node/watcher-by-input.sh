# Begins the watcher of this process, which becomes R: the arguments from the second on. The first is
# "-" where this process has a group of its own, and else empty. Descriptor 3 is the standard input
# of the shell that has started this one.
# shellcheck shell=sh disable=SC2034
g=$1
shift
r=$$
w=$({ @watcher@; } <&3 >/dev/null 2>&1 & echo $!)
CLUTCH_WATCHER=$w
export CLUTCH_WATCHER
exec "$@" 3<&-
