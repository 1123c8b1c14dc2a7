# Waits until file $s is gone: the session has removed it. It may take a while until this host sees
# the file.
# shellcheck shell=sh disable=SC2154,SC2034
for i in 1 2 3 4 5 6 7 8 9; do
  [ -e "$s" ] || sleep 2
done
while [ -e "$s" ]; do
  sleep 1
done
