#!/usr/bin/env bash
# Runs other packages' own test suites, each with the package's default and with clutch, as scripts in
# tests/adapters/ say, and writes what they counted to bench/report/adapters.csv.
#   test-adapters.sh RESULT-FILE [SUITE ...]    (names of scripts, without .R)
# VERBOSE=1 shows what failed. A suite that is not run keeps the counts that it had.
# SUITE_SECONDS=3600: a script that takes longer is ended. Other packages' tests can wait for ever.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
result=$1
shift
tmp=$(mktemp -d "${TMPDIR:-/tmp}/clutch-adapters.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
library=$(tools/deps.sh newer-library)
export R_LIBS="${R_LIBS:+$R_LIBS:}$library" CLUTCH_ADAPTER_TESTS=$PWD/tests/adapters
suites=("$@")
if [ ${#suites[@]} = 0 ]; then
  for f in tests/adapters/[!_]*.R; do suites+=("$(basename "$f" .R)"); done
fi
mkdir "$tmp/t"
seconds=${SUITE_SECONDS:-3600}
limit=()
if command -v timeout >/dev/null; then limit=(timeout -k 10 "$seconds"); fi
for suite in "${suites[@]}"; do
  TMPDIR=$tmp/t ${limit[@]+"${limit[@]}"} "${RSCRIPT:-Rscript}" "tests/adapters/$suite.R" \
    </dev/null 2>&1 | tee "$tmp/$suite.log"
  case ${PIPESTATUS[0]} in
    0) ;;
    124 | 137) echo "$suite: ended after $seconds s" ;;
    *) echo "$suite: ended early" ;;
  esac
done
"${RSCRIPT:-Rscript}" tools/adapters.R "$result" "$tmp"/*.log
