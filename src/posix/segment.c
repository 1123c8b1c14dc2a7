#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "core/base/os-segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "posix/fd.h"
#include "posix/features.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

#if defined(CLU_HAVE_MEMFD) && defined(F_ADD_SEALS)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#endif

#if defined(SEALS)

int clu_os_segment_new(clu_fd fd[2]) {
  int f = memfd_create("clutch-data", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (f < 0) return CLU_SYS;
  fd[0] = fd[1] = f;
  return CLU_OK;
}

/* EBUSY: the system itself is at some page just now (it moves pages together). It has waited for
 * that already. */
int clu_os_segment_seal(clu_fd fd[2]) {
  int rc, tries = 0;
  do rc = fcntl((int)fd[0], F_ADD_SEALS, SEALS | F_SEAL_SEAL);
  while (rc != 0 && errno == EBUSY && ++tries < 10);
  return rc == 0 ? CLU_OK : CLU_SYS;
}

static int is_sealed(int fd) {
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & SEALS) == SEALS;
}

#else

int clu_os_segment_new(clu_fd fd[2]) {
  const char *under = getenv("TMPDIR");
  char path[1024];
  int n = snprintf(path, sizeof path, "%s/clutch-data-XXXXXX", under && *under ? under : "/tmp");
  int f, r;
  if (n < 0 || (size_t)n >= sizeof path || (f = mkstemp(path)) < 0) return CLU_SYS;
  r = open(path, O_RDONLY);
  unlink(path);
  if (r < 0) {
    close(f);
    return CLU_SYS;
  }
  fcntl(f, F_SETFD, FD_CLOEXEC);
  fcntl(r, F_SETFD, FD_CLOEXEC);
  fd[0] = f;
  fd[1] = r;
  return CLU_OK;
}

int clu_os_segment_seal(clu_fd fd[2]) {
  close((int)fd[0]);
  fd[0] = fd[1];
  return CLU_OK;
}

static int is_sealed(int fd) {
  int how = fcntl(fd, F_GETFL);
  return how >= 0 && (how & O_ACCMODE) == O_RDONLY;
}

#endif

int clu_os_segment_read(clu_fd fd, uint64_t at, void *p, size_t n) {
  char *to = p;
  while (n > 0) {
    ssize_t k = pread((int)fd, to, n < CLU_MOST_AT_ONCE ? n : CLU_MOST_AT_ONCE, (off_t)at);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return CLU_SYS;
    to += k;
    at += (uint64_t)k;
    n -= (size_t)k;
  }
  return CLU_OK;
}

int clu_os_segment_check(clu_fd fd, uint64_t *size) {
  struct stat st;
  if (fstat((int)fd, &st) != 0 || !S_ISREG(st.st_mode) || !is_sealed((int)fd) || st.st_size <= 0)
    return CLU_PROTO;
  *size = (uint64_t)st.st_size;
  return CLU_OK;
}

int clu_os_segment_id(clu_fd fd, uint64_t id[2]) {
  struct stat st;
  if (fstat((int)fd, &st) != 0) return CLU_SYS;
  id[0] = (uint64_t)st.st_dev;
  id[1] = (uint64_t)st.st_ino;
  return CLU_OK;
}

/* Tells whether memory that may be written to counts as used from the start (vm.overcommit_memory =
 * 2).
 */
static int is_counted(void) {
#if defined(CLU_HAVE_PROC)
  static int known = -1;
  FILE *f;
  if (known >= 0) return known;
  f = fopen("/proc/sys/vm/overcommit_memory", "re");
  known = f && fgetc(f) == '2';
  if (f) fclose(f);
  return known;
#else
  return 0;
#endif
}

int clu_os_segment_map(clu_fd fd, size_t n, int *writable, void **p) {
  int flags = MAP_PRIVATE | MAP_NORESERVE;
  *writable = !is_counted();
  *p = MAP_FAILED;
  if (*writable) *p = mmap(NULL, n, PROT_READ | PROT_WRITE, flags, (int)fd, 0);
  if (*p == MAP_FAILED) {
    *writable = 0;
    *p = mmap(NULL, n, PROT_READ, flags, (int)fd, 0);
  }
  return *p == MAP_FAILED ? CLU_NOMEM : CLU_OK;
}

void clu_os_segment_unmap(void *p, size_t n) { munmap(p, n); }

#if defined(CLU_HAVE_PROC)

/* There are 64 bits for each page: 63 it is in memory, 62 it is swapped out, 61 it is the file's. A
 * page that was written to is this process's own. */
static int has_own(const uint64_t *entries, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint64_t in_memory = entries[i] >> 63 & 1, swapped = entries[i] >> 62 & 1;
    if (swapped || (in_memory && !(entries[i] >> 61 & 1))) return 1;
  }
  return 0;
}

/* This is what linux/fs.h has since Linux 6.7, which headers may be older than the system. */
typedef struct pages_scan {
  uint64_t size, flags, start, end, walk_end, regions, room, most;
  uint64_t inverted, all_of, any_of, wanted;
} pages_scan;
typedef struct pages_region {
  uint64_t start, end, are;
} pages_region;
#define PAGES_SCAN _IOWR('f', 16, pages_scan)
enum { IS_FILE = 1 << 2, IS_PRESENT = 1 << 3, IS_SWAPPED = 1 << 4 };

/* Tells whether there is a page of its own: the first that the system finds. It takes half the time
 * of reading what each page is. -1: the system cannot tell. */
static int scan_for_own(int pagemap, uint64_t start, uint64_t end) {
  pages_region first;
  pages_scan s = {.size = sizeof s,
                  .start = start,
                  .end = end,
                  .regions = (uintptr_t)&first,
                  .room = 1,
                  .most = 1,
                  .inverted = IS_FILE,
                  .all_of = IS_FILE,
                  .any_of = IS_PRESENT | IS_SWAPPED,
                  .wanted = IS_FILE};
  return ioctl(pagemap, PAGES_SCAN, &s);
}

static int read_for_own(int pagemap, uint64_t first, uint64_t end) {
  uint64_t entries[4096];
  while (first < end) {
    uint64_t want = end - first;
    ssize_t k;
    if (want > sizeof entries / sizeof *entries) want = sizeof entries / sizeof *entries;
    k = pread(pagemap, entries, want * sizeof *entries, (off_t)(first * sizeof *entries));
    if (k <= 0 || k % (ssize_t)sizeof *entries) return 1;
    if (has_own(entries, (size_t)k / sizeof *entries)) return 1;
    first += (uint64_t)k / sizeof *entries;
  }
  return 0;
}

int clu_os_segment_is_unchanged(const void *p, size_t n) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t first = (uintptr_t)p / page, end = ((uintptr_t)p + n - 1) / page + 1;
  int f = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), own;
  if (f < 0) return 0;
  own = scan_for_own(f, first * page, end * page);
  if (own < 0) own = read_for_own(f, first, end);
  close(f);
  return !own;
}

#else

int clu_os_segment_is_unchanged(const void *p, size_t n) {
  (void)p;
  (void)n;
  return 0;
}

#endif

int clu_os_segment_may_be_many(void) {
  struct rlimit r;
  return sizeof(void *) >= 8 && getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur == RLIM_INFINITY;
}

long clu_os_most_fds(void) {
  struct rlimit r;
  if (getrlimit(RLIMIT_NOFILE, &r) != 0) return 256;
  return r.rlim_cur > 1000000 ? 1000000 : (long)r.rlim_cur;
}
