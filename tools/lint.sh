#!/usr/bin/env bash
# What can be said of the sources without running them.
#   lint.sh RESULT-FILE
# RESULT-FILE gets "passed failed skipped", RESULT-FILE.failed what failed. Skipped is what is missing
# here: clang-format, shellcheck, lintr, spelling, roxygen2.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
result=$1
passed=0 failed=0 skipped=0
: >"$result.failed"

# A command, the last line of which is "N passed, N failed" or "N passed, N failed, N skipped", with or
# without words before it.
part() {
  local name=$1 out last p f s=0
  shift
  out=$("$@" 2>&1)
  local rc=$?
  last=$(tail -n 1 <<<"$out")
  if [[ "$last" =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
    p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
    [ $rc = 0 ] || [ "$f" != 0 ] || { f=1; echo "$out"; }
    [ "$f$s" = 00 ] || sed '$d' <<<"$out"
  else
    p=0 f=1
    echo "$out"
    echo "FAIL $name ended early, exit status $rc"
  fi
  [ "$f" = 0 ] || { echo "$name:"; tail -n 30 <<<"$out"; } >>"$result.failed"
  printf '  %-10s %3d passed, %d failed%s\n' "$name" "$p" "$f" "$([ "$s" = 0 ] || echo ", $s skipped")"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# the slowest goes on beside the others
lintr_says=$(mktemp)
trap 'rm -f "$lintr_says"' EXIT
"${RSCRIPT:-Rscript}" tools/lint.R lintr >"$lintr_says" 2>&1 &
lintr=$!
lintr_said() {
  cat "$lintr_says"
  return $lintr_rc
}

part layers tools/lint-layers.sh "${CLUTCH_BUILD:-.build}/pkg/src"
part words tools/lint-words.sh
part shell tools/lint-shell.sh
part format tools/format.sh --check
part R "${RSCRIPT:-Rscript}" tools/lint-r.R
part site "${RSCRIPT:-Rscript}" tools/lint-site.R
part readme "${RSCRIPT:-Rscript}" tools/readme-figures.R --check
part links "${RSCRIPT:-Rscript}" tools/check-links.R
part spelling "${RSCRIPT:-Rscript}" tools/lint.R spelling
part help "${RSCRIPT:-Rscript}" tools/lint.R help
wait $lintr
lintr_rc=$?
part lintr lintr_said

echo "$passed $failed $skipped" >"$result"
echo "lint: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
