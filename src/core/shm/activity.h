/* The activity of a node: what it is at, in memory that it shares with the session and with its
 * fork server. The node writes it, anybody reads it, at any time and without a lock. Nothing blocks
 * or fails.
 *
 * Each number is written by itself, so a reader may see the beginning of one task with the number
 * of another. It reads again where that matters.
 */
#ifndef CLUTCH_ACTIVITY_H
#define CLUTCH_ACTIVITY_H

#include <stdatomic.h>
#include <stdint.h>

/* One cache line: what a node writes does not disturb its neighbours. */
typedef struct clu_activity {
  _Atomic uint64_t seq;       /* the request or task at hand, as the session counts; 0: none */
  _Atomic uint64_t since;     /* when that began (clu_os_now()); of a quick task an estimate */
  _Atomic uint64_t ended;     /* how many requests and tasks have ended */
  _Atomic uint64_t pid;       /* of the node; its fork server writes it */
  _Atomic uint64_t gave_back; /* bytes of memory, to the system while it was idle */
  _Atomic uint64_t put_off;   /* until then its cancelling waited; UINT64_MAX: it does still */
  char apart[16];
} clu_activity;

static inline void clu_activity_begin(clu_activity *a, uint64_t seq, uint64_t now) {
  if (!a) return;
  atomic_store_explicit(&a->since, now, memory_order_relaxed);
  atomic_store_explicit(&a->seq, seq, memory_order_release);
}

static inline void clu_activity_end(clu_activity *a) {
  if (!a) return;
  atomic_store_explicit(&a->ended, atomic_load_explicit(&a->ended, memory_order_relaxed) + 1,
                        memory_order_relaxed);
  atomic_store_explicit(&a->seq, 0, memory_order_release);
}

static inline void clu_activity_gave_back(clu_activity *a, int64_t bytes) {
  if (a) atomic_fetch_add_explicit(&a->gave_back, (uint64_t)bytes, memory_order_relaxed);
}

/* The cancelling of what is at hand waits for something else that is done within it. For a signal
 * handler, too. */
static inline void clu_activity_put_off(clu_activity *a) {
  if (a) atomic_store(&a->put_off, UINT64_MAX);
}

/* That has ended. */
static inline void clu_activity_go_on(clu_activity *a, uint64_t now) {
  uint64_t waits = UINT64_MAX;
  if (a) atomic_compare_exchange_strong(&a->put_off, &waits, now);
}

/* The number of what is at hand and since when that is so; 0: nothing is. */
static inline uint64_t clu_activity_look(const clu_activity *a, uint64_t *since) {
  uint64_t seq, again;
  int tries = 0;
  if (!a) return 0;
  again = atomic_load_explicit(&a->seq, memory_order_acquire);
  do {
    seq = again;
    *since = atomic_load_explicit(&a->since, memory_order_acquire); /* before the next */
    again = atomic_load_explicit(&a->seq, memory_order_acquire);
  } while (seq != again && ++tries < 4);
  return again;
}

#endif
