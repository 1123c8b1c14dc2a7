#include "core/base/os-words.h"

int clu_os_common_new(uint64_t n, const char *folder, clu_fd *fd, char *path, size_t cap,
                      clu_err *e) {
  (void)n;
  (void)folder;
  (void)fd;
  (void)path;
  (void)cap;
  return clu_fail(e, CLU_UNSUPPORTED, 0, "shared memory by a path is not available on Windows");
}

void clu_os_common_remove(const char *path) { (void)path; }

int clu_os_common_open(const char *path, uint64_t n, clu_fd *fd, clu_err *e) {
  (void)path;
  (void)n;
  (void)fd;
  return clu_fail(e, CLU_UNSUPPORTED, 0, "shared memory by a path is not available on Windows");
}

int clu_os_common_map(clu_fd fd, uint64_t at, size_t n, void **p, clu_err *e) {
  (void)fd;
  (void)at;
  (void)n;
  (void)p;
  return clu_fail(e, CLU_UNSUPPORTED, 0, "shared memory by a path is not available on Windows");
}

int clu_os_segment_of(clu_pid pid, clu_fd fd, clu_fd *out) {
  (void)pid;
  (void)fd;
  (void)out;
  return CLU_UNSUPPORTED;
}

void clu_os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns) {
  uint64_t began = clu_os_now();
  while (atomic_load(word) == value && clu_os_now() - began < ns) clu_os_pause(1000000);
}

void clu_os_word_wake(_Atomic uint32_t *word, int all) {
  (void)word;
  (void)all;
}
