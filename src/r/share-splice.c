#include "r/share.h"

#include <string.h>

/* Parts of R's format, see "R Internals", section 1.8, and serialize.c of R's sources. */
enum {
  HAS_ATTRIBUTES = 1 << 9,
  HAS_TAG = 1 << 10,
  ALTREP_ITEM = 238,
  NIL_ITEM = 254,
  FIRST_SYMBOL = 1 << 8 | 255
};

size_t clu_share_from(void) {
  SEXP x = Rf_GetOption1(Rf_install("clutch.share_from"));
  double from = x == R_NilValue ? 1e6 : Rf_isNumeric(x) && Rf_xlength(x) == 1 ? Rf_asReal(x) : -1;
  if (!(from >= 0)) return 0;
  return from < 4096 ? 4096 : from < 9e15 ? (size_t)from : SIZE_MAX;
}

/* ---- whether it is worth it ---- */

static int may_be_large(SEXP x, size_t from, int *left);

static int has_elements(SEXP x, size_t from, int *left) {
  for (R_xlen_t i = 0; i < Rf_xlength(x); i++)
    if (may_be_large(VECTOR_ELT(x, i), from, left)) return 1;
  return 0;
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
  case STRSXP: return clu_has_attributes(x);
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

/* ---- what R writes ---- */

static int put_words(clu_blob *b, const int *words, int n) {
  return clu_blob_append(b, words, sizeof *words * (size_t)n) == 0;
}

/* Whether a vector's elements begin: the numbers before are its flags and its length, and these are
 * the first of them (R writes some thousand at a time), or all. Its bytes; 0: no. */
static uint64_t vector_begins(clu_splice *s, size_t n) {
  int k = s->nwords, type, is_long = k >= 4 && s->words[1] == -1;
  const int *w = s->words + (is_long || k < 2 ? 0 : k - 2);
  uint64_t length, bytes;
  size_t width;
  if (k < 2 || (!is_long && s->words[k - 1] < 0)) return 0;
  length = is_long ? (uint64_t)(uint32_t)w[2] << 32 | (uint32_t)w[3] : (uint64_t)w[1];
  type = w[0] & 255;
  width = clu_shared_width(type);
  bytes = length * width;
  if (!width || bytes < s->from || n > bytes || n % width != 0) return 0;
  s->nhead = is_long ? 4 : 2;
  memcpy(s->head, w, sizeof *w * (size_t)s->nhead);
  return bytes;
}

/* The segment of this message, with room for another vector's first bytes. 0: it cannot be had, and
 * is not tried again for this message. */
static int begin_in_segment(clu_splice *s, const void *p, size_t n) {
  clu_segment *seg = s->segment ? s->segment : clu_segment_new();
  if (seg) {
    s->at = clu_segment_align(seg);
    if (clu_segment_append(seg, p, n) == CLU_OK) {
      if (s->segment) return 1;
      s->place = clu_blob_attach(s->b, seg);
      if (s->place >= 0) {
        s->segment = seg;
        return 1;
      }
    }
    if (!s->segment) clu_segment_unref(seg);
  }
  s->from = SIZE_MAX;
  return 0;
}

/* In place of the vector: an ALTREP object, that is its class, its state, and its attributes. */
static int put_item(clu_splice *s, uint64_t bytes) {
  int type = s->head[0] & 255;
  double state[4] = {(double)s->place, (double)s->at, type,
                     (double)(bytes / clu_shared_width(type))};
  int item[] = {ALTREP_ITEM | (s->head[0] & ~(255 | HAS_ATTRIBUTES | HAS_TAG)),
                LISTSXP,
                FIRST_SYMBOL,
                LISTSXP,
                FIRST_SYMBOL,
                LISTSXP,
                INTSXP,
                1,
                RAWSXP,
                NIL_ITEM,
                REALSXP,
                4};
  s->b->size -= sizeof(int) * (size_t)s->nhead;
  s->item = s->b->size;
  return put_words(s->b, item, (int)(sizeof item / sizeof *item)) &&
         clu_blob_append(s->b, state, sizeof state) == 0;
}

/* R writes the attributes next, if there are any. */
static int end_vector(clu_splice *s) {
  int nil = NIL_ITEM;
  return s->head[0] & HAS_ATTRIBUTES || put_words(s->b, &nil, 1);
}

/* The segment takes no more: what it has of this vector goes to the blob after all. */
static int give_up(clu_splice *s) {
  unsigned char piece[65536];
  int ok;
  s->b->size = s->item;
  ok = put_words(s->b, s->head, s->nhead);
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

static int go_on(clu_splice *s, const void *p, size_t n) {
  if (clu_segment_append(s->segment, p, n) != CLU_OK) return give_up(s);
  s->done += n;
  s->left -= n;
  return s->left > 0 || end_vector(s) ? 1 : CLU_NOMEM;
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
  if (s->left > 0) return go_on(s, p, n);
  bytes = n >= 4096 ? vector_begins(s, n) : 0;
  remember(s, p, n);
  if (!bytes || !begin_in_segment(s, p, n)) return 0;
  if (!put_item(s, bytes)) return CLU_NOMEM;
  s->done = n;
  s->left = bytes - n;
  return s->left > 0 || end_vector(s) ? 1 : CLU_NOMEM;
}
