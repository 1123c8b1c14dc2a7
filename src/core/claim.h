/* What master and node have in one memory. Who may start a task: the node that it was sent to, or the master that takes it back.
 *
 * Tasks of a node are numbered in the order in which they were sent. One word, shared by node and
 * master, holds the smallest number that may still be started. The node moves it past a task before it starts
 * it, the master moves it past all that it has sent to take back what was not started. Both do so by one compare
 * and exchange, so every task is started or taken back, never both; and after a node's death the word
 * says what it had started.
 */
#ifndef CLUTCH_CLAIM_H
#define CLUTCH_CLAIM_H

#include <stdatomic.h>
#include <stdint.h>

#include "ring.h"

typedef _Atomic uint64_t clu_claim;

#define CLU_SLOTS 65536 /* nodes of one owner that are alive at a time */
#define CLU_RINGS 1024  /* of these have a ring */

/* The memory that whoever starts nodes shares with them, a slot each. The master gives the slots. */
typedef struct clu_shared {
  volatile uint64_t cancel[CLU_SLOTS]; /* the request that the node is to give up */
  clu_claim claim[CLU_SLOTS];
  clu_ring ring[CLU_RINGS];
} clu_shared;

/* For a node to come. */
static inline void clu_shared_reset(clu_shared *s, int slot) {
  s->cancel[slot] = 0;
  atomic_store(&s->claim[slot], 0);
  if (slot < CLU_RINGS) clu_ring_reset(&s->ring[slot]);
}

/* NULL: this slot has none. */
static inline clu_ring *clu_shared_ring(clu_shared *s, int slot) {
  return slot >= 0 && slot < CLU_RINGS ? &s->ring[slot] : NULL;
}

/* The node's: 1, `seq` is its to start; 0: it was taken back. */
static inline int clu_claim_start(clu_claim *w, uint64_t seq) {
  uint64_t now = atomic_load(w);
  while (now <= seq)
    if (atomic_compare_exchange_weak(w, &now, seq + 1)) return 1;
  return 0;
}

/* The master's: takes back what is below `end` and not started. The first of these, or `end`. */
static inline uint64_t clu_claim_take_back(clu_claim *w, uint64_t end) {
  uint64_t now = atomic_load(w);
  while (now < end)
    if (atomic_compare_exchange_weak(w, &now, end)) return now;
  return end;
}

/* The first number that was not started. */
static inline uint64_t clu_claim_look(clu_claim *w) { return atomic_load(w); }

#endif
