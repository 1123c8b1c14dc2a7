# Runs its arguments as R with a watcher beside it. R is given the standard input as far as the line
# "end", for which the watcher has the rest of it. It is sent as the first line of the standard
# input: in one line, and with what it runs in it.
# The secret is on no command line: printf has to be the shell's own.
# shellcheck shell=sh
[ "$(command -v printf)" = printf ] || exec "$@"
n=$(echo; echo .)
n=${n%.}
t=
while IFS= read -r l; do
  t=$t$l$n
  [ "$l" = end ] && break
done
# R gets a process group of its own, where that can be had.
s=$(command -v setsid)
exec 3<&0
printf %s "$t" | $s sh -c '@watcher_by_input@' sh "${s:+-}" "$@"
