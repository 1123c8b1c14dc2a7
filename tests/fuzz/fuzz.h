/* All targets share this. Each target is one LLVMFuzzerTestOneInput(); see Makefile. */
#ifndef CLUTCH_FUZZ_H
#define CLUTCH_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/os.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define FUZZ_CHECK(cond)                                                   \
  do {                                                                     \
    if (!(cond)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
      abort();                                                             \
    }                                                                      \
  } while (0)

/* All of it: targets write no more at a time than a socket pair holds. */
static inline void fuzz_write(clu_fd fd, const uint8_t *p, size_t n) {
  while (n > 0) {
    clu_iov iov = {(void *)(uintptr_t)p, n};
    size_t put = 0;
    FUZZ_CHECK(clu_os_writev(fd, &iov, 1, NULL, 0, &put) == 0);
    p += put;
    n -= put;
  }
}

#endif
