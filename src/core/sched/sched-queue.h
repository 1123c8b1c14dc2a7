/* The scheduler's queues. They know nothing of each other, of nodes or of the time.
 *
 *   clu_fifo      items of one size, first in, first out: what both of the following are made of
 *   clu_pending   the tasks of one job that are with no node
 *   clu_batches   what one node has: a ring of batches, in the order in which they were sent
 *
 * Ownership: each owns its memory, freed by its fini(), which accepts zeroed memory. Zeroed memory
 * is an empty queue (clu_pending: of a job with no tasks). Failure: functions that may need memory
 * return CLU_OK, or CLU_NOMEM with nothing changed. Nothing blocks.
 */
#ifndef CLUTCH_SCHED_QUEUE_H
#define CLUTCH_SCHED_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct clu_job;

/* ---- first in, first out ---- */

typedef struct clu_fifo {
  unsigned char *items;
  size_t head, end, cap; /* counted in items; those that are there: head ... end - 1 */
} clu_fifo;

int clu_fifo_push(clu_fifo *q, const void *item, size_t size);
static inline size_t clu_fifo_length(const clu_fifo *q) { return q->end - q->head; }
/* The k-th of those that are there. */
static inline void *clu_fifo_at(const clu_fifo *q, size_t k, size_t size) {
  return q->items + (q->head + k) * size;
}
/* The first one is not there any more. */
static inline void clu_fifo_pop(clu_fifo *q) {
  if (++q->head == q->end) q->head = q->end = 0;
}
static inline void clu_fifo_clear(clu_fifo *q) { q->head = q->end = 0; }
void clu_fifo_fini(clu_fifo *q);

/* ---- the tasks of a job that are with no node ---- */

typedef struct clu_range {
  uint64_t first, n;
} clu_range;

/* Tasks are 0 ... total - 1. Those from `next` on never left; the others that wait were taken back
 * from a node that had not begun them, or are to be tried again since their node died. */
typedef struct clu_pending {
  uint64_t total, next;
  uint64_t until;      /* those from this number on stay here; UINT64_MAX: none has to */
  uint64_t waiting;    /* how many wait, of the three kinds together */
  clu_range *returned; /* a stack, so that they leave before what never left, and in their order */
  size_t nreturned, capreturned;
  clu_fifo retries; /* of clu_retry */
  uint8_t *starts;  /* by task: starts that ended with a node's death; NULL: none did */
  uint8_t *excused; /* by task: so many of these do not count as retries; NULL: all do */
} clu_pending;

typedef struct clu_retry {
  uint64_t task;
  int last; /* the node with which it died: it must not meet that again */
} clu_retry;

/* This was taken from there. */
typedef struct clu_taken {
  uint64_t first;
  uint32_t n, attempt; /* attempt: 1 for the first. Of a retry n is 1 */
  int last;            /* of a retry: the node that must not get it, where there is another */
} clu_taken;

void clu_pending_init(clu_pending *q, uint64_t total);
/* Does the same without tasks that have a flag in `done`. CLU_OK or CLU_NOMEM; then there are
 * none. */
int clu_pending_init_without(clu_pending *q, uint64_t total, const unsigned char *done);
void clu_pending_fini(clu_pending *q);
/* Tasks that were not begun wait again. */
int clu_pending_return(clu_pending *q, uint64_t first, uint64_t n);
/* A task whose start number `attempt` has ended with the death of node `last` waits again. */
int clu_pending_retry(clu_pending *q, uint64_t task, uint32_t attempt, int last);
/* How often it was started, as far as nodes have died of it. */
static inline uint32_t clu_pending_starts(const clu_pending *q, uint64_t task) {
  return q->starts ? q->starts[task] : 0;
}
/* How many of its starts do not count. */
static inline uint32_t clu_pending_excused(const clu_pending *q, uint64_t task) {
  return q->excused ? q->excused[task] : 0;
}
/* One more of them does not. CLU_OK or CLU_NOMEM. */
int clu_pending_excuse(clu_pending *q, uint64_t task);
/* The node that the first retry must not meet again; -1: no retry waits. */
static inline int clu_pending_first_avoids(const clu_pending *q) {
  return clu_fifo_length(&q->retries)
             ? ((clu_retry *)clu_fifo_at(&q->retries, 0, sizeof(clu_retry)))->last
             : -1;
}
/* Tells whether a task waits that any node may have now: no retry, and before `until`. */
int clu_pending_has_plain(const clu_pending *q);
/* Tells whether a task waits, others than retries that must not meet node `avoid` (-1: all
 * count). */
int clu_pending_has(const clu_pending *q, int avoid);
/* Tells whether a task waits that some node may have now. */
static inline int clu_pending_offers(const clu_pending *q) {
  return q->waiting > 0 && (q->until == UINT64_MAX || clu_pending_has(q, -1));
}
/* Takes at most `most` of them: first a retry, then what was taken back, then what never left. 1,
 * or 0: none. */
int clu_pending_take(clu_pending *q, uint32_t most, int avoid, clu_taken *out);
/* The first that this would take; one that waits, where none may leave yet; UINT64_MAX: none. */
uint64_t clu_pending_first(const clu_pending *q, int avoid);
/* Nothing waits any more. */
void clu_pending_clear(clu_pending *q);

/* ---- the batches of a node ---- */

/* Tasks first ... first + n - 1 of a job, with a node as its tasks number seq, seq + 1, ... */
typedef struct clu_batch {
  struct clu_job *job;
  uint64_t first, seq, sent;
  uint32_t n, attempt;
  int last;      /* of a retry: the node that it must not meet again */
  int cancelled; /* nobody wants the answers */
} clu_batch;

typedef struct clu_batches {
  clu_batch *items; /* a ring; `cap` is a power of two */
  uint32_t head, len, cap;
} clu_batches;

static inline clu_batch *clu_batches_at(const clu_batches *q, uint32_t k) {
  return &q->items[(q->head + k) & (q->cap - 1)];
}
/* One more at the end: CLU_OK and it is *out, all of which the caller has to set. */
int clu_batches_push(clu_batches *q, clu_batch **out);
static inline void clu_batches_pop_first(clu_batches *q) {
  q->head = (q->head + 1) & (q->cap - 1);
  q->len--;
}
static inline void clu_batches_pop_last(clu_batches *q) { q->len--; }
void clu_batches_fini(clu_batches *q);

#endif
