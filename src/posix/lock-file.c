/* Locks of files, in a folder that only its owner can use. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/os-lock.h"

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

/* ---- folders that are in use ---- */

enum { MARK = 128 };
#define MARK_NAME "clutch-in-use"

/* This start of this machine, and the file system as it is mounted here: a folder that several
 * machines share may be in use on another one, whose locks may not be seen here. */
static int mark_of(const struct stat *st, char out[MARK]) {
  char boot[64] = "";
  int f = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t n = f < 0 ? -1 : read(f, boot, sizeof boot - 1);
  if (f >= 0) close(f);
  if (n < 32) return 0;
  boot[strcspn(boot, "\n")] = 0;
  snprintf(out, MARK, "%s %llx\n", boot, (unsigned long long)st->st_dev);
  return 1;
}

/* Nobody but this user can have put anything there. */
static int is_private(const char *folder, struct stat *st) {
  return lstat(folder, st) == 0 && S_ISDIR(st->st_mode) && st->st_uid == geteuid() &&
         (st->st_mode & 022) == 0;
}

int clu_os_mark_folder(const char *folder, clu_fd *fd) {
  char from[1024], to[1024], mark[MARK];
  struct stat st;
  int f, n = snprintf(to, sizeof to, "%s/" MARK_NAME, folder);
  if (n < 0 || (size_t)n + 8 > sizeof to || !is_private(folder, &st)) return CLU_SYS;
  if (!mark_of(&st, mark)) return CLU_UNSUPPORTED;
  snprintf(from, sizeof from, "%.*s-new", n, to);
  f = open(from, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (f < 0) return CLU_SYS;
  /* it has its name when it is locked: before, it would look like that of a dead process */
  if (flock(f, LOCK_EX | LOCK_NB) == 0 && write(f, mark, strlen(mark)) == (ssize_t)strlen(mark) &&
      rename(from, to) == 0) {
    *fd = f;
    return CLU_OK;
  }
  close(f);
  unlink(from);
  return CLU_SYS;
}

int clu_os_claim_folder(const char *folder, clu_fd *fd) {
  char path[1024], mark[MARK], found[MARK];
  struct stat st, of;
  ssize_t got;
  int f, err, n = snprintf(path, sizeof path, "%s/" MARK_NAME, folder);
  if (n < 0 || (size_t)n >= sizeof path || !is_private(folder, &st) || !mark_of(&st, mark))
    return CLU_SYS;
  f = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (f < 0) return CLU_SYS;
  got = read(f, found, sizeof found);
  if (fstat(f, &of) != 0 || !S_ISREG(of.st_mode) || of.st_uid != geteuid() ||
      got != (ssize_t)strlen(mark) || memcmp(found, mark, (size_t)got) != 0) {
    close(f);
    return CLU_SYS;
  }
  if (flock(f, LOCK_EX | LOCK_NB) == 0) {
    *fd = f;
    return CLU_OK;
  }
  err = errno;
  close(f);
  return err == EWOULDBLOCK ? CLU_AGAIN : CLU_SYS;
}
