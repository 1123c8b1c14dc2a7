/* The cost of a fork, on Linux.
 *
 * A fork copies the page table of all memory that was written: an entry for each page of 4 kB, or
 * one for a huge page. For an R with its packages these are some 3,000 entries, and half of what a
 * fork takes. Of a private mapping of a file that nobody has written to nothing is copied: the
 * child finds its pages when it reads them. So memory outside of huge pages is moved to a file
 * without a name, and mapped from there. What is written afterwards is copied page by page, as
 * ever.
 */
#if defined(__linux__)
#define _GNU_SOURCE
#endif
#include "core/base/os-forks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "posix/features.h"

#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif
#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE 0
#endif

void *clu_os_apart_new(size_t n) {
  void *p =
      mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

void clu_os_apart_free(void *p, size_t n) {
  if (p) munmap(p, n);
}

#if defined(CLU_HAVE_MEMFD) && defined(CLU_HAVE_PROC)

#define PAGE ((uintptr_t)4096)
#define HUGE ((uintptr_t)2 << 20)
#define LEAST ((uintptr_t)256 << 10)  /* bytes that are worth a mapping of their own */
#define MOST ((uintptr_t)8 << 20)     /* larger ones are data, and in huge pages */
#define MARGIN ((uintptr_t)128 << 10) /* bytes of the stack that may be used soon */

typedef struct range {
  uintptr_t from, to;
} range;

enum { MOST_RANGES = 32 };

typedef struct memory {
  range small[MOST_RANGES]; /* what is to be moved */
  int n;
  range stack;
} memory;

/* Whether half of it is there. */
static int is_in_use(int pagemap, range r) {
  uint64_t entry[64];
  uintptr_t at = r.from / PAGE, end = r.to / PAGE, there = 0;
  while (at < end) {
    size_t n = end - at < 64 ? end - at : 64;
    if (pread(pagemap, entry, n * sizeof *entry, (off_t)(at * sizeof *entry)) !=
        (ssize_t)(n * sizeof *entry))
      return 0;
    for (size_t i = 0; i < n; i++) there += entry[i] >> 63;
    at += n;
  }
  return there >= (r.to - r.from) / PAGE / 2;
}

static void add_small(memory *m, int pagemap, range r) {
  if (m->n == MOST_RANGES || r.to < r.from + LEAST || r.to - r.from > MOST) return;
  if (is_in_use(pagemap, r)) m->small[m->n++] = r;
}

/* The C library asks for huge pages for its heap, from the first place on where one fits. */
static void add_heap(memory *m, int pagemap, range r) {
  uintptr_t first = (r.from + HUGE - 1) / HUGE * HUGE;
  if (first >= r.to) {
    add_small(m, pagemap, r);
    return;
  }
  add_small(m, pagemap, (range){r.from, first});
}

/* A line of /proc/self/maps: "from-to rw-p offset device inode name". */
static void add_mapping(memory *m, int pagemap, const char *line) {
  unsigned long from, to, inode;
  char how[8], name[16] = "";
  range r;
  if (sscanf(line, "%lx-%lx %7s %*s %*s %lu %15s", &from, &to, how, &inode, name) < 4) return;
  if (strcmp(how, "rw-p") != 0 || inode != 0) return;
  r.from = from;
  r.to = to;
  if (strcmp(name, "[stack]") == 0)
    m->stack = r;
  else if (strcmp(name, "[heap]") == 0)
    add_heap(m, pagemap, r);
  else if (!name[0])
    add_small(m, pagemap, r);
}

static void find_memory(memory *m) {
  char line[512];
  FILE *maps = fopen("/proc/self/maps", "re");
  int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  memset(m, 0, sizeof *m);
  while (maps && pagemap >= 0 && fgets(line, sizeof line, maps)) add_mapping(m, pagemap, line);
  if (pagemap >= 0) close(pagemap);
  if (maps) fclose(maps);
}

static int write_all(int fd, range r) {
  while (r.from < r.to) {
    /* not write(): sanitizers take it for an access to each object there */
    long k = syscall(SYS_write, fd, (const void *)r.from, r.to - r.from);
    if (k <= 0) return 0;
    r.from += (uintptr_t)k;
  }
  return 1;
}

/* What would write between the copy and the mapping would be lost: no signal handler may run. */
static size_t move(int fd, const memory *m) {
  size_t done = 0;
  sigset_t all, old;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &old);
  for (int i = 0; i < m->n; i++) {
    range r = m->small[i];
    if (!write_all(fd, r) || mmap((void *)r.from, r.to - r.from, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_FIXED, fd, (off_t)done) == MAP_FAILED)
      break;
    done += r.to - r.from;
  }
  sigprocmask(SIG_SETMASK, &old, NULL);
  return done;
}

size_t clu_os_expect_forks(void) {
  memory m;
  uintptr_t unused = (uintptr_t)__builtin_frame_address(0) - MARGIN;
  size_t done;
  int fd;
  find_memory(&m);
  /* what deeper calls have left there */
  if (m.stack.from < unused && unused < m.stack.to)
    madvise((void *)m.stack.from, unused / PAGE * PAGE - m.stack.from, MADV_DONTNEED);
  if (m.n == 0 || (fd = memfd_create("clutch-memory", MFD_CLOEXEC)) < 0) return 0;
  done = move(fd, &m);
  close(fd);
  return done;
}

#else

size_t clu_os_expect_forks(void) { return 0; }

#endif
