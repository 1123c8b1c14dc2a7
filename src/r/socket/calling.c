/* Which call of R code reads or writes a connection: R tells a connection only that bytes are
 * wanted, not by whom. This runs for each object that is written or read, so R code is called for
 * what C cannot find out only. */
#include "r/socket/connection.h"

SEXP clu_package_value(const char *name) {
  SEXP ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
  SEXP value = PROTECT(Rf_eval(Rf_install(name), ns));
  R_PreserveObject(value);
  UNPROTECT(3);
  return value;
}

SEXP clu_own_call(const char *name, SEXP handle, SEXP argument) {
  SEXP routine = VECTOR_ELT(clu_package_value(name), 1); /* its address: R need not look for it */
  return Rf_lang4(Rf_findFun(Rf_install(".Call"), R_BaseEnv), routine, handle, argument);
}

int clu_is_base_frame(SEXP frame) {
  return TYPEOF(frame) == ENVSXP && clu_parent_env(frame) == R_BaseNamespace;
}

/* R_GetCurrentEnv() is that of the innermost context, which need not be a function's. But where it
 * is the frame of a function of base, that function is the one. */
SEXP clu_calling_frame(void) {
  static SEXP call;
  SEXP now = R_GetCurrentEnv();
  if (clu_is_base_frame(now)) return now;
  if (!call) {
    R_PreserveObject(call = Rf_lang1(R_NilValue));
    SETCAR(call, clu_package_value("calling_frame"));
  }
  return Rf_eval(call, R_BaseEnv);
}

enum {
  ITS_OBJECT,
  ITS_REFHOOK,
  ITS_XDR,
  ITS_COMPRESS,
  ITS_CON,
  ITS_CONNECTION,
  ITS_FILE,
  ITS_WHAT
};

static int has(SEXP frame, int which) {
  static const char *names[] = {"object", "refhook",    "xdr",  "compress",
                                "con",    "connection", "file", "what"};
  static SEXP symbols[sizeof names / sizeof *names];
  if (!symbols[which]) symbols[which] = Rf_install(names[which]);
  return R_existsVarInFrame(frame, symbols[which]);
}

int clu_serializes(SEXP frame) {
  return clu_is_base_frame(frame) && has(frame, ITS_REFHOOK) &&
         (has(frame, ITS_XDR) || has(frame, ITS_COMPRESS));
}

int clu_unserializes(SEXP frame) {
  return has(frame, ITS_CONNECTION) && has(frame, ITS_REFHOOK) && !has(frame, ITS_OBJECT);
}

int clu_reads_vector(SEXP frame) { return has(frame, ITS_WHAT); }

int clu_called_for_itself(void) {
  static SEXP call;
  SEXP caller;
  if (!call) { /* as parent.frame() evaluated in its frame, but no R code */
    SEXP f = Rf_findFun(Rf_install("pos.to.env"), R_BaseEnv);
    R_PreserveObject(call = Rf_lang2(f, PROTECT(Rf_ScalarInteger(-1))));
    UNPROTECT(1);
  }
  caller = Rf_eval(call, R_BaseEnv);
  return TYPEOF(caller) != ENVSXP || caller == R_GlobalEnv ||
         (!has(caller, ITS_CON) && !has(caller, ITS_CONNECTION) && !has(caller, ITS_FILE));
}

SEXP clu_kept(SEXP handle) {
  SEXP place = R_ExternalPtrProtected(handle), kept = TAG(place);
  if (kept == R_NilValue) SET_TAG(place, kept = Rf_allocVector(VECSXP, CLU_N_KEPT));
  return kept;
}

void clu_on_exit(SEXP frame, SEXP handle, SEXP (*make)(SEXP handle), int which) {
  SEXP calls = clu_kept(handle);
  if (VECTOR_ELT(calls, which) == R_NilValue) {
    SEXP call = PROTECT(make(handle));
    SET_VECTOR_ELT(
        calls, which,
        Rf_lang3(Rf_findFun(Rf_install("on.exit"), R_BaseEnv), call, PROTECT(Rf_ScalarLogical(1))));
    UNPROTECT(2);
  }
  Rf_eval(VECTOR_ELT(calls, which), frame);
}
