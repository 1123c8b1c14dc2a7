/* A blob: bytes that several owners share by counted references. One thread. Up to 64 bytes lie in
 * the blob itself, so that small messages need no memory but a block of the slab. Who appends must
 * hold the only reference. A blob may bring segments, which its bytes name by their place in the
 * list. Nothing blocks. */
#ifndef CLUTCH_BLOB_H
#define CLUTCH_BLOB_H

#include <stddef.h>

#include "core/base/segment.h"

typedef struct clu_blob {
  long refs;
  size_t size, cap;
  unsigned char *data;    /* `few`, or memory of its own */
  clu_segments *segments; /* NULL: none */
  unsigned char few[64];
} clu_blob;

/* A blob of size 0 with room for `cap` bytes and one reference; NULL without memory. */
clu_blob *clu_blob_new(size_t cap);
/* Appends `n` bytes, growing by half where needed. `bytes` NULL: only makes room, which the caller
 * fills. 0, or -1 without memory; then the blob is unchanged. */
int clu_blob_append(clu_blob *b, const void *bytes, size_t n);
/* Room for `n` bytes more. Without memory nothing happens. */
void clu_blob_reserve(clu_blob *b, size_t n);
/* It brings this segment, too: takes over the reference. Its place in the list; -1: there is no
 * room, and the reference stays the caller's. */
int clu_blob_attach(clu_blob *b, clu_segment *s);
/* Its bytes and those of the segments that it brings. */
uint64_t clu_blob_weight(const clu_blob *b);
clu_blob *clu_blob_ref(clu_blob *b);
void clu_blob_unref(clu_blob *b); /* accepts NULL; frees with the last reference */

#endif
