#include "core/base/process.h"

#include "core/base/os-machine.h"

int clu_process_is_gone(clu_pid pid) {
  char state = clu_os_process_state((int64_t)pid);
  return state == 'Z' || state == 'X' || clu_os_kill(pid, 0, 0) != 0;
}
