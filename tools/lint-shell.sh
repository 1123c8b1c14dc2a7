#!/usr/bin/env bash
# Checks the shell programs by shellcheck: all that it says of those which are sent to hosts
# (inst/node), and warnings of those which build and test. A program in inst/node goes into one line,
# see R/base-shell.R.
# Prints what is wrong. The last line is "N passed, N failed", or "0 passed, 0 failed, 1 skipped".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
if ! command -v shellcheck >/dev/null; then
  echo "shellcheck is not here"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
fi

passed=0 failed=0
part() { # file, options of shellcheck
  local file=$1
  shift
  if shellcheck --format=gcc "$@" "$file"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
}

for f in inst/node/*.sh; do
  part "$f" --shell=sh
done
# SC2046: some words are split on purpose. SC1087: a pattern of grep stands behind a variable.
for f in configure cleanup configure.win cleanup.win tools/*.sh tests/c/*.sh tests/c/win/*.sh tests/testthat/fixtures/*.sh bench/*.sh; do
  part "$f" --external-sources --severity=warning --exclude=SC2046,SC1087
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
