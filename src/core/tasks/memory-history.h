/* How much memory of their own the nodes of a cluster had, over time: samples of those on this
 * machine, one node after the other, taken where the session is at work for its tasks anyway.
 *
 * A sample takes 15 to 100 us of the session, more of large nodes. So a pause follows it that is
 * PAUSE_COST times as long, and no two are nearer than LEAST_PAUSE. When there are too many, each
 * two samples of a node become one with the larger number, and pauses are twice as long from then
 * on: so the whole time is kept, in bounded memory. Without memory none is kept.
 */
#ifndef CLUTCH_MEMORY_HISTORY_H
#define CLUTCH_MEMORY_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/os.h"
#include "core/view/process-use.h"

typedef struct clu_memory_sample {
  uint64_t at; /* clu_os_now() */
  int64_t own; /* bytes */
  uint32_t node, round;
} clu_memory_sample;

/* This is known of a node's process. */
typedef struct clu_memory_seen {
  clu_process_use use;
  clu_process_pages weighed; /* its pages, when it was */
  uint64_t again;            /* when to weigh it, or again; until then it is estimated */
} clu_memory_seen;

typedef struct clu_memory_history {
  clu_memory_sample *samples; /* in the order in which they were taken */
  size_t n, cap;
  clu_memory_seen *nodes;
  int nnodes, next;
  uint32_t round;
  uint64_t due;    /* when the next is to be taken */
  uint64_t slower; /* the least pause is so many times as long as at the beginning; 0: as long */
} clu_memory_history;

/* A process of this machine that is node `i`; 0: there is none. */
typedef clu_pid clu_memory_pid(const void *of, int i);

/* Takes the next sample. To be called when `due` has passed. `n`: nodes. */
void clu_memory_history_next(clu_memory_history *h, int n, clu_memory_pid *pid, const void *of);
/* One of each node, for which each is weighed that has got or freed memory since. */
void clu_memory_history_all(clu_memory_history *h, int n, clu_memory_pid *pid, const void *of);
void clu_memory_history_free(clu_memory_history *h); /* accepts zeroed memory */

#endif
