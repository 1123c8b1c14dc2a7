/* Locks of files, in a folder that only its owner can use. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/os.h"

/* Somebody else may have been there first, or have put a link there. */
static int is_own_folder(const char *path) {
  struct stat st;
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return 0;
  if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return 0;
  return st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

int clu_os_lock_file(const char *under, const char *name, int i, clu_fd *fd) {
  char path[1024];
  int n = snprintf(path, sizeof path, "%s/%s-%ld", under, name, (long)geteuid()), f, err;
  if (n < 0 || (size_t)n + 16 > sizeof path || !is_own_folder(path)) return CLU_SYS;
  snprintf(path + n, sizeof path - (size_t)n, "/%d", i);
  f = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (f < 0) return CLU_SYS;
  /* of the open file: a child that shares it shares the lock, and it goes with the last of them */
  if (flock(f, LOCK_EX | LOCK_NB) == 0) {
    *fd = f;
    return CLU_OK;
  }
  err = errno;
  close(f);
  return err == EWOULDBLOCK ? CLU_AGAIN : CLU_SYS;
}
