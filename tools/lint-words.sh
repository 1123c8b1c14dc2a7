#!/usr/bin/env bash
# Looks for names that the project has replaced: ARCHITECTURE.md says which words it uses, each with
# one meaning. The report of measurements keeps what it said at its time. And for comments of R and C code
# that begin as fragments do.
# Prints where they are. The last line is "N passed, N failed".
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
(?<!CLU_K_)relay(s|ed)? proxy             src/core/link src/core/node src/core/shm src/core/supervisor
lanes?                  stream            src/core
seen_(view|work|stack|memory|values) observed src
end_word|task_word|no_word end_excuse     src/core
(?<!clutch\s)masters?   session           src tests/c
loaded                  stealable         src/core
(?<!cluster_)is_stopped cluster_is_stopped R man tests/testthat vignettes README.md NEWS.md
(?<!ffi_)service_probe  socket_probe
shared_info             share_info
(?<!_)launcher(?=\()     hosts_command     R man tests/testthat vignettes README.md NEWS.md
clutch_launch(?!_)      clutch_hosts      R man tests/testthat vignettes
slurm\(workers          slurm(nodes
rehears(e[ds]?|als?|ing) warm_up           R src tests/testthat
keepers?                cleanup           R inst tests/testthat
lanes?                  row               R
look_(at|for)[a-z_]*    poll_or_check     R
(look|looks)(?=\s*(<-|=)) poll_or_check  R
([a-z]+_)?turn(?=\()    step              R
turn_for_[a-z]+         step_for          R
(is|cluster|nodes|jobs|tasks|events|session|hosts)_seen observed R
(?<!_)job_(of|at|began|end|end_text)(?=\() slurm_job R
relays?                 proxy             R/node-host.R R/node-warm-up.R R/slurm-ends.R R/start-watcher.R tests/testthat/test-hosts.R
(?<!\.)relay            answer            R/trace-export.R R/trace-limits.R R/trace-read.R
masters?                session           doc inst README.md ARCHITECTURE.md CONTRIBUTING.md NEWS.md
'
# The same, but capitals count
exact='
WELCOME                 VERDICT           src tests/c
HS_ANSWER               RESPONSE          src tests/c
(?<!CLUTCH_)JOIN        CONFIRM           src tests/c
'

all="src R tests inst man vignettes bench lab doc $(ls ./*.md)"
passed=0 failed=0
search() { # options of grep, the list
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
search -i "$words"
search '' "$exact"
# A comment stands alone. A paragraph that begins with one of these words is mostly no sentence, and a
# sentence that does is read twice.
fragments() { # how a comment begins, what the line before it is not, files
  local found
  found=$(awk -v begin="^ *$1 *(Of|Those|Who|As|What|Whether|The same)[ ,:]" -v not_after="$2" '
    FNR == 1 { before = "" }
    $0 ~ begin && before !~ not_after { print "  " FILENAME ":" FNR ": " $0 }
    { before = $0 }' "${@:3}")
  if [ -n "$found" ]; then
    echo "FAIL comments that begin with Of, Those, Who, As, What, Whether or The same:"
    echo "$found"
    failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
}
fragments '#' "^ *#[^']" R/*.R
# src/core/tasks and src/core/supervisor are to follow
mapfile -t c_files < <(find src tests/c tests/fuzz -name '*.[ch]' -not -path '*/build/*' -not -path 'src/core/tasks/*' \
  -not -path 'src/core/supervisor/*')
fragments '(/[*]|//)' '^ *//' "${c_files[@]}"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
