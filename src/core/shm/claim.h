/* The claim word: whether a task is started by the node that it was sent to, or taken back by the
 * session.
 *
 * Tasks of a node are numbered in the order in which they were sent. One word, in memory that node
 * and session share, holds the smallest number that may still be started. The node moves it past a
 * task before it starts that. The session moves it past all tasks that it has sent, and so takes
 * back those not started. Both use compare and exchange, so each task is started or taken back and
 * never both. After a node's death the word says what it had started. No function blocks or fails.
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

/* The session's: takes back what is below `end` and not started. The first of these, or `end`. */
static inline uint64_t clu_claim_take_back(clu_claim *w, uint64_t end) {
  uint64_t now = atomic_load(w);
  while (now < end)
    if (atomic_compare_exchange_weak(w, &now, end)) return now;
  return end;
}

/* The first number that was not started. */
static inline uint64_t clu_claim_first(clu_claim *w) { return atomic_load(w); }

#endif
