/* Bytes that several owners share: counted references, one thread. */
#ifndef CLUTCH_BLOB_H
#define CLUTCH_BLOB_H

#include <stddef.h>

typedef struct clu_blob {
  long refs;
  size_t size, cap;
  unsigned char *data; /* `few`, or memory of its own */
  unsigned char few[64];
} clu_blob;

/* A blob of size 0 with room for `cap` bytes and one reference; NULL without memory. */
clu_blob *clu_blob_new(size_t cap);
/* Appends, growing by half as needed; NULL: room only, which the caller fills. 0, or -1 without memory (the blob is unchanged). */
int clu_blob_append(clu_blob *b, const void *bytes, size_t n);
clu_blob *clu_blob_ref(clu_blob *b);
void clu_blob_unref(clu_blob *b); /* accepts NULL; frees with the last reference */

#endif
