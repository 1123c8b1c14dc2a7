/* Who may start a task: the node that it was sent to, or the master that takes it back.
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

typedef _Atomic uint64_t clu_claim;

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
static inline uint64_t clu_claim_first(clu_claim *w) { return atomic_load(w); }

#endif
