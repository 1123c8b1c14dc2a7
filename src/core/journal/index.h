/* Where the record of a key is: a table with open addressing. 24 bytes an entry, three quarters of
 * them in use at the most. Accepts zeroed memory. One thread; nothing blocks. */
#ifndef CLUTCH_JOURNAL_INDEX_H
#define CLUTCH_JOURNAL_INDEX_H

#include "core/journal/record.h"

typedef struct clu_journal_entry {
  unsigned char key[CLU_HASH];
  uint64_t at; /* of the record, and 1: it is an error; 0: none */
} clu_journal_entry;

typedef struct clu_journal_index {
  clu_journal_entry *entries;
  size_t n, cap; /* cap: 0 or a power of two */
} clu_journal_index;

/* The record at `at` is that of its key from now on; an error does not take the place of a value.
 * CLU_OK or CLU_NOMEM. */
int clu_journal_index_put(clu_journal_index *x, const unsigned char key[CLU_HASH], uint64_t at,
                          int is_error);
/* Tells whether there is one. */
int clu_journal_index_get(const clu_journal_index *x, const unsigned char key[CLU_HASH],
                          uint64_t *at, int *is_error);
void clu_journal_index_fini(clu_journal_index *x);

#endif
