/* Pieces of keys: numbers, texts, vectors. The same bytes on every machine. */
#include "r/journal/keying.h"

#include <R_ext/Utils.h>
#include <string.h>

#include "core/base/bytes.h"

#define PIECE 512 /* numbers at once */

/* ---- what was met before ---- */

static uint64_t *place_of(clu_seen *s, uint64_t key) {
  size_t i = (size_t)(key * 0x9e3779b97f4a7c15u) & (s->cap - 1);
  while (s->place[i] && s->key[i] != key) i = (i + 1) & (s->cap - 1);
  s->key[i] = key;
  return &s->place[i];
}

static void grow(clu_seen *s) {
  clu_seen more = {NULL, NULL, s->n, s->cap ? 2 * s->cap : 64};
  more.key = (uint64_t *)R_alloc(more.cap, sizeof(uint64_t));
  more.place = (uint64_t *)R_alloc(more.cap, sizeof(uint64_t));
  memset(more.place, 0, more.cap * sizeof(uint64_t));
  for (size_t i = 0; i < s->cap; i++)
    if (s->place[i]) *place_of(&more, s->key[i]) = s->place[i];
  *s = more;
}

/* Its number, from 1, if it was met before; else 0, and it is from now on. */
uint64_t clu_key_meet(clu_keying *k, uint64_t key) {
  uint64_t *place;
  if (2 * (k->seen.n + 1) > k->seen.cap) grow(&k->seen);
  place = place_of(&k->seen, key);
  if (*place) return *place;
  *place = ++k->seen.n;
  return 0;
}

/* ---- pieces ---- */

static int is_little_endian(void) {
  const uint16_t one = 1;
  return *(const unsigned char *)&one == 1;
}

void clu_key_tag(clu_keying *k, char c) { clu_hash_add(&k->h, &c, 1); }

void clu_key_number(clu_keying *k, uint64_t x) {
  unsigned char bytes[8];
  clu_bytes_put(bytes, x, 8);
  clu_hash_add(&k->h, bytes, sizeof bytes);
}

void clu_key_characters(clu_keying *k, const char *text) {
  size_t n = strlen(text);
  clu_key_number(k, n);
  clu_hash_add(&k->h, text, n);
}

void clu_key_text(clu_keying *k, SEXP x) {
  const void *vmax;
  if (x == NA_STRING) {
    clu_key_tag(k, '-');
    return;
  }
  clu_key_tag(k, Rf_getCharCE(x) == CE_BYTES ? 'b' : 't');
  vmax = vmaxget();
  clu_key_characters(k, Rf_getCharCE(x) == CE_BYTES ? CHAR(x) : Rf_translateCharUTF8(x));
  vmaxset(vmax);
}

/* ---- vectors ---- */

static void ints(clu_keying *k, const int *p, R_xlen_t n) {
  if (is_little_endian()) {
    clu_hash_add(&k->h, p, (size_t)n * sizeof(int));
    return;
  }
  for (R_xlen_t i = 0; i < n; i++) {
    unsigned char bytes[4];
    for (int b = 0; b < 4; b++) bytes[b] = (unsigned char)((uint32_t)p[i] >> 8 * b);
    clu_hash_add(&k->h, bytes, sizeof bytes);
  }
}

/* All NA are the same, and all other NaN. */
static void doubles(clu_keying *k, double *p, R_xlen_t n) {
  for (R_xlen_t i = 0; i < n; i++)
    if (ISNAN(p[i])) p[i] = R_IsNA(p[i]) ? NA_REAL : R_NaN;
  if (is_little_endian()) {
    clu_hash_add(&k->h, p, (size_t)n * sizeof(double));
    return;
  }
  for (R_xlen_t i = 0; i < n; i++) {
    uint64_t bits;
    memcpy(&bits, &p[i], sizeof bits);
    clu_key_number(k, bits);
  }
}

static void integers(clu_keying *k, SEXP x) {
  int piece[PIECE];
  for (R_xlen_t i = 0, n = Rf_xlength(x); i < n; i += PIECE) {
    R_xlen_t has = TYPEOF(x) == INTSXP ? INTEGER_GET_REGION(x, i, PIECE, piece)
                                       : LOGICAL_GET_REGION(x, i, PIECE, piece);
    ints(k, piece, has);
  }
}

static void reals(clu_keying *k, SEXP x) {
  double piece[PIECE];
  for (R_xlen_t i = 0, n = Rf_xlength(x); i < n; i += PIECE)
    doubles(k, piece, REAL_GET_REGION(x, i, PIECE, piece));
}

static void complexes(clu_keying *k, SEXP x) {
  for (R_xlen_t i = 0; i < Rf_xlength(x); i++) {
    Rcomplex z = COMPLEX_ELT(x, i);
    double parts[2] = {z.r, z.i};
    doubles(k, parts, 2);
  }
}

void clu_key_vector(clu_keying *k, SEXP x, void (*element)(clu_keying *, SEXP)) {
  static const char tags[] = {[LGLSXP] = 'l', [INTSXP] = 'i', [REALSXP] = 'd', [CPLXSXP] = 'c',
                              [STRSXP] = 's', [VECSXP] = 'L', [RAWSXP] = 'r',  [EXPRSXP] = 'X'};
  R_xlen_t n = Rf_xlength(x);
  clu_key_tag(k, tags[TYPEOF(x)]);
  clu_key_number(k, (uint64_t)n);
  switch (TYPEOF(x)) {
  case LGLSXP:
  case INTSXP: integers(k, x); break;
  case REALSXP: reals(k, x); break;
  case CPLXSXP: complexes(k, x); break;
  case RAWSXP: clu_hash_add(&k->h, RAW_RO(x), (size_t)n); break;
  case STRSXP:
    for (R_xlen_t i = 0; i < n; i++) {
      if (i % 65536 == 65535) R_CheckUserInterrupt();
      clu_key_text(k, STRING_ELT(x, i));
    }
    break;
  default:
    for (R_xlen_t i = 0; i < n; i++) element(k, VECTOR_ELT(x, i));
  }
}

void clu_key_attributes(clu_keying *k, int n, int is_s4) {
  clu_key_tag(k, is_s4 ? 'S' : 'A');
  clu_key_number(k, (uint64_t)n);
}

/* Writes what clu_key_vector() hashes of a vector of one number, and clu_key_attributes() of no
 * attributes: its tag, 1 in 8 bytes, `size` bytes, 'A', 0 in 8 bytes. There may be a million of
 * them, so they are put together as the words that the hash loads. Returns the length. */
static size_t number_alone(unsigned char to[32], char tag, uint64_t bits, int size) {
  clu_bytes_put(to, (unsigned char)tag | 1 << 8, 8);
  clu_bytes_put(to + 8, bits << 8 | (size == 4 ? (uint64_t)'A' << 40 : 0), 8);
  clu_bytes_put(to + 16, size == 4 ? 0 : bits >> 56 | 'A' << 8, 8);
  clu_bytes_put(to + 24, 0, 8);
  return (size_t)size + 18;
}

static void key_of_string(SEXP x, const unsigned char *start, unsigned char out[CLU_HASH]) {
  clu_keying k = {{0}, {NULL, NULL, 0, 0}, 0, R_NilValue};
  clu_hash_begin(&k.h, start);
  clu_key_tag(&k, 's');
  clu_key_number(&k, 1);
  clu_key_text(&k, x);
  clu_key_attributes(&k, 0, 0);
  clu_hash_end(&k.h, out);
}

void clu_key_of_scalar(SEXP x, R_xlen_t i, const unsigned char *start,
                       unsigned char out[CLU_HASH]) {
  unsigned char bytes[32];
  double real;
  uint64_t bits;
  size_t n;
  switch (TYPEOF(x)) {
  case STRSXP: key_of_string(STRING_ELT(x, i), start, out); return;
  case REALSXP:
    real = REAL_ELT(x, i);
    if (ISNAN(real)) real = R_IsNA(real) ? NA_REAL : R_NaN;
    memcpy(&bits, &real, sizeof bits);
    n = number_alone(bytes, 'd', bits, 8);
    break;
  case INTSXP: n = number_alone(bytes, 'i', (uint32_t)INTEGER_ELT(x, i), 4); break;
  default: n = number_alone(bytes, 'l', (uint32_t)LOGICAL_ELT(x, i), 4);
  }
  clu_hash_of(start, bytes, n, out);
}
