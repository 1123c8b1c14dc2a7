/* Pipes with a name, see core/base/os-pipes.h. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif
#include "core/base/os-pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* It is opened to be written, too: there is always a writer, so its end is never seen. */
int clu_os_waker_new(const char *path, clu_fd *fd, clu_err *e) {
  int f, err;
  unlink(path);
  f = mkfifo(path, 0600) == 0 ? open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
  if (f >= 0) {
    *fd = f;
    return CLU_OK;
  }
  err = errno;
  unlink(path);
  return clu_fail(e, err == EMFILE || err == ENFILE ? CLU_LIMIT : CLU_SYS, err,
                  "the pipe %s cannot be made: %s", path, strerror(err));
}

void clu_os_waker_remove(const char *path) { unlink(path); }

/* The path was read from memory that others write to: it may be any file's, and to open some of
 * them has effects. It is opened to be read, too: else a reader that ends at this moment would mean
 * SIGPIPE. A pipe that is full wakes its reader already. */
void clu_os_waker_wake(const char *path) {
  struct stat st;
  ssize_t ignored;
  int f;
  if (lstat(path, &st) != 0 || !S_ISFIFO(st.st_mode) || st.st_uid != geteuid()) return;
  f = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (f < 0) return;
  ignored = write(f, "", 1);
  (void)ignored;
  close(f);
}

void clu_os_waker_empty(clu_fd fd) {
  char some[256];
  while (read((int)fd, some, sizeof some) == sizeof some) continue;
}
