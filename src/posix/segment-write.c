/* Bytes are written to a segment: by pwrite(), and much of them by a second thread as well.
 *
 * What takes the time is new memory: the system clears each page of 4 kB or copies to it, and does
 * that by one thread for a file at a time. pwrite() is the quickest way, 0.39 ms/MB, but a second
 * one waits for the first. So the second thread maps the file and writes there, from the end
 * towards the first, which takes 0.64 ms/MB by itself; both together 0.28. The thread is there for
 * one call only, so no fork can lose it.
 *
 * Memory that cannot be had is an error of pwrite(), and would be a signal where a mapping is
 * written to. So the second thread asks for the pages before it writes (MADV_POPULATE_WRITE), which
 * can fail, and then the first does the rest.
 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "core/base/os-segment.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "posix/fd.h"

static int write_all(int fd, uint64_t at, const char *from, size_t n) {
  while (n > 0) {
    ssize_t k = pwrite(fd, from, n < CLU_MOST_AT_ONCE ? n : CLU_MOST_AT_ONCE, (off_t)at);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return CLU_SYS;
    from += k;
    at += (uint64_t)k;
    n -= (size_t)k;
  }
  return CLU_OK;
}

#if defined(CLU_HAVE_MEMFD) && defined(CLU_HAVE_PROC)

enum { PAGE = 4096, BLOCK = 256 << 10, LEAST = 2 << 20, STACK = 128 << 10 };

typedef struct copy {
  const char *from;
  size_t n;
  char *to;          /* where the file is mapped, at the first of these bytes */
  _Atomic long left; /* blocks that nobody has taken; each takes from its end */
  size_t undone;     /* from here on `nundone` bytes: a block for which there was no memory */
  size_t nundone;
} copy;

static int take(copy *c) { return atomic_fetch_sub(&c->left, 1) > 0; }
static size_t length_of(const copy *c, size_t block) {
  size_t at = block * BLOCK;
  return c->n - at < BLOCK ? c->n - at : BLOCK;
}

static int populate(char *to, size_t n) {
  size_t before = (uintptr_t)to % PAGE;
  return madvise(to - before, n + before, MADV_POPULATE_WRITE) == 0;
}

/* The second thread. */
static void *write_from_end(void *data) {
  copy *c = data;
  size_t block = (c->n + BLOCK - 1) / BLOCK;
  while (take(c)) {
    size_t at = --block * BLOCK, n = length_of(c, block);
    if (!populate(c->to + at, n)) {
      c->undone = at;
      c->nundone = n;
      break;
    }
    memcpy(c->to + at, c->from + at, n);
  }
  return NULL;
}

static int write_from_begin(copy *c, int fd, uint64_t at) {
  int rc = CLU_OK;
  for (size_t block = 0; rc == CLU_OK && take(c); block++)
    rc = write_all(fd, at + block * BLOCK, c->from + block * BLOCK, length_of(c, block));
  if (rc != CLU_OK) atomic_store(&c->left, 0);
  return rc;
}

/* Tells whether another core has nothing to do, as far as the system tells. */
static int is_core_idle(void) {
  int running = 0;
  FILE *f = fopen("/proc/loadavg", "re");
  if (!f) return 0;
  if (fscanf(f, "%*f %*f %*f %d", &running) != 1) running = 0;
  fclose(f);
  return running > 0 && running < clu_os_affinity_count();
}

static int start_second(copy *c, pthread_t *id) {
  sigset_t every, old;
  pthread_attr_t attr;
  int failed;
  if (pthread_attr_init(&attr) != 0) return 0;
  pthread_attr_setstacksize(&attr, STACK);
  sigfillset(&every); /* signals are for R's thread */
  pthread_sigmask(SIG_BLOCK, &every, &old);
  failed = pthread_create(id, &attr, write_from_end, c);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attr);
  return !failed;
}

/* The file has that length. */
static int copy_by_two(int fd, uint64_t at, const char *from, size_t n) {
  size_t before = at % PAGE, mapped = n + before;
  copy c = {.from = from, .n = n};
  pthread_t second;
  int rc, has_second;
  char *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(at - before));
  if (p == MAP_FAILED) return write_all(fd, at, from, n);
  c.to = p + before;
  atomic_init(&c.left, (long)((n + BLOCK - 1) / BLOCK));
  has_second = start_second(&c, &second);
  rc = write_from_begin(&c, fd, at);
  if (has_second) pthread_join(second, NULL);
  munmap(p, mapped);
  if (rc == CLU_OK && c.nundone) rc = write_all(fd, at + c.undone, from + c.undone, c.nundone);
  return rc;
}

static int write_by_two(int fd, uint64_t at, const char *from, size_t n) {
  struct stat st;
  int rc, is_longer;
  if (fstat(fd, &st) != 0) return CLU_SYS;
  is_longer = (uint64_t)st.st_size < at + n;
  if (is_longer && ftruncate(fd, (off_t)(at + n)) != 0) return CLU_SYS;
  rc = copy_by_two(fd, at, from, n);
  if (rc != CLU_OK && is_longer && ftruncate(fd, st.st_size) != 0) return CLU_SYS;
  return rc;
}

static int two_pay(size_t n) { return n >= LEAST && is_core_idle(); }

#else

static int two_pay(size_t n) {
  (void)n;
  return 0;
}
static int write_by_two(int fd, uint64_t at, const char *from, size_t n) {
  return write_all(fd, at, from, n);
}

#endif

static int is_too_long(uint64_t end) {
  struct rlimit r;
  return getrlimit(RLIMIT_FSIZE, &r) == 0 && r.rlim_cur != RLIM_INFINITY && end > r.rlim_cur;
}

int clu_os_segment_write(clu_fd fd, uint64_t at, const void *p, size_t n) {
  if (is_too_long(at + n)) return CLU_LIMIT; /* else SIGXFSZ ends the process */
  return two_pay(n) ? write_by_two((int)fd, at, p, n) : write_all((int)fd, at, p, n);
}

int clu_os_segment_write_by_two(clu_fd fd, uint64_t at, const void *p, size_t n) {
  return is_too_long(at + n) ? CLU_LIMIT : write_by_two((int)fd, at, p, n);
}
