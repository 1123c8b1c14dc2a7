#include "r/share/share.h"

#include <stdlib.h>
#include <string.h>

/* Where the user does not say it: the size from which on a segment is quicker than the socket. A
 * segment is written once, the socket once for each receiver. Measured there and back by parts
 * "threshold" and "columns" of bench/data.R. One vector alone that goes to one node is as quick by
 * the socket up to some 8 MB, and to two up to 3 MB. But the columns of a table are looked at each
 * by itself, and where they are many a segment is quicker from less on: 100 MB in columns of 4 MB
 * go to one node and back in a third of the time that the socket takes. */
static double default_from(int receivers) {
  if (receivers >= 8) return 3e5;
  return receivers >= 2 ? 1e6 : 2.5e6;
}

SEXP ffi_share_default(SEXP receivers) {
  return Rf_ScalarReal(default_from(Rf_asInteger(receivers)));
}

size_t clu_share_from(int receivers) {
  SEXP x = Rf_GetOption1(Rf_install("clutch.share_from"));
  double from = -1;
  if (x == R_NilValue)
    from = default_from(receivers);
  else if (Rf_isNumeric(x) && Rf_xlength(x) == 1)
    from = Rf_asReal(x);
  if (!(from >= 0)) return 0;
  return from < CLU_SHARE_LEAST ? CLU_SHARE_LEAST : from < 9e15 ? (size_t)from : SIZE_MAX;
}

/* ---- whether it is worth it ---- */

static int may_be_large(SEXP x, size_t from, int *left);

static int has_elements(SEXP x, size_t from, int *left) {
  for (R_xlen_t i = 0; i < Rf_xlength(x); i++)
    if (may_be_large(VECTOR_ELT(x, i), from, left)) return 1;
  return 0;
}

/* To look at all elements takes a small part of the time that it takes to write them. */
static int has_much_text(SEXP x, size_t from) {
  size_t n = (size_t)Rf_xlength(x), bytes = n * sizeof(uint64_t);
  const SEXP *of = STRING_PTR_RO(x);
  for (size_t i = 0; i < n && bytes < from; i++) bytes += (size_t)LENGTH(of[i]);
  return bytes >= from;
}

static int is_named_environment(SEXP env) {
  return env == R_GlobalEnv || env == R_BaseEnv || env == R_BaseNamespace || env == R_EmptyEnv ||
         R_IsNamespaceEnv(env) || R_IsPackageEnv(env);
}

/* `*left`: how many objects more may be looked at. */
static int may_be_large(SEXP x, size_t from, int *left) {
  if (--*left < 0 || ALTREP(x)) return 1;
  switch (TYPEOF(x)) {
  case NILSXP:
  case SYMSXP:
  case BUILTINSXP:
  case SPECIALSXP: return 0;
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case RAWSXP:
    return clu_has_attributes(x) ||
           (size_t)Rf_xlength(x) >= from / clu_shared_width((int)TYPEOF(x));
  case STRSXP: return clu_has_attributes(x) || has_much_text(x, from);
  case VECSXP: return clu_has_attributes(x) || has_elements(x, from, left);
  case CLOSXP: return clu_has_attributes(x) || !is_named_environment(clu_closure_env(x));
  case ENVSXP: return !is_named_environment(x);
  default: return 1;
  }
}

int clu_may_have_large(SEXP x, size_t from) {
  int left = 64;
  return from != SIZE_MAX && may_be_large(x, from, &left);
}

static size_t bytes_of(SEXP x, size_t from, int *left) {
  size_t bytes = 0;
  if (--*left < 0 || ALTREP(x)) return 0;
  if (TYPEOF(x) == VECSXP) {
    for (R_xlen_t i = 0; i < Rf_xlength(x) && *left > 0; i++)
      bytes += bytes_of(VECTOR_ELT(x, i), from, left);
    return bytes;
  }
  bytes = clu_shared_width((int)TYPEOF(x)) * (size_t)(Rf_isVector(x) ? Rf_xlength(x) : 0);
  return bytes < from ? bytes : 0;
}

size_t clu_bytes_at_least(SEXP x, size_t from) {
  int left = 64;
  return bytes_of(x, from, &left);
}

/* ---- what R writes ---- */

/* Bytes of a large vector whose flags and length are the last `nhead` numbers, and whose first
 * elements are these `n` bytes; 0: they are no such thing. */
static uint64_t large_after(clu_splice *s, int nhead, size_t n) {
  const int *w;
  uint64_t length, bytes;
  size_t width;
  if (s->nwords < nhead) return 0;
  w = s->words + s->nwords - nhead;
  if (nhead == 4 ? w[1] != -1 : w[1] < 0) return 0;
  length = nhead == 4 ? (uint64_t)(uint32_t)w[2] << 32 | (uint32_t)w[3] : (uint64_t)w[1];
  width = clu_shared_width(w[0] & 255);
  bytes = length * width;
  if (!width || bytes < s->from || n > bytes || n % width != 0) return 0;
  s->nhead = nhead;
  memcpy(s->head, w, sizeof *w * (size_t)nhead);
  return bytes;
}

/* Tells whether a vector's elements begin: R writes some thousand at a time, or all. The length of
 * a long vector is three numbers, of which the first is -1; so may be an element that was written
 * before.
 */
static uint64_t vector_begins(clu_splice *s, size_t n) {
  uint64_t bytes = large_after(s, 4, n);
  return bytes ? bytes : large_after(s, 2, n);
}

/* In place of the vector. */
static int put_item(clu_splice *s, uint64_t bytes) {
  int type = s->head[0] & 255;
  double state[CLU_STATE_VECTOR] = {(double)s->place, (double)s->at, type,
                                    (double)(bytes / clu_shared_width(type))};
  s->b->size -= sizeof(int) * (size_t)s->nhead;
  s->item = s->b->size;
  return clu_splice_item(s, state, CLU_STATE_VECTOR);
}

/* The segment takes no more: what it has of this vector goes to the blob after all. */
static int give_up(clu_splice *s) {
  unsigned char piece[65536];
  int ok;
  s->b->size = s->item;
  ok = clu_splice_words(s, s->head, s->nhead);
  for (uint64_t k = 0; ok && k < s->done;) {
    size_t n = s->done - k < sizeof piece ? (size_t)(s->done - k) : sizeof piece;
    ok = clu_segment_read(s->segment, s->at + k, piece, n) == CLU_OK &&
         clu_blob_append(s->b, piece, n) == 0;
    k += n;
  }
  s->left = 0;
  s->from = SIZE_MAX;
  return ok ? 0 : CLU_NOMEM;
}

/* R writes a vector piece by piece, from where its elements lie. So a second piece that begins
 * where the first has ended tells where all of them are, and they are written at once, which is
 * quicker: see posix/segment-write.c. */
static int write_piece(clu_splice *s, const void *p, size_t n) {
  if (s->ahead == 0 && p != s->next) return clu_segment_append(s->segment, p, n);
  if (s->ahead == 0) {
    int rc = clu_segment_append(s->segment, p, (size_t)s->left);
    if (rc != CLU_OK) return rc;
    s->ahead = s->left;
  }
  s->ahead -= n;
  return p == s->next ? CLU_OK : clu_segment_put(s->segment, s->at + s->done, p, n);
}

static int go_on(clu_splice *s, const void *p, size_t n) {
  if (write_piece(s, p, n) != CLU_OK) return give_up(s);
  s->next = (const char *)p + n;
  s->done += n;
  s->left -= n;
  return s->left > 0 || clu_splice_item_end(s) ? 1 : CLU_NOMEM;
}

/* Numbers of four bytes are remembered: flags and lengths are written so. */
static void remember(clu_splice *s, const void *p, size_t n) {
  if (n != sizeof(int)) {
    s->nwords = 0;
    return;
  }
  if (s->nwords == 4)
    memmove(s->words, s->words + 1, 3 * sizeof(int));
  else
    s->nwords++;
  memcpy(s->words + s->nwords - 1, p, sizeof(int));
}

int clu_splice_bytes(clu_splice *s, const void *p, size_t n) {
  uint64_t bytes;
  if (s->strings.where != CLU_NO_STRINGS) {
    int rc = clu_strings_bytes(s, p, n);
    if (rc != CLU_STRINGS_NONE) return rc;
  }
  if (s->left > 0) return go_on(s, p, n);
  if (n == sizeof(int) && clu_strings_begin(s, p, n)) return clu_strings_bytes(s, p, n);
  bytes = n >= 4096 ? vector_begins(s, n) : 0;
  remember(s, p, n);
  if (!bytes || !clu_splice_segment(s, p, n)) return 0;
  if (!put_item(s, bytes)) return CLU_NOMEM;
  s->done = n;
  s->left = bytes - n;
  s->next = (const char *)p + n;
  s->ahead = 0;
  return s->left > 0 || clu_splice_item_end(s) ? 1 : CLU_NOMEM;
}

void clu_splice_end(clu_splice *s) {
  free(s->strings.pieces);
  s->strings.pieces = NULL;
}
