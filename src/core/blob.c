#include "blob.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

clu_blob *clu_blob_new(size_t cap) {
  clu_blob *b = malloc(sizeof *b);
  if (!b) return NULL;
  if (cap < 64) cap = 64;
  b->data = malloc(cap);
  if (!b->data) {
    free(b);
    return NULL;
  }
  b->refs = 1;
  b->size = 0;
  b->cap = cap;
  return b;
}

int clu_blob_append(clu_blob *b, const void *bytes, size_t n) {
  if (n == 0) return 0;
  if (n > b->cap - b->size) {
    size_t want, cap = b->cap + b->cap / 2;
    unsigned char *bigger;
    if (n > SIZE_MAX / 2 - b->size) return -1;
    want = b->size + n;
    if (cap < want) cap = want;
    bigger = realloc(b->data, cap);
    if (!bigger && cap > want) bigger = realloc(b->data, cap = want);
    if (!bigger) return -1;
    b->data = bigger;
    b->cap = cap;
  }
  memcpy(b->data + b->size, bytes, n);
  b->size += n;
  return 0;
}

clu_blob *clu_blob_ref(clu_blob *b) {
  b->refs++;
  return b;
}

void clu_blob_unref(clu_blob *b) {
  if (!b || --b->refs > 0) return;
  free(b->data);
  free(b);
}
