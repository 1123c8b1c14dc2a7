# The watcher: it ends R, process $r with group $g, when nobody waits for that R any more.
# watcher-by-input.sh and watcher-by-file.sh begin it; R/hosts-watcher.R says what it is for.
# It is inside of single quotes in start-by-input.sh: its code has none.
# shellcheck shell=sh disable=SC2154,SC2034
f=/proc/$r/status
# R has been started, and does not know SIGUSR2 yet.
early() {
  grep -q "^Name:.R$" "$f" && ! grep -q "^SigCgt:.*[89a-f]..$" "$f"
}
# This waits until nobody waits for R any more.
@await_end@
sleep 1
for i in 1 2 3 4 5; do
  early && sleep 1
done
trap "" USR2
kill -s USR2 -- "$g$r"
for i in 1 2 3 4 5 6 7 8 9; do
  kill -0 "$r" && sleep 1
done
kill -s KILL -- "$g$r"
