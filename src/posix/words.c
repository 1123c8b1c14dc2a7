#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "core/base/os-words.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "posix/features.h"

#if defined(CLU_HAVE_FUTEX)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

/* A path in /proc is a link to the file. */
#if defined(CLU_HAVE_MEMFD)
#define OPEN_ALSO 0
#else
#define OPEN_ALSO O_NOFOLLOW
#endif

static int file_may_have(uint64_t n) {
  struct rlimit r;
  return getrlimit(RLIMIT_FSIZE, &r) != 0 || r.rlim_cur == RLIM_INFINITY || n <= r.rlim_cur;
}

static int open_new(const char *folder, char *path, size_t cap) {
#if defined(CLU_HAVE_MEMFD)
  int f = memfd_create("clutch", MFD_CLOEXEC);
  (void)folder;
  if (f >= 0) snprintf(path, cap, "/proc/%ld/fd/%d", (long)getpid(), f);
  return f;
#else
  int f = -1, n = snprintf(path, cap, "%s/mesh-XXXXXX", folder);
  if (n > 0 && (size_t)n < cap && (f = mkstemp(path)) >= 0) fcntl(f, F_SETFD, FD_CLOEXEC);
  return f;
#endif
}

int clu_os_common_new(uint64_t n, const char *folder, clu_fd *fd, char *path, size_t cap,
                      clu_err *e) {
  int f;
  if (!file_may_have(n)) /* else SIGXFSZ ends the process */
    return clu_fail(e, CLU_LIMIT, EFBIG, "%lu bytes are more than a file may have (ulimit -f)",
                    (unsigned long)n);
  f = open_new(folder, path, cap);
  if (f < 0 || ftruncate(f, (off_t)n) != 0) {
    int err = errno;
    if (f >= 0) {
      clu_os_common_remove(path);
      close(f);
    }
    return clu_fail(e, err == EFBIG ? CLU_LIMIT : CLU_SYS, err, "shared memory cannot be made: %s",
                    strerror(err));
  }
  *fd = f;
  return CLU_OK;
}

void clu_os_common_remove(const char *path) {
#if defined(CLU_HAVE_MEMFD)
  (void)path;
#else
  unlink(path);
#endif
}

/* It may be any file by now: it is looked at before it is opened, since to open a pipe or a
 * terminal has effects there. */
static int is_ours(const char *path, const char *name) {
#if defined(CLU_HAVE_MEMFD)
  char to[32];
  size_t n = strlen(name);
  return n <= sizeof to && readlink(path, to, sizeof to) >= (ssize_t)n && memcmp(to, name, n) == 0;
#else
  (void)path;
  (void)name;
  return 1;
#endif
}

int clu_os_common_open(const char *path, uint64_t n, clu_fd *fd, clu_err *e) {
  struct stat st;
  int f = -1;
  errno = ENOENT;
  if (is_ours(path, "/memfd:clutch "))
    f = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | OPEN_ALSO);
  if (f >= 0 && (fstat(f, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
                 (uint64_t)st.st_size != n)) {
    close(f);
    f = -1;
    errno = EPERM;
  }
  if (f < 0)
    return clu_fail(e, CLU_SYS, errno, "the shared memory is not there: %s", strerror(errno));
  *fd = f;
  return CLU_OK;
}

int clu_os_common_map(clu_fd fd, uint64_t at, size_t n, void **p, clu_err *e) {
  *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, (off_t)at);
  if (*p == MAP_FAILED)
    return clu_fail(e, CLU_NOMEM, errno, "shared memory cannot be mapped: %s", strerror(errno));
  return CLU_OK;
}

int clu_os_segment_of(clu_pid pid, clu_fd fd, clu_fd *out) {
#if defined(CLU_HAVE_MEMFD) && defined(CLU_HAVE_PROC)
  char path[64];
  int f;
  snprintf(path, sizeof path, "/proc/%ld/fd/%ld", (long)pid, (long)fd);
  if (!is_ours(path, "/memfd:clutch-data ")) return CLU_SYS;
  f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (f < 0) return CLU_SYS;
  *out = f;
  return CLU_OK;
#else
  (void)pid;
  (void)fd;
  (void)out;
  return CLU_UNSUPPORTED;
#endif
}

#if defined(CLU_HAVE_FUTEX)

void clu_os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns) {
  struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

void clu_os_word_wake(_Atomic uint32_t *word, int all) {
  syscall(SYS_futex, word, FUTEX_WAKE, all ? INT_MAX : 1, NULL, NULL, 0);
}

#else

/* Looks after 20 us, and then after a tenth of the time that has passed, at most every ms. */
void clu_os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns) {
  uint64_t began = clu_os_now(), spent;
  while (atomic_load(word) == value && (spent = clu_os_now() - began) < ns) {
    uint64_t nap = spent / 10;
    struct timespec t = {0, 0};
    if (nap < 20000) nap = 20000;
    if (nap > 1000000) nap = 1000000;
    if (nap > ns - spent) nap = ns - spent;
    t.tv_nsec = (long)nap;
    if (nanosleep(&t, NULL) != 0) return;
  }
}

void clu_os_word_wake(_Atomic uint32_t *word, int all) {
  (void)word;
  (void)all;
}

#endif
