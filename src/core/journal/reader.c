#include "core/journal/reader.h"

#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)1 << 20)

int clu_journal_reader_init(clu_journal_reader *x, clu_fd fd, uint64_t salt, uint64_t size) {
  memset(x, 0, sizeof *x);
  x->fd = fd;
  x->salt = salt;
  x->size = size;
  x->cap = PIECE;
  x->piece = malloc(PIECE);
  return x->piece ? CLU_OK : CLU_NOMEM;
}

void clu_journal_reader_fini(clu_journal_reader *x) {
  free(x->piece);
  memset(x, 0, sizeof *x);
}

void clu_journal_reader_cut(clu_journal_reader *x, uint64_t size) {
  x->size = size;
  if (size < x->at + x->n) x->n = size > x->at ? (size_t)(size - x->at) : 0;
}

static int read_file(clu_journal_reader *x, uint64_t at, void *to, size_t n) {
  int rc = clu_os_file_read(x->fd, at, to, n);
  if (rc != CLU_OK) x->has_failed = 1;
  return rc;
}

/* Has the piece begin at `at`, and returns how many bytes of it are there; 0: it cannot be read. */
static size_t load(clu_journal_reader *x, uint64_t at) {
  size_t n;
  if (at >= x->at && at - x->at < x->n) return (size_t)(x->n - (at - x->at));
  if (at >= x->size) return 0;
  n = x->size - at < x->cap ? (size_t)(x->size - at) : x->cap;
  x->n = 0;
  if (read_file(x, at, x->piece, n) != CLU_OK) return 0;
  x->at = at;
  x->n = n;
  return n;
}

int clu_journal_reader_bytes(clu_journal_reader *x, uint64_t at, void *to, size_t n) {
  unsigned char *p = to;
  if (at > x->size || n > x->size - at) return CLU_EOF;
  if (n >= x->cap) return read_file(x, at, to, n);
  while (n > 0) {
    size_t has = load(x, at);
    if (has == 0) return CLU_SYS;
    if (has > n) has = n;
    memcpy(p, x->piece + (at - x->at), has);
    p += has;
    at += has;
    n -= has;
  }
  return CLU_OK;
}

/* Adds `n` bytes of the file to a hash. Whether they can be read. */
static int add(clu_journal_reader *x, clu_hash *h, uint64_t at, uint64_t n) {
  while (n > 0) {
    size_t has = load(x, at);
    if (has == 0) return 0;
    if (has > n) has = (size_t)n;
    clu_hash_add(h, x->piece + (at - x->at), has);
    at += has;
    n -= has;
  }
  return 1;
}

int clu_journal_reader_is_whole(clu_journal_reader *x, uint64_t at, clu_record *r) {
  unsigned char head[CLU_RECORD_HEAD];
  clu_hash h;
  if (clu_journal_reader_bytes(x, at, head, sizeof head) != CLU_OK || !clu_record_get(head, r))
    return 0;
  if (clu_record_length(r->size) > x->size - at) return 0;
  if (at >= x->at && at + CLU_RECORD_HEAD + r->size <= x->at + x->n)
    return clu_record_is_right(x->piece + (at - x->at), r->size, x->salt);
  clu_record_check_begin(&h, head, x->salt);
  return add(x, &h, at + CLU_RECORD_HEAD, r->size) && clu_record_check_end(&h, head);
}

uint64_t clu_journal_reader_search(clu_journal_reader *x, uint64_t at) {
  clu_record r;
  at = (at + 7) & ~(uint64_t)7;
  for (; at < x->size && x->size - at >= CLU_RECORD_HEAD && !x->has_failed; at += 8)
    if (clu_journal_reader_is_whole(x, at, &r)) return at;
  return x->size;
}
