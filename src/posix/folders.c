/* Folders, see core/base/os-folders.h. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/os-folders.h"
#include "core/base/os.h"

int clu_os_make_temp(const char *under, char *path, size_t cap, clu_err *e) {
  int n = snprintf(path, cap, "%s/RtmpXXXXXX", under);
  char *made;
  if (n < 0 || (size_t)n >= cap)
    return clu_fail(e, CLU_SYS, ENAMETOOLONG, "the path of the temporary folder is too long");
  made = mkdtemp(path);
  /* the one around it was deleted; mkdir() succeeds only if the new one is ours */
  if (!made && errno == ENOENT && mkdir(under, 0700) == 0) {
    snprintf(path, cap, "%s/RtmpXXXXXX", under);
    made = mkdtemp(path);
  }
  if (!made)
    return clu_fail(e, CLU_SYS, errno, "no temporary folder can be made in %s: %s", under,
                    strerror(errno));
  return CLU_OK;
}

int clu_os_make_folder(const char *path, clu_err *e) {
  struct stat st;
  char around[1024];
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) : 0;
  int rc = mkdir(path, 0700), err;
  if (rc != 0 && errno == ENOENT && n > 0 && n < sizeof around) {
    memcpy(around, path, n);
    around[n] = 0;
    mkdir(around, 0700); /* or another process does at this moment */
    rc = mkdir(path, 0700);
  }
  if (rc == 0) return CLU_OK;
  err = errno;
  if (err == EEXIST && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid())
    return CLU_OK;
  return clu_fail(e, CLU_SYS, err, "the temporary folder %s cannot be made: %s", path,
                  strerror(err));
}

int clu_os_take_folder(const char *old, const char *path) {
  if (rename(old, path) != 0) return CLU_SYS;
  return chmod(path, 0700) == 0 ? CLU_OK : CLU_SYS;
}

int clu_os_is_empty_folder(const char *path) {
  DIR *d = opendir(path);
  const struct dirent *f = NULL;
  if (!d) return 0;
  do f = readdir(d);
  while (f && (strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0));
  closedir(d);
  return f == NULL;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
  (void)st;
  (void)ftw;
  if (type == FTW_DNR) { /* a folder that its owner made unreadable */
    chmod(path, 0700);
    return 0;
  }
  if (remove(path) != 0 && errno == EACCES) {
    /* its parent is not writable: make it so, then once more */
    char parent[4096];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n > 0 && n < sizeof parent) {
      memcpy(parent, path, n);
      parent[n] = 0;
      chmod(parent, 0700);
      remove(path);
    }
  }
  return 0;
}

int clu_os_remove_tree(const char *path) {
  struct stat st;
  for (int tries = 0; tries < 3; tries++) {
    if (lstat(path, &st) != 0) return 0;
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  }
  return lstat(path, &st) == 0 ? -1 : 0;
}

#define FEW 64                     /* files, removed in less than a millisecond, */
#define LARGE (64l << 20)          /* if none is larger */
static _Thread_local int few_left; /* nftw() hands nothing to its function */

static int remove_one_of_few(const char *path, const struct stat *st, int type, struct FTW *ftw) {
  if (few_left-- <= 0 || (type == FTW_F && st->st_size > LARGE)) return 1;
  return remove_one(path, st, type, ftw);
}

int clu_os_remove_few(const char *path) {
  struct stat st;
  few_left = FEW;
  if (lstat(path, &st) == 0) nftw(path, remove_one_of_few, 16, FTW_DEPTH | FTW_PHYS);
  return lstat(path, &st) == 0;
}

/* By a shell and not by a fork: a fork would copy the page tables of a large session, and between
 * fork and exec in a process with threads there is no opendir(). The shell ends as soon as it has
 * started the removal, which so becomes a child of the system's first process. PATH may have been
 * emptied by the user. rm does not enter folders that their owner made unreadable. */
int clu_os_remove_in_background(const char *path) {
  static const char script[] =
      "PATH=$PATH:/usr/bin:/bin; "
      "{ rm -rf -- \"$1\" || { chmod -R u+rwx -- \"$1\"; rm -rf -- \"$1\"; }; } &";
  char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)script,
                  (char *)"sh",      (char *)path, NULL};
  clu_spawn s;
  clu_pid pid;
  clu_exit how = {0, 0};
  int rc;
  memset(&s, 0, sizeof s);
  s.file = argv[0];
  s.argv = argv;
  s.in = s.out = s.err = CLU_NO_FD;
  s.new_session = 1;
  if (clu_os_spawn(&s, &pid, NULL) != CLU_OK) return CLU_SYS;
  while ((rc = clu_os_reap(pid, 0, &how)) == CLU_AGAIN) clu_os_pause(200000);
  /* CLU_DEAD: somebody else has reaped it */
  return rc == CLU_DEAD || (!how.by_signal && how.code == 0) ? CLU_OK : CLU_SYS;
}
