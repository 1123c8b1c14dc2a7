/* How much memory this process may still have, by the files of Linux's control groups and of /proc.
 */
#if defined(__linux__)
#define _GNU_SOURCE
#endif

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "posix/features.h"
#include "posix/groups.h"

#include "core/base/err.h"
#include "core/base/os-memory.h"
#include "core/base/os.h"

#if defined(CLU_HAVE_PROC)

typedef struct version {
  const char *limit, *high, *used, *inactive, *active;
} version;

/* Version 1 tells in memory.stat also what the groups within have, by other names. */
static const version versions[] = {
    {"", "", "", "", ""},
    {"memory.limit_in_bytes", NULL, "memory.usage_in_bytes", "total_inactive_file ",
     "total_active_file "},
    {"memory.max", "memory.high", "memory.current", "inactive_file ", "active_file "},
};

/* A file of one of these folders as text, of at most `room` - 1 bytes. Whether there is one. */
static int read_text(const char *root, const char *folder, const char *name, char *text,
                     size_t room) {
  char path[700];
  ssize_t n;
  int fd;
  snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
  if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) return 0;
  n = read(fd, text, room - 1);
  close(fd);
  text[n > 0 ? n : 0] = 0;
  return n > 0;
}

/* -1: there is none, as where it says "max". */
static int64_t read_number(const char *root, const char *folder, const char *name) {
  char text[64], *end;
  long long n;
  if (!name || !read_text(root, folder, name, text, sizeof text)) return -1;
  n = strtoll(text, &end, 10);
  return end == text ? -1 : n;
}

/* The number behind a name at the beginning of a line; -1: there is none. */
static int64_t number_behind(const char *text, const char *name) {
  size_t n = strlen(name);
  for (const char *at = text; at; at = strchr(at, '\n')) {
    if (*at == '\n') at++;
    if (strncmp(at, name, n) == 0) return strtoll(at + n, NULL, 10);
  }
  return -1;
}

/* ---- what bounds ---- */

static void add_bound(clu_memory_bounds *b, int version, const char *folder, int64_t limit) {
  clu_memory_bound *to = &b->at[b->n];
  if (b->n == CLU_MOST_BOUNDS || strlen(folder) >= sizeof to->folder) return;
  to->version = version;
  to->limit = limit;
  strcpy(to->folder, folder);
  b->n++;
}

/* Adds the bound of a group that has a limit of less than the machine, which is the first. */
static void add_group(void *bounds, const char *root, int version, const char *folder) {
  clu_memory_bounds *b = bounds;
  int64_t limit = read_number(root, folder, versions[version].limit);
  int64_t high = read_number(root, folder, versions[version].high);
  if (high >= 0 && (limit < 0 || high < limit)) limit = high;
  if (limit >= 0 && limit < b->at[0].limit) add_bound(b, version, folder, limit);
}

int clu_os_memory_bounds(const char *root, clu_memory_bounds *out) {
  char text[4096];
  int64_t whole;
  memset(out, 0, sizeof *out);
  if (!read_text(root, "/proc", "meminfo", text, sizeof text)) return CLU_UNSUPPORTED;
  whole = 1024 * number_behind(text, "MemTotal:");
  if (whole <= 0) return CLU_UNSUPPORTED;
  add_bound(out, 0, "/proc", whole);
  clu_groups_visit(root, add_group, out);
  return CLU_OK;
}

/* ---- what is left ---- */

static int64_t left_of_machine(const char *root, const char *folder) {
  char text[4096];
  int64_t kb;
  if (!read_text(root, folder, "meminfo", text, sizeof text)) return -1;
  kb = number_behind(text, "MemAvailable:");
  return kb < 0 ? -1 : 1024 * kb;
}

/* Pages of files that the system takes when the group needs them. */
static int64_t reclaimable(const char *root, const clu_memory_bound *b) {
  char text[8192];
  int64_t inactive, active;
  if (!read_text(root, b->folder, "memory.stat", text, sizeof text)) return 0;
  inactive = number_behind(text, versions[b->version].inactive);
  active = number_behind(text, versions[b->version].active);
  return (inactive > 0 ? inactive : 0) + (active > 0 ? active / 2 : 0);
}

/* -1: not known. */
static int64_t left_of(const char *root, const clu_memory_bound *b) {
  int64_t used;
  if (b->version == 0) return left_of_machine(root, b->folder);
  used = read_number(root, b->folder, versions[b->version].used);
  if (used < 0) return -1;
  if (used > b->limit / 3 * 2) used -= reclaimable(root, b);
  return used < b->limit ? b->limit - (used > 0 ? used : 0) : 0;
}

int clu_os_memory_left(const char *root, const clu_memory_bounds *b, clu_memory_left *out) {
  int any = 0;
  for (int i = 0; i < b->n; i++) {
    int64_t left = left_of(root, &b->at[i]);
    if (left < 0 || (any && left >= out->left)) continue;
    any = 1;
    out->left = left;
    out->limit = b->at[i].limit;
    out->at = i;
  }
  return any ? CLU_OK : CLU_UNSUPPORTED;
}

#else

#include <string.h>

int clu_os_memory_bounds(const char *root, clu_memory_bounds *out) {
  (void)root;
  memset(out, 0, sizeof *out);
  return CLU_UNSUPPORTED;
}

int clu_os_memory_left(const char *root, const clu_memory_bounds *b, clu_memory_left *out) {
  (void)root, (void)b, (void)out;
  return CLU_UNSUPPORTED;
}

#endif
