/* Files on a disk. */
#define _GNU_SOURCE
#include "core/base/os-files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "posix/fd.h"

static int failed(clu_err *e, const char *what) {
  return clu_fail(e, CLU_SYS, errno, "%s: %s", what, strerror(errno));
}

int clu_os_file_open(const char *path, int mode, clu_fd *fd, clu_err *e) {
  int flags = mode == CLU_FILE_READ ? O_RDONLY : O_RDWR | O_CREAT, f;
  if (mode == CLU_FILE_NEW) flags |= O_EXCL;
  do f = open(path, flags | O_CLOEXEC, 0600);
  while (f < 0 && errno == EINTR);
  if (f < 0 && errno == EEXIST) return clu_fail(e, CLU_IN_USE, errno, "it is there already");
  if (f < 0) return failed(e, "it cannot be opened");
  *fd = f;
  return CLU_OK;
}

void clu_os_file_close(clu_fd fd) {
  if (fd != CLU_NO_FD) close((int)fd);
}

int clu_os_file_size(clu_fd fd, uint64_t *size) {
  struct stat st;
  if (fstat((int)fd, &st) != 0) return CLU_SYS;
  *size = (uint64_t)st.st_size;
  return CLU_OK;
}

int clu_os_file_is_removed(clu_fd fd) {
  struct stat st;
  return fstat((int)fd, &st) == 0 && st.st_nlink == 0;
}

int clu_os_file_read(clu_fd fd, uint64_t at, void *p, size_t n) {
  unsigned char *to = p;
  while (n > 0) {
    ssize_t k = pread((int)fd, to, n < CLU_MOST_AT_ONCE ? n : CLU_MOST_AT_ONCE, (off_t)at);
    if (k == 0) return CLU_EOF;
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return CLU_SYS;
    to += k;
    at += (uint64_t)k;
    n -= (size_t)k;
  }
  return CLU_OK;
}

/* How many of these bytes are within the length that a file may have (ulimit -f). One more, and
 * SIGXFSZ ends the process. */
static size_t within_limit(uint64_t at, size_t n) {
  struct rlimit r;
  if (getrlimit(RLIMIT_FSIZE, &r) != 0 || r.rlim_cur == RLIM_INFINITY) return n;
  if (at >= r.rlim_cur) return 0;
  return n < r.rlim_cur - at ? n : (size_t)(r.rlim_cur - at);
}

int clu_os_file_write(clu_fd fd, uint64_t at, const void *p, size_t n, clu_err *e) {
  const unsigned char *from = p;
  size_t rest = n - within_limit(at, n);
  n -= rest;
  while (n > 0) {
    ssize_t k = pwrite((int)fd, from, n < CLU_MOST_AT_ONCE ? n : CLU_MOST_AT_ONCE, (off_t)at);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return failed(e, "it cannot be written to");
    from += k;
    at += (uint64_t)k;
    n -= (size_t)k;
  }
  if (rest == 0) return CLU_OK;
  errno = EFBIG;
  return failed(e, "it cannot be written to");
}

int clu_os_file_cut(clu_fd fd, uint64_t size) {
  int rc;
  do rc = ftruncate((int)fd, (off_t)size);
  while (rc != 0 && errno == EINTR);
  return rc == 0 ? CLU_OK : CLU_SYS;
}

/* fdatasync() is POSIX's option; macOS has it, but does not declare it. */
int clu_os_file_sync(clu_fd fd, clu_err *e) {
  int rc;
  do
#if defined(_POSIX_SYNCHRONIZED_IO) && _POSIX_SYNCHRONIZED_IO > 0
    rc = fdatasync((int)fd);
#else
    rc = fsync((int)fd);
#endif
  while (rc != 0 && errno == EINTR);
  /* what cannot be synchronized (a pipe, some network's file) is as safe as it gets */
  if (rc == 0 || errno == EINVAL || errno == ENOTSUP) return CLU_OK;
  return failed(e, "it cannot be synchronized with the disk");
}

int clu_os_file_touch(const char *path) { return utimes(path, NULL) == 0 ? CLU_OK : CLU_SYS; }

void clu_os_file_remove(const char *path) { unlink(path); }

#if defined(CLU_HAVE_MTIMESPEC)
#define TIME_OF(st, which) ((st).st_##which##timespec)
#else
#define TIME_OF(st, which) ((st).st_##which##tim)
#endif

static int64_t ns_of(struct timespec t) {
  return (int64_t)t.tv_sec * 1000000000 + (int64_t)t.tv_nsec;
}

int clu_os_file_stamp(const char *path, clu_file_stamp *out) {
  struct stat st;
  if (stat(path, &st) != 0) return CLU_SYS;
  out->device = (uint64_t)st.st_dev;
  out->number = (uint64_t)st.st_ino;
  out->size = (uint64_t)st.st_size;
  out->modified = ns_of(TIME_OF(st, m));
  out->changed = ns_of(TIME_OF(st, c));
  return CLU_OK;
}

double clu_os_date(void) {
  struct timeval t;
  gettimeofday(&t, NULL);
  return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}
