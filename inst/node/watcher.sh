# The watcher: it ends R, process $r with group $g, when nobody waits for that R any more.
# watcher-by-input.sh and watcher-by-file.sh begin it; R/start-watcher.R says what it is for.
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
# At SIGUSR2 R also writes .RData. If there is one, another R that is ended in this folder may have
# written it, which its watcher removes. One that stays belongs to the user: R is killed then, and its
# temporary folder is left.
cd -P "/proc/$r/cwd" || :
for i in 1 2 3 4 5; do
  [ -e .RData ] && sleep 1
done
if ! [ -e .RData ]; then
  trap "" USR2
  kill -s USR2 -- "$g$r"
  for i in 1 2 3 4 5 6 7 8 9; do
    kill -0 "$r" && sleep 1
  done
  kill -0 "$r" || rm -f .RData
fi
kill -s KILL -- "$g$r"
