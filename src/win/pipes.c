#include "core/base/os-pipes.h"

int clu_os_waker_new(const char *path, clu_fd *fd, clu_err *e) {
  (void)path;
  (void)fd;
  return clu_fail(e, CLU_UNSUPPORTED, 0, "pipes with a name are not available on Windows");
}

void clu_os_waker_remove(const char *path) { (void)path; }

void clu_os_waker_wake(const char *path) { (void)path; }

void clu_os_waker_empty(clu_fd fd) { (void)fd; }
