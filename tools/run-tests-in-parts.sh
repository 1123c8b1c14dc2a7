#!/usr/bin/env bash
# The whole testthat suite in three processes at the same time: most tests wait most of the time.
#   run-tests-in-parts.sh RESULT-FILE
# What the others say follows when all have ended. Each has its own temporary folder, and counts
# what it left behind. RESULT-FILE.seconds gets what each file took: tools/test-seconds has these
# numbers from a machine with two processors that does nothing else. RESULT-FILE.failed: what failed.
cd "$(dirname "$0")/.." || exit 1
result=$1
parts=3
for ((part = 2; part <= parts; part++)); do
  CLUTCH_TEST_PART=$part/$parts tools/run-tests.sh "$result-$part" >"$result-$part.txt" 2>&1 &
done
CLUTCH_TEST_PART=1/$parts tools/run-tests.sh "$result-1"
wait

passed=0 failed=0 skipped=0
for ((part = 1; part <= parts; part++)); do
  if [ $part != 1 ]; then cat "$result-$part.txt"; fi
  if ! read -r p f s 2>/dev/null <"$result-$part"; then p=0 f=1 s=0; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
cat "$result"-*.seconds 2>/dev/null | LC_ALL=C sort >"$result.seconds"
cat "$result"-*.failed >"$result.failed" 2>/dev/null
rm -f "$result"-*
echo "$passed $failed $skipped" >"$result"
echo "all parts: $passed expectations passed, $failed failed, $skipped skipped"
echo "longest: $(sort -k 2,2nr "$result.seconds" | head -n 20 | awk '{ printf "%s%s %s", (NR > 1 ? ", " : ""), $1, $2 }')"
[ "$failed" = 0 ] || { echo "what failed:"; sed 's/^/  /' "$result.failed"; false; }
