/* This is what a fork server does once so that none of its nodes has to: what each would write
 * anyway, and room for what it will write.
 *
 * A node shares all pages with its fork server until it writes to them. Each such page is copied,
 * which takes some 3 us, and the first in a huge page breaks that up. After the start of an R small
 * blocks of free memory are left all over the heap, one in a page. Whoever allocates gets these
 * first. So they are used up here: what a node allocates lies together then.
 */
#include "r/base/entry-points.h"
#include "r/node/node.h"
#include "r/share/share.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os-forks.h"

/* ---- R's cells ---- */

static uint64_t page_of(const void *p) { return (uint64_t)(uintptr_t)p >> 12; }

/* Allocates cells until they lie together, or `*left` were used up: vectors of `n` numbers, or with
 * -1 cells of lists, which are as large as environments and promises. They are garbage at once, and
 * free again only after a collection. */
static void use_up_cells(R_xlen_t n, double *left) {
  /* batches of 32 cells, each in 4 pages: enough of them in a row */
  enum { BATCH = 32, FEW = 4, ENOUGH = 6 };
  for (int row = 0; row < ENOUGH && *left >= BATCH; *left -= BATCH) {
    uint64_t last = 0;
    int pages = 0;
    for (int i = 0; i < BATCH; i++) {
      SEXP cell = n < 0 ? Rf_cons(R_NilValue, R_NilValue) : Rf_allocVector(REALSXP, n);
      pages += page_of(cell) != last;
      last = page_of(cell);
    }
    row = pages <= FEW ? row + 1 : 0;
  }
}

/* ---- blocks of malloc() ---- */

/* glibc hands out blocks that were freed last first, up to seven of each size: these lie together
 * then. Elsewhere it does no harm. */
static void put_blocks_together(size_t size) {
  enum { TOGETHER = 7, MOST = 256 };
  char *block[MOST];
  int n = 0, row = 0; /* the last `row` blocks lie side by side */
  while (n < MOST && row < TOGETHER && (block[n] = malloc(size))) {
    intptr_t step = n > 0 ? (intptr_t)block[n] - (intptr_t)block[n - 1] : 0;
    row = step > 0 && step <= (intptr_t)size + 32 ? row + 1 : 1;
    n++;
  }
  for (int i = n - 1; i >= 0; i--) free(block[i]);
}

/* Larger free blocks are kept for good, until new ones lie side by side at the end of the heap. Of
 * the others each would have a node write to two or three pages: its own, and those of its
 * neighbours in the list of free blocks. They are some 4 MB; where the C library never puts blocks
 * side by side it ends when `left`, a number of bytes, is used up. */
static void use_up_blocks(size_t size, size_t *left) {
  enum { TOGETHER = 4 };
  char *last[TOGETHER] = {NULL};
  int row = 0;
  for (; row < TOGETHER && *left >= size; *left -= size) {
    char *p = malloc(size);
    intptr_t step = row > 0 ? (intptr_t)p - (intptr_t)last[row - 1] : 0;
    if (!p) break;
    if (step <= 0 || step > (intptr_t)size + 32) row = 0;
    last[row++] = p;
  }
  while (row > 0) free(last[--row]);
}

/* glibc maps blocks of 128 KB and more by themselves, until one was freed: from then on only larger
 * ones, and it keeps twice as much of what is free at the end of the heap. An R that has started
 * has freed some MB at once; the fork server has not. Its nodes gave large vectors back and got
 * them again: 200 of 1.6 MB took 77,000 page faults, on a node of base R none. */
static void keep_large_blocks(void) {
  static const size_t size = 4 << 20;
  void *volatile p = malloc(size);
  free(p);
}

/* ---- all of it ---- */

/* Does what a node does at its first task and at its end. */
SEXP ffi_fork_server_warm_up(void) {
  ffi_work_output();
  clu_state_remember(0, 0);
  clu_state_is_bare();
  return R_NilValue;
}

/* R itself, the C library, this package. */
static void share_code(void) {
  SEXP (*of_r)(SEXP, SEXP) = Rf_eval;
  void *(*of_c)(void *, const void *, size_t) = memcpy;
  SEXP (*ours)(SEXP) = ffi_fork_server_use_up;
  const void *in[3];
  memcpy(&in[0], &of_r, sizeof *in); /* C has no cast from the address of a function */
  memcpy(&in[1], &of_c, sizeof *in);
  memcpy(&in[2], &ours, sizeof *in);
  clu_os_inherit_code(in, 3);
}

/* `most`: cells of R's heap. R has a class of cells for each of these lengths. */
SEXP ffi_fork_server_use_up(SEXP most) {
  static const R_xlen_t lengths[] = {-1, 1, 2, 4, 8, 16};
  size_t left = (size_t)16 << 20;
  double cells = Rf_asReal(most);
  clu_shared_settle();
  share_code();
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) use_up_cells(lengths[k], &cells);
  for (size_t size = 65536; size > 1032; size = size * 7 / 8) use_up_blocks(size, &left);
  for (size_t size = 24; size <= 1032; size += 16) put_blocks_together(size);
  keep_large_blocks();
  clu_give_back_begin();
  return R_NilValue;
}
