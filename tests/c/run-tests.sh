#!/usr/bin/env bash
# Runs the programs that the Makefile has built, the variants (plain, sanitized, threads) beside each
# other: most tests wait most of the time.
#   run-tests.sh FOLDER VARIANTS TESTS
# RUN: a program that runs them, with its arguments. LEAKS: whether memory leaks can be looked for.
# ARGS: for the programs. RESULT: a file that gets "passed failed skipped", which is the last line
# without it; RESULT.failed gets what failed.
cd "$(dirname "$0")" || exit 1
out=$1 variants=$2 tests=$3
case $out in /*) ;; *) out=./$out ;; esac

[ "$LEAKS" = 1 ] || echo "memory leaks cannot be looked for here (LeakSanitizer does not run)"
export ASAN_OPTIONS="detect_leaks=$LEAKS" TSAN_OPTIONS="halt_on_error=1:exitcode=66"

# What the tests of one variant say; its sum goes to FOLDER/VARIANT/counts
run_variant() {
  local variant=$1 passed=0 failed=0 skipped=0 t p f s rc last said=$out/$1/said.txt
  for t in $tests; do
    [ -e "$out/$variant/test-$t" ] || continue
    ${RUN:-} "$out/$variant/test-$t" $ARGS >"$said" 2>&1 </dev/null
    rc=$?
    last=$(tail -n 1 "$said")
    if [[ "$last" =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
      p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
      sed '$d' "$said"
      if [ $rc != 0 ] && [ "$f" = 0 ]; then echo "exit status $rc"; f=1; fi
    else
      cat "$said"
      echo "the program ended early, exit status $rc"
      p=0 f=1 s=0
    fi
    printf '  %-10s %-18s %3d passed, %d failed%s\n' "$variant" "$t" "$p" "$f" "$([ "$s" = 0 ] || echo ", $s skipped")"
    [ "$f" = 0 ] || { echo "$variant $t:"; grep -v '^ok ' "$said" | tail -n 30; } >>"$out/$variant/failed"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  done
  echo "$passed $failed $skipped" >"$out/$variant/counts"
}

# The first says at once what it finds, the others when all have ended.
first=
for v in $variants; do
  mkdir -p "$out/$v"
  rm -f "$out/$v/counts" "$out/$v/failed"
  if [ -z "$first" ]; then first=$v; else run_variant "$v" >"$out/$v/all.txt" 2>&1 & fi
done
run_variant "$first"
wait

passed=0 failed=0 skipped=0
if ../../tools/lint-layers.sh >"$out/layers.txt"; then passed=1; else cat "$out/layers.txt"; failed=1; fi
[ -n "$tests" ] || failed=$((failed + 1))
for v in $variants; do
  [ "$v" = "$first" ] || cat "$out/$v/all.txt"
  p=0 f=1 s=0
  if [ -s "$out/$v/counts" ]; then read -r p f s <"$out/$v/counts"; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
if [ -n "$RESULT" ]; then
  echo "$passed $failed $skipped" >"$RESULT"
  for v in $variants; do cat "$out/$v/failed" 2>/dev/null; done >"$RESULT.failed"
else
  echo "$passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
fi
[ $failed = 0 ]
