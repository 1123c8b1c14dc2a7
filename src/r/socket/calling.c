/* Which call of R code reads or writes a connection: R tells a connection only that bytes are
 * wanted, not by whom. This runs for each object that is written or read, so R code is called for
 * what C cannot find out only. */
#include "r/socket/connection.h"

#if R_VERSION >= R_Version(4, 5, 0)
#define PARENT_ENV R_ParentEnv
#else
#define PARENT_ENV ENCLOS
#endif

SEXP clu_package_value(const char *name) {
  SEXP ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
  SEXP value = PROTECT(Rf_eval(Rf_install(name), ns));
  R_PreserveObject(value);
  UNPROTECT(3);
  return value;
}

SEXP clu_calling_frame(void) {
  static SEXP call;
  if (!call) {
    R_PreserveObject(call = Rf_lang1(R_NilValue));
    SETCAR(call, clu_package_value("calling_frame"));
  }
  return Rf_eval(call, R_BaseEnv);
}

static int has(SEXP frame, const char *name) { return R_existsVarInFrame(frame, Rf_install(name)); }

int clu_is_base_frame(SEXP frame) {
  return TYPEOF(frame) == ENVSXP && PARENT_ENV(frame) == R_BaseNamespace;
}

int clu_serializes(SEXP frame) {
  if (!clu_is_base_frame(frame) || !has(frame, "object") || !has(frame, "refhook")) return 0;
  return (has(frame, "connection") && has(frame, "xdr")) ||
         (has(frame, "file") && has(frame, "compress"));
}

int clu_called_for_itself(SEXP frame) {
  static SEXP call;
  SEXP caller;
  if (!call) R_PreserveObject(call = Rf_lang1(Rf_install("parent.frame")));
  caller = Rf_eval(call, frame);
  return TYPEOF(caller) != ENVSXP || caller == R_GlobalEnv ||
         (!has(caller, "con") && !has(caller, "connection") && !has(caller, "file"));
}

void clu_on_exit(SEXP frame, SEXP handle, SEXP (*make)(SEXP handle), int which) {
  SEXP place = R_ExternalPtrProtected(handle), calls = TAG(place);
  if (calls == R_NilValue) SET_TAG(place, calls = Rf_allocVector(VECSXP, CLU_ON_EXITS));
  if (VECTOR_ELT(calls, which) == R_NilValue) {
    SEXP call = PROTECT(make(handle));
    SET_VECTOR_ELT(calls, which,
                   Rf_lang3(Rf_install("on.exit"), call, PROTECT(Rf_ScalarLogical(1))));
    UNPROTECT(2);
  }
  Rf_eval(VECTOR_ELT(calls, which), frame);
}
