#!/usr/bin/env bash
# Looks for names that the project has replaced: ARCHITECTURE.md says which words it uses, each with
# one meaning. The report of measurements keeps what it said at its time.
# Prints where the old names are. The last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# A word per line (with underscores, digits or nothing around it, in any case), what it is called now,
# and the folders or files where it must not be found, if not all.
words='
muster(s|ed|ing)?       acceptor
strangers?              pending_peer
roll[\s_-]?calls?       handshake
hunger|hungry           ready
urge[sd]?|urging        interrupt
strand(s|ed|ing)?       fail_pending
torment(s|ed|ors?)      fault_injector
kin                     variants
hatch(es|ed|ing)?       spawn
bells?                  results_ready
glue                    R_interface
unwanted|stale          cancelled
reliev(e|es|ed|ing)     steal
barren                  without_progress
doors?                  entry_point
births?                 boot
rigs?                   fixture
shells?                 handle            src/r src/core
owners?                 scope             src/r/session src/core/node src/core/sched
units?                  batch             src/core/sched src/r/tasks
(?<!CLU_K_)relay(s|ed)? proxy             src/core/link src/core/node src/core/shm src/core/supervisor
lanes?                  stream            src/core
seen_(view|work|stack|memory|values) observed src
end_word|task_word|no_word end_excuse     src/core
(?<!clutch\s)masters?   session           src tests/c
loaded                  stealable         src/core
'
# The same, but capitals count
exact='
WELCOME                 VERDICT           src tests/c
HS_ANSWER               RESPONSE          src tests/c
(?<!CLUTCH_)JOIN        CONFIRM           src tests/c
'

all="src R tests inst man vignettes bench lab doc $(ls ./*.md)"
passed=0 failed=0
look() { # options of grep, the list
  local word now where found
  while read -r word now where; do
    [ -n "$word" ] || continue
    found=$(grep -rnI $1 -P "(?<![A-Za-z])($word)(?![A-Za-z])" ${where:-$all} --include='*.[chR]' --include='*.md' \
      --include='*.Rmd' --include='*.Rd' --include='*.sh' --include=Makefile --exclude-dir=build --exclude-dir=report)
    if [ -n "$found" ]; then
      echo "FAIL $word is called $now now:"
      echo "$found" | cut -c 1-160 | sed 's/^/  /'
      failed=$((failed + 1))
    else
      passed=$((passed + 1))
    fi
  done <<<"$2"
}
look -i "$words"
look '' "$exact"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
