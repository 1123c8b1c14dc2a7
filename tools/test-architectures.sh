#!/usr/bin/env bash
# Builds src/core and src/posix for other machines than this one, or by another compiler, and runs their C tests:
#   i386    32 bits; runs on this processor
#   s390x   the other byte order; runs under qemu, without the tests of what qemu's emulation of a process lacks
#   musl    another C library than glibc
#   clang   another compiler, with its sanitizers
#   tools/test-architectures.sh [i386] [s390x] [musl] [clang]
# Debian, as root: it installs cross compilers, and unpacks OpenSSL for each into .build/architectures. T: as in
# tests/c/Makefile. The last line is "N passed, N failed", with ", N skipped" where there were such.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

# shellcheck source=tools/debian.sh
. tools/debian.sh
top=$PWD/.build/architectures
wanted=${*:-i386 s390x musl clang}
all=$(cd tests/c && for f in test-*.c; do f=${f#test-}; echo "${f%.c}"; done)
# Under qemu a program cannot start another of its kind, nobody is told of a mutex whose holder has ended, and the system
# does not tell of sockets, memory or threads
not_emulated="acceptor-peers actor budget far follow-parent forks host-stacks kept link-version near net node process-use \
processes proxy proxy-faults proxy-rings resolve result-ring segment socket state stay supervisor views"

need() {
  local missing=() p
  for p; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
  [ ${#missing[@]} = 0 ] && return
  if [ $debian = 1 ] && [ $root = 1 ]; then apt_install "${missing[@]}" && return; fi
  echo "missing: ${missing[*]}. On Debian: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
}

# Debian's OpenSSL of another architecture, unpacked and not installed: two of its packages exclude those of this machine
openssl_of() {
  local arch=$1 at=$top/$1/openssl
  [ -e "$at/usr/include/openssl/ssl.h" ] && return
  mkdir -p "$at" "$top/$arch/apt/lists/partial" "$top/$arch/apt/cache/archives/partial"
  (
    cd "$top/$arch/apt" || exit 1
    own=(-o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State::lists=$PWD/lists"
      -o Dir::State::status=/dev/null -o "Dir::Cache=$PWD/cache" -o APT::Sandbox::User=root)
    apt-get "${own[@]}" update -q >/dev/null 2>&1
    apt-get "${own[@]}" download libssl3 libssl-dev >/dev/null || exit 1
    for f in *.deb; do dpkg -x "$f" "$at" || exit 1; done
  )
}

# musl has no OpenSSL in Debian: it is compiled, in a minute
openssl_for_musl() {
  local at=$top/musl
  [ -e "$at/openssl/libssl.a" ] && return
  mkdir -p "$at/apt/lists/partial" "$at/apt/cache/archives/partial" "$at/apt/sources" "$at/headers" "$at/openssl"
  for name in linux asm-generic; do ln -sfn "/usr/include/$name" "$at/headers/$name"; done
  ln -sfn "/usr/include/$(gcc -print-multiarch)/asm" "$at/headers/asm"
  (
    cd "$at/apt" || exit 1
    sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >sources/debian.sources
    own=(-o "Dir::State::lists=$PWD/lists" -o "Dir::Cache=$PWD/cache" -o Dir::Etc::sourcelist=/dev/null
      -o "Dir::Etc::sourceparts=$PWD/sources" -o APT::Sandbox::User=root)
    apt-get "${own[@]}" update -q >/dev/null 2>&1
    # Debian's changes to it are not needed
    apt-get "${own[@]}" source --download-only openssl >/dev/null 2>&1
    tar -xf openssl_*.orig.tar.gz --strip-components=1 -C ../openssl || exit 1
    cd ../openssl || exit 1
    CC="musl-gcc -idirafter $at/headers" ./Configure no-shared no-tests no-asm no-engine no-dso no-secure-memory \
      "linux-$(uname -m)" >../openssl.log 2>&1 && make -s -j"$(nproc)" build_libs >>../openssl.log 2>&1
  ) || { tail -n 5 "$at/openssl.log" 2>/dev/null; return 1; }
}

passed=0 failed=0 skipped=0
# NAME COMPILER RUN TESTS
run() {
  local name=$1 cc=$2 run=$3 tests=$4 variant=${5:-plain} p f s
  [ -z "${T:-}" ] || tests=$(grep -Fx "${T// /$'\n'}" <<<"$tests")
  echo "== $name"
  rm -f "$top/$name/result"
  RUN=$run make --no-print-directory -s -C tests/c -j"$(nproc)" OUT="$top/$name/build" VARIANTS="$variant" CC="$cc" T="${tests//$'\n'/ }" \
    RESULT="$top/$name/result" test 2>&1 | grep -v '^  cc '
  [ -e "$top/$name/result" ] || echo "0 1 0" >"$top/$name/result"
  read -r p f s <"$top/$name/result"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

for name in $wanted; do
  mkdir -p "$top/$name"
  case $name in
  i386)
    need gcc-i686-linux-gnu libc6-dev-i386-cross
    openssl_of i386 || exit 1
    at=$top/i386/openssl/usr
    # the registers that this processor has: the old ones compute with more digits than numbers have in memory
    run i386 "i686-linux-gnu-gcc -msse2 -mfpmath=sse -Wno-psabi -isystem $at/include -isystem $at/include/i386-linux-gnu \
      -L$at/lib/i386-linux-gnu -Wl,-rpath=/usr/i686-linux-gnu/lib:$at/lib/i386-linux-gnu \
      -Wl,--dynamic-linker=/usr/i686-linux-gnu/lib/ld-linux.so.2" "" "$all"
    ;;
  s390x)
    need qemu-user gcc-s390x-linux-gnu libc6-dev-s390x-cross
    openssl_of s390x || exit 1
    at=$top/s390x/openssl/usr
    run s390x "s390x-linux-gnu-gcc -isystem $at/include -isystem $at/include/s390x-linux-gnu -L$at/lib/s390x-linux-gnu \
      -Wl,-rpath=/usr/s390x-linux-gnu/lib:$at/lib/s390x-linux-gnu" "qemu-s390x -L /usr/s390x-linux-gnu" \
      "$(grep -vFx "${not_emulated// /$'\n'}" <<<"$all")"
    ;;
  musl)
    need musl-tools
    openssl_for_musl || exit 1
    at=$top/musl
    run musl "musl-gcc -isystem $at/openssl/include -idirafter $at/headers -L$at/openssl" "" "$all"
    ;;
  clang)
    need clang
    need "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
    run clang clang "" "$all" sanitized
    ;;
  *) echo "i386, s390x, musl or clang?" >&2; exit 2 ;;
  esac
done
echo "$passed passed, $failed failed$([ $skipped = 0 ] || echo ", $skipped skipped")"
[ $failed = 0 ]
