#include "core/base/os-folders.h"
#include "core/supervisor/boot.h"

void clu_boot_await_end(const clu_boot *b) {
  const uint64_t step = 25000000;
  for (int i = 0; i < 200 && clu_os_getppid() == b->parent; i++) clu_os_pause(step);
  if (clu_os_getppid() == b->parent) return;
  clu_os_remove_tree(b->tmp);
  /* where the system does not send it: clu_os_on_term() removes the server's folder, too */
  clu_os_kill(clu_os_getpid(), CLU_SIG_TERM, 0);
}
