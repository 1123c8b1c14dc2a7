/* Output to what others write to as well. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/os-output.h"
#include "posix/features.h"
#include "posix/net.h"

enum { PIECE = 4096 }; /* a pipe that is writable takes so much without a wait */

/* The name under which it can be opened anew. Without /proc only terminals have one. */
static int name_of(int fd, char *path, size_t n) {
#if defined(CLU_HAVE_PROC)
  struct stat st;
  if (fstat(fd, &st) != 0 || (!S_ISFIFO(st.st_mode) && !isatty(fd))) return -1;
  snprintf(path, n, "/proc/self/fd/%d", fd);
  return 0;
#else
  return isatty(fd) && ttyname_r(fd, path, n) == 0 ? 0 : -1;
#endif
}

/* Opened anew it is the same pipe or terminal, and has flags of its own. A terminal that is
 * writable may take a single byte, and the write of more waits until somebody reads. */
clu_fd clu_os_output_own(clu_fd fd) {
  char path[256];
  struct stat old, new;
  int own;
  if (name_of((int)fd, path, sizeof path) != 0) return fd;
  own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (own < 0) return fd;
  if (fstat((int)fd, &old) != 0 || fstat(own, &new) != 0 || old.st_ino != new.st_ino ||
      old.st_rdev != new.st_rdev) {
    close(own);
    return fd;
  }
  close((int)fd);
  return own;
}

/* Nothing raises SIGPIPE: it is blocked meanwhile, and taken away. */
static ssize_t write_quietly(int fd, const void *p, size_t n) {
  sigset_t broken, pending, before;
  ssize_t k;
  int err, other;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  sigpending(&pending);
  if (sigismember(&pending, SIGPIPE)) return write(fd, p, n);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  k = write(fd, p, n);
  err = errno;
  sigpending(&pending);
  if (k < 0 && err == EPIPE && sigismember(&pending, SIGPIPE)) sigwait(&broken, &other);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = err;
  return k;
}

int clu_os_output_write(clu_fd fd, const void *p, size_t n, size_t *put) {
  struct pollfd w = {(int)fd, POLLOUT, 0};
  int flags = fcntl((int)fd, F_GETFL);
  ssize_t k;
  *put = 0;
  if (poll(&w, 1, 0) == 0) return CLU_AGAIN;
  if (n > PIECE && flags >= 0 && !(flags & O_NONBLOCK)) n = PIECE;
  k = write_quietly((int)fd, p, n);
  if (k > 0) *put = (size_t)k;
  return k > 0 ? CLU_OK : k == 0 ? CLU_AGAIN : clu_net_transfer_code(errno);
}

static int append_all(int fd, const char *path, const void *p, size_t n, clu_err *e) {
  struct stat st;
  struct rlimit r;
  ssize_t k;
  int known = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  off_t at = known ? st.st_size : 0;
  if (known && getrlimit(RLIMIT_FSIZE, &r) == 0 && r.rlim_cur != RLIM_INFINITY &&
      (uint64_t)at + n > r.rlim_cur) /* else SIGXFSZ ends the process */
    return clu_fail(e, CLU_LIMIT, EFBIG, "cannot write to '%s': %s", path, strerror(EFBIG));
  do {
    k = write_quietly(fd, p, n);
  } while (k < 0 && errno == EINTR);
  if (k == (ssize_t)n) return CLU_OK;
  if (k < 0) return clu_fail(e, CLU_SYS, errno, "cannot write to '%s': %s", path, strerror(errno));
  if (known && fstat(fd, &st) == 0 && st.st_size == at + k && ftruncate(fd, at) != 0) errno = 0;
  return clu_fail(e, CLU_SYS, ENOSPC, "cannot write to '%s': %s", path, strerror(ENOSPC));
}

int clu_os_output_append(const char *path, const void *p, size_t n, clu_err *e) {
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
  int rc;
  if (fd < 0)
    return clu_fail(e, CLU_SYS, errno, "cannot open '%s' for output: %s", path, strerror(errno));
  rc = append_all(fd, path, p, n, e);
  close(fd);
  return rc;
}
