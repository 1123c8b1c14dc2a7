/* Character vectors in a segment. To R they are ordinary ones: ALTREP objects whose elements become
 * R's strings when somebody asks for them.
 *
 * These are kept, because R relies on it that they stay as long as the vector does: in pieces of
 * some elements each, so that few of them take little memory. Where R wants a pointer to all, the
 * vector gets an ordinary copy.
 *
 * Changes are made in these pieces, so the mapping is never written to, and two vectors may point
 * to the same place. Such a vector, sent on, is copied from mapping to segment without making
 * strings.
 */
#include "r/share/share.h"

#include <limits.h>
#include <string.h>

#define MANY 1024

/* data1: external pointer to this. data2: NULL; or a list of lists of elements, each NULL until
 * somebody asks for one of its elements; or an ordinary vector. */
typedef struct strings {
  clu_held held;
  const uint64_t *ends; /* in the mapping */
  const char *text;
  uint64_t ntext;
  int native;        /* as its state says */
  cetype_t unmarked; /* what strings without a mark are in, to this process */
  int changed;       /* elements may be others than in the segment */
} strings;

static R_altrep_class_t characters;

static strings *of(SEXP x) { return clu_held_of(x); }
static int is_ours(SEXP x) { return ALTREP(x) && R_altrep_inherits(x, characters); }
static int is_expanded(SEXP x) { return TYPEOF(R_altrep_data2(x)) == STRSXP; }

/* ---- elements ---- */

NORET static void damaged(void) {
  clu_raise("protocol", "a shared character vector arrived damaged");
}

/* `text`: that from byte `first` to byte `last` of all; `from`: where the element begins. */
static SEXP string_of(const char *text, uint64_t first, uint64_t last, uint64_t from, uint64_t end,
                      cetype_t unmarked) {
  int kind = (int)(end & 255);
  uint64_t to = end >> 8;
  const char *p;
  if (from < first || from > to || to > last || to - from > INT_MAX) damaged();
  if (kind & CLU_STRING_MISSING) return NA_STRING;
  p = text + (from - first);
  if (memchr(p, 0, (size_t)(to - from))) damaged();
  return Rf_mkCharLenCE(p, (int)(to - from),
                        kind & CLU_STRING_UTF8     ? CE_UTF8
                        : kind & CLU_STRING_LATIN1 ? CE_LATIN1
                        : kind & CLU_STRING_BYTES  ? CE_BYTES
                        : kind & CLU_STRING_ASCII  ? CE_NATIVE
                                                   : unmarked);
}

static SEXP made(const strings *v, R_xlen_t i) {
  return string_of(v->text, 0, v->ntext, i > 0 ? v->ends[i - 1] >> 8 : 0, v->ends[i], v->unmarked);
}

/* An element that somebody has asked for; R_NilValue: nobody has. */
static SEXP kept(SEXP x, R_xlen_t i) {
  SEXP all = R_altrep_data2(x), some;
  if (all == R_NilValue) return all;
  if (TYPEOF(all) == STRSXP) return STRING_ELT(all, i);
  some = VECTOR_ELT(all, i / MANY);
  return some == R_NilValue ? some : VECTOR_ELT(some, i % MANY);
}

static void keep(SEXP x, R_xlen_t i, SEXP element) {
  SEXP all = R_altrep_data2(x), some;
  R_xlen_t pieces = (of(x)->held.length - 1) / MANY + 1;
  PROTECT(element);
  if (all == R_NilValue) {
    all = Rf_allocVector(VECSXP, pieces);
    R_set_altrep_data2(x, all);
  }
  some = VECTOR_ELT(all, i / MANY);
  if (some == R_NilValue) {
    R_xlen_t rest = of(x)->held.length - i / MANY * MANY;
    some = Rf_allocVector(VECSXP, rest < MANY ? rest : MANY);
    SET_VECTOR_ELT(all, i / MANY, some);
  }
  SET_VECTOR_ELT(some, i % MANY, element);
  UNPROTECT(1);
}

static SEXP string_at(SEXP x, R_xlen_t i) {
  SEXP element = kept(x, i);
  if (element != R_NilValue) return element;
  element = made(of(x), i);
  keep(x, i, element);
  return element;
}

static void set_string(SEXP x, R_xlen_t i, SEXP element) {
  of(x)->changed = 1;
  if (is_expanded(x))
    SET_STRING_ELT(R_altrep_data2(x), i, element);
  else
    keep(x, i, element);
}

static SEXP expanded(SEXP x) {
  SEXP out;
  if (is_expanded(x)) return R_altrep_data2(x);
  out = PROTECT(Rf_allocVector(STRSXP, of(x)->held.length));
  for (R_xlen_t i = 0; i < of(x)->held.length; i++) {
    SEXP element = kept(x, i);
    SET_STRING_ELT(out, i, element == R_NilValue ? made(of(x), i) : element);
  }
  R_set_altrep_data2(x, out);
  UNPROTECT(1);
  return out;
}

/* A caller that asks for a pointer to write to may write at any time. */
static void *elements(SEXP x, Rboolean writable) {
  SEXP all = expanded(x);
  if (writable) {
    of(x)->changed = 1;
    clu_held_drop(&of(x)->held);
  }
  return (void *)STRING_PTR_RO(all);
}

static const void *elements_if_there(SEXP x) {
  return is_expanded(x) ? STRING_PTR_RO(R_altrep_data2(x)) : NULL;
}

/* x[index], whose numbers count from 1. The elements are not kept in `x`. */
static SEXP subset(SEXP x, SEXP index, SEXP call) {
  R_xlen_t n = of(x)->held.length, count = Rf_xlength(index);
  SEXP out;
  (void)call;
  if (TYPEOF(index) != INTSXP && TYPEOF(index) != REALSXP) return NULL;
  out = PROTECT(Rf_allocVector(STRSXP, count));
  for (R_xlen_t i = 0; i < count; i++) {
    double k = TYPEOF(index) == INTSXP ? INTEGER_ELT(index, i) : REAL_ELT(index, i);
    SEXP element = NA_STRING;
    if (k >= 1 && k < (double)n + 1) {
      element = kept(x, (R_xlen_t)k - 1);
      if (element == R_NilValue) element = made(of(x), (R_xlen_t)k - 1);
    }
    SET_STRING_ELT(out, i, element);
  }
  UNPROTECT(1);
  return out;
}

/* ---- the object ---- */

static SEXP new_strings(clu_segment *segment, const strings *like) {
  SEXP ptr = PROTECT(clu_held_new(sizeof(strings), segment, like->held.length, like->held.bytes)),
       x;
  strings *v = R_ExternalPtrAddr(ptr);
  clu_held held = v->held;
  *v = *like;
  v->held = held;
  x = R_new_altrep(characters, ptr, R_NilValue);
  UNPROTECT(1);
  return x;
}

/* With its own list of what was asked for. NULL: it is left to R. */
static SEXP duplicate(SEXP x, Rboolean deep) {
  SEXP all = R_altrep_data2(x), out, copy;
  (void)deep;
  if (is_expanded(x)) return NULL;
  out = PROTECT(new_strings(of(x)->held.segment, of(x)));
  if (all != R_NilValue) {
    copy = Rf_allocVector(VECSXP, Rf_xlength(all));
    R_set_altrep_data2(out, copy);
    for (R_xlen_t i = 0; i < Rf_xlength(all); i++)
      if (VECTOR_ELT(all, i) != R_NilValue)
        SET_VECTOR_ELT(copy, i, Rf_shallow_duplicate(VECTOR_ELT(all, i)));
  }
  UNPROTECT(1);
  return out;
}

/* Reads them from a segment that cannot be kept mapped. */
static SEXP read_strings(const clu_segment *segment, uint64_t at, const strings *v) {
  SEXP x = PROTECT(Rf_allocVector(STRSXP, v->held.length)), text;
  uint64_t ends[512], first = 0, last, from = 0,
                      begin = at + (uint64_t)v->held.length * sizeof *ends;
  for (R_xlen_t i = 0, k; i < v->held.length; i += k) {
    k = v->held.length - i < 512 ? v->held.length - i : 512;
    if (clu_shared_read(segment, at + (uint64_t)i * sizeof *ends, ends, (size_t)k * sizeof *ends) !=
        CLU_OK)
      damaged();
    last = ends[k - 1] >> 8;
    if (last < first || last > v->ntext) damaged();
    text = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)(last - first)));
    if (clu_shared_read(segment, begin + first, RAW(text), (size_t)(last - first)) != CLU_OK)
      damaged();
    for (R_xlen_t j = 0; j < k; j++) {
      SET_STRING_ELT(x, i + j,
                     string_of((const char *)RAW(text), first, last, from, ends[j], v->unmarked));
      from = ends[j] >> 8;
    }
    first = last;
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return x;
}

static cetype_t unmarked_of(int native) {
  if (native == 0 || native == clu_native_encoding()) return CE_NATIVE;
  return native == 1 ? CE_UTF8 : CE_LATIN1;
}

SEXP clu_strings_get(clu_segment *segment, const double *state) {
  uint64_t size = clu_segment_size(segment), at = (uint64_t)state[CLU_STATE_AT];
  double text = state[CLU_STATE_TEXT], native = state[CLU_STATE_NATIVE];
  strings v;
  memset(&v, 0, sizeof v);
  v.held.length = (R_xlen_t)state[CLU_STATE_LENGTH];
  size -= at + (uint64_t)v.held.length * sizeof(uint64_t);
  if (v.held.length < 1 || !(text >= 0 && text <= (double)size) || !(native >= 0 && native < 3))
    damaged();
  v.ntext = (uint64_t)text;
  v.native = (int)native;
  v.unmarked = unmarked_of(v.native);
  v.held.bytes = (uint64_t)v.held.length * sizeof(uint64_t) + v.ntext;
  if (!clu_shared_can_hold(segment)) return read_strings(segment, at, &v);
  v.ends = (const uint64_t *)(const void *)(clu_segment_bytes(segment, NULL) + at);
  v.text = (const char *)(v.ends + v.held.length);
  return new_strings(segment, &v);
}

int clu_strings_are_shared(SEXP x) {
  return is_ours(x) && !clu_held_is_gone(x) && of(x)->held.segment;
}

int clu_strings_can_be_sent(SEXP x) {
  return clu_strings_are_shared(x) && !of(x)->changed && clu_held_is_own(&of(x)->held);
}

/* Works as in vector.c. Else the bytes are copied to the new message's segment. Neither makes R's
 * strings. */
static SEXP serialized_state(SEXP x) {
  clu_splice *to = clu_shared_writing_now();
  strings *v = of(x);
  uint64_t at = 0;
  int place = -1;
  SEXP out;
  if (!to || v->changed) return NULL;
  if (!to->copies && clu_strings_are_shared(x) && clu_held_can_be_named(&v->held)) {
    place = clu_shared_place(v->held.segment);
    at = (uint64_t)((const unsigned char *)v->ends - clu_segment_bytes(v->held.segment, NULL));
  }
  if (place < 0) {
    if (v->held.bytes < to->from || !clu_splice_segment(to, v->ends, (size_t)v->held.bytes))
      return NULL;
    place = to->place;
    at = to->at;
  }
  out = Rf_allocVector(REALSXP, CLU_STATE_STRINGS);
  REAL(out)[CLU_STATE_PLACE] = place;
  REAL(out)[CLU_STATE_AT] = (double)at;
  REAL(out)[CLU_STATE_TYPE] = STRSXP;
  REAL(out)[CLU_STATE_LENGTH] = (double)v->held.length;
  REAL(out)[CLU_STATE_TEXT] = (double)v->ntext;
  REAL(out)[CLU_STATE_NATIVE] = v->native;
  return out;
}

R_altrep_class_t clu_strings_init(DllInfo *dll) {
  R_altrep_class_t class = characters = R_make_altstring_class("clutch_character", "clutch", dll);
  R_set_altrep_Serialized_state_method(class, serialized_state);
  R_set_altrep_Duplicate_method(class, duplicate);
  clu_held_methods(class);
  R_set_altvec_Dataptr_method(class, elements);
  R_set_altvec_Dataptr_or_null_method(class, elements_if_there);
  R_set_altvec_Extract_subset_method(class, subset);
  R_set_altstring_Elt_method(class, string_at);
  R_set_altstring_Set_elt_method(class, set_string);
  return class;
}
