# Runs its arguments from the second on, and stays for as long as the session, whose process id is
# the first. The last line that the command prints is the number of a job. When this shell gets
# SIGTERM, from the session, or from the system when the session has ended, however, it undoes what
# would be left. Where the system does not do that, this shell finds out itself that the session has
# ended.
# shellcheck shell=sh
session=$1
shift
nap=
is_over=
end() {
  trap '' TERM
  [ -z "$nap" ] || kill "$nap" 2>/dev/null
  @at_end@
  exit 0
}
trap 'is_over=1' TERM
job=$("$@") || exit
echo "$job"
job=$(echo "$job" | tail -n 1)
trap end TERM
[ -z "$is_over" ] || end
while kill -0 "$session" 2>/dev/null; do
  sleep 5 & nap=$!
  wait "$nap"
done
end
