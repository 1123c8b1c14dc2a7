/* All vectors in segments have this in common: who holds them, and where they may be named. */
#include "r/share/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os-machine.h"
#include "core/base/os-segment.h"

static const clu_segments *reading;
static clu_splice *writing;
static uint64_t mapped; /* bytes that the vectors that R has may take */
static long alive;      /* how many */

long clu_shared_alive(void) { return alive; }

const clu_segments *clu_shared_reading(const clu_segments *list) {
  const clu_segments *before = reading;
  reading = list;
  return before;
}

const clu_segments *clu_shared_reading_now(void) { return reading; }

clu_splice *clu_shared_writing(clu_splice *to) {
  clu_splice *before = writing;
  writing = to;
  return before;
}

clu_splice *clu_shared_writing_now(void) { return writing; }

int clu_shared_place(clu_segment *segment) {
  const clu_segments *there = writing->b->segments;
  int place;
  for (int i = 0; there && i < there->n; i++)
    if (there->of[i] == segment) return i;
  place = clu_blob_attach(writing->b, clu_segment_ref(segment));
  if (place < 0) clu_segment_unref(segment);
  return place;
}

int clu_held_is_own(const clu_held *h) {
  return clu_segment_fd(h->segment) != CLU_NO_FD && !clu_segment_is_kept(h->segment);
}

int clu_held_can_be_named(const clu_held *h) {
  uint64_t size = clu_segment_size(h->segment);
  return clu_held_is_own(h) ||
         (clu_segment_is_kept(h->segment) && h->bytes >= writing->from &&
          clu_segment_counted(h->segment, writing->number) >= size - size / 4);
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

/* How much more may be mapped before R collects. In a session it is fixed: three results of 100 MB
 * with what comes with them; at 300 MB it was two, and R collected at each. In a node it is a part
 * of the machine's memory: what is mapped there its neighbours have mapped, too, so that it is
 * there once, and a collection costs more, since it makes pages the node's own. Where there is
 * little memory it is a part of that for both. */
static uint64_t may_wait(void) {
  static const uint64_t least = 310000000, most = 2000000000;
  static uint64_t memory;
  uint64_t wait;
  if (!memory) memory = (uint64_t)clu_os_memory_limit();
  wait = clu_is_node ? memory / 16 : 0;
  wait = wait < least ? least : wait < most ? wait : most;
  return wait < memory / 8 ? wait : memory / 8;
}

/* A vector that is sent again and again, as share() makes it, takes no memory again, but some
 * address space and one of the mappings that a process may have: each of 8 nodes took 3 ms of its
 * time for collections each time that 100 MB came once more. An address space with a limit is used
 * up: whether there is one is asked once for each message. */
static int may_be_many = -1;

static uint64_t counted_of(const clu_segment *s, uint64_t bytes) {
  if (!clu_segment_is_again(s)) return bytes;
  if (may_be_many < 0) may_be_many = clu_os_segment_may_be_many();
  return may_be_many ? bytes / 16 : bytes;
}

/* A vector that is dropped at once, and was never touched, takes no memory; but it makes R collect
 * what is young, which costs a few milliseconds, and is most of what is mapped. R runs the
 * finalizers, which give back what was found, after some thousand evaluations of its own, so it is
 * asked to do that now. A full collection follows where that was not enough: at once in a session,
 * later in a node, because it makes all of the node's heap its own. What was in use after the last
 * one does not count. */
static uint64_t in_use;

void clu_shared_expect(const clu_segments *list) {
  static const uint64_t few = 16000000;
  uint64_t more = 0, wait, most;
  R_xlen_t n;
  may_be_many = -1;
  if (in_use > mapped) in_use = mapped; /* some of that was dropped meanwhile */
  for (int i = 0; list && i < list->n; i++)
    more += counted_of(list->of[i], clu_segment_size(list->of[i]));
  n = (R_xlen_t)more;
  if (more == 0 || mapped == 0 || mapped + more <= few) return;
  wait = may_wait();
  most = in_use + (in_use / 2 > wait ? in_use / 2 : wait);
  if (mapped + more <= most) return;
  R_tryCatchError(allocate, &n, nothing, NULL);
  R_RunPendingFinalizers();
  if (mapped + more <= (clu_is_node ? most + wait : most)) return;
  R_gc();
  in_use = mapped;
}

void clu_shared_settle(void) { in_use = mapped; }

const char *clu_shared_lost_text(void) {
  static char text[160];
  snprintf(text, sizeof text,
           "a large vector cannot be received: this process (%d) has used up its file descriptors "
           "('ulimit -n')",
           (int)clu_os_getpid());
  return text;
}

/* ---- the owner ---- */

int clu_shared_can_hold(const clu_segment *segment) {
  return clu_segment_bytes(segment, NULL) && clu_mapped_has_room(segment);
}

int clu_shared_read(const clu_segment *segment, uint64_t at, void *p, size_t n) {
  const unsigned char *bytes = clu_segment_bytes(segment, NULL);
  if (!bytes) return clu_segment_read(segment, at, p, n);
  memcpy(p, bytes + at, n);
  return CLU_OK;
}

void clu_held_drop(clu_held *h) {
  if (!h->segment) return;
  clu_mapped_remove(h->segment);
  mapped -= h->counted;
  alive--;
  clu_segment_unref(h->segment);
  h->segment = NULL;
}

void clu_held_count(clu_held *h) {
  mapped += h->bytes - h->counted;
  h->counted = h->bytes;
}

static void finalize(SEXP ptr) {
  clu_held *h = R_ExternalPtrAddr(ptr);
  if (!h) return;
  R_ClearExternalPtr(ptr);
  clu_held_drop(h);
  free(h);
}

SEXP clu_held_new(size_t size, clu_segment *segment, R_xlen_t length, uint64_t bytes) {
  SEXP ptr = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  clu_held *h;
  R_RegisterCFinalizerEx(ptr, finalize, FALSE);
  h = calloc(1, size);
  if (!h || !clu_mapped_add(segment)) {
    free(h);
    clu_raise("memory", "not enough memory");
  }
  h->segment = clu_segment_ref(segment);
  h->length = length;
  h->bytes = bytes;
  h->counted = counted_of(segment, bytes);
  mapped += h->counted;
  alive++;
  R_SetExternalPtrAddr(ptr, h);
  UNPROTECT(1);
  return ptr;
}

void *clu_held_of(SEXP x) {
  void *h = R_ExternalPtrAddr(R_altrep_data1(x));
  if (!h) clu_raise("argument", "a shared vector was collected with the object that holds it");
  return h;
}

static R_xlen_t length_of(SEXP x) { return ((const clu_held *)clu_held_of(x))->length; }

static Rboolean inspect(SEXP x, int pre, int deep, int pvec, void (*sub)(SEXP, int, int, int)) {
  (void)pre;
  (void)deep;
  (void)pvec;
  (void)sub;
  Rprintf(" shared by clutch (%.0f elements%s)\n", (double)length_of(x),
          TYPEOF(R_altrep_data2(x)) == TYPEOF(x) ? ", copied" : "");
  return TRUE;
}

void clu_held_methods(R_altrep_class_t class) {
  R_set_altrep_Length_method(class, length_of);
  R_set_altrep_Inspect_method(class, inspect);
}

/* ---- encodings ---- */

int clu_native_encoding(void) {
  SEXP call = PROTECT(Rf_lang1(Rf_install("l10n_info"))), info;
  int out = 0;
  info = PROTECT(Rf_eval(call, R_BaseEnv)); /* list(MBCS, UTF-8, Latin-1, ...) */
  if (TYPEOF(info) == VECSXP && Rf_xlength(info) >= 3)
    out = Rf_asLogical(VECTOR_ELT(info, 1)) == TRUE   ? 1
          : Rf_asLogical(VECTOR_ELT(info, 2)) == TRUE ? 2
                                                      : 0;
  UNPROTECT(2);
  return out;
}
