# Cancels job $job: at once while it waits. A job that runs gets a moment to end by itself.
# shellcheck shell=sh disable=SC2034
job=${job%%;*}
scancel --quiet --state=PENDING "$job" 2>/dev/null
for k in 1 2 3 4 5 6 7 8 9 10; do
  [ -n "$(squeue -h -j "$job" -t RUNNING -o %i 2>/dev/null)" ] || break
  sleep 0.2
done
scancel --quiet "$job" 2>/dev/null
