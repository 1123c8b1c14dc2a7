#include "core/journal/index.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

#define FIRST_CAP 1024

/* The place of the key, or that where it would be. */
static clu_journal_entry *find(const clu_journal_index *x, const unsigned char *key) {
  uint64_t k;
  memcpy(&k, key, sizeof k); /* a hash already */
  for (;; k++) {
    clu_journal_entry *e = &x->entries[k & (x->cap - 1)];
    if (!e->at || memcmp(e->key, key, CLU_HASH) == 0) return e;
  }
}

static int grow(clu_journal_index *x) {
  clu_journal_index more = {NULL, x->n, x->cap ? 2 * x->cap : FIRST_CAP};
  more.entries = calloc(more.cap, sizeof *more.entries);
  if (!more.entries) return CLU_NOMEM;
  for (size_t i = 0; i < x->cap; i++)
    if (x->entries[i].at) *find(&more, x->entries[i].key) = x->entries[i];
  free(x->entries);
  *x = more;
  return CLU_OK;
}

int clu_journal_index_put(clu_journal_index *x, const unsigned char key[CLU_HASH], uint64_t at,
                          int is_error) {
  clu_journal_entry *e;
  if (4 * (x->n + 1) > 3 * x->cap && grow(x) != CLU_OK) return CLU_NOMEM;
  e = find(x, key);
  if (e->at && is_error && !(e->at & 1)) return CLU_OK;
  if (!e->at) {
    x->n++;
    memcpy(e->key, key, CLU_HASH);
  }
  e->at = at | (is_error ? 1 : 0);
  return CLU_OK;
}

int clu_journal_index_get(const clu_journal_index *x, const unsigned char key[CLU_HASH],
                          uint64_t *at, int *is_error) {
  const clu_journal_entry *e = x->cap ? find(x, key) : NULL;
  if (!e || !e->at) return 0;
  *at = e->at & ~(uint64_t)1;
  *is_error = (int)(e->at & 1);
  return 1;
}

void clu_journal_index_fini(clu_journal_index *x) {
  free(x->entries);
  memset(x, 0, sizeof *x);
}
