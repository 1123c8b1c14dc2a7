#include "core/base/process.h"

#include "core/base/os-machine.h"

/* Nothing of a process can be read either where this one has no descriptor left for it. */
static int has_ended(clu_pid pid) {
  return clu_os_process_state((int64_t)clu_os_getpid()) != 0 &&
         clu_os_process_state((int64_t)pid) == 0;
}

int clu_process_is_gone(clu_pid pid) { return clu_os_kill(pid, 0, 0) != 0 || has_ended(pid); }
