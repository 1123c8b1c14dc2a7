# Waits until the standard input ends, as it does with ssh, or with the session.
# shellcheck shell=sh disable=SC2034
while read -r l; do
  :
done
