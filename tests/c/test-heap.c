/* Pages of the heap that are asked for before they are written to, in a forked child: a small job
 * asks for none, a large one for those to come and for the parent's, and what they hold stays. */
#include "test.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/base/os-heap.h"
#include "core/base/os.h"

enum { PIECE = 2000, LARGE = 20000, SMALL = 440, PAGE = 4096 };

static unsigned char *piece[LARGE];
static unsigned char *parents; /* one piece of the heap that the child has inherited */

static void grow(int from, int to, int inherits) {
  for (int i = from; i < to; i++) {
    piece[i] = malloc(PIECE);
    if (!piece[i]) _exit(9);
    memset(piece[i], i & 255, PIECE);
    clu_os_heap_ahead(inherits);
  }
}

/* Tells whether the page below the heap's end is there. Nothing has written to it. Heaps of other C
 * libraries do not end there. */
static int is_last_page_there(void) {
#if defined(__GLIBC__)
  unsigned char there = 0;
  uintptr_t end = (uintptr_t)sbrk(0) / PAGE * PAGE;
  return mincore((void *)(end - PAGE), PAGE, &there) == 0 && (there & 1);
#else
  return 0;
#endif
}

static int holds_what_was_written(int n) {
  for (int i = 0; i < n; i++)
    for (int k = 0; k < PIECE; k += 999)
      if (piece[i][k] != (i & 255)) return 0;
  return parents[0] == 7 && parents[PIECE - 1] == 7;
}

static int small_job(void) {
  clu_os_heap_begin();
  grow(0, SMALL, 1);
  return holds_what_was_written(SMALL) ? is_last_page_there() : 8;
}

static int large_job(void) {
  int there;
  clu_os_heap_begin();
  grow(0, LARGE, 1);
  there = is_last_page_there();
  parents[1] = 8; /* a page of this process by now */
  return holds_what_was_written(LARGE) ? there : 8;
}

static long faults(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return r.ru_minflt;
}

/* Tells whether the parent's pages were copied, of which there are more than this job writes to. */
static int job_of_large_parent(void) {
  enum { FEW = LARGE / 2 };
  long before = faults();
  clu_os_heap_begin();
  grow(0, FEW, 1);
  if (!holds_what_was_written(FEW)) return 8;
  return faults() - before > 2 * (long)FEW * PIECE / PAGE;
}

/* Freed memory goes back to the system, below where the heap was, and is taken again. */
static int job_after_trim(void) {
  clu_os_heap_begin();
  grow(0, LARGE, 0);
  for (int i = 0; i < LARGE; i++) free(piece[i]);
  clu_os_release_memory();
  clu_os_heap_ahead(0);
  grow(0, LARGE, 0);
  return holds_what_was_written(LARGE) ? 0 : 8;
}

static int in_child(int (*job)(void)) {
  int status = -1;
  pid_t pid = fork();
  if (pid == 0) _exit(job());
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void parent_has_a_piece(void) {
  if (!parents) parents = malloc(PIECE);
  REQUIRE(parents != NULL);
  memset(parents, 7, PIECE);
}

/* This system can do it, and the heap is the C library's. */
static int can_ask(void) {
#if defined(__GLIBC__) && defined(__linux__) && !defined(CLU_PORTABLE)
  void *p = TEST_SANITIZED
                ? MAP_FAILED
                : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int can = p != MAP_FAILED && madvise(p, PAGE, 23) == 0;
  if (p != MAP_FAILED) munmap(p, PAGE);
  return can;
#else
  return 0;
#endif
}

TEST(a_small_job_asks_for_no_page) {
  parent_has_a_piece();
  CHECK_INT_EQ(in_child(small_job), 0);
}

TEST(a_large_job_has_its_next_pages_and_keeps_the_parents) {
  parent_has_a_piece();
  CHECK_INT_EQ(in_child(large_job), can_ask());
  CHECK_INT_EQ(parents[1], 7);
}

TEST(a_large_heap_of_the_parents_stays_shared) {
  enum { BLOCK = 100000, BLOCKS = 800 };
  static unsigned char *block[BLOCKS];
  parent_has_a_piece();
  for (int i = 0; i < BLOCKS; i++) {
    block[i] = malloc(BLOCK);
    REQUIRE(block[i] != NULL);
    memset(block[i], 1, BLOCK);
  }
  CHECK_INT_EQ(in_child(job_of_large_parent), 0);
  for (int i = 0; i < BLOCKS; i++) free(block[i]);
}

TEST(what_was_freed_may_go_back_meanwhile) {
  parent_has_a_piece();
  CHECK_INT_EQ(in_child(job_after_trim), 0);
}

TEST(nothing_is_done_where_it_was_not_begun) {
  parent_has_a_piece();
  grow(0, 10, 1);
  CHECK(holds_what_was_written(10));
  for (int i = 0; i < 10; i++) free(piece[i]);
}
