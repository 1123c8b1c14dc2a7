/* The cost of a fork, on Linux.
 *
 * A fork copies the page table of all memory that was written: an entry for each page of 4 kB, or
 * one for a huge page. For an R with its packages these are some 3,000 entries, and half of what a
 * fork takes. Of a private mapping of a file that nobody has written to nothing is copied: the
 * child finds its pages when it reads them. So memory outside of huge pages is moved to a file
 * without a name, and mapped from there. What is written afterwards is copied page by page, as
 * ever.
 *
 * What is left goes with the number of mappings: a fork takes 1 us for each, and 1 us more where
 * some of its pages are the process's own; the end of the child takes as much again. An R has
 * loaded 40 libraries, and each has five mappings. Three of these are the file as it is: headers,
 * code, constants. They become one by having the same permission. The fourth has been relocated by
 * the dynamic linker and is never written to again, so it is moved, too.
 */
#if defined(__linux__)
#define _GNU_SOURCE
#endif
#include "core/base/os-forks.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "posix/features.h"

#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif
#if defined(__linux__) && !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25 /* since Linux 6.1; the C library may be older */
#endif
#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE 0
#endif

void *clu_os_apart_new(size_t n) {
  void *p =
      mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return NULL;
#if defined(MADV_DONTFORK)
  madvise(p, n, MADV_DONTFORK);
#endif
  return p;
}

void clu_os_apart_free(void *p, size_t n) {
  if (p) munmap(p, n);
}

static void lead_nowhere(int nowhere, int fd, int keep) {
  if (fd <= 2 || fd == nowhere || fd == keep || fcntl(fd, F_GETFD) < 0) return;
  if (dup2(nowhere, fd) == fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Where the system does not list them, those with a number that it allows, but not more than a
 * process is likely to have. */
int clu_os_leave_files(clu_fd keep) {
  enum { LIKELY = 4096 };
  int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  DIR *d = opendir("/proc/self/fd");
  struct dirent *entry;
  if (nowhere < 0) {
    if (d) closedir(d);
    return CLU_SYS;
  }
  while (d && (entry = readdir(d)))
    if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(d))
      lead_nowhere(nowhere, atoi(entry->d_name), (int)keep);
  if (d) {
    closedir(d);
  } else {
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = 3; fd < (most > 0 && most < LIKELY ? most : LIKELY); fd++)
      lead_nowhere(nowhere, fd, (int)keep);
  }
  if (nowhere == 0) return fcntl(0, F_SETFD, 0) == 0 ? CLU_OK : CLU_SYS; /* it was closed */
  dup2(nowhere, 0);
  close(nowhere);
  return CLU_OK;
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

enum { MOST_RANGES = 32, MOST_FILES = 256 };

/* One line of /proc/self/maps. */
typedef struct mapping {
  range at;
  char how[8]; /* as "rw-p" */
  unsigned long offset, inode;
  char name[16]; /* begin of it */
} mapping;

typedef struct ranges {
  range is[MOST_FILES];
  int n;
} ranges;

typedef struct memory {
  range small[MOST_RANGES]; /* what is to be moved */
  int n;
  ranges relocated; /* read-only parts of files that have pages of this process's own */
  ranges unwritten; /* read-only parts of files, beside their code */
  mapping last;     /* the one before */
  range huge;       /* of the heap, in huge pages, some of which may have been split */
  range stack;
} memory;

/* Pages of it that are there. Of a file: those that are not the file's. -1: not known. */
static intptr_t pages_there(int pagemap, range r, int is_file) {
  static const uint64_t THERE = (uint64_t)1 << 63, OF_FILE = (uint64_t)1 << 61;
  uint64_t entry[512];
  uintptr_t at = r.from / PAGE, end = r.to / PAGE;
  intptr_t there = 0;
  while (at < end) {
    size_t n = end - at < 512 ? end - at : 512;
    if (pread(pagemap, entry, n * sizeof *entry, (off_t)(at * sizeof *entry)) !=
        (ssize_t)(n * sizeof *entry))
      return -1;
    for (size_t i = 0; i < n; i++)
      there += (entry[i] & THERE) && !(is_file && (entry[i] & OF_FILE));
    at += n;
  }
  return there;
}

static int is_in_use(int pagemap, range r) {
  return pages_there(pagemap, r, 0) >= (intptr_t)((r.to - r.from) / PAGE / 2);
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
  if (r.to / HUGE * HUGE > first) m->huge = (range){first, r.to / HUGE * HUGE};
}

static void add(ranges *to, range r) {
  if (to->n < MOST_FILES) to->is[to->n++] = r;
}

static int goes_on(const mapping *before, const mapping *m) {
  return m->inode == before->inode && m->at.from == before->at.to &&
         m->offset == before->offset + (before->at.to - before->at.from);
}

/* A mapping of a file that cannot be written to. */
static void add_file(memory *all, int pagemap, const mapping *m) {
  const mapping *before = &all->last;
  int is_code = strcmp(m->how, "r-xp") == 0;
  if (is_code && goes_on(before, m) && strcmp(before->how, "r--p") == 0)
    add(&all->unwritten, before->at);
  if (is_code || m->inode != before->inode) return;
  if (pages_there(pagemap, m->at, 1) > 0)
    add(&all->relocated, m->at);
  else if (goes_on(before, m) && strcmp(before->how, "r-xp") == 0)
    add(&all->unwritten, m->at);
}

/* A line of /proc/self/maps: "from-to rw-p offset device inode name". */
static int read_mapping(mapping *m, const char *line) {
  unsigned long from, to;
  memset(m, 0, sizeof *m);
  if (sscanf(line, "%lx-%lx %7s %lx %*s %lu %15s", &from, &to, m->how, &m->offset, &m->inode,
             m->name) < 5)
    return 0;
  m->at.from = from;
  m->at.to = to;
  return 1;
}

static void add_mapping(memory *all, int pagemap, const char *line) {
  mapping m;
  if (!read_mapping(&m, line)) return;
  if (m.inode != 0 && (strcmp(m.how, "r--p") == 0 || strcmp(m.how, "r-xp") == 0)) {
    add_file(all, pagemap, &m);
  } else if (strcmp(m.how, "rw-p") == 0 && m.inode == 0) {
    if (strcmp(m.name, "[stack]") == 0)
      all->stack = m.at;
    else if (strcmp(m.name, "[heap]") == 0)
      add_heap(all, pagemap, m.at);
    else if (!m.name[0])
      add_small(all, pagemap, m.at);
  }
  all->last = m;
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

static int file_may_have(size_t n) {
  struct rlimit r;
  return getrlimit(RLIMIT_FSIZE, &r) != 0 || r.rlim_cur == RLIM_INFINITY || n <= r.rlim_cur;
}

static int move(int fd, const range *list, int n, int protection, size_t *done) {
  for (int i = 0; i < n; i++) {
    range r = list[i];
    if (!file_may_have(*done + (r.to - r.from))) return 0; /* else SIGXFSZ ends the process */
    if (!write_all(fd, r) || mmap((void *)r.from, r.to - r.from, protection,
                                  MAP_PRIVATE | MAP_FIXED, fd, (off_t)*done) == MAP_FAILED)
      return 0;
    *done += r.to - r.from;
  }
  return 1;
}

/* A write between the copy and the mapping would be lost: no signal handler may run. */
static size_t move_all(int fd, const memory *m) {
  size_t done = 0;
  sigset_t all, old;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &old);
  if (move(fd, m->small, m->n, PROT_READ | PROT_WRITE, &done))
    move(fd, m->relocated.is, m->relocated.n, PROT_READ, &done);
  sigprocmask(SIG_SETMASK, &old, NULL);
  return done;
}

/* So were they in all programs until linkers kept them apart. Nothing that can be written to
 * becomes code. Where the system does not allow it they stay apart. */
static void join_with_code(const ranges *unwritten) {
  for (int i = 0; i < unwritten->n; i++) {
    range r = unwritten->is[i];
    if (mprotect((void *)r.from, r.to - r.from, PROT_READ | PROT_EXEC) != 0) return;
  }
}

/* After a fork each first write to a huge page has split it. */
static void join_split(range heap) {
  if (heap.to > heap.from) madvise((void *)heap.from, heap.to - heap.from, MADV_COLLAPSE);
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
  join_split(m.huge);
  join_with_code(&m.unwritten);
  if (m.n + m.relocated.n == 0 || (fd = memfd_create("clutch-memory", MFD_CLOEXEC)) < 0) return 0;
  done = move_all(fd, &m);
  close(fd);
  return done;
}

/* ---- code ---- */

/* A fork copies the page table of a private mapping of a file only if a page of it is the process's
 * own. To write by this file makes one so, also where the mapping cannot be written to. */
static int own_a_page(int mem, uintptr_t at) {
  char byte;
  return pread(mem, &byte, 1, (off_t)at) == 1 && pwrite(mem, &byte, 1, (off_t)at) == 1;
}

static int has_one(const mapping *m, const void *const *in, int n) {
  for (int i = 0; i < n; i++)
    if (m->at.from <= (uintptr_t)in[i] && (uintptr_t)in[i] < m->at.to) return 1;
  return 0;
}

int clu_os_inherit_code(const void *const *in, int n) {
  char line[512];
  unsigned long inodes[MOST_RANGES];
  int found = 0, done = 0;
  FILE *maps = fopen("/proc/self/maps", "re");
  int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  mapping m;
  while (maps && fgets(line, sizeof line, maps))
    if (read_mapping(&m, line) && m.inode && has_one(&m, in, n) && found < MOST_RANGES)
      inodes[found++] = m.inode;
  if (maps) rewind(maps);
  while (maps && mem >= 0 && fgets(line, sizeof line, maps))
    for (int i = 0; read_mapping(&m, line) && i < found; i++)
      if (m.inode == inodes[i] && m.how[0] == 'r' && m.how[1] == '-')
        done += own_a_page(mem, m.at.from);
  if (mem >= 0) close(mem);
  if (maps) fclose(maps);
  return done;
}

#else

size_t clu_os_expect_forks(void) { return 0; }

int clu_os_inherit_code(const void *const *in, int n) {
  (void)in;
  (void)n;
  return 0;
}

#endif
