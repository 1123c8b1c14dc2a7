# Cancels the tasks $some of array $job, as slurm-cancel.sh: at once those that wait.
# shellcheck shell=sh disable=SC2154
tasks="${job%%;*}_[$some]"
scancel --quiet --state=PENDING "$tasks" 2>/dev/null
(sleep 2 && scancel --quiet "$tasks" 2>/dev/null) &
