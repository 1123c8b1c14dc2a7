/* Results that are of use in this process only: R/node-travel.R packs them, or says that they
 * cannot travel. */
#include "r/node/node.h"

int clu_travel_has_recipes(void) {
  SEXP travel = clu_job_travel();
  return TYPEOF(travel) == VECSXP && clu_element(travel, "recipes") != R_NilValue;
}

static SEXP ask(void *value) {
  SEXP ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
  SEXP quoted = PROTECT(Rf_lang2(R_QuoteSymbol, value)); /* it may be code */
  SEXP call = PROTECT(Rf_lang3(Rf_install("node_result"), quoted, clu_job_travel()));
  SEXP out = Rf_eval(call, ns);
  UNPROTECT(4);
  return out;
}

static void drop(void *bytes, Rboolean jump) {
  if (jump) clu_blob_unref(bytes);
}

SEXP clu_travel_in_place(SEXP value, clu_blob *bytes) {
  static SEXP token;
  SEXP out;
  if (!token) {
    token = R_MakeUnwindCont();
    R_PreserveObject(token);
  }
  out = R_UnwindProtect(ask, value, drop, bytes, token);
  SETCAR(token, R_NilValue); /* else R keeps it there, and it may be large */
  return out;
}

SEXP clu_travel_logs(SEXP log, SEXP more) {
  R_xlen_t n = Rf_xlength(log), m = Rf_xlength(more);
  SEXP both;
  if (m == 0) return log;
  both = Rf_allocVector(VECSXP, n + m);
  for (R_xlen_t i = 0; i < n + m; i++)
    SET_VECTOR_ELT(both, i, i < n ? VECTOR_ELT(log, i) : VECTOR_ELT(more, i - n));
  return both;
}
