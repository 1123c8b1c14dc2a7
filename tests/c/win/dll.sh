#!/usr/bin/env bash
# Links the package's library for Windows, as R's make does there with src/Makevars.win, and loads it by wine
# with a stand-in of R.dll, which has the names of R.def and nothing behind them. Run by the Makefile.
#   dll.sh FOLDER LIBRARIES OBJECT...
# The last line is "N passed, N failed".
set -uo pipefail
out=$1 libs=$2
shift 2
work=$out/dll
rm -rf "$work"
mkdir -p "$work"
passed=0 failed=0
check() { # what it is about, and the command
  local what=$1
  shift
  if "$@"; then passed=$((passed + 1)); else echo "FAIL $what"; failed=$((failed + 1)); fi
}
tool=${CC%-gcc}

stand_in() {
  sed -n 's/^  \([A-Za-z_0-9]*\)$/int \1(void) { return 0; }/p; s/^  \([A-Za-z_0-9]*\) DATA$/void *\1;/p' R.def |
    sed '/ R_registerRoutines(/d' >"$work/R.c"
  cat >>"$work/R.c" <<'END'
const void *stand_in_entries;
int R_registerRoutines(void *dll, const void *c, const void *call) {
  (void)dll, (void)c;
  stand_in_entries = call;
  return 1;
}
END
  { cat R.def; echo "  stand_in_entries DATA"; } >"$work/R.def"
  "$CC" -std=gnu11 -fno-builtin -w -shared -o "$work/R.dll" "$work/R.c" "$work/R.def"
}

# What is neither in R.def nor in the libraries is an error here.
link() {
  LC_ALL=C "$CC" -shared -o "$work/clutch.dll" "$@" $libs "$work/libR.a" 2>"$work/link.txt" && return
  grep -o 'undefined reference to .*' "$work/link.txt" | sort -u
  return 1
}

no_name_too_many() {
  local unused
  unused=$(comm -23 \
    <(sed -n 's/^  \([A-Za-z_0-9]*\).*/\1/p' R.def | sort -u) \
    <("$tool-nm" -u "$@" | sed -n 's/^ *U \(__imp_\)\{0,1\}//p' | sort -u))
  [ -z "$unused" ] || { echo "R.def has names that nobody uses:" $unused; return 1; }
}

# Those of the system; all else would have to come with the package.
no_other_library() {
  local other
  other=$("$tool-objdump" -p "$work/clutch.dll" | sed -n 's/^.*DLL Name: //p' | tr '[:upper:]' '[:lower:]' |
    grep -vxE 'r|r\.dll|kernel32\.dll|msvcrt\.dll|ucrtbase\.dll|api-ms-win-crt-.*|ws2_32\.dll|bcrypt\.dll|iphlpapi\.dll|advapi32\.dll')
  [ -z "$other" ] || { echo "it needs" $other; return 1; }
}

loads() {
  local last
  cp "$out/load-dll.exe" "$work/"
  (cd "$work" && timeout 120 "$WINE" load-dll.exe) >"$work/load.txt" 2>"$work/load-err.txt"
  last=$(tr -d '\r' <"$work/load.txt" | tail -n 1)
  [[ "$last" =~ ^[0-9]+\ passed,\ 0\ failed$ ]] || { cat "$work/load.txt" "$work/load-err.txt"; return 1; }
  passed=$((passed + ${last%% *} - 1))
}

"$tool-dlltool" -d R.def -D R.dll -l "$work/libR.a" || exit 1
check "the library is linked: R's names and the system's are all that it needs" link "$@"
check "all names of R.def are used" no_name_too_many "$@"
if [ -e "$work/clutch.dll" ]; then
  check "the library needs R and the system's libraries only" no_other_library
  check "a stand-in of R.dll is made" stand_in
  check "the library is loaded" loads
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
