#include "core/base/slab.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define BLOCKS 1024 /* more than that come from malloc() */

typedef union block {
  union block *next;
  max_align_t align;
  unsigned char bytes[CLU_SLAB];
} block;

static _Alignas(4096) block area[BLOCKS]; /* the first 32 are one page */
static block *spare;                      /* freed blocks, the last one first */
static int used;
static int is_left; /* written while there is one thread */

void *clu_slab_new(void) {
  block *b = spare;
  if (is_left) return malloc(sizeof *b);
  if (b) {
    spare = b->next;
    return b;
  }
  return used < BLOCKS ? &area[used++] : malloc(sizeof *b);
}

void clu_slab_free(void *p) {
  block *b = p;
  if (!b) return;
  if ((uintptr_t)b < (uintptr_t)area || (uintptr_t)b >= (uintptr_t)(area + BLOCKS)) {
    free(b);
    return;
  }
  if (is_left) return;
  b->next = spare;
  spare = b;
}

void clu_slab_leave(void) { is_left = 1; }
