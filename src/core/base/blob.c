#include "core/base/blob.h"

#include "core/base/os.h"
#include "core/base/slab.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

clu_blob *clu_blob_new(size_t cap) {
  clu_blob *b = clu_slab_new();
  _Static_assert(sizeof *b <= CLU_SLAB, "a blob fits a block of the slab");
  if (!b) return NULL;
  if (cap < sizeof b->few) cap = sizeof b->few;
  b->data = cap > sizeof b->few ? malloc(cap) : b->few;
  if (!b->data) {
    clu_slab_free(b);
    return NULL;
  }
  clu_os_expect_writes(b->data, cap);
  b->refs = 1;
  b->size = 0;
  b->cap = cap;
  b->segments = NULL;
  return b;
}

/* 0, or -1 without memory; then the blob is unchanged. */
static int resize(clu_blob *b, size_t cap) {
  unsigned char *p = realloc(b->data != b->few ? b->data : NULL, cap);
  if (!p) return -1;
  if (b->data == b->few) memcpy(p, b->few, b->size);
  clu_os_expect_writes(p, cap);
  b->data = p;
  b->cap = cap;
  return 0;
}

/* Room for `want` bytes, and for half as much again as there was. Where that cannot be had, for a
 * quarter more, and so on: R appends four bytes at a time, and each step may copy all of them. */
static int grow(clu_blob *b, size_t want) {
  for (size_t more = b->cap / 2;; more /= 2) {
    size_t cap = b->cap + more > want ? b->cap + more : want;
    if (resize(b, cap) == 0) return 0;
    if (cap == want) return -1;
  }
}

int clu_blob_append(clu_blob *b, const void *bytes, size_t n) {
  if (n == 0) return 0;
  if (n > b->cap - b->size) {
    if (n > SIZE_MAX / 2 - b->size || grow(b, b->size + n) != 0) return -1;
  }
  if (bytes) memcpy(b->data + b->size, bytes, n);
  b->size += n;
  return 0;
}

void clu_blob_reserve(clu_blob *b, size_t n) {
  if (n > b->cap - b->size && n <= SIZE_MAX / 2 - b->size) resize(b, b->size + n);
}

int clu_blob_attach(clu_blob *b, clu_segment *s) {
  if (!b->segments) b->segments = calloc(1, sizeof *b->segments);
  if (!b->segments || b->segments->n == CLU_MAX_FDS) return -1;
  b->segments->of[b->segments->n] = s;
  return b->segments->n++;
}

uint64_t clu_blob_weight(const clu_blob *b) {
  return b->size + (b->segments ? clu_segments_size(b->segments) : 0);
}

clu_blob *clu_blob_ref(clu_blob *b) {
  b->refs++;
  return b;
}

void clu_blob_unref(clu_blob *b) {
  if (!b || --b->refs > 0) return;
  if (b->data != b->few) free(b->data);
  if (b->segments) {
    clu_segments_drop(b->segments);
    free(b->segments);
  }
  clu_slab_free(b);
}
