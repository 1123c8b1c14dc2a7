#include "core/base/os-mutex.h"

int clu_os_mutex_new(clu_os_mutex *m, clu_err *e) {
  (void)m;
  return clu_fail(e, CLU_UNSUPPORTED, 0,
                  "a mutex of several processes is not available on Windows");
}

int clu_os_mutex_take(clu_os_mutex *m, clu_fd fd, uint64_t ns, clu_pid me, clu_pid *before) {
  (void)m;
  (void)me;
  (void)before;
  (void)fd;
  (void)ns;
  return CLU_UNSUPPORTED;
}

void clu_os_mutex_give(clu_os_mutex *m, clu_fd fd, clu_pid me) {
  (void)m;
  (void)me;
  (void)fd;
}
