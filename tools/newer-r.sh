#!/usr/bin/env bash
# Runs the testthat suite on newer R's: Debian trixie's (R 4.5) and sid's (R 4.6, or what is the newest
# by then), each in a folder of its own, by chroot.
#
#   newer-r.sh [FILTER]        the tests
#   newer-r.sh --only-make     only the folders
#   newer-r.sh --check         'make check BRIEF=1'; logs are in .build/check-SUITE. The last line is "N passed, N failed",
#                              with ", N skipped" where there were such
#   newer-r.sh --run COMMAND   this in place of 'make test-r', in a copy of the checkout
#
# A folder is made once, by debootstrap from the mirror that apt is configured for on this
# machine, and kept for the next run (about 1.5 GB; remove it to have it made anew; sid's is made
# anew after 30 days). All mounts are made in a mount namespace of this run, so nothing stays
# mounted whatever ends it; a process namespace does the same for processes.
#
# CLUTCH_SUITES: others than "trixie sid". CLUTCH_ROOTS: where the folders are. CLUTCH_MIRROR: another
# mirror. CLUTCH_TEST_SECONDS, FILTER: as of 'make test-r'.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'test-newer-r: %s\n' "$*" >&2; exit 1; }

suites=${CLUTCH_SUITES:-trixie sid}
trusted=/etc/ssl/certs/ca-certificates.crt
roots=${CLUTCH_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/clutch}
# what the tests need besides is installed in there by tools/deps.sh
packages="make r-base-dev libssl-dev r-cran-testthat r-cran-cli r-cran-survival r-cran-boot r-cran-data.table"
only_make=0
if [ "${1:-}" = --only-make ]; then only_make=1; shift; fi
command='' check=0 counts=''
if [ "${1:-}" = --check ]; then command='exec make --no-print-directory check BRIEF=1' check=1; shift; fi
if [ "${1:-}" = --run ]; then command=$2; shift 2; fi
filter=${1:-}

[ "$(uname -s)" = Linux ] || die "needs Linux (debootstrap, chroot)"
[ "$(id -u)" = 0 ] || die "needs root (debootstrap, chroot, mount): run it as 'sudo make test-newer-r'"
command -v unshare >/dev/null || die "needs 'unshare' of util-linux"
unshare -m -p --fork true 2>/dev/null ||
  die "no mount namespace can be made here (CAP_SYS_ADMIN is missing, as in an unprivileged container)"

# One line of a Debian archive that apt reads on this machine; never a name written down here.
mirror() {
  if [ -n "${CLUTCH_MIRROR:-}" ]; then echo "$CLUTCH_MIRROR"; return; fi
  command -v apt-get >/dev/null || return 0
  apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk '$1 == "Debian" && $2 == "main" && $3 !~ /security/ { print $3; exit }'
}

make_root() {
  local from
  if ! command -v debootstrap >/dev/null; then
    command -v apt-get >/dev/null || die "needs 'debootstrap', and there is no apt-get to install it"
    echo "installing debootstrap"
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends debootstrap; } \
      >/dev/null </dev/null || die "needs 'debootstrap', and apt-get could not install it"
  fi
  from=$(mirror)
  if [ -z "$from" ] && [ -z "${CLUTCH_MIRROR:-}" ] && command -v apt-get >/dev/null; then
    apt-get update -q >/dev/null </dev/null || true # without its lists apt cannot tell its mirror
    from=$(mirror)
  fi
  [ -n "$from" ] || die "apt on this machine reads no Debian archive: name one in CLUTCH_MIRROR"

  echo "making $root (once, about a minute)"
  rm -rf --one-file-system "$root"
  mkdir -p "$root"
  debootstrap --variant=minbase "$suite" "$root" "$from" >"$root.log" 2>&1 </dev/null || {
    tail -n 20 "$root.log" >&2
    die "debootstrap could not get Debian $suite (log: $root.log)"
  }
  # How apt reaches the mirror (proxies, old snapshots) holds in there, too.
  apt-config dump Acquire >"$root/etc/apt/apt.conf.d/90host" 2>/dev/null || true
  for f in resolv.conf hosts; do
    if [ -e "/etc/$f" ]; then rm -f "$root/etc/$f"; cat "/etc/$f" >"$root/etc/$f"; fi
  done
  within sh -c "apt-get update -q && apt-get install -qy --no-install-recommends $packages && apt-get clean" \
    >>"$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    die "R could not be installed in $root (log: $root.log)"
  }
  touch "$root/.complete"
}

# A command in the folder, with /proc and /dev, in namespaces that end with it.
within() {
  unshare -m -p --fork --kill-child --propagation private bash -c '
    set -e
    root=$1; shift
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    [ -z "${CLUTCH_BIND:-}" ] || { mkdir -p "$root/clutch"; mount --bind "$CLUTCH_BIND" "$root/clutch"; }
    # not exec: this shell is process 1 in there and takes in orphans, which make would leave as zombies
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
      DEBIAN_FRONTEND=noninteractive CI="${CI:-}" CLUTCH_FAST_TESTS="${CLUTCH_FAST_TESTS:-}" \
      CLUTCH_TEST_SECONDS="${CLUTCH_TEST_SECONDS:-}" "$@"
    exit $?
  ' within "$root" "$@" </dev/null
}

use_suite() {
  suite=$1
  root=$roots/r-$suite
  # a folder of an unstable suite gets old: what it would install is no longer there
  if [ "$suite" = sid ] && [ -n "$(find "$root/.complete" -mtime +30 2>/dev/null)" ]; then rm -f "$root/.complete"; fi
  [ -e "$root/.complete" ] || make_root
  # What this machine trusts holds in there, too: without it CRAN cannot be reached, and tests are skipped.
  if [ -r "$trusted" ]; then
    mkdir -p "$root$(dirname "$trusted")"
    cat "$trusted" >"$root$trusted"
  fi
}

# The logs of a check, and what it has counted; a check without a count has failed.
keep_check() { # FROM TO
  rm -rf "$2"
  mkdir -p "$2"
  cp "$1"/check/log.txt "$1"/check/clutch.Rcheck/*.log "$1"/check/clutch.Rcheck/tests/*.Rout* "$2" 2>/dev/null || true
  counts+=$(cat "$1/results/check" 2>/dev/null || echo 0 1 0)$'\n'
}

if [ $only_make = 1 ]; then
  for s in $suites; do
    use_suite "$s"
    within Rscript -e 'cat(R.version.string, "\n")'
  done
  exit
fi

CLUTCH_TREE=$(mktemp -d)
trap 'rm -rf "$CLUTCH_TREE"' EXIT
failed=
for s in $suites; do
  use_suite "$s"
  # each suite compiles in a copy of its own
  rm -rf "${CLUTCH_TREE:?}/$s"
  mkdir "$CLUTCH_TREE/$s"
  tar -cf - --exclude=./.git --exclude=./.build --exclude=./tests/c/build --exclude='*.o' --exclude='*.so' . |
    tar -xf - -C "$CLUTCH_TREE/$s"
  echo; echo "== Debian $s"
  CLUTCH_BIND=$CLUTCH_TREE/$s within sh -c \
    'cd /clutch && Rscript -e "cat(R.version.string, \"\n\")" || exit 1
     if [ -n "$2" ]; then eval "$2"; else exec make --no-print-directory test-r FILTER="$1"; fi' \
    sh "$filter" "$command" || failed="$failed $s"
  [ $check = 0 ] || keep_check "$CLUTCH_TREE/$s/.build" ".build/check-$s"
done
[ $check = 0 ] || awk '{ p += $1; f += $2; s += $3 } END { print p " passed, " f " failed" (s ? ", " s " skipped" : "") }' <<<"$counts"
[ -z "$failed" ] || die "failed on:$failed"
