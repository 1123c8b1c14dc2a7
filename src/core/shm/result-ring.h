/* Small results on their way from a node to the master, in memory that both have mapped.
 *
 * One writer (the node), one reader (the master); neither waits. A record is `n` bytes, seen by the reader once it is
 * published, and in order; what was published before the writer died can still be read. Nothing here wakes
 * anybody: the writer sends CLU_K_RESULTS_READY when it thinks it is time.
 *
 * The writer may be out of its mind: clu_ring_peek() trusts nothing that it reads.
 */
#ifndef CLUTCH_RING_H
#define CLUTCH_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CLU_RING_BYTES 262144u
#define CLU_RING_MOST 4096u /* bytes of a record */

typedef struct clu_ring {
  _Atomic uint64_t tail; /* bytes that were ever written; the writer's */
  char apart[56];        /* the two are on different lines of the cache */
  _Atomic uint64_t head; /* and read; the reader's */
  char apart_too[56];
  unsigned char data[CLU_RING_BYTES];
} clu_ring;

/* Before anybody uses it. */
void clu_ring_reset(clu_ring *r);
/* The writer's: where a record of at most `n` <= CLU_RING_MOST bytes may be written; NULL: it is full. */
unsigned char *clu_ring_room(clu_ring *r, size_t n);
/* It has been written and is `n` bytes, 1 or more. */
void clu_ring_publish(clu_ring *r, size_t n);
/* How full it is, in bytes. */
size_t clu_ring_used(const clu_ring *r);
/* The reader's: the oldest record and its size, there until clu_ring_took(). NULL: none, and then `*n` is 0; or there is no
 * sense in it, and then it is not. */
const unsigned char *clu_ring_peek(clu_ring *r, size_t *n);
void clu_ring_took(clu_ring *r);

#endif
