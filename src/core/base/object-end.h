/* Where an R object ends in the bytes of R's serialization format (R Internals, section 1.8): they
 * do not say their number. Formats "X" (big-endian) and "B" (this machine's order), with header.
 *
 * Nothing here blocks, and nothing is owned.
 */
#ifndef CLUTCH_OBJECT_END_H
#define CLUTCH_OBJECT_END_H

#include <stddef.h>
#include <stdint.h>

typedef struct clu_object_end {
  size_t at;      /* where the next item begins; before it all bytes are understood */
  uint64_t items; /* that are to come */
} clu_object_end;

enum {
  CLU_OBJECT_GOES_ON,
  CLU_OBJECT_ENDS,   /* with the last byte */
  CLU_OBJECT_UNKNOWN /* where it ends cannot be told: compiled code, long vectors, other formats,
                        and bytes behind the end */
};

/* Says what is known so far of the object that begins at `bytes`, of which there are `n`. `*o` is
 * all 0 at first; later calls have the same bytes and more. */
int clu_object_look(clu_object_end *o, const unsigned char *bytes, size_t n);

/* For one that goes on: says whether bytes are to come of which the number is known, as of a text.
 */
static inline int clu_object_in_data(const clu_object_end *o, size_t n) { return o->at > n; }

#endif
