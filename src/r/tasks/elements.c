/* Elements of maps, which are R's, become bytes for the batches of an engine. */
#include <setjmp.h>
#include <string.h>

#include "r/tasks/tasks.h"

typedef struct adding {
  SEXP elements;
  R_xlen_t first, n;
  int shares;
  clu_blob *body;
  jmp_buf back;
} adding;

static SEXP slice(SEXP x, R_xlen_t from, R_xlen_t n) {
  SEXP out = PROTECT(Rf_allocVector(TYPEOF(x), n));
  switch (TYPEOF(x)) {
  case INTSXP: memcpy(INTEGER(out), INTEGER_RO(x) + from, (size_t)n * sizeof(int)); break;
  case LGLSXP: memcpy(LOGICAL(out), LOGICAL_RO(x) + from, (size_t)n * sizeof(int)); break;
  case REALSXP: memcpy(REAL(out), REAL_RO(x) + from, (size_t)n * sizeof(double)); break;
  case STRSXP:
    for (R_xlen_t i = 0; i < n; i++) SET_STRING_ELT(out, i, STRING_ELT(x, from + i));
    break;
  default:
    for (R_xlen_t i = 0; i < n; i++) SET_VECTOR_ELT(out, i, VECTOR_ELT(x, from + i));
  }
  UNPROTECT(1);
  return out;
}

static SEXP add(void *data) {
  adding *a = data;
  SEXP part = PROTECT(slice(a->elements, a->first, a->n));
  clu_blob *b = a->body;
  a->body = NULL; /* serialize's, until it returns */
  a->body = clu_serialize_for(b, part, a->shares);
  UNPROTECT(1);
  return R_NilValue;
}

static void jumped(void *data, Rboolean jump) {
  adding *a = data;
  if (jump) longjmp(a->back, 1);
}

/* Where a jump goes that was caught. */
static SEXP jump_token(void) {
  static SEXP token;
  if (!token) {
    token = R_MakeUnwindCont();
    R_PreserveObject(token);
  }
  return token;
}

/* R code may run while elements are serialized: of ALTREP objects, of a window system's events. A
 * jump of it (an interrupt, an element that cannot be serialized) ends here, since functions of the
 * core are on the stack, and goes on in clu_tasks_check(). */
static int elements(void *job, uint64_t first, uint32_t n, int shares, clu_blob **body) {
  SEXP self = job, token = jump_token();
  adding a = {.elements = VECTOR_ELT(R_ExternalPtrProtected(self), 1),
              .first = (R_xlen_t)first,
              .n = (R_xlen_t)n,
              .shares = shares,
              .body = *body};
  const void *frame = clu_turn.held && !clu_turn.nested ? clu_turn.frame : NULL;
  PROTECT(self);
  if (setjmp(a.back)) {
    clu_turn_resume(frame); /* the serializer had given it back */
    clu_blob_unref(a.body);
    *body = NULL;
    return CLU_CANCELLED;
  }
  R_UnwindProtect(add, &a, jumped, &a, token);
  UNPROTECT(1);
  *body = a.body;
  return CLU_OK;
}

const clu_engine_caller clu_elements = {elements};

void clu_tasks_check(int rc) {
  if (rc == CLU_OK) return;
  clu_turn_pause(); /* for good: who has it is about to be left */
  R_ContinueUnwind(jump_token());
}
