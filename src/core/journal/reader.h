/* Reads the records of a journal's file, one after the other, in pieces of 1 MB. Nothing is taken
 * for granted: a record is one when its check is right. */
#ifndef CLUTCH_JOURNAL_READER_H
#define CLUTCH_JOURNAL_READER_H

#include "core/base/os-files.h"
#include "core/journal/record.h"

typedef struct clu_journal_reader {
  clu_fd fd;
  uint64_t salt, size; /* of the file, as far as it is read */
  unsigned char *piece;
  uint64_t at; /* of the piece in the file */
  size_t n, cap;
  int has_failed; /* bytes could not be read: nobody knows what is there */
} clu_journal_reader;

/* `fd` stays the caller's. CLU_OK or CLU_NOMEM. */
int clu_journal_reader_init(clu_journal_reader *x, clu_fd fd, uint64_t salt, uint64_t size);
void clu_journal_reader_fini(clu_journal_reader *x); /* accepts zeroed memory */
/* The file ends here now: what was read behind it counts no more, since others will be there. */
void clu_journal_reader_cut(clu_journal_reader *x, uint64_t size);
/* Bytes of the file; CLU_OK, CLU_EOF or CLU_SYS. */
int clu_journal_reader_bytes(clu_journal_reader *x, uint64_t at, void *to, size_t n);
/* Tells whether a whole record is at `at`, and which. */
int clu_journal_reader_is_whole(clu_journal_reader *x, uint64_t at, clu_record *r);
/* The next whole record from `at` on, where none is: its place; `size`: there is none, or the file
 * cannot be read. */
uint64_t clu_journal_reader_search(clu_journal_reader *x, uint64_t at);

#endif
