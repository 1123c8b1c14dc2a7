#!/usr/bin/env bash
# Builds src/core and src/win with mingw-w64 and runs their C tests under wine; links the package's library for
# Windows, and loads it there (tests/c/win/dll.sh). The last line is "N passed, N failed", with ", N skipped"
# where there were such.
# With --if-possible, for CI: where the two are not there and cannot be installed, that is said, and no failure.
# T, ARGS and RESULT as in tests/c/win/Makefile.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

export RESULT="${RESULT:-}"
# given relative to here
case $RESULT in ''|/*) ;; *) RESULT=$PWD/$RESULT ;; esac
skip() {
  echo "the tests for Windows are skipped: $1"
  [ -z "$RESULT" ] || echo "0 0 1" >"$RESULT"
  echo "0 passed, 0 failed, 1 skipped"
  exit 0
}
optional=0; [ "${1:-}" = --if-possible ] && optional=1
# shellcheck source=tools/debian.sh
. tools/debian.sh

# Debian's package wine64 alone has no command of this name on the path
find_wine() {
  local c
  for c in wine64 wine /usr/lib/wine/wine64; do command -v "$c" && return; done
}
missing() {
  command -v x86_64-w64-mingw32-gcc >/dev/null || echo gcc-mingw-w64-x86-64
  [ -n "$(find_wine)" ] || echo wine64
}

need=$(missing)
if [ -n "$need" ] && [ $debian = 1 ] && [ $root = 1 ]; then
  apt_install $need
  need=$(missing)
fi
if [ -n "$need" ]; then
  how="Install mingw-w64 for x86_64 and 64-bit wine by your system's means."
  [ $debian = 1 ] && how="Install it with: sudo apt-get install --no-install-recommends $(echo $need)"
  [ $optional = 0 ] || skip "$(echo $need) cannot be had here. $how"
  echo "missing: $(echo $need). $how" >&2
  exit 1
fi

# Folders of its own for all that wine keeps, and none of its menus, browser and message windows
work=$(mktemp -d)
export WINEPREFIX="$work/wine" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml,winemenubuilder.exe=" WINE
unset DISPLAY
WINE=$(find_wine)
server=$(command -v wineserver || ls /usr/lib/wine/wineserver 2>/dev/null)
end() {
  [ -n "$server" ] && "$server" -k >/dev/null 2>&1
  rm -rf "$work"
}
trap end EXIT

# Its first start makes the folders; it takes seconds, and its messages mean nothing. On a busy machine it fails now and
# then, and leaves half of the folders.
started=0
for attempt in 1 2 3; do
  timeout 300 "$WINE" wineboot -i >"$work/start.txt" 2>&1 </dev/null && { started=1; break; }
  [ -z "$server" ] || "$server" -k >/dev/null 2>&1
  rm -rf "$WINEPREFIX"
done
if [ $started = 0 ]; then
  cat "$work/start.txt"
  [ $optional = 0 ] || skip "wine does not start here, in $attempt attempts"
  echo "wine does not start" >&2
  exit 1
fi
make --no-print-directory -C tests/c/win test
