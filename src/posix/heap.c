/* The heap is the GNU C library's, from the system call brk(). Larger blocks are mappings of their
 * own, until such a block was freed. */
#if defined(__linux__)
#define _GNU_SOURCE
#endif
#include "core/base/os-heap.h"

#include <unistd.h> /* names the C library */

#if defined(__linux__) && defined(__GLIBC__) && !defined(CLU_PORTABLE)

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/os-machine.h"
#include "posix/features.h"
#include "posix/process.h"

#define PAGE ((uintptr_t)4096)
#define LEAST ((uintptr_t)2 << 20) /* bytes that a small job grows by */
#define LEAST_STEP ((uintptr_t)512 << 10)
#define MOST_STEP ((uintptr_t)4 << 20)
#define COPIED_FROM ((uintptr_t)8 << 20)  /* bytes: a process that grows by so much goes on */
#define MOST_COPIED ((uintptr_t)48 << 20) /* R with its own packages has 32 MB */

static struct {
  uintptr_t begin, ahead; /* the heap's end then, and up to where its pages are there */
  int is_large;           /* it has grown by LEAST */
  int is_copied;          /* the parent's pages are, or cannot be */
} heap;

static uintptr_t end_of_heap(void) { return (uintptr_t)sbrk(0); }

static int populate(uintptr_t from, uintptr_t to) {
  from = from / PAGE * PAGE;
  to = to / PAGE * PAGE;
  return to <= from || madvise((void *)from, to - from, MADV_POPULATE_WRITE) == 0;
}

/* Where the heap begins, by field 47 of /proc/self/stat; 0: not known. */
static uintptr_t begin_of_heap(void) {
  char text[1024], *at = clu_skip_fields(clu_read_stat(getpid(), text, sizeof text), 44);
  return at ? (uintptr_t)strtoull(at, NULL, 10) : 0;
}

/* A small job may need only a little of it. A large heap has data, which the nodes go on sharing.
 */
static void copy_parents(uintptr_t grown) {
  uintptr_t from;
  if (grown < COPIED_FROM) return;
  heap.is_copied = 1;
  from = begin_of_heap();
  if (from != 0 && from < heap.begin && heap.begin - from <= MOST_COPIED)
    populate(from, heap.begin);
}

void clu_os_heap_begin(void) {
  memset(&heap, 0, sizeof heap);
  heap.begin = heap.ahead = end_of_heap();
}

void clu_os_heap_ahead(int inherits) {
  uintptr_t end = end_of_heap(), step;
  if (end == heap.ahead || heap.begin == 0) return;
  if (end < heap.ahead) heap.ahead = end; /* free memory was given back */
  if (end < heap.begin + LEAST || end == heap.ahead) return;
  if (!heap.is_large) clu_os_keep_freed(); /* mallopt() ends what the C library does by itself */
  heap.is_large = 1;
  step = (end - heap.begin) / 8;
  step = step < LEAST_STEP ? LEAST_STEP : step > MOST_STEP ? MOST_STEP : step;
  mallopt(M_TOP_PAD, (int)step);
  if (!populate(heap.ahead, end)) { /* this system cannot */
    heap.begin = 0;
    mallopt(M_TOP_PAD, 128 << 10); /* as it was */
    return;
  }
  heap.ahead = end;
  if (inherits && !heap.is_copied) copy_parents(end - heap.begin);
}

#else

void clu_os_heap_begin(void) {}
void clu_os_heap_ahead(int inherits) { (void)inherits; }

#endif
