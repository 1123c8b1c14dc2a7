#!/usr/bin/env bash
# Runs the testthat suite on the installed package and then counts what it left behind: processes,
# and entries of the temporary folder.
#   run-tests.sh RESULT-FILE [FILTER]
# CLUTCH_TEST_SECONDS: the suite is ended when no test file, test or expectation has begun or ended for
# that long (a hang is a failure like others). There is no limit on its whole time.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
result=$1
filter=${2:-}
seconds=${CLUTCH_TEST_SECONDS:-300}
unset MAKEFLAGS MAKELEVEL MFLAGS

tmp=$(mktemp -d "${TMPDIR:-/tmp}/clutch-test.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/t"

# Who starts this in the background of a script has SIGINT ignored, which R 4.6 leaves so; tests send it.
interruptible=()
if env --default-signal=INT true 2>/dev/null; then interruptible=(--default-signal=INT); fi

# The mark stands in the environment of every process that descends from this run.
mark=$tmp/t
# source(): R reads a script that it is given as a file bit by bit, and a forked child that exits moves
# the place where its parent goes on to read.
tools/progress-limit.sh "$seconds" "$tmp/counts.now" env ${interruptible[@]+"${interruptible[@]}"} \
  TMPDIR="$mark" CLUTCH_TEST_RUN="$mark" CLUTCH_NEWER_LIB="$(tools/deps.sh newer-library)" \
  "${RSCRIPT:-Rscript}" -e 'source("tools/run-tests.R")' "$tmp/counts" "$filter" </dev/null \
  2> >(tee "$tmp/errors" >&2)
rc=$?
if [ -s "$tmp/counts.seconds" ] && [ "$result" != /dev/null ]; then cp "$tmp/counts.seconds" "$result.seconds"; fi

early=
at=$(head -n 1 "$tmp/counts.now" 2>/dev/null)
if [ -s "$tmp/counts" ]; then
  read -r passed failed skipped <"$tmp/counts"
  if [ $rc != 0 ] && [ "$failed" = 0 ]; then early="R ended with status $rc after the tests"; failed=1; fi
else
  passed=0 failed=1 skipped=0
  early="testthat ended early, status $rc, at ${at:-its start}"
fi
if [ -e "$tmp/counts.now.stalled" ]; then early="ended after $seconds s without progress at ${at:-the start of testthat}"; fi
if [ -n "$early" ]; then
  crash=$(grep -a -A 12 -F '*** caught ' "$tmp/errors" | tail -n 13 | cut -c 1-150) # where R was
  early=$early${crash:+$'\n'$crash}
  echo "FAIL $early"
fi
if [ ! -s "$tmp/counts" ] && [ -s "$tmp/counts.failed" ]; then
  echo "  failed before that:"; sed 's/^/  /' "$tmp/counts.failed"
fi

left_processes() {
  local e p
  for e in /proc/[0-9]*/environ; do
    p=${e#/proc/}; p=${p%/environ}
    if { tr '\0' '\n' <"$e"; } 2>/dev/null | grep -qxF "CLUTCH_TEST_RUN=$mark"; then echo "$p"; fi
  done
}
left_files() { ls -A "$mark"; }

# R has ended: its nodes have 0.2 s to end, their temporary folders 2 s to go; 3 s here.
if [ -d /proc/self ]; then
  for _ in $(seq 30); do
    processes=$(left_processes); files=$(left_files)
    [ -n "$processes$files" ] || break
    sleep 0.1
  done
  if [ -n "$processes" ]; then
    echo "FAIL left behind: $(echo "$processes" | wc -l) processes"
    for p in $processes; do
      printf '  %s %s %s\n' "$p" "$(awk '/^State/ { print $2 }' "/proc/$p/status" 2>/dev/null)" \
        "$(tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline" | cut -c 1-150)"
    done
    kill -KILL $processes 2>/dev/null
    failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
  if [ ! -s "$tmp/counts" ]; then
    files= # R was killed: its own folder is there and says nothing
  elif [ -n "$files" ]; then
    echo "FAIL left behind in the temporary folder: $(echo "$files" | wc -l) entries"
    echo "$files" | head -n 20 | sed 's/^/  /'
    failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
fi

if [ "$failed" != 0 ] && [ "$result" != /dev/null ]; then
  { cat "$tmp/counts.failed" 2>/dev/null; [ -z "$early" ] || echo "$early"; [ -z "${processes:-}" ] || echo "left behind: processes"
    [ -z "${files:-}" ] || echo "left behind: $files"; } >"$result.failed"
fi
echo "$passed $failed $skipped" >"$result"
echo "testthat: $passed expectations passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
