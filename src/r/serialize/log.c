/* This file turns what most tasks print and signal to bytes and back: short output, and conditions
 * as warning("text") and message("text") make them. R's own serialization takes five times as long
 * for each of these as all that the node does with it besides.
 *
 *    0  u32      size of the value, which follows as clu_plain_bare() writes it
 * then each entry of the log:
 *    0  u8       KIND_*
 *    1  u8       1: the text is UTF-8; 0: ASCII
 *    2  u32      size of the call; CALL_BEFORE: the one of the entry before
 *    6  u32      size of the text
 * then the call as R serializes it (nothing: NULL) and the text. Numbers are in the byte order of
 * this machine, as those of values are.
 *
 * The tasks of a job have their conditions from the same few places, so both sides remember calls:
 * the node the bytes of an object, the session the object of bytes.
 */
#include "r/serialize/serialize.h"

#include <stdint.h>
#include <string.h>

#define ENTRY_HEAD 10
#define CALL_BEFORE UINT32_MAX
#define MOST_CALL 512   /* bytes of a call */
#define MOST_OBJECTS 64 /* in a call */
#define N_CALLS 8       /* that are remembered */
#define UNUSABLE ((size_t)-1)

enum { KIND_OUTPUT, KIND_WARNING, KIND_MESSAGE, N_KINDS };

static const char *const classes[N_KINDS][3] = {
    {"", "", ""},
    {"simpleWarning", "warning", "condition"},
    {"simpleMessage", "message", "condition"},
};

static struct {
  SEXP kept; /* preserved: the objects */
  size_t size[N_CALLS];
  unsigned char bytes[N_CALLS][MOST_CALL];
  int next; /* which is forgotten for the next */
} calls;

static void put_u32(unsigned char *p, uint32_t x) { memcpy(p, &x, sizeof x); }

static uint32_t get_u32(const unsigned char *p) {
  uint32_t x;
  memcpy(&x, p, sizeof x);
  return x;
}

static int remember(SEXP call, const unsigned char *p, size_t n) {
  int k = calls.next;
  calls.size[k] = 0;
  clu_keep_in(&calls.kept, N_CALLS, k, call);
  memcpy(calls.bytes[k], p, n);
  calls.size[k] = n;
  calls.next = (k + 1) % N_CALLS;
  return k;
}

/* ---- the node's side ---- */

/* Nothing but names and single values, which nobody changes. */
static int is_short(SEXP x, int *left) {
  for (; TYPEOF(x) == LANGSXP || TYPEOF(x) == LISTSXP; x = CDR(x))
    if (--*left < 0 || clu_has_attributes(x) || !is_short(CAR(x), left)) return 0;
  if (x == R_NilValue || TYPEOF(x) == SYMSXP) return 1;
  return Rf_isVectorAtomic(x) && XLENGTH(x) == 1 && !ALTREP(x) && !clu_has_attributes(x);
}

/* Which of those remembered; -1: it is not one that can be. */
static int known_call(SEXP call) {
  unsigned char bytes[MOST_CALL];
  int left = MOST_OBJECTS;
  size_t n;
  clu_blob *b;
  for (int i = 0; i < N_CALLS; i++)
    if (calls.size[i] && clu_kept_in(calls.kept, i) == call) return i;
  if (TYPEOF(call) != LANGSXP || !is_short(call, &left)) return -1;
  b = clu_serialize(NULL, call);
  n = b->size;
  if (n <= sizeof bytes) memcpy(bytes, b->data, n);
  clu_blob_unref(b);
  return n <= sizeof bytes ? remember(call, bytes, n) : -1;
}

/* Tells whether it is `names`, and nothing else. */
static int is_names(SEXP x, const char *const *names, int n) {
  if (TYPEOF(x) != STRSXP || XLENGTH(x) != n || clu_has_attributes(x)) return 0;
  for (int i = 0; i < n; i++)
    if (strcmp(CHAR(STRING_ELT(x, i)), names[i]) != 0) return 0;
  return 1;
}

static int is_condition(SEXP x, int kind) {
  static const char *const parts[] = {"message", "call"};
  return is_names(Rf_getAttrib(x, R_ClassSymbol), classes[kind], 3) &&
         is_names(Rf_getAttrib(x, R_NamesSymbol), parts, 2);
}

/* A single text in ASCII or UTF-8: 0 or 1; -1: it is another. */
static int encoding(SEXP x) {
  SEXP text;
  int is_ascii = 1;
  if (TYPEOF(x) != STRSXP || XLENGTH(x) != 1 || clu_has_attributes(x)) return -1;
  text = STRING_ELT(x, 0);
  if (text == NA_STRING) return -1;
  for (const char *c = CHAR(text); *c && is_ascii; c++) is_ascii = (unsigned char)*c < 128;
  if (is_ascii) return 0;
  return Rf_getCharCE(text) == CE_UTF8 ? 1 : -1;
}

static int kind_of(SEXP x) {
  if (TYPEOF(x) == STRSXP) return KIND_OUTPUT;
  if (TYPEOF(x) != VECSXP || XLENGTH(x) != 2 || clu_attribute_count(x) != 2) return -1;
  if (is_condition(x, KIND_WARNING)) return KIND_WARNING;
  return is_condition(x, KIND_MESSAGE) ? KIND_MESSAGE : -1;
}

/* Bytes that were written; UNUSABLE: none, since it is of another kind, or there is no room.
 * `*before`: the call of the entry before. */
static size_t put_entry(unsigned char *p, size_t room, SEXP x, SEXP *before) {
  int kind = kind_of(x), k = -1, utf8, is_same;
  SEXP text = x, call = R_NilValue, chars;
  size_t n, ncall = 0;
  if (kind < 0) return UNUSABLE;
  if (kind != KIND_OUTPUT) {
    text = VECTOR_ELT(x, 0);
    call = VECTOR_ELT(x, 1);
  }
  is_same = call != R_NilValue && call == *before;
  if (call != R_NilValue && !is_same && (k = known_call(call)) < 0) return UNUSABLE;
  if ((utf8 = encoding(text)) < 0) return UNUSABLE;
  chars = STRING_ELT(text, 0);
  n = (size_t)LENGTH(chars);
  if (k >= 0) ncall = calls.size[k];
  if (room < ENTRY_HEAD + ncall || n > room - ENTRY_HEAD - ncall) return UNUSABLE;
  p[0] = (unsigned char)kind;
  p[1] = (unsigned char)utf8;
  put_u32(p + 2, is_same ? CALL_BEFORE : (uint32_t)ncall);
  put_u32(p + 6, (uint32_t)n);
  if (ncall) memcpy(p + ENTRY_HEAD, calls.bytes[k], ncall);
  memcpy(p + ENTRY_HEAD + ncall, CHAR(chars), n);
  *before = call;
  return ENTRY_HEAD + ncall + n;
}

size_t clu_log_bare(unsigned char *p, size_t n, SEXP value, SEXP log) {
  size_t at = n > 4 ? clu_plain_bare(p + 4, n - 4, value) : 0, k;
  SEXP before = R_NilValue;
  if (!at) return 0;
  put_u32(p, (uint32_t)at);
  at += 4;
  for (R_xlen_t i = 0; i < XLENGTH(log); i++, at += k)
    if ((k = put_entry(p + at, n - at, VECTOR_ELT(log, i), &before)) == UNUSABLE) return 0;
  return at;
}

/* ---- the session's side ---- */

/* Conditions without text and call, of which each is a copy: they have their attributes in common.
 */
static SEXP empty_condition(int kind) {
  static SEXP empty;
  static const char *parts[] = {"message", "call", ""};
  SEXP x, class;
  x = clu_kept_in(empty, kind);
  if (x != R_NilValue) return x;
  x = PROTECT(Rf_mkNamed(VECSXP, parts));
  class = PROTECT(Rf_allocVector(STRSXP, 3));
  for (int i = 0; i < 3; i++) SET_STRING_ELT(class, i, Rf_mkChar(classes[kind][i]));
  Rf_setAttrib(x, R_ClassSymbol, class);
  clu_keep_in(&empty, N_KINDS, kind, x);
  UNPROTECT(2);
  return x;
}

static SEXP call_of_bytes(const unsigned char *p, size_t n) {
  SEXP call;
  if (n == 0) return R_NilValue;
  for (int i = 0; i < N_CALLS; i++)
    if (calls.size[i] == n && memcmp(calls.bytes[i], p, n) == 0) return clu_kept_in(calls.kept, i);
  call = PROTECT(clu_unserialize_bytes(p, n));
  if (n <= MOST_CALL) remember(call, p, n);
  UNPROTECT(1);
  return call;
}

/* The entry, and where it ends. `*call`: that of the entry before, and then this one's, which is
 * protected. */
static SEXP get_entry(const unsigned char **p, size_t *left, SEXP *call, PROTECT_INDEX index) {
  size_t ncall, n;
  unsigned kind;
  int is_same;
  SEXP text, x;
  if (*left < ENTRY_HEAD || (kind = (*p)[0]) >= N_KINDS) return NULL;
  ncall = get_u32(*p + 2);
  n = get_u32(*p + 6);
  is_same = ncall == CALL_BEFORE;
  if (is_same) ncall = 0;
  if (ncall > *left - ENTRY_HEAD || n > *left - ENTRY_HEAD - ncall) return NULL;
  if (!is_same) REPROTECT(*call = call_of_bytes(*p + ENTRY_HEAD, ncall), index);
  text =
      Rf_mkCharLenCE((const char *)*p + ENTRY_HEAD + ncall, (int)n, (*p)[1] ? CE_UTF8 : CE_NATIVE);
  text = PROTECT(Rf_ScalarString(PROTECT(text)));
  *p += ENTRY_HEAD + ncall + n;
  *left -= ENTRY_HEAD + ncall + n;
  x = text;
  if (kind != KIND_OUTPUT) {
    x = Rf_shallow_duplicate(empty_condition((int)kind));
    SET_VECTOR_ELT(x, 0, text);
    SET_VECTOR_ELT(x, 1, *call);
  }
  UNPROTECT(2);
  return x;
}

/* How many entries there are in these bytes. */
static R_xlen_t count_entries(const unsigned char *p, size_t left) {
  R_xlen_t n = 0;
  while (left >= ENTRY_HEAD) {
    size_t ncall = get_u32(p + 2), ntext = get_u32(p + 6);
    if (ncall == CALL_BEFORE) ncall = 0;
    n++;
    if (ncall + ntext > left - ENTRY_HEAD) break;
    p += ENTRY_HEAD + ncall + ntext;
    left -= ENTRY_HEAD + ncall + ntext;
  }
  return n;
}

SEXP clu_log_bare_get(const unsigned char *p, size_t n) {
  size_t left = n > 4 ? get_u32(p) : n;
  SEXP both, log, call = R_NilValue;
  PROTECT_INDEX index;
  if (n < 4 || left > n - 4) clu_raise("protocol", "the log of a task arrived damaged");
  both = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(both, 0, clu_plain_bare_get(p + 4, left));
  p += 4 + left;
  left = n - 4 - left;
  log = Rf_allocVector(VECSXP, count_entries(p, left));
  SET_VECTOR_ELT(both, 1, log);
  PROTECT_WITH_INDEX(call, &index);
  for (R_xlen_t i = 0; i < XLENGTH(log); i++) {
    SEXP x = get_entry(&p, &left, &call, index);
    if (!x) clu_raise("protocol", "the log of a task arrived damaged");
    SET_VECTOR_ELT(log, i, x);
  }
  UNPROTECT(2);
  return both;
}
