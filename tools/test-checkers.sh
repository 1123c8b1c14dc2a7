#!/usr/bin/env bash
# Runs the package under programs that find what its tests do not see:
#   warnings   gcc and clang with more warnings than R asks for: there is none
#   lto        link-time optimization, which compares what files say of each other's functions: no warning
#   gctorture  a garbage collection at each allocation in the package's C: tools/gctorture.R
#   asan       gcc's sanitizers of addresses and undefined behaviour in all processes: test files (FILTER)
#   valgrind   the examples of the help pages, in all processes
#   delays     test files (FILTER), while any system call may take long: what leans on who is first
#   short      the same, while calls are interrupted and move only a part: none of it may be seen
#   failing    clusters in use, while calls fail and memory is refused: tests/faults/failing.R
#   tools/test-checkers.sh [warnings] [lto] [gctorture] [asan] [valgrind] [delays] [short] [failing]
# What is built is in .build/checkers. clang and valgrind are installed where apt-get can do it (Debian, root); a part whose
# program is missing is skipped. CLUTCH_CHECKER_SECONDS: a part is ended, and has failed, after that time (1800).
# CLUTCH_TORTURE_ONLY, CLUTCH_EXAMPLES: regular expressions for a part of tools/gctorture.R, and for the help pages.
# The last line is "N passed, N failed", with ", N skipped" where there were such.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# shellcheck source=tools/debian.sh
. tools/debian.sh
top=$PWD/.build/checkers
wanted=${*:-warnings lto gctorture asan valgrind delays short failing}
seconds=${CLUTCH_CHECKER_SECONDS:-1800}
# Each folder of src/r has its tests here. Not among them: tests with limits of memory, which the sanitizer's own
# memory exceeds, and those which start R by ssh, where nothing is loaded before R.
test_files=${FILTER:-^(actor|cluster|code-globals|errors|failures|give-back|journal|journal-keys|map|map-reduce|map-typed|\
messages|node-fresh|node-state|observer|parallel|random-numbers|run|share-strings|sockets|sockets-ends|socket-objects|socket-set|state|\
task-relay|task-results|tasks|trace|travel|view-stacks)$}

passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAIL $*"; }

# Whether a program is here, or can be installed
have() { # PROGRAM PACKAGE...
  local program=$1
  shift
  command -v "$program" >/dev/null && return
  if [ $debian = 1 ] && [ $root = 1 ] && apt_install "$@" && command -v "$program" >/dev/null; then return; fi
  echo "$program is not here"
  skipped=$((skipped + 1))
  return 1
}

limited() { timeout -k 30 "$seconds" "$@"; }

# Builds into $top/NAME with the Makevars that are read, and with $R.
build() { # NAME
  mkdir -p "$top/$1"
  cat >"$top/$1.mk"
  R_MAKEVARS_USER=$top/$1.mk CLUTCH_BUILD=.build/checkers/$1 limited tools/build.sh >/dev/null 2>"$top/$1.errors" && return
  tail -n 30 "$top/$1.errors"
  fail "the build $1"
  return 1
}

# The same with all files compiled anew: what make does not compile has no warnings. None but those of R's headers
# may be there.
build_without_warning() { # NAME
  rm -rf "${top:?}/$1/pkg"
  build "$1" || return
  if grep -E 'warning: ' "$top/$1/install.log" | grep -v '^/usr/' >"$top/$1.errors"; then
    head -n 30 "$top/$1.errors"
    fail "$1: $(wc -l <"$top/$1.errors") warnings"
  else
    pass
  fi
}

# As it is used, in .build
build_usual() {
  CLUTCH_BUILD=.build limited tools/build.sh >/dev/null && return
  fail "the build"
  return 1
}

# A program from its lines
program() { # FILE LINE...
  { echo '#!/bin/sh'; printf '%s\n' "${@:2}"; } >"$1"
  chmod +x "$1"
}

# Each file of reports is a finding.
no_reports() { # FOLDER
  local f n
  n=$(find "$1" -type f -size +0 | wc -l)
  if [ "$n" = 0 ]; then pass; return; fi
  for f in $(find "$1" -type f -size +0 | head -n 5); do echo "--- $f"; head -n 40 "$f"; done
  fail "$n processes with reports in $1"
}

# "passed failed skipped" of a program of its own
add() { # FILE
  local p=0 f=1 s=0
  [ ! -s "$1" ] || read -r p f s <"$1"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

warnings() {
  # R's way to register routines is a cast of functions
  local all='-Wall -Wextra -pedantic -Wstrict-prototypes -Wmissing-prototypes -Wno-cast-function-type'
  build_without_warning warnings <<<"CFLAGS = -g -O2 $all"
  have clang clang || return
  build_without_warning warnings-clang <<<"CC = clang
CFLAGS = -g -O2 $all"
}

lto() {
  build_without_warning lto <<<'CFLAGS = -g -O2 -flto=auto -Wall -Wlto-type-mismatch -Wodr
LDFLAGS = -flto=auto -O2 -Wall -Wlto-type-mismatch -Wodr'
}

gctorture() {
  # it adds a file to the copy of the package from which it installs
  # shellcheck disable=SC2016 # for the inner shell
  program "$top/gctorture/R" 'for pkg; do :; done' '[ "$1" != CMD ] || cp tools/torture-calls.R "$pkg/R/zzz-torture-calls.R"' \
    'exec R "$@"'
  R=$top/gctorture/R build gctorture <<<'CFLAGS = -g -O2 -Wall' || return
  rm -f "$top/gctorture/result"
  R_LIBS=$top/gctorture/lib${R_LIBS:+:$R_LIBS} limited "${RSCRIPT:-Rscript}" --vanilla tools/gctorture.R \
    "$top/gctorture/result" || true
  [ -s "$top/gctorture/result" ] || echo "FAIL gctorture did not come to its end"
  add "$top/gctorture/result"
}

asan() {
  local library preload found=$top/asan/found
  library=$(gcc -print-file-name=libasan.so)
  [ -e "$library" ] || { echo "gcc has no libasan here"; skipped=$((skipped + 1)); return; }
  preload=$library:$(gcc -print-file-name=libubsan.so)
  mkdir -p "$top/asan/bin"
  # the package cannot be loaded there, but is loaded below
  # shellcheck disable=SC2016 # for the inner shell
  program "$top/asan/R" '[ "$1" != CMD ] || set -- "$@" --no-test-load' 'exec R "$@"'
  R=$top/asan/R build asan <<'END' || return
CFLAGS = -g -O1 -fsanitize=address,undefined -fno-omit-frame-pointer -Wall
LDFLAGS = -fsanitize=address,undefined
END
  rm -rf "$found"
  mkdir -p "$found"
  # R does not free all at its end. Programs of the system do not need the libraries.
  program "$top/asan/Rscript" "export LD_PRELOAD='$preload' PATH='$top/asan/bin:$PATH'" \
    "export ASAN_OPTIONS='detect_leaks=0:log_path=$found/asan' UBSAN_OPTIONS='print_stacktrace=1:log_path=$found/ubsan'" \
    "exec $(command -v Rscript) \"\$@\""
  program "$top/asan/bin/ps" 'unset LD_PRELOAD' "exec $(command -v ps) \"\$@\""
  rm -f "$top/asan/result"
  R_LIBS=$top/asan/lib${R_LIBS:+:$R_LIBS} RSCRIPT=$top/asan/Rscript \
    limited tools/run-tests.sh "$top/asan/result" "$test_files"
  add "$top/asan/result"
  no_reports "$found"
}

valgrind() {
  local found=$top/valgrind/found
  have valgrind valgrind || return
  build_usual || return
  rm -rf "$found"
  mkdir -p "$found"
  rm -f "$top/valgrind/result"
  R_LIBS=$PWD/.build/lib${R_LIBS:+:$R_LIBS} limited "${R:-R}" \
    -d "valgrind -q --vgdb=no --trace-children=yes --suppressions=$PWD/tools/valgrind.supp --log-file=$found/%p" \
    --vanilla --no-echo -f tools/run-examples.R --args "$top/valgrind/result" >"$top/valgrind/output" 2>&1 || true
  [ -s "$top/valgrind/result" ] || { tail -n 20 "$top/valgrind/output"; echo "FAIL the examples did not come to their end"; }
  grep -a '^FAIL' "$top/valgrind/output"
  add "$top/valgrind/result"
  no_reports "$found"
}

# The library of tests/faults/calls.c. Linux only.
calls() { # NAME
  build_usual || return
  "${CC:-cc}" -std=gnu11 -O1 -fPIC -shared -Wall -Wextra -Werror -o "$top/$1/calls.so" tests/faults/calls.c -ldl && return
  fail "tests/faults/calls.c"
  return 1
}

# Test files under it. Their limits of time count delays, too.
with_calls() { # NAME CALLS
  calls "$1" || return
  program "$top/$1/Rscript" "export LD_PRELOAD='$top/$1/calls.so' CLUTCH_CALLS='$2'" "exec $(command -v Rscript) \"\$@\""
  rm -f "$top/$1/result"
  R_LIBS=$PWD/.build/lib${R_LIBS:+:$R_LIBS} RSCRIPT=$top/$1/Rscript limited tools/run-tests.sh "$top/$1/result" "$test_files"
  add "$top/$1/result"
}

delays() { with_calls delays 'slow 200 10 4000 200'; }
short() { with_calls short 'short 10 5'; }

failing() {
  local numbers=$top/failing/numbers line
  calls failing || return
  head -c 4096 /dev/zero >"$numbers"
  line=$(CLUTCH_CALLS="fail $numbers" LD_PRELOAD=$top/failing/calls.so R_LIBS=$PWD/.build/lib${R_LIBS:+:$R_LIBS} \
    limited "${RSCRIPT:-Rscript}" tests/faults/failing.R "$numbers" 80 "${CLUTCH_ROUNDS:-60}" | tee /dev/stderr | tail -n 1)
  if [[ "$line" =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
  else
    fail "tests/faults/failing.R did not come to its end"
  fi
}

for name in $wanted; do
  echo "== $name"
  mkdir -p "$top/$name"
  case $name in
  warnings | lto | gctorture | asan | valgrind | delays | short | failing) $name ;;
  *) echo "warnings, lto, gctorture, asan, valgrind, delays, short or failing?" >&2; exit 2 ;;
  esac
done
echo "$passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
[ $failed = 0 ]
