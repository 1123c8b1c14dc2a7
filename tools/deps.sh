#!/usr/bin/env bash
# Installs what is missing to build, demonstrate and test the package; says nothing when all is there.
# 'deps.sh peers' also gets the packages that bench/ compares with, 'deps.sh vignettes' what builds these, as far as
# they can be had.
set -uo pipefail
cd "$(dirname "$0")/.."

say() { printf 'deps: %s\n' "$*" >&2; }
root=0; [ "$(id -u)" = 0 ] && root=1
debian=0
if command -v apt-get >/dev/null && grep -qiE '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release 2>/dev/null; then
  debian=1
fi

updated=0
apt_install() {
  if [ $updated = 0 ]; then
    updated=1
    say "apt-get update"
    apt-get update -q >/dev/null </dev/null || say "apt-get update failed; trying with the lists that are there"
  fi
  say "apt-get install $*"
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@" >/dev/null </dev/null
}

# ---- system: R with its headers, a compiler, make ----
missing_system() {
  local c
  command -v R >/dev/null || echo R
  for c in make gcc; do command -v $c >/dev/null || echo $c; done
  if command -v R >/dev/null && [ ! -e "$(R --vanilla --no-echo -e 'cat(R.home("include"))' 2>/dev/null)/R.h" ]; then
    echo "R's headers"
  fi
  if command -v gcc >/dev/null && ! echo '#include <stdio.h>' | gcc -E - >/dev/null 2>&1; then echo "the C library's headers"; fi
  if command -v gcc >/dev/null && ! echo '#include <openssl/hmac.h>' | gcc -E - >/dev/null 2>&1; then echo "OpenSSL's headers"; fi
}
# Debian's packages are of use to Debian's R only; another R has its own headers and library.
debians_r() {
  [ $debian = 1 ] && { ! command -v R >/dev/null || dpkg -S "$(readlink -f "$(command -v R)")" >/dev/null 2>&1; }
}

missing=$(missing_system)
if [ -n "$missing" ]; then
  if debians_r; then want="r-base-dev libssl-dev"; else want="build-essential libssl-dev"; fi
  if [ $debian = 1 ] && [ $root = 1 ]; then
    apt_install $want || { say "apt-get could not install $want"; exit 1; }
    missing=$(missing_system)
  elif [ $debian = 1 ]; then
    say "missing: $(echo $missing). Install it with: sudo apt-get install $want"
    exit 1
  fi
  if [ -n "$missing" ]; then
    say "missing: $(echo $missing). Install R (>= 4.2) with its headers, gcc (or clang as gcc) and make, and OpenSSL's headers, by your system's means."
    exit 1
  fi
fi

# ---- pandoc, which makes pages of the vignettes ----
if [[ " $* " = *" vignettes "* ]] && ! command -v pandoc >/dev/null && [ -z "${RSTUDIO_PANDOC:-}" ]; then
  if [ $debian = 1 ] && [ $root = 1 ]; then
    apt_install pandoc || say "pandoc cannot be had from Debian; going on without"
  else
    say "pandoc is missing, without which the vignettes are neither built nor checked: install it by your system's means"
  fi
fi

# ---- R packages ----
absent=$(Rscript tools/deps.R missing "$@") || exit 1
[ -n "$absent" ] || exit 0
if [ $root = 1 ] && debians_r; then
  names=
  for p in $absent; do names="$names r-cran-$(echo "$p" | tr 'A-Z' 'a-z')"; done
  # peers are not all in Debian: one at a time, so that one does not stop the others
  if ! apt_install $names; then
    for n in $names; do apt_install "$n" || say "$n cannot be had from Debian"; done
  fi
  absent=$(Rscript tools/deps.R missing "$@") || exit 1
  [ -n "$absent" ] || exit 0
fi
Rscript tools/deps.R install "$@"
