/* This file sees to what the descendants of a process leave when their parents end: adoption, and
 * how they are told apart. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "posix/features.h"
#if defined(CLU_HAVE_PRCTL)
#include <sys/prctl.h>
#endif

#include "core/base/grow.h"
#include "core/base/os.h"

extern char **environ;

int clu_os_adopt_orphans(void) {
#if defined(CLU_HAVE_PRCTL) && defined(PR_SET_CHILD_SUBREAPER)
  return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 ? CLU_OK : CLU_UNSUPPORTED;
#else
  return CLU_UNSUPPORTED;
#endif
}

#if defined(CLU_HAVE_PROC)
static int add_pid(clu_pid **list, int *n, size_t *cap, clu_pid pid) {
  clu_pid *more = clu_grow(*list, cap, (size_t)*n + 1, sizeof *more);
  if (!more) return CLU_NOMEM;
  *list = more;
  (*list)[(*n)++] = pid;
  return CLU_OK;
}

static long long parent_of(const char *pid) {
  char path[300], text[512], *end;
  long long parent = -1;
  FILE *f;
  snprintf(path, sizeof path, "/proc/%s/stat", pid);
  if (!(f = fopen(path, "re"))) return -1;
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  if (!(end = strrchr(text, ')')) || sscanf(end + 1, " %*c %lld", &parent) != 1) return -1;
  return parent;
}

int clu_os_children(clu_pid **out, int *n) {
  char path[64];
  long long pid;
  size_t cap = 0;
  int rc = CLU_OK;
  FILE *f;
  *out = NULL;
  *n = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
  if ((f = fopen(path, "re"))) {
    while (rc == CLU_OK && fscanf(f, "%lld", &pid) == 1) rc = add_pid(out, n, &cap, pid);
    fclose(f);
  } else { /* a kernel built without that file */
    DIR *d = opendir("/proc");
    struct dirent *e;
    if (!d) return CLU_SYS;
    while (rc == CLU_OK && (e = readdir(d)))
      if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && parent_of(e->d_name) == getpid())
        rc = add_pid(out, n, &cap, atoll(e->d_name));
    closedir(d);
  }
  if (rc == CLU_OK) return CLU_OK;
  free(*out);
  return rc;
}

int clu_os_env_of(clu_pid pid, const char *name, char *out, size_t cap) {
  char path[64], *line = NULL;
  size_t room = 0, k = strlen(name);
  ssize_t len;
  int rc = CLU_EOF;
  FILE *f;
  snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
  if (!(f = fopen(path, "re"))) return CLU_SYS;
  while (rc == CLU_EOF && (len = getdelim(&line, &room, 0, f)) > 0)
    if (strncmp(line, name, k) == 0 && line[k] == '=') {
      snprintf(out, cap, "%s", line + k + 1);
      rc = CLU_OK;
    }
  free(line);
  fclose(f);
  return rc;
}

/* The command line is memory of the process, whose place is in fields 48 and 49 of its stat file. R
 * has copied it when it started. */
void clu_os_set_title(const char *text) {
  FILE *f = fopen("/proc/self/stat", "re");
  unsigned long from = 0, to = 0;
  char line[2048], *p;
  size_t n;
  if (!f) return;
  n = fread(line, 1, sizeof line - 1, f);
  fclose(f);
  line[n] = 0;
  if (!(p = strrchr(line, ')'))) return; /* the end of field 2 */
  for (int field = 2; p && field < 48; field++) p = strchr(p + 1, ' ');
  if (!p || sscanf(p, "%lu %lu", &from, &to) != 2 || from == 0 || to <= from) return;
  memset((void *)from, 0, to - from);
  snprintf((char *)from, to - from, "%s", text);
}
#else
void clu_os_set_title(const char *text) { (void)text; }

int clu_os_children(clu_pid **out, int *n) {
  *out = NULL;
  *n = 0;
  return CLU_UNSUPPORTED;
}

int clu_os_env_of(clu_pid pid, const char *name, char *out, size_t cap) {
  (void)pid;
  (void)name;
  (void)out;
  (void)cap;
  return CLU_UNSUPPORTED;
}
#endif

void clu_os_mark_env(const char *name, const char *value) {
  char *old = getenv(name);
  if (old && strlen(old) == strlen(value))
    memcpy(old, value, strlen(value));
  else
    setenv(name, value, 1);
}
