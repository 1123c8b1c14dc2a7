/* What this machine has left, and what its processes have used, by the files of Linux's /proc. */
#if defined(__linux__)
#define _GNU_SOURCE
#endif

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "posix/features.h"

#include "core/base/os-machine.h"

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
#endif
}

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

/* The name of the program may have blanks and brackets in it. */
int64_t clu_os_process_cpu(int64_t pid) {
#if defined(CLU_HAVE_PROC)
  char path[64], text[1024], *at;
  unsigned long long user, system;
  size_t n;
  FILE *f;
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
  if (!(f = fopen(path, "re"))) return -1;
  n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  if (!(at = strrchr(text, ')')) ||
      sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
    return -1;
  return (int64_t)((user + system) * 1000 / (unsigned long long)sysconf(_SC_CLK_TCK));
#else
  (void)pid;
  return -1;
#endif
}
