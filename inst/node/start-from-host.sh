# Runs the command that starts another host, with the same standard input. It says so when the
# command fails, and ends the command when it is told to end itself. Some shells have the null
# device as the input of what runs in the background: so descriptor 4 has this shell's. Descriptor 3
# belongs to the shell, so that what it starts does not find the end of its standard input.
# shellcheck shell=sh
exec 4<&0
trap 'kill $p; exit' TERM
@command@ <&4 4<&- 3>&- & p=$!
wait $p || echo @failure@ >&2
