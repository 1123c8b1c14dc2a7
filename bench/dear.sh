#!/bin/sh
# Runs a command on a machine whose memory is dear: each page fault of any process takes some 16 us longer, as on virtual
# machines that hand memory over when it is touched. perf records every fault four times, with a copy of the process's
# stack, and throws the records away. What a page costs then is told by bench/first-touch.c (and so by bench/faults.R).
#
#   bench/dear.sh Rscript bench/starting.R --rows=many          (root; needs perf)
set -e
command -v perf > /dev/null || { echo "bench/dear.sh needs perf (Debian: linux-perf)" >&2; exit 1; }
exec perf record -q -a -e page-faults,page-faults,page-faults,page-faults -c 1 --call-graph dwarf,32768 -m 1M -o /dev/null -- "$@"
