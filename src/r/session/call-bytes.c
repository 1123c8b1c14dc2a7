/* The bytes of a call. Two things are serialized only once: what clusterCall() sends to each node,
 * and a function that is sent again and again. */
#include "r/session/session.h"

/* This is what clusterCall() sent last. */
static struct {
  clu_blob *blob;
  int shares; /* for nodes that take segments */
  SEXP cell;  /* a preserved cons cell that holds function and arguments */
} sent;

void clu_call_forget_sent(void) {
  clu_blob_unref(sent.blob);
  sent.blob = NULL;
  if (sent.cell) SETCAR(sent.cell, R_NilValue);
}

static int same_list(SEXP a, SEXP b) {
  SEXP na = Rf_getAttrib(a, R_NamesSymbol), nb = Rf_getAttrib(b, R_NamesSymbol);
  R_xlen_t n = Rf_xlength(a);
  if (TYPEOF(b) != VECSXP || Rf_xlength(b) != n || Rf_isNull(na) != Rf_isNull(nb)) return 0;
  for (R_xlen_t i = 0; i < n; i++)
    if (VECTOR_ELT(a, i) != VECTOR_ELT(b, i) ||
        (!Rf_isNull(na) && STRING_ELT(na, i) != STRING_ELT(nb, i)))
      return 0;
  return 1;
}

/* The function of the last call. One that is sent again and again, as by clusterApplyLB(), is
 * serialized once, if its bytes do not depend on anything that may change or that arguments may
 * share: its environment is the workspace or base R, of which only the name travels. */
static struct {
  SEXP cell; /* a preserved cons cell that holds it: no other object can have its address */
  clu_blob *bytes;
  int asked; /* whether it may travel alone */
} last;

/* Others would also keep alive what their environment has: a cluster, say, that nobody has stopped.
 */
static int has_named_environment(SEXP fun) {
  SEXP env;
  if (TYPEOF(fun) == BUILTINSXP || TYPEOF(fun) == SPECIALSXP) return 1;
  if (TYPEOF(fun) != CLOSXP) return 0;
  env = clu_closure_env(fun);
  return env == R_GlobalEnv || env == R_BaseEnv || env == R_BaseNamespace;
}

/* Attributes other than a source reference may hold anything. */
static int travels_alone(SEXP fun) {
  SEXP call, attributes;
  int ok;
  if (!clu_has_attributes(fun)) return 1;
  call = PROTECT(Rf_lang2(Rf_install("attributes"), fun));
  attributes = PROTECT(Rf_eval(call, R_BaseEnv));
  ok = Rf_length(attributes) == 1 && Rf_getAttrib(fun, Rf_install("srcref")) != R_NilValue;
  UNPROTECT(2);
  return ok;
}

clu_blob *clu_call_function(SEXP fun) {
  if (!last.cell) {
    last.cell = Rf_cons(R_NilValue, R_NilValue);
    R_PreserveObject(last.cell);
  }
  if (CAR(last.cell) != fun) {
    clu_blob_unref(last.bytes);
    last.bytes = NULL;
    last.asked = 0;
    SETCAR(last.cell, has_named_environment(fun) ? fun : R_NilValue);
    return NULL;
  }
  if (!last.asked) {
    last.asked = 1;
    if (travels_alone(fun)) {
      last.bytes = clu_serialize(NULL, fun);
      if (last.bytes->size <= CLU_MOST_FUN) return last.bytes;
      clu_blob_unref(last.bytes);
      last.bytes = NULL;
    }
  }
  return last.bytes;
}

/* Keeps for the others what clusterCall() sends to the first node. `call`: function, arguments.
 */
static void keep_sent(SEXP call, clu_blob *b, int shares) {
  clu_call_forget_sent();
  sent.shares = shares;
  SETCAR(sent.cell, call);
  sent.blob = clu_blob_ref(b);
}

clu_blob *clu_call_bytes(SEXP fun, SEXP args, int receivers, int shares) {
  clu_blob *b, *f;
  SEXP call;
  unsigned char len[4];
  if (receivers > 1 && sent.blob && sent.shares == shares && VECTOR_ELT(CAR(sent.cell), 0) == fun &&
      same_list(VECTOR_ELT(CAR(sent.cell), 1), args))
    return clu_blob_ref(sent.blob);
  if (!sent.cell) {
    sent.cell = Rf_cons(R_NilValue, R_NilValue);
    R_PreserveObject(sent.cell);
  }
  f = clu_call_function(fun);
  clu_put32(len, f ? (uint32_t)f->size : 0);
  call = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(call, 0, fun);
  SET_VECTOR_ELT(call, 1, args);
  b = clu_blob_new(f ? f->size + 512 : 512);
  if (!b) clu_raise("memory", "not enough memory");
  clu_blob_append(b, len, sizeof len); /* there is room */
  if (f) clu_blob_append(b, f->data, f->size);
  b = clu_serialize_for(b, f ? args : call, shares ? receivers : 0);
  if (receivers > 1) keep_sent(call, b, shares);
  UNPROTECT(1);
  return b;
}
