#include "core/base/os-segment.h"

int clu_os_segment_new(clu_fd fd[2]) {
  (void)fd;
  return CLU_UNSUPPORTED;
}

int clu_os_segment_write(clu_fd fd, uint64_t at, const void *p, size_t n) {
  (void)fd;
  (void)at;
  (void)p;
  (void)n;
  return CLU_UNSUPPORTED;
}

int clu_os_segment_write_by_two(clu_fd fd, uint64_t at, const void *p, size_t n) {
  return clu_os_segment_write(fd, at, p, n);
}

int clu_os_segment_read(clu_fd fd, uint64_t at, void *p, size_t n) {
  (void)fd;
  (void)at;
  (void)p;
  (void)n;
  return CLU_UNSUPPORTED;
}

int clu_os_segment_seal(clu_fd fd[2]) {
  (void)fd;
  return CLU_UNSUPPORTED;
}

int clu_os_segment_check(clu_fd fd, uint64_t *size) {
  (void)fd;
  (void)size;
  return CLU_PROTO;
}

int clu_os_segment_id(clu_fd fd, uint64_t id[2]) {
  (void)fd;
  (void)id;
  return CLU_SYS;
}

int clu_os_segment_map(clu_fd fd, size_t n, int *writable, void **p) {
  (void)fd;
  (void)n;
  (void)writable;
  (void)p;
  return CLU_NOMEM;
}

void clu_os_segment_unmap(void *p, size_t n) {
  (void)p;
  (void)n;
}

int clu_os_segment_is_unchanged(const void *p, size_t n) {
  (void)p;
  (void)n;
  return 0;
}

int clu_os_segment_may_be_many(void) { return 0; }

long clu_os_most_fds(void) { return 256; }
