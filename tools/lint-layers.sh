#!/usr/bin/env bash
# Checks that C files use each other in one direction only.
#   lint-layers.sh            what they include
#   lint-layers.sh OBJECTS    also what their objects need of each other; OBJECTS: the folder that has
#                             them, laid out as src (.build/pkg/src after 'make build')
# Prints what is wrong. The last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
objects=${1:-}

# Which folders the files of a folder may use, besides their own. What core/base/os.h declares
# belongs to core/base, although src/posix or src/win defines it.
directions='
init             r/base r/share r/serialize r/session r/tasks r/journal r/globals r/mesh r/actor r/state r/node r/socket
r/mesh           r/base r/share r/serialize r/session core/mesh core/node core/wire core/base
r/actor          r/base r/mesh core/actor core/mesh core/state core/base
r/state          r/base r/serialize core/state core/base
r/journal        r/base r/serialize r/session r/tasks r/globals core/tasks core/journal core/wire core/base
r/tasks          r/base r/share r/serialize r/session core/tasks core/journal core/sched core/node core/loop core/shm core/wire core/base
r/session        r/base r/share r/serialize core/forward core/journal core/node core/link core/net core/loop core/view core/shm core/wire core/base
r/globals        r/base core/base
r/node           r/base r/share r/serialize core/forward core/supervisor core/node core/link core/loop core/actor core/mesh core/view core/shm core/wire core/base
r/socket         r/base r/serialize core/net core/loop core/base
r/serialize      r/base r/share core/base
r/share          r/base core/base
r/base           core/loop core/base
core/tasks       core/journal core/sched core/node core/loop core/view core/shm core/wire core/base
core/supervisor  core/loop core/view core/shm core/wire core/base
core/sched       core/shm core/base
core/node        core/loop core/view core/shm core/net core/wire core/base
core/forward     core/loop core/wire core/base
core/link        core/node core/loop core/view core/shm core/net core/wire core/base
core/journal     core/base
core/loop        core/wire core/base
core/view        core/shm core/base
core/shm         core/base
core/actor       core/mesh core/state core/base
core/mesh        core/base
core/state       core/base
core/net         core/base
core/wire        core/base
core/base
posix            core/base
win              core/base
'

# Uses (file, file) that are wrong and known; a line goes when its cause is mended.
known='
'

passed=0 failed=0
check() { # what it asks for, what it found against it
  if [ -n "$2" ]; then
    echo "FAIL $1"
    echo "$2" | sed 's/^/  /'
    failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
}
without_known() { awk 'NR == FNR { known[$1, $2]; next } !(($1, $2) in known)' <(echo "$known") -; }
# Lines "file file why": those whose folders may not use each other so
wrong_direction() {
  awk 'function folder(f) { if (f ~ /^init(\.c)?$/) return "init"; sub("/[^/]*$", "", f); return f }
    NR == FNR { if (NF) known[$1]; for (i = 2; i <= NF; i++) allowed[$1, $i]; next }
    { from = folder($1); to = folder($2) }
    from != to && !((from, to) in allowed) {
      print $1 " -> " $2 " (" $3 ")" (from in known ? "" : ": " from " is not in the table")
    }' <(echo "$directions") -
}

# ---- what files include ----

sources=$(find src -name '*.[ch]' | sort)
core=$(find src/core -name '*.[ch]')
below=$(find src/core src/posix src/win -name '*.[ch]')
not_port=$(find src -name '*.[ch]' -not -path '*/posix/*' -not -path '*/win/*')
include='#[[:space:]]*include[[:space:]]*'
r_header='[<"](R|Rinternals|Rembedded|Rinterface|Rdefines|Rmath|Rversion|Rconfig|S|R_ext/[^>"]*)(\.h)?[>"]'
c11='assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|math|setjmp|stdalign|stdarg|stdatomic|'
c11+='stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|time|uchar|wchar|wctype'

check "R headers only in src/r and src/init.c" "$(grep -nE "$include$r_header" $below)"
check "src/core includes only C11's headers and its own" \
  "$(grep -nE "$include" $core | grep -vE "$include(<($c11)\.h>|\"core/[^\"]*\")")"
check "OpenSSL's headers only in src/posix/crypto.c and tls.c, libssl's only in the latter" \
  "$(grep -nE "$include[<\"]openssl/" $sources | grep -vE '^src/posix/(crypto|tls)\.c:'
    grep -nE "$include[<\"]openssl/(ssl|tls1|bio)\.h" $sources | grep -v '^src/posix/tls\.c:')"
check "_WIN32 only in src/posix and src/win" "$(grep -nw '_WIN32' $not_port)"
check "includes are written from src, as in \"core/base/err.h\"" \
  "$(grep -hoE "^ *${include}\"[^\"]+\"" $sources | sed 's/.*"\(.*\)"/\1/' | sort -u |
    while read -r h; do [ -e "src/$h" ] || echo "$h"; done)"
check "includes go down, as the table in tools/lint-layers.sh says" \
  "$(grep -nE "$include\"" $sources | sed -E 's|^src/([^:]*):([0-9]+):.*"(.*)".*|\1 \3 line_\2|' |
    without_known | wrong_direction)"

check "src/r/base/entry-points.h has each entry point under its file" \
  "$(awk 'FILENAME ~ /entry-points/ {
        if (/^  \/\* r\//) { file = $2; sub(/:$/, "", file) }
        if (match($0, /\(ffi_[a-z_]+/)) listed[substr($0, RSTART + 1, RLENGTH - 1)] = file
      }
      /^SEXP ffi_/ { match($0, /ffi_[a-z_]+/); has[substr($0, RSTART, RLENGTH)] = substr(FILENAME, 5) }
      END {
        for (f in has) if (listed[f] != has[f]) print f " is in " has[f]
        for (f in listed) if (!(f in has)) print f " is nowhere"
      }' src/r/base/entry-points*.h $(find src/r -name '*.c'))"

# ---- lengths ----

check "C files have 500 lines at most" \
  "$(wc -l $sources $(find tests/c tests/fuzz -name '*.[ch]' -not -path '*/build/*') | awk '$1 > 500 && $2 != "total"')"
check "C functions have 60 lines at most" \
  "$(awk 'FNR == 1 { from = 0 }
    /^[a-zA-Z].*\) \{$|^    .*\) \{$/ && !from { from = FNR; name = $0 }
    /^}/ { if (from && FNR - from > 60) print FILENAME ":" from ": " name; from = 0 }' $sources)"

# A header that is not listed changes, and what includes it is not compiled again.
check "all headers are in HDRS of src/Makevars.in and src/Makevars.win" \
  "$(for h in $(cd src && find . -name '*.h' | sed 's:^[.]/::' | sort); do
    case $h in win/*) lists=src/Makevars.win ;; posix/*) lists=src/Makevars.in ;; *) lists='src/Makevars.in src/Makevars.win' ;; esac
    for list in $lists; do grep -qxF "$h" <(tr -s ' \\' '\n' <"$list") || echo "$list: $h"; done
  done)"

# ---- what objects need of each other ----

if [ -n "$objects" ]; then
  if ! command -v nm >/dev/null || ! command -v tsort >/dev/null; then
    check "nm and tsort are there" "one of them is missing"
  else
    # "file file symbol", of objects that have a source
    uses=$(for c in $(find src -name '*.c' | sort); do
      file=${c#src/}; file=${file%.c}
      if [ -e "$objects/$file.o" ]; then nm "$objects/$file.o" | awk -v f="$file" 'NF == 2 { print "U", $2, f } NF == 3 { print $2, $3, f }'; fi
    done | awk '$1 ~ /^[TDBRCVW]$/ { has[$2] = $3 } $1 == "U" { need[++n] = $2 " " $3 }
      END { for (i = 1; i <= n; i++) { split(need[i], a, " "); if (a[1] in has && has[a[1]] != a[2]) print a[2], has[a[1]], a[1] } }')
    check "$objects has objects" "$([ -n "$uses" ] || echo "none that uses another: make build")"
    check "functions are called downwards, as the table in tools/lint-layers.sh says" \
      "$(echo "$uses" | awk 'NR == FNR { declared[$1]; next } $3 in declared { $2 = "core/base/os" } { print }' \
        <(grep -hoE '\b(clu|CLU)_\w+' src/core/base/os.h src/core/base/os-*.h) - | without_known | wrong_direction)"
    check "no file is in a circle with others" \
      "$(echo "$uses" | without_known | awk '{ print $1, $2 }' | sort -u | tsort 2>&1 >/dev/null | sed 's/^tsort: //; s/^-: input/input/')"
    check "what tools/lint-layers.sh knows is still there" \
      "$(awk 'NR == FNR { there[$1, $2]; next } NF && $1 !~ /\.h$/ && !(($1, $2) in there) { print "mended, take it out:", $0 }' \
        <(echo "$uses") <(echo "$known"))"
  fi
fi

echo "$passed passed, $failed failed"
[ $failed = 0 ]
