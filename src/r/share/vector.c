/* Vectors whose elements lie in a segment. To R they are ordinary vectors: ALTREP objects with a
 * pointer to their elements, which may be written to. */
#include "r/share/share.h"

#include <string.h>

#include "core/base/os-segment.h"

/* data1: external pointer to this; data2: an ordinary copy, once there is one. */
typedef struct shared {
  clu_held held;
  unsigned char *at; /* in the mapping */
  void *now;         /* where the elements are: there, or in the copy */
  int asked;         /* somebody has a pointer, and may write to it */
  uint64_t written;  /* the last message that has it */
} shared;

static R_altrep_class_t any, integers, logicals, doubles, complexes, raws;

size_t clu_shared_width(int type) {
  switch (type) {
  case LGLSXP:
  case INTSXP: return sizeof(int);
  case REALSXP: return sizeof(double);
  case CPLXSXP: return sizeof(Rcomplex);
  case RAWSXP: return 1;
  default: return 0;
  }
}

/* ---- the object ---- */

static shared *of(SEXP x) { return clu_held_of(x); }

static SEXP make(R_altrep_class_t class, clu_segment *segment, uint64_t at, R_xlen_t n,
                 size_t bytes) {
  SEXP ptr = PROTECT(clu_held_new(sizeof(shared), segment, n, bytes)), x;
  shared *v = R_ExternalPtrAddr(ptr);
  v->at = clu_segment_bytes(segment, NULL) + at;
  v->now = v->at;
  x = R_new_altrep(class, ptr, R_NilValue);
  UNPROTECT(1);
  return x;
}

static R_altrep_class_t class_of(int type) {
  switch (type) {
  case INTSXP: return integers;
  case LGLSXP: return logicals;
  case REALSXP: return doubles;
  case CPLXSXP: return complexes;
  default: return raws;
  }
}

/* The elements of a vector that is none of ours. */
static void *ordinary(SEXP x) {
  switch (TYPEOF(x)) {
  case INTSXP: return INTEGER(x);
  case LGLSXP: return LOGICAL(x);
  case REALSXP: return REAL(x);
  case CPLXSXP: return COMPLEX(x);
  default: return RAW(x);
  }
}

/* Reads it from a segment that cannot be kept mapped. */
static SEXP read_vector(int type, const clu_segment *segment, uint64_t at, R_xlen_t n,
                        size_t bytes) {
  SEXP x = PROTECT(Rf_allocVector((SEXPTYPE)type, n));
  if (clu_shared_read(segment, at, ordinary(x), bytes) != CLU_OK)
    clu_raise("protocol", "a shared vector cannot be read");
  UNPROTECT(1);
  return x;
}

/* The segment that a state names. */
static clu_segment *segment_of(const double *s) {
  const clu_segments *list = clu_shared_reading_now();
  if (!list || !(s[CLU_STATE_PLACE] >= 0 && s[CLU_STATE_PLACE] < list->n))
    clu_raise("protocol", "a shared vector arrived without its elements");
  return list->of[(int)s[CLU_STATE_PLACE]];
}

static SEXP unserialize(SEXP class, SEXP state) {
  const double *s;
  clu_segment *segment;
  double bytes, size;
  size_t width;
  int type;
  (void)class;
  if (TYPEOF(state) != REALSXP || Rf_xlength(state) < CLU_STATE_VECTOR)
    clu_raise("protocol", "a shared vector arrived damaged");
  s = REAL_RO(state);
  type = s[CLU_STATE_TYPE] >= 0 && s[CLU_STATE_TYPE] < 256 ? (int)s[CLU_STATE_TYPE] : 0;
  width = type == STRSXP ? sizeof(uint64_t) : clu_shared_width(type);
  if (!width || Rf_xlength(state) != (type == STRSXP ? CLU_STATE_STRINGS : CLU_STATE_VECTOR))
    clu_raise("protocol", "a shared vector arrived damaged");
  segment = segment_of(s);
  if (clu_segment_is_lost(segment)) clu_raise("limit", "%s", clu_shared_lost_text());
  size = (double)clu_segment_size(segment);
  bytes = s[CLU_STATE_LENGTH] * (double)width;
  if (!(s[CLU_STATE_AT] >= 0 && s[CLU_STATE_LENGTH] >= 0 && s[CLU_STATE_AT] + bytes <= size) ||
      (uint64_t)s[CLU_STATE_AT] % 16 != 0)
    clu_raise("protocol", "a shared vector arrived with too few elements");
  if (type == STRSXP) return clu_strings_get(segment, s);
  if (!clu_shared_can_hold(segment))
    return read_vector(type, segment, (uint64_t)s[CLU_STATE_AT], (R_xlen_t)s[CLU_STATE_LENGTH],
                       (size_t)bytes);
  return make(class_of(type), segment, (uint64_t)s[CLU_STATE_AT], (R_xlen_t)s[CLU_STATE_LENGTH],
              (size_t)bytes);
}

static int is_unchanged(const shared *v) {
  return !v->asked || clu_os_segment_is_unchanged(v->at, v->held.bytes);
}

int clu_is_shared(SEXP x) {
  if (TYPEOF(x) == STRSXP) return clu_strings_are_shared(x);
  return ALTREP(x) && clu_shared_width((int)TYPEOF(x)) > 0 &&
         R_altrep_inherits(x, class_of((int)TYPEOF(x))) && R_altrep_data2(x) == R_NilValue &&
         !clu_held_is_gone(x);
}

int clu_shared_can_be_sent(SEXP x) {
  if (TYPEOF(x) == STRSXP) return clu_strings_can_be_sent(x);
  return clu_is_shared(x) && clu_held_is_own(&of(x)->held) && is_unchanged(of(x));
}

/* `*left`: how many objects more may be looked at. */
static void count(SEXP x, uint64_t message, int *left) {
  if (--*left < 0) return;
  if (TYPEOF(x) == VECSXP && !ALTREP(x)) {
    for (R_xlen_t i = 0; i < Rf_xlength(x) && *left > 0; i++)
      count(VECTOR_ELT(x, i), message, left);
  } else if (clu_is_shared(x)) {
    const clu_held *h = clu_held_of(x);
    clu_segment_count(h->segment, message, h->bytes);
  }
}

void clu_shared_count(SEXP x, uint64_t message) {
  int left = 10000;
  if (clu_segments_any_kept()) count(x, message, &left);
}

/* A vector that share() has made, or that came with others that are in this message, too, travels
 * by its place only, if nobody has written to it since; and once in a message: who receives it may
 * write to it. Files and other hosts get an ordinary vector. */
static SEXP serialized_state(SEXP x) {
  clu_splice *writing = clu_shared_writing_now();
  shared *v = of(x);
  SEXP out;
  int place;
  if (!writing || writing->copies || v->written == writing->number || !clu_is_shared(x) ||
      !clu_held_can_be_named(&v->held) || !is_unchanged(v) ||
      (place = clu_shared_place(v->held.segment)) < 0)
    return NULL;
  v->written = writing->number;
  out = Rf_allocVector(REALSXP, CLU_STATE_VECTOR);
  REAL(out)[CLU_STATE_PLACE] = place;
  REAL(out)[CLU_STATE_AT] = (double)(v->at - clu_segment_bytes(v->held.segment, NULL));
  REAL(out)[CLU_STATE_TYPE] = TYPEOF(x);
  REAL(out)[CLU_STATE_LENGTH] = (double)v->held.length;
  return out;
}

/* Tells whether packages write through pointers that are to read by: from R 4.6 on these have no
 * other in Rcpp, for which R has no DATAPTR() any more. */
#define READERS_WRITE (R_VERSION >= R_Version(4, 6, 0))

/* Where the system lets nobody write to a mapping, a vector that is to be written to is copied. */
static void *copy_of(SEXP x) {
  SEXP copy = R_altrep_data2(x);
  if (copy == R_NilValue) {
    copy = PROTECT(Rf_allocVector(TYPEOF(x), of(x)->held.length));
    memcpy(ordinary(copy), of(x)->at, of(x)->held.bytes);
    R_set_altrep_data2(x, copy);
    of(x)->now = ordinary(copy);
    UNPROTECT(1);
  }
  return ordinary(copy);
}

/* Also who asks for a pointer to read may write. */
static void ask(shared *v) {
  if (v->asked) return;
  v->asked = 1;
  clu_held_count(&v->held);
}

static void *elements(SEXP x, Rboolean writable) {
  shared *v = of(x);
  int may_write;
  ask(v);
  if (!writable && !READERS_WRITE) return v->now;
  clu_segment_bytes(v->held.segment, &may_write);
  return may_write ? v->now : copy_of(x);
}

/* NULL: a copy would have to be made. Then R asks for the elements one by one. */
static const void *elements_if_there(SEXP x) {
  shared *v = of(x);
  int may_write;
  ask(v);
  clu_segment_bytes(v->held.segment, &may_write);
  return !READERS_WRITE || may_write || v->now != v->at ? v->now : NULL;
}

static int integer_at(SEXP x, R_xlen_t i) { return ((const int *)of(x)->now)[i]; }
static double double_at(SEXP x, R_xlen_t i) { return ((const double *)of(x)->now)[i]; }
static Rcomplex complex_at(SEXP x, R_xlen_t i) { return ((const Rcomplex *)of(x)->now)[i]; }
static Rbyte raw_at(SEXP x, R_xlen_t i) { return ((const Rbyte *)of(x)->now)[i]; }

/* x[index], whose numbers count from 1. Places are far from each other, as those of a random sample
 * are, more often than not: a loop without calls has many reads of the memory under way at a time,
 * and is limited by them. */
#define INT_AT(k) ((uint64_t)((int64_t)(k)-1))
#define DOUBLE_AT(k) ((k) >= 1 && (k) < most ? (uint64_t)(k)-1 : UINT64_MAX)
#define GATHER(type, number, at_of, to, missing)        \
  do {                                                  \
    const number *restrict at = (const number *)places; \
    const type *restrict all = (const type *)from;      \
    for (R_xlen_t i = 0; i < count; i++) {              \
      uint64_t k = at_of(at[i]);                        \
      (to)[i] = k < n ? all[k] : (missing);             \
    }                                                   \
  } while (0)
#define TAKE(type, pointer, missing)                \
  do {                                              \
    type *restrict to = pointer;                    \
    if (TYPEOF(index) == INTSXP)                    \
      GATHER(type, int, INT_AT, to, missing);       \
    else                                            \
      GATHER(type, double, DOUBLE_AT, to, missing); \
  } while (0)

/* R would ask for each element by itself. NULL: it is left to R. */
static SEXP subset(SEXP x, SEXP index, SEXP call) {
  R_xlen_t count = Rf_xlength(index);
  uint64_t n = (uint64_t)of(x)->held.length;
  double most = (double)n + 1;
  const void *from = of(x)->now, *places;
  Rcomplex no_number = {NA_REAL, NA_REAL};
  SEXP out;
  (void)call;
  if ((TYPEOF(index) != INTSXP && TYPEOF(index) != REALSXP) || ALTREP(index)) return NULL;
  places = TYPEOF(index) == INTSXP ? (const void *)INTEGER_RO(index) : REAL_RO(index);
  out = PROTECT(Rf_allocVector(TYPEOF(x), count));
  switch (TYPEOF(x)) {
  case INTSXP: TAKE(int, INTEGER(out), NA_INTEGER); break;
  case LGLSXP: TAKE(int, LOGICAL(out), NA_LOGICAL); break;
  case REALSXP: TAKE(double, REAL(out), NA_REAL); break;
  case CPLXSXP: TAKE(Rcomplex, COMPLEX(out), no_number); break;
  default: TAKE(Rbyte, RAW(out), 0);
  }
  UNPROTECT(1);
  return out;
}

/* ---- the classes ---- */

static void set_methods(R_altrep_class_t class) {
  R_set_altrep_Unserialize_method(class, unserialize);
  R_set_altrep_Serialized_state_method(class, serialized_state);
  clu_held_methods(class);
  R_set_altvec_Dataptr_method(class, elements);
  R_set_altvec_Dataptr_or_null_method(class, elements_if_there);
  R_set_altvec_Extract_subset_method(class, subset);
}

void clu_shared_init(DllInfo *dll) {
  any = R_make_altraw_class("clutch", "clutch", dll); /* what is written in place of a vector */
  integers = R_make_altinteger_class("clutch_integer", "clutch", dll);
  logicals = R_make_altlogical_class("clutch_logical", "clutch", dll);
  doubles = R_make_altreal_class("clutch_double", "clutch", dll);
  complexes = R_make_altcomplex_class("clutch_complex", "clutch", dll);
  raws = R_make_altraw_class("clutch_raw", "clutch", dll);
  R_set_altrep_Unserialize_method(any, unserialize);
  set_methods(integers);
  set_methods(logicals);
  set_methods(doubles);
  set_methods(complexes);
  set_methods(raws);
  R_set_altinteger_Elt_method(integers, integer_at);
  R_set_altlogical_Elt_method(logicals, integer_at);
  R_set_altreal_Elt_method(doubles, double_at);
  R_set_altcomplex_Elt_method(complexes, complex_at);
  R_set_altraw_Elt_method(raws, raw_at);
  R_set_altrep_Unserialize_method(clu_strings_init(dll), unserialize);
}

/* Where attributes of a long vector are changed that has two names, R makes another ALTREP object
 * that has the vector. */
static int has_shared(SEXP x) {
  int may_be = ALTREP(x) && (TYPEOF(x) == STRSXP || clu_shared_width((int)TYPEOF(x)) > 0);
  SEXP in = may_be ? R_altrep_data1(x) : R_NilValue;
  return TYPEOF(in) == TYPEOF(x) && clu_is_shared(in) && Rf_xlength(in) == Rf_xlength(x);
}

/* Tells whether it is a vector in shared memory. */
SEXP ffi_is_shared(SEXP x) { return Rf_ScalarLogical(clu_is_shared(x) || has_shared(x)); }
