#!/usr/bin/env bash
# Tests of tools/: what ends a command that makes no progress, what an interrupted install leaves, and
# what lint refuses.
#   test-tools.sh [RESULT-FILE]
# RESULT-FILE gets "passed failed skipped".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
result=${1:-/dev/null}
# as links in /proc and R say it
tmp=$(cd "$(mktemp -d "${TMPDIR:-/tmp}/clutch-tools.XXXXXX")" && pwd -P) || exit 1
started=()
trap 'kill ${started[@]+"${started[@]}"} 2>/dev/null; rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0

check() { # WHAT COMMAND...
  local what=$1
  shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $what"; fi
}

# ---- progress-limit.sh: both at the same time ----
stands_still() {
  tools/progress-limit.sh 2 "$tmp/still" sh -c 'echo 1 >"$0"; exec sleep 60' "$tmp/still"
  echo $? >"$tmp/still.status"
}
goes_on() {
  tools/progress-limit.sh 3 "$tmp/slow" bash -c 'for i in {1..16}; do echo $i >"$0"; sleep 0.4; done; exit 5' "$tmp/slow"
  echo $? >"$tmp/slow.status"
}
stands_still 2>/dev/null & # where the shell says that it was ended
goes_on
wait
check "a command without progress is ended by SIGTERM" [ "$(cat "$tmp/still.status")" = 143 ]
check "it is said that it was ended" [ -e "$tmp/still.stalled" ]
check "a slow command goes on, and its exit status is said" [ "$(cat "$tmp/slow.status")" = 5 ]
check "it is not said that it was ended" [ ! -e "$tmp/slow.stalled" ]
if command -v setsid >/dev/null; then
  leads_group() {
    # shellcheck disable=SC2016 # for the inner shell
    setsid --wait tools/progress-limit.sh 1 "$tmp/group" \
      bash -c 'trap "" TERM; sleep 60 & echo $! >"$0"; wait' "$tmp/group"
    echo $? >"$tmp/group.status"
  }
  { leads_group; } 2>/dev/null # where the shell says that it was killed
  is_gone() { ! grep -qs ^sleep "/proc/$(cat "$tmp/group")/cmdline"; }
  check "a command that leads its group is ended with it" is_gone
  check "by SIGKILL, where it ignores SIGTERM" [ "$(cat "$tmp/group.status")" = 137 ]
else
  skipped=$((skipped + 2))
fi

# ---- deps.R: the folders that an interrupted install leaves ----
deps() { "${RSCRIPT:-Rscript}" tools/deps.R "$@" 2>/dev/null; }

mkdir -p "$tmp/half/cli"
echo "Package: cli
Version: 99.0" >"$tmp/half/cli/DESCRIPTION"
is_missing() { R_LIBS=$tmp/half deps missing | grep -qx cli; }
check "a package without Meta/package.rds is missing" is_missing

lib=$tmp/lib
mkdir -p "$lib/00LOCK" "$lib/00LOCK-gone/00new/gone" "$lib/00LOCK-held" "$lib/former" "$lib/00LOCK-former/former/Meta"
touch "$lib/00LOCK-former/former/DESCRIPTION" "$lib/00LOCK-former/former/Meta/package.rds"
mkdir -p "$tmp/busy/00LOCK-other"
if [ -d /proc/self ]; then
  (cd "$lib/00LOCK-held" && exec sleep 60) & started+=($!)
  (exec -a "R --args nextArg-lnextArg$tmp/busynextArgpackage.tar.gz" sleep 60) & started+=($!)
  # R CMD check has such a command line, too, and installs nothing by itself
  mkdir "$tmp/bin"
  echo "(exec -a 'R --args nextArg--as-crannextArgpackage.tar.gz' sleep 60) & echo \$! >$tmp/checked; wait" >"$tmp/bin/check"
  bash "$tmp/bin/check" --as-cran & started+=($!)
  until grep -qs ^sleep "/proc/${started[0]}/cmdline" && grep -qs nextArg "/proc/${started[1]}/cmdline" &&
    grep -qs nextArg "/proc/$(cat "$tmp/checked" 2>/dev/null)/cmdline"; do sleep 0.01; done
  started+=("$(cat "$tmp/checked")")
  deps locks "$lib"
  deps locks "$tmp/busy"
  check "lock folders that nobody holds are removed" [ "$(ls "$lib" | tr '\n' ' ')" = "00LOCK-held former " ]
  check "the former version of a package is back" [ -e "$lib/former/Meta/package.rds" ]
  check "while R CMD INSTALL works on a library its lock folders stay" [ -d "$tmp/busy/00LOCK-other" ]
  kill "${started[1]}"; wait "${started[1]}" 2>/dev/null
  deps locks "$tmp/busy"
  check "after that they are removed" [ ! -d "$tmp/busy/00LOCK-other" ]
else
  skipped=$((skipped + 4))
fi

# ---- lint-r.R: which room of R files uses which ----
lint_r() { (cd "$tmp/rooms" && "${RSCRIPT:-Rscript}" "$here/tools/lint-r.R" 2>&1); }
refuses() { # TEXT
  local said
  ! said=$(lint_r) && grep -qF "$1" <<<"$said"
}
here=$PWD
mkdir -p "$tmp/rooms/R"
echo 'low <- function() 1' >"$tmp/rooms/R/base-low.R"
echo 'high <- function() low()' >"$tmp/rooms/R/map-high.R"
passes() { lint_r >/dev/null; }
check "a room may use one below it" passes
echo 'sum <- function() high()' >"$tmp/rooms/R/task-sum.R"
check "a room that uses one above it is refused" refuses "R/task-sum.R uses high() of R/map-high.R"
rm "$tmp/rooms/R/task-sum.R"
echo 'other <- function() 1' >"$tmp/rooms/R/attic-other.R"
check "a room that is not in the table is refused" refuses "room attic has no row"
rm "$tmp/rooms/R/attic-other.R"
echo 'change <- function(t) t$info$hosts[[1L]] <- "a"' >"$tmp/rooms/R/task-change.R"
check "a field of a cluster is written in its own file only" refuses "R/task-change.R: writes t\$info\$hosts[[1L]]"
rm "$tmp/rooms/R/task-change.R"
echo 'new <- function() fields <- list(hosts = NULL)' >"$tmp/rooms/R/plan-cluster.R"
echo 'ask <- function(t) length(t$info$host)' >"$tmp/rooms/R/task-ask.R"
check "a field that a cluster does not have is refused" refuses "R/task-ask.R: asks for t\$info\$host,"

echo "$passed $failed $skipped" >"$result"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
