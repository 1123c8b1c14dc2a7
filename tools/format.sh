#!/usr/bin/env bash
# Lays out the C files as .clang-format says. With --check: only says which are not laid out so.
# Other versions of clang-format lay out some lines in another way: this is for version 14, that of Debian 12.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
tool=$(command -v clang-format-14 || command -v clang-format)
version=$([ -z "$tool" ] || "$tool" --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
files=$(find src tests/c tests/fuzz bench lab -name '*.[ch]' -not -path '*/build/*' | sort)

if [ "$version" != 14 ]; then
  echo "clang-format 14 is not here (${tool:-nothing of that name}${version:+, version $version})"
  echo "0 passed, 0 failed, 1 skipped"
  [ "${1:-}" = --check ]
elif [ "${1:-}" = --check ]; then
  passed=0 failed=0
  for f in $files; do
    if lines=$("$tool" --dry-run -Werror "$f" 2>&1); then
      passed=$((passed + 1))
    else
      echo "FAIL $f: $(grep -c 'error: ' <<<"$lines") places, the first: $(grep -m 1 -o '^[^ ]*: error' <<<"$lines"). 'make format' mends it"
      failed=$((failed + 1))
    fi
  done
  echo "$passed passed, $failed failed"
  [ $failed = 0 ]
else
  "$tool" -i $files
fi
