/* The result ring: small results on their way from a node to the session, in memory that both have
 * mapped.
 *
 * A ring buffer with one writer (the node) and one reader (the session). Neither waits, nothing
 * blocks, and no lock is taken: each side owns one counter. A record of `n` bytes is seen by the
 * reader once it is published, and in order. What was published before the writer died can still be
 * read. Nothing here wakes the reader: the writer sends CLU_K_RESULTS_READY, where
 * clu_ring_must_tell() says so. It need not while the reader looks at the ring all the time, nor
 * while another such message was not read yet.
 *
 * Format: before each record are 8 bytes with its size, and it fills a multiple of 8. A record does
 * not wrap around: where it does not fit before the end, a size of UINT64_MAX says that the next
 * record is at the beginning.
 *
 * The reader of a node on another host is the proxy there (core/link/rings.c).
 *
 * The writer runs user's code and may have written anything (a corrupt peer): clu_ring_peek()
 * checks all that it reads. The memory belongs to clu_shared (node-memory.h).
 *
 * A node with tasks shorter than 20 us does not send CLU_K_RESULTS_READY for each of them.
 */
#ifndef CLUTCH_RESULT_RING_H
#define CLUTCH_RESULT_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CLU_RING_BYTES 262144u
#define CLU_RING_MOST 4096u /* bytes of a record */

typedef struct clu_ring {
  _Atomic uint64_t tail;    /* bytes that were ever written; the writer's */
  char apart[56];           /* the two counters are on different cache lines */
  _Atomic uint64_t head;    /* and read; the reader's */
  _Atomic uint32_t looking; /* the reader looks here all the time; the reader's */
  _Atomic uint32_t told;    /* a message is on its way; set by the writer, cleared by the reader */
  char apart_too[48];
  unsigned char data[CLU_RING_BYTES];
} clu_ring;

/* Before anybody uses it. */
void clu_ring_reset(clu_ring *r);
/* The writer's: where a record of at most `n` <= CLU_RING_MOST bytes may be written; NULL: the ring
 * is full. */
unsigned char *clu_ring_room(clu_ring *r, size_t n);
/* The writer's: the record has been written and is `n` bytes, 1 or more. */
void clu_ring_publish(clu_ring *r, size_t n);
/* The writer's, after it has published: whether the reader has to be told by a message, which the
 * caller sends then. */
int clu_ring_must_tell(clu_ring *r);
/* The reader's: such a message has come. Then it looks into the ring. */
void clu_ring_heard(clu_ring *r);
/* The reader's: from now on it looks into the ring all the time; no more. After the latter it looks
 * once more. */
void clu_ring_look(clu_ring *r, int looking);
/* Positions: how many bytes have been written to it, and how many read. */
static inline uint64_t clu_ring_written(const clu_ring *r) {
  return atomic_load_explicit(&r->tail, memory_order_acquire);
}
static inline uint64_t clu_ring_read(const clu_ring *r) {
  return atomic_load_explicit(&r->head, memory_order_relaxed);
}
/* How full it is, in bytes. */
size_t clu_ring_used(const clu_ring *r);
/* The reader's: the oldest record and its size, there until clu_ring_took(). NULL with `*n` 0:
 * there is none. NULL with another `*n`: the ring is corrupt. */
const unsigned char *clu_ring_peek(clu_ring *r, size_t *n);
void clu_ring_took(clu_ring *r);

#endif
