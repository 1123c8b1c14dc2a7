/* Vectors whose elements lie in a segment. To R they are ordinary vectors: ALTREP objects with a
 * pointer to their elements, which may be written to. */
#include "r/share.h"

#include <R_ext/Altrep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os-segment.h"
#include "core/base/os.h"

/* data1: external pointer to this; data2: an ordinary copy, once there is one. */
typedef struct shared {
  clu_segment *segment;
  unsigned char *at; /* in the mapping */
  void *now;         /* where the elements are: there, or in the copy */
  R_xlen_t length;
  size_t bytes;
  int asked;        /* somebody has asked for a pointer to write to */
  uint64_t written; /* the last message that has it */
} shared;

static R_altrep_class_t any, integers, logicals, doubles, complexes, raws;
static const clu_segments *reading;
static clu_splice *writing;
static uint64_t mapped; /* bytes of the vectors that R has */
static long alive;      /* how many */

long clu_shared_alive(void) { return alive; }

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

const clu_segments *clu_shared_reading(const clu_segments *list) {
  const clu_segments *before = reading;
  reading = list;
  return before;
}

clu_splice *clu_shared_writing(clu_splice *to) {
  clu_splice *before = writing;
  writing = to;
  return before;
}

SEXP clu_shared_wrap(SEXP x) {
  SEXP both;
  PROTECT(x);
  both = Rf_allocVector(VECSXP, 2);
  SET_VECTOR_ELT(both, 0, Rf_install("clutch"));
  SET_VECTOR_ELT(both, 1, x);
  UNPROTECT(1);
  return both;
}

static SEXP allocate(void *bytes) { return Rf_allocVector(RAWSXP, *(R_xlen_t *)bytes); }
static SEXP nothing(SEXP condition, void *unused) {
  (void)condition;
  (void)unused;
  return R_NilValue;
}

/* How much more may be mapped before R collects. In a session it is fixed. In a node it is a part
 * of the machine's memory: what is mapped there its neighbours have mapped, too, so that it is
 * there once, and a collection costs more, since it makes pages the node's own. */
static uint64_t may_wait(void) {
  static const uint64_t least = 300000000, most = 2000000000;
  static uint64_t in_node;
  if (!clu_is_node) return least;
  if (!in_node) in_node = (uint64_t)clu_os_total_memory() / 16;
  return in_node < least ? least : in_node < most ? in_node : most;
}

/* What is dropped at once, and was never touched, takes no memory; but it makes R collect what is
 * young, which costs a few milliseconds, and is most of what is mapped. A full collection follows
 * where that was not enough: at once in a session, later in a node, because it makes all of the
 * node's heap its own. What was in use after the last one does not count. */
void clu_shared_expect(uint64_t more) {
  static uint64_t in_use;
  R_xlen_t n = (R_xlen_t)more;
  uint64_t wait = may_wait(), most = in_use + (in_use / 2 > wait ? in_use / 2 : wait);
  if (more == 0 || mapped + more <= most) return;
  R_tryCatchError(allocate, &n, nothing, NULL);
  if (mapped + more <= (clu_is_node ? most + wait : most)) return;
  R_gc();
  in_use = mapped;
}

/* ---- the object ---- */

static shared *of(SEXP x) { return R_ExternalPtrAddr(R_altrep_data1(x)); }

static void finalize(SEXP ptr) {
  shared *v = R_ExternalPtrAddr(ptr);
  if (!v) return;
  R_ClearExternalPtr(ptr);
  mapped -= v->bytes;
  alive--;
  clu_segment_unref(v->segment);
  free(v);
}

static SEXP make(R_altrep_class_t class, clu_segment *segment, uint64_t at, R_xlen_t n,
                 size_t bytes) {
  SEXP ptr = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue)), x;
  shared *v = malloc(sizeof *v);
  if (!v) clu_raise("memory", "not enough memory");
  v->segment = clu_segment_ref(segment);
  v->at = clu_segment_bytes(segment, NULL) + at;
  v->now = v->at;
  v->length = n;
  v->bytes = bytes;
  v->asked = 0;
  v->written = 0;
  mapped += bytes;
  alive++;
  R_SetExternalPtrAddr(ptr, v);
  R_RegisterCFinalizerEx(ptr, finalize, FALSE);
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

/* Of a segment that could not be mapped. */
static SEXP read_vector(int type, const clu_segment *segment, uint64_t at, R_xlen_t n,
                        size_t bytes) {
  SEXP x = PROTECT(Rf_allocVector((SEXPTYPE)type, n));
  if (clu_segment_read(segment, at, ordinary(x), bytes) != CLU_OK)
    clu_raise("protocol", "a shared vector cannot be read");
  UNPROTECT(1);
  return x;
}

const char *clu_shared_lost_text(void) {
  static char text[160];
  snprintf(text, sizeof text,
           "a large vector cannot be received: this process (%d) has used up its file descriptors "
           "('ulimit -n')",
           (int)clu_os_getpid());
  return text;
}

/* `state`: place of the segment in the message's list, where the elements begin, type, length. */
static SEXP unserialize(SEXP class, SEXP state) {
  const double *s;
  clu_segment *segment;
  double bytes;
  size_t width;
  (void)class;
  if (TYPEOF(state) != REALSXP || Rf_xlength(state) != 4)
    clu_raise("protocol", "a shared vector arrived damaged");
  s = REAL_RO(state);
  width = clu_shared_width((int)s[2]);
  bytes = s[3] * (double)width;
  if (!reading || !width || !(s[0] >= 0 && s[0] < reading->n))
    clu_raise("protocol", "a shared vector arrived without its elements");
  segment = reading->of[(int)s[0]];
  if (clu_segment_is_lost(segment)) clu_raise("limit", "%s", clu_shared_lost_text());
  if (!(s[1] >= 0 && s[3] >= 0) || s[1] != (double)((uint64_t)s[1] / 16 * 16) ||
      s[1] + bytes > (double)clu_segment_size(segment))
    clu_raise("protocol", "a shared vector arrived with too few elements");
  if (!clu_segment_bytes(segment, NULL))
    return read_vector((int)s[2], segment, (uint64_t)s[1], (R_xlen_t)s[3], (size_t)bytes);
  return make(class_of((int)s[2]), segment, (uint64_t)s[1], (R_xlen_t)s[3], (size_t)bytes);
}

static int is_unchanged(const shared *v) {
  return !v->asked || clu_os_segment_is_unchanged(v->at, v->bytes);
}

/* The segment's place in what is written; -1: there is no room for it. */
static int place_of(clu_segment *segment) {
  const clu_segments *there = writing->b->segments;
  int place;
  for (int i = 0; there && i < there->n; i++)
    if (there->of[i] == segment) return i;
  place = clu_blob_attach(writing->b, clu_segment_ref(segment));
  if (place < 0) clu_segment_unref(segment);
  return place;
}

int clu_is_shared(SEXP x) {
  return ALTREP(x) && clu_shared_width((int)TYPEOF(x)) > 0 &&
         R_altrep_inherits(x, class_of((int)TYPEOF(x))) && R_altrep_data2(x) == R_NilValue;
}

int clu_shared_can_be_sent(SEXP x) {
  return clu_is_shared(x) && clu_segment_fd(of(x)->segment) != CLU_NO_FD && is_unchanged(of(x));
}

/* Of one that share() has made, and that nobody has written to since, only its place travels, once
 * in a message: who receives it may write to it. Files and other hosts get an ordinary vector, and
 * so does who asks for one that was received. */
static SEXP serialized_state(SEXP x) {
  shared *v = of(x);
  SEXP out;
  int place;
  if (!writing || v->written == writing->number || !clu_shared_can_be_sent(x) ||
      (place = place_of(v->segment)) < 0)
    return NULL;
  v->written = writing->number;
  out = Rf_allocVector(REALSXP, 4);
  REAL(out)[0] = place;
  REAL(out)[1] = (double)(v->at - clu_segment_bytes(v->segment, NULL));
  REAL(out)[2] = TYPEOF(x);
  REAL(out)[3] = (double)v->length;
  return out;
}

static R_xlen_t length_of(SEXP x) { return of(x)->length; }

/* Where the system lets nobody write to a mapping, a vector that is to be written to is copied. */
static void *copy_of(SEXP x) {
  SEXP copy = R_altrep_data2(x);
  if (copy == R_NilValue) {
    copy = PROTECT(Rf_allocVector(TYPEOF(x), of(x)->length));
    memcpy(ordinary(copy), of(x)->at, of(x)->bytes);
    R_set_altrep_data2(x, copy);
    of(x)->now = ordinary(copy);
    UNPROTECT(1);
  }
  return ordinary(copy);
}

static void *elements(SEXP x, Rboolean writable) {
  shared *v = of(x);
  int may_write;
  if (!writable) return v->now;
  v->asked = 1;
  clu_segment_bytes(v->segment, &may_write);
  return may_write ? v->now : copy_of(x);
}

static const void *elements_if_there(SEXP x) { return of(x)->now; }

static int integer_at(SEXP x, R_xlen_t i) { return ((const int *)of(x)->now)[i]; }
static double double_at(SEXP x, R_xlen_t i) { return ((const double *)of(x)->now)[i]; }
static Rcomplex complex_at(SEXP x, R_xlen_t i) { return ((const Rcomplex *)of(x)->now)[i]; }
static Rbyte raw_at(SEXP x, R_xlen_t i) { return ((const Rbyte *)of(x)->now)[i]; }

/* x[index], whose numbers count from 1. `k`: such a number, of type `number`. */
#define GATHER(type, number, to, missing)                                                      \
  for (R_xlen_t i = 0; i < count; i++) {                                                       \
    number k = ((const number *)places)[i];                                                    \
    (to)[i] = k >= 1 && k < (double)n + 1 ? ((const type *)from)[(R_xlen_t)k - 1] : (missing); \
  }
#define TAKE(type, pointer, missing)    \
  do {                                  \
    type *to = pointer;                 \
    if (TYPEOF(index) == INTSXP)        \
      GATHER(type, int, to, missing)    \
    else                                \
      GATHER(type, double, to, missing) \
  } while (0)

/* R would ask for each element by itself. NULL: it is left to R. */
static SEXP subset(SEXP x, SEXP index, SEXP call) {
  R_xlen_t n = of(x)->length, count = Rf_xlength(index);
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

static Rboolean inspect(SEXP x, int pre, int deep, int pvec, void (*sub)(SEXP, int, int, int)) {
  (void)pre;
  (void)deep;
  (void)pvec;
  (void)sub;
  Rprintf(" shared by clutch (%.0f elements%s)\n", (double)of(x)->length,
          R_altrep_data2(x) == R_NilValue ? "" : ", copied");
  return TRUE;
}

/* ---- the classes ---- */

static void set_methods(R_altrep_class_t class) {
  R_set_altrep_Unserialize_method(class, unserialize);
  R_set_altrep_Serialized_state_method(class, serialized_state);
  R_set_altrep_Length_method(class, length_of);
  R_set_altrep_Inspect_method(class, inspect);
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
}

/* Where attributes of a long vector are changed that has two names, R makes another ALTREP object
 * that has the vector. */
static int has_shared(SEXP x) {
  SEXP in = ALTREP(x) && clu_shared_width((int)TYPEOF(x)) > 0 ? R_altrep_data1(x) : R_NilValue;
  return TYPEOF(in) == TYPEOF(x) && clu_is_shared(in) && Rf_xlength(in) == Rf_xlength(x);
}

/* Whether it is a vector in shared memory. */
SEXP ffi_is_shared(SEXP x) { return Rf_ScalarLogical(clu_is_shared(x) || has_shared(x)); }
