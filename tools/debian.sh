#!/usr/bin/env bash
# Sourced by the programs that install Debian's packages: whether this can be done here, and doing it.
#   debian, root: 1 or 0          apt_install PACKAGE...: its exit status is that of apt-get
# shellcheck disable=SC2034 # who sources it uses them
root=0; [ "$(id -u)" = 0 ] && root=1
debian=0
if command -v apt-get >/dev/null && grep -qiE '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release 2>/dev/null; then
  debian=1
fi

updated=0
apt_install() {
  if [ $updated = 0 ]; then
    updated=1
    echo "apt-get update" >&2
    apt-get update -q >/dev/null </dev/null || echo "apt-get update failed; trying with the lists that are there" >&2
  fi
  echo "apt-get install $*" >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@" >/dev/null </dev/null
}
