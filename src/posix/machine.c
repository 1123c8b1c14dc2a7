/* This file finds what this machine has left, and what its processes have used: most of it by the
 * files of Linux's /proc. */
#if defined(__linux__)
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "posix/features.h"
#include "posix/groups.h"

#include "core/base/os-machine.h"
#include "core/base/os.h"
#include "posix/process.h"

void clu_os_machine(clu_machine *out) {
  out->load = -1;
  out->memory = out->memory_free = -1;
#if defined(CLU_HAVE_PROC)
  {
    char line[256];
    long long kb;
    FILE *f = fopen("/proc/loadavg", "re");
    if (f && fscanf(f, "%lf", &out->load) != 1) out->load = -1;
    if (f) fclose(f);
    if (!(f = fopen("/proc/meminfo", "re"))) return;
    while (fgets(line, sizeof line, f)) {
      if (sscanf(line, "MemTotal: %lld kB", &kb) == 1) out->memory = 1024 * (int64_t)kb;
      if (sscanf(line, "MemAvailable: %lld kB", &kb) == 1) out->memory_free = 1024 * (int64_t)kb;
    }
    fclose(f);
  }
#else
  {
    double load; /* macOS and the BSDs have this, too */
    if (getloadavg(&load, 1) == 1) out->load = load;
  }
#endif
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234" */
int64_t clu_os_cpu_stalled_by(const char *text) {
  const char *at = strncmp(text, "some ", 5) == 0 ? strstr(text, " total=") : NULL;
  char *end;
  long long n;
  if (!at) return -1;
  n = strtoll(at + 7, &end, 10);
  return end == at + 7 || n < 0 ? -1 : n;
}

int64_t clu_os_cpu_stalled(void) {
#if defined(CLU_HAVE_PROC)
  char text[256];
  ssize_t n;
  int fd = open("/proc/pressure/cpu", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  n = read(fd, text, sizeof text - 1);
  close(fd);
  text[n > 0 ? n : 0] = 0;
  return clu_os_cpu_stalled_by(text);
#else
  return -1;
#endif
}

int64_t clu_os_most_mappings(void) {
#if defined(CLU_HAVE_PROC)
  long long n = 0;
  FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
  if (f && fscanf(f, "%lld", &n) != 1) n = 0;
  if (f) fclose(f);
  if (n > 0) return n;
#endif
  return INT64_MAX;
}

#if defined(CLU_HAVE_PROC)
/* Takes the limit of a group into account, if it is less. */
static void take_limit(void *least, const char *root, int version, const char *folder) {
  static const char *const names[] = {"memory.limit_in_bytes", "memory.max"};
  char path[1200];
  long long n = 0;
  FILE *f;
  snprintf(path, sizeof path, "%s%s/%s", root, folder, names[version - 1]);
  if (!(f = fopen(path, "re"))) return;
  if (fscanf(f, "%lld", &n) == 1 && n > 0 && n < *(int64_t *)least) *(int64_t *)least = n;
  fclose(f);
}
#endif

/* R/machine-cgroup.R knows more kinds of mounts, and takes 3 ms: too long for what each node asks.
 */
int64_t clu_os_memory_limit_below(const char *root) {
  int64_t least = clu_os_total_memory();
#if defined(CLU_HAVE_PROC)
  clu_groups_visit(root, take_limit, &least);
#else
  (void)root;
#endif
  return least;
}

int64_t clu_os_memory_limit(void) { return clu_os_memory_limit_below(""); }

int64_t clu_os_count_in_file(const char *path, const char *name) {
  char line[256];
  size_t k = strlen(name);
  long long n = -1;
  FILE *f = fopen(path, "re");
  if (!f) return -1;
  while (n < 0 && fgets(line, sizeof line, f))
    if (strncmp(line, name, k) == 0 && line[k] == ' ' && sscanf(line + k, "%lld", &n) != 1) n = -1;
  fclose(f);
  return n;
}

#if defined(CLU_HAVE_PROC)
/* "/proc/<pid>/<name>" as text, of at most `room` - 1 bytes; 0: there is none. Without a FILE: who
 * observes a thousand processes reads many. */
static int read_proc(int64_t pid, const char *name, char *text, size_t room) {
  char path[64];
  ssize_t n;
  int fd;
  snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
  if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) return 0;
  n = read(fd, text, room - 1);
  close(fd);
  text[n > 0 ? n : 0] = 0;
  return n > 0;
}

char *clu_read_stat(int64_t pid, char *text, size_t room) {
  char *at = read_proc(pid, "stat", text, room) ? strrchr(text, ')') : NULL;
  return at && at[1] == ' ' ? at + 2 : NULL;
}

char *clu_skip_fields(char *at, int fields) {
  for (; at && fields > 0; fields--)
    if ((at = strchr(at, ' '))) at++;
  return at;
}
#endif

int64_t clu_os_process_cpu(int64_t pid, clu_process_pages *pages) {
#if defined(CLU_HAVE_PROC)
  char text[1024],
      *at = clu_skip_fields(clu_read_stat(pid, text, sizeof text), 7); /* minflt is the 10th */
  unsigned long long user, system;
  long long faults = at ? strtoll(at, NULL, 10) : 0;
  at = clu_skip_fields(at, 4); /* utime */
  if (!at) return -1;
  user = strtoull(at, &at, 10);
  system = strtoull(at, &at, 10);
  if (pages) {
    at = clu_skip_fields(at, 9); /* rss */
    pages->given = (int64_t)faults * sysconf(_SC_PAGESIZE);
    pages->resident = at ? (int64_t)strtoll(at, NULL, 10) * sysconf(_SC_PAGESIZE) : 0;
  }
  return (int64_t)((user + system) * 1000 / (unsigned long long)sysconf(_SC_CLK_TCK));
#else
  (void)pid;
  (void)pages;
  return -1;
#endif
}

int64_t clu_os_process_anonymous(int64_t pid) {
#if defined(CLU_HAVE_PROC)
  char text[128], *at;
  long long resident, of_files;
  if (!read_proc(pid, "statm", text, sizeof text) || !(at = clu_skip_fields(text, 1))) return -1;
  resident = strtoll(at, &at, 10);
  of_files = strtoll(at, NULL, 10);
  return (int64_t)(resident - of_files) * sysconf(_SC_PAGESIZE);
#else
  (void)pid;
  return -1;
#endif
}

char clu_os_process_state(int64_t pid) {
#if defined(CLU_HAVE_PROC)
  char text[1024], *at = clu_read_stat(pid, text, sizeof text);
  return at && !strchr("ZXx", *at) ? *at : 0;
#else
  (void)pid;
  return '?';
#endif
}

/* The file is "/autogroup-123 nice 0". */
void clu_os_renice_session(int64_t pid, int nice) {
#if defined(CLU_HAVE_PROC)
  char text[128], *at;
  int fd = -1, n;
  if (getsid((pid_t)pid) == getsid(0) || !read_proc(pid, "autogroup", text, sizeof text)) return;
  at = strstr(text, " nice ");
  if (!at || atoi(at + 6) == nice) return;
  n = snprintf(text, sizeof text, "/proc/%lld/autogroup", (long long)pid);
  if (n > 0) fd = open(text, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  n = snprintf(text, sizeof text, "%d", nice);
  for (int try = 0; try < 4 && write(fd, text, (size_t)n) < 0 && errno == EAGAIN; try++)
    clu_os_pause(110000000);
  close(fd);
#else
  (void)pid;
  (void)nice;
#endif
}

void clu_os_keep_freed(void) {
#if defined(__GLIBC__) && !defined(CLU_PORTABLE)
  static int done;
  void *volatile block; /* else the compiler leaves both calls out */
  if (done) return;
  done = 1;
  block = malloc(((size_t)32 << 20) - 65536);
  free(block);
#endif
}

int clu_os_symbol_of(void (*fun)(void), char *file, size_t nfile, char *name, size_t nname) {
  Dl_info info;
  void *at;
  memcpy(&at, &fun, sizeof at);
  if (!at || !dladdr(at, &info) || !info.dli_fname || !info.dli_sname || info.dli_saddr != at)
    return 0;
  if (strlen(info.dli_fname) >= nfile || strlen(info.dli_sname) >= nname) return 0;
  strcpy(file, info.dli_fname);
  strcpy(name, info.dli_sname);
  return 1;
}
