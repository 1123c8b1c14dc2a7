#!/usr/bin/env bash
# Sums what the steps of 'make test' found. A step without a result did not get that far: it failed.
# What failed follows, so that it is at the end of a long record, too. With --line: the sum is the
# last line, as CI reads it.
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0 skipped=0
results=.build${CLUTCH_PORTABLE:+/portable}/results
steps="lint test-c test-fuzz test-tools test-portable test-r check"; [ -z "${CLUTCH_PORTABLE:-}" ] || steps="test-c test-r"
line=0; [ "${1:-}" = --line ] && line=1
[ $line = 1 ] || echo
# those for Windows are not part of 'make test', only of CI
for step in $steps $(cd $results 2>/dev/null && ls windows 2>/dev/null); do
  p=0 f=1 s=0 why=' (did not run to its end)'
  if read -r p0 f0 s0 2>/dev/null <"$results/$step"; then p=$p0 f=$f0 s=$s0 why=; fi
  [ $line = 1 ] || printf '  %-10s %4d passed %3d failed %3d skipped%s\n' "$step" "$p" "$f" "$s" "$why"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
[ $line = 1 ] || printf '  %-10s %4d passed %3d failed %3d skipped\n' all "$passed" "$failed" "$skipped"
for f in $results/*.failed; do
  [ ! -s "$f" ] || { echo; echo "what failed in $(basename "$f" .failed):"; sed 's/^/  /' "$f"; }
done
[ $line = 0 ] || echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
