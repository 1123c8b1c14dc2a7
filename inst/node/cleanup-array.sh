# Runs its arguments, which submit an array of @tasks@ jobs. Does as cleanup.sh when it gets SIGTERM,
# and when its standard input ends, which the session keeps open. Words there are numbers of tasks
# that are not needed any more; those of a line are cancelled together. When none is left it ends.
# shellcheck shell=sh
left=@tasks@
gone=" "
is_over=
end() {
  trap '' TERM
  @at_end@
  exit 0
}
trap 'is_over=1' TERM
job=$("$@" </dev/null) || exit
echo "$job"
job=$(echo "$job" | tail -n 1)
trap end TERM
[ -z "$is_over" ] || end
while [ "$left" -gt 0 ] && read -r tasks; do
  some=
  for task in $tasks; do
    case $gone in *" $task "*) continue ;; esac
    gone="$gone$task "
    some=$some,$task
    left=$((left - 1))
  done
  some=${some#,}
  if [ -n "$some" ]; then
    @some@
  fi
done
end
