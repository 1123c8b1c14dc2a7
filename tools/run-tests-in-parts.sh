#!/usr/bin/env bash
# The whole testthat suite in two processes at the same time: most tests wait most of the time.
#   run-tests-in-parts.sh RESULT-FILE
# What the second says follows when both have ended. Each has its own temporary folder, and counts
# what it left behind.
cd "$(dirname "$0")/.." || exit 1
result=$1
CLUTCH_TEST_PART=2/2 tools/run-tests.sh "$result-2" >"$result-2.txt" 2>&1 &
CLUTCH_TEST_PART=1/2 tools/run-tests.sh "$result-1"
wait
cat "$result-2.txt"

passed=0 failed=0 skipped=0
for part in 1 2; do
  if ! read -r p f s 2>/dev/null <"$result-$part"; then p=0 f=1 s=0; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
rm -f "$result"-[12] "$result-2.txt"
echo "$passed $failed $skipped" >"$result"
echo "both parts: $passed expectations passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
