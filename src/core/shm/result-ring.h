/* The result ring: small results on their way from a node to the master, in memory that both have
 * mapped.
 *
 * A ring buffer with one writer (the node) and one reader (the master). Neither waits, nothing
 * blocks, and no lock is taken: each side owns one counter. A record of `n` bytes is seen by the
 * reader once it is published, and in order. What was published before the writer died can still be
 * read. Nothing here wakes the reader: the writer sends CLU_K_RESULTS_READY.
 *
 * Format: before each record are 8 bytes with its size, and it fills a multiple of 8. A record does
 * not wrap around: where it does not fit before the end, a size of UINT64_MAX says that the next
 * record is at the beginning.
 *
 * The writer runs user's code and may have written anything (a corrupt peer): clu_ring_peek()
 * checks all that it reads. The memory belongs to clu_shared (node-memory.h).
 */
#ifndef CLUTCH_RESULT_RING_H
#define CLUTCH_RESULT_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CLU_RING_BYTES 262144u
#define CLU_RING_MOST 4096u /* bytes of a record */

typedef struct clu_ring {
  _Atomic uint64_t tail; /* bytes that were ever written; the writer's */
  char apart[56];        /* the two counters are on different cache lines */
  _Atomic uint64_t head; /* and read; the reader's */
  char apart_too[56];
  unsigned char data[CLU_RING_BYTES];
} clu_ring;

/* Before anybody uses it. */
void clu_ring_reset(clu_ring *r);
/* The writer's: where a record of at most `n` <= CLU_RING_MOST bytes may be written; NULL: the ring
 * is full. */
unsigned char *clu_ring_room(clu_ring *r, size_t n);
/* The writer's: the record has been written and is `n` bytes, 1 or more. */
void clu_ring_publish(clu_ring *r, size_t n);
/* How full it is, in bytes. */
size_t clu_ring_used(const clu_ring *r);
/* The reader's: the oldest record and its size, there until clu_ring_took(). NULL with `*n` 0:
 * there is none. NULL with another
 * `*n`: the ring is corrupt. */
const unsigned char *clu_ring_peek(clu_ring *r, size_t *n);
void clu_ring_took(clu_ring *r);

#endif
