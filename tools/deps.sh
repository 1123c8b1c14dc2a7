#!/usr/bin/env bash
# Installs what is missing to build, demonstrate and test the package; says nothing when all is there.
# 'deps.sh peers' also gets the packages that bench/ compares with, 'deps.sh vignettes' what builds these, 'deps.sh tests'
# what tests meet (an ssh daemon, Slurm, a packet filter, a terminal, other people's packages), 'deps.sh newer' newer versions of
# some of these, 'deps.sh adapters' the packages whose own tests run on clutch and what takes long to compile (shiny, otelsdk, targets), 'deps.sh models' those of tidymodels and mlr3
# that bench/models.R measures (ten minutes to compile), 'deps.sh site' what 'make site' builds with: as far as they can be
# had. The tests that need what is missing are skipped.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

say() { printf 'deps: %s\n' "$*" >&2; }
# One library for each R, since packages are built for it
newer_library=${XDG_CACHE_HOME:-$HOME/.cache}/clutch/library-$(Rscript -e 'cat(as.character(getRversion()))' 2>/dev/null)
if [ "${1:-}" = newer-library ]; then echo "$newer_library"; exit; fi
if [ -n "${CLUTCH_DEPS_DONE:-}" ]; then exit; fi # a step of 'make test', which has seen to it

# shellcheck source=tools/debian.sh
. tools/debian.sh

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

# ---- what cannot be had is not asked for again before 'make clean' ----
refused=.build/not-to-be-had
refuse() { mkdir -p .build; echo "$1" >>$refused; say "$1 cannot be had; going on without"; }
without_refused() {
  local w
  for w in "$@"; do grep -qsxF "$w" $refused || echo "$w"; done
}

# ---- pandoc, which makes pages of the vignettes; what R CMD check --as-cran asks for ----
if [[ " $* " = *" vignettes "* ]] && [ $debian = 1 ] && [ $root = 1 ]; then
  want=$(without_refused $(command -v qpdf >/dev/null || echo qpdf))
  if [ -n "$want" ]; then apt_install $want || refuse $want; fi
  # one script of a package that would bring 40 others along; tools/check.R looks for it here
  if ! command -v checkbashisms >/dev/null && [ ! -x .build/tools/checkbashisms ] && [ -n "$(without_refused checkbashisms)" ]; then
    mkdir -p .build/tools
    (cd .build/tools && apt-get download devscripts && dpkg -x devscripts_*.deb all && cp all/usr/bin/checkbashisms . &&
      rm -rf all devscripts_*.deb) >/dev/null 2>&1 </dev/null || refuse checkbashisms
  fi
fi
if [[ " $* " = *" vignettes "* ]] && ! command -v pandoc >/dev/null && [ -z "${RSTUDIO_PANDOC:-}" ]; then
  if [ $debian = 1 ] && [ $root = 1 ]; then
    apt_install pandoc || say "pandoc cannot be had from Debian; going on without"
  else
    say "pandoc is missing, without which the vignettes are neither built nor checked: install it by your system's means"
  fi
fi

# ---- programs that tests use: each with its Debian package ----
missing_programs() {
  local pair c
  for pair in sshd:openssh-server ssh:openssh-client ip:iproute2 iptables:iptables nft:nftables tcpdump:tcpdump \
    slurmctld:slurm-wlm tmux:tmux gdb:gdb script:bsdutils unshare:util-linux ps:procps clang-format:clang-format shellcheck:shellcheck chromium:chromium ccache:ccache; do
    c=${pair%%:*}
    command -v "$c" >/dev/null || [ -x "/usr/sbin/$c" ] || [ -x "/sbin/$c" ] || echo "${pair#*:}"
  done
}
# A daemon that is installed for tests is not started: they run one of their own.
start_no_daemon() {
  local policy=/usr/sbin/policy-rc.d rc
  if [ -e $policy ]; then "$@"; return; fi
  printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
  "$@"; rc=$?
  rm -f $policy
  if [ -d /run/systemd/system ]; then
    systemctl disable ssh.service ssh.socket slurmctld.service slurmd.service munge.service >/dev/null 2>&1
  fi
  return $rc
}
if [[ " $* " = *" tests "* ]]; then
  want=$(without_refused $(missing_programs))
  if [ -n "$want" ] && [ $debian = 1 ] && [ $root = 1 ]; then
    if ! start_no_daemon apt_install $want; then
      for n in $want; do start_no_daemon apt_install "$n" || refuse "$n"; done
    fi
  elif [ -n "$want" ]; then
    say "missing, so that some tests are skipped (Debian's names): $(echo $want)"
  fi
fi

# ---- what bench/ measures besides R packages: joblib and Dask, Open MPI, Erlang; Debian's ----
missing_peers() {
  local pair
  for pair in mpirun:openmpi-bin erlc:erlang-base; do
    command -v "${pair%%:*}" >/dev/null || echo "${pair#*:}"
  done
  for pair in joblib:python3-joblib distributed:python3-distributed; do
    /usr/bin/python3 -c "import ${pair%%:*}" 2>/dev/null || echo "${pair#*:}"
  done
}
if [[ " $* " = *" peers "* ]] && [ $debian = 1 ]; then
  want=$(without_refused $(missing_peers))
  if [ -n "$want" ] && [ $root = 1 ]; then
    for n in $want; do apt_install "$n" || refuse "$n"; done
  elif [ -n "$want" ]; then
    say "missing, so that some comparisons are left out (Debian's names): $(echo $want)"
  fi
fi

# ---- R packages ----
# One install at a time, of all checkouts. What an install has started has descriptor 9 as well: if the
# install was killed, the next one waits until these have ended.
#   one_at_a_time LOCK-FILE COMMAND [ARGUMENT ...]
one_at_a_time() {
  local file=$1
  shift
  if mkdir -p "$(dirname "$file")" 2>/dev/null && : 2>/dev/null >>"$file"; then
    (flock 9 2>/dev/null; "$@") 9>>"$file"
  else
    "$@"
  fi
}
r_packages() {
  local absent names p n kind
  absent=$(without_refused $(Rscript tools/deps.R missing "$@")) || return 1
  [ -n "$absent" ] || return 0
  if [ $root = 1 ] && debians_r; then
    names=
    for p in $absent; do
      case $p in BiocParallel) kind=bioc ;; *) kind=cran ;; esac
      names="$names r-$kind-$(echo "$p" | tr 'A-Z' 'a-z')"
    done
    # peers are not all in Debian: one at a time, so that one does not stop the others
    if ! apt_install $names; then
      for n in $names; do apt_install "$n" || say "$n cannot be had from Debian"; done
    fi
    absent=$(without_refused $(Rscript tools/deps.R missing "$@")) || return 1
    [ -n "$absent" ] || return 0
  fi
  one_at_a_time "$(dirname "$newer_library")/library.lock" Rscript tools/deps.R install "$@" || return 1
  for p in $(without_refused $(Rscript tools/deps.R missing "$@")); do refuse "$p"; done
}
r_packages "$@" || exit 1

# Some tests want packages newer than Debian's: a later that waits for descriptors, a future whose
# backends can be extended. They get a library of their own, which all checkouts share: nothing else
# is to change. Its name is said by 'deps.sh newer-library'.
kind=
if [[ " $* " = *" newer "* ]]; then kind=newer; fi
if [[ " $* " = *" adapters "* ]]; then kind=adapters; fi
# otelsdk is compiled, with these (ten minutes on two processors)
if [ "$kind" = adapters ] && [ ! -e "$newer_library/otelsdk/Meta/package.rds" ] && [ $debian = 1 ] && [ $root = 1 ]; then
  want=$(without_refused cmake protobuf-compiler libprotobuf-dev libcurl4-openssl-dev)
  if [ -n "$want" ]; then apt_install $want || refuse $want; fi
fi
if [ -n "$kind" ] && [ -n "$(without_refused $kind)" ]; then
  one_at_a_time "$newer_library.lock" Rscript tools/deps.R newer "$newer_library" "$kind" || refuse $kind
fi
if [[ " $* " = *" models "* ]] && [ -n "$(without_refused models)" ]; then
  models_library=${newer_library/library-/models-}
  one_at_a_time "$models_library.lock" Rscript tools/deps.R models "$models_library" "$newer_library" || refuse models
fi
