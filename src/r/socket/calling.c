/* Which call of R code reads or writes a connection: R tells a connection only that bytes are
 * wanted, not by whom. This runs for each object that is written or read, so R code is called for
 * what C cannot find out only. */
#include "r/socket/connection.h"

SEXP clu_package_value(const char *name) {
  SEXP ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
  SEXP value = Rf_eval(Rf_install(name), ns);
  UNPROTECT(2);
  return value;
}

SEXP clu_own_call(const char *name, SEXP handle, SEXP argument) {
  SEXP routine = VECTOR_ELT(clu_package_value(name), 1); /* its address: R need not look for it */
  return Rf_lang4(Rf_findFun(Rf_install(".Call"), R_BaseEnv), routine, handle, argument);
}

int clu_is_base_frame(SEXP frame) {
  return TYPEOF(frame) == ENVSXP && clu_parent_env(frame) == R_BaseNamespace;
}

/* Does as sys.frame(-1) in a function that is called here, but without a function:
 * .Internal(eval()) has a context of its own, and evaluates .Internal(sys.frame(-1)) there.
 * (R_GetCurrentEnv() is where the function was called from, before R 4.6.) */
SEXP clu_calling_frame(void) {
  static SEXP call;
  if (!call) {
    SEXP which = PROTECT(Rf_ScalarInteger(-1));
    SEXP frame = PROTECT(clu_internal_call(PROTECT(Rf_lang2(Rf_install("sys.frame"), which))));
    SEXP quoted = PROTECT(Rf_lang2(Rf_findFun(R_QuoteSymbol, R_BaseEnv), frame));
    SEXP eval = PROTECT(Rf_lang4(Rf_install("eval"), quoted, R_BaseEnv, R_NilValue));
    R_PreserveObject(call = clu_internal_call(eval));
    UNPROTECT(5);
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

static SEXP symbol(int which) {
  static const char *names[] = {"object", "refhook",    "xdr",  "compress",
                                "con",    "connection", "file", "what"};
  static SEXP symbols[sizeof names / sizeof *names];
  if (!symbols[which]) symbols[which] = Rf_install(names[which]);
  return symbols[which];
}

static int has(SEXP frame, int which) { return R_existsVarInFrame(frame, symbol(which)); }

int clu_serializes(SEXP frame) {
  return clu_is_base_frame(frame) && has(frame, ITS_REFHOOK) &&
         (has(frame, ITS_XDR) || has(frame, ITS_COMPRESS));
}

/* `*left`: how many objects more may be looked at. */
static int is_written_alone(SEXP x, int *left) {
  static SEXP sequence;
  if (--*left < 0) return 0;
  if (ALTREP(x)) { /* 1:3 is one; of others the class may be of any package */
    if (!sequence) {
      SEXP from = PROTECT(Rf_ScalarInteger(1)), to = PROTECT(Rf_ScalarInteger(3));
      SEXP call = PROTECT(Rf_lang3(Rf_findFun(Rf_install(":"), R_BaseEnv), from, to));
      R_PreserveObject(sequence = Rf_eval(call, R_BaseEnv));
      UNPROTECT(3);
    }
    return ALTREP_CLASS(x) == ALTREP_CLASS(sequence) && !clu_has_attributes(x);
  }
  if (clu_has_attributes(x)) {
    SEXP names = Rf_getAttrib(x, R_NamesSymbol);
    if (clu_attribute_count(x) != 1 || TYPEOF(names) != STRSXP || ALTREP(names)) return 0;
  }
  switch (TYPEOF(x)) {
  case NILSXP:
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case RAWSXP:
  case STRSXP: return 1;
  case VECSXP:
    for (R_xlen_t i = 0; i < Rf_xlength(x); i++)
      if (!is_written_alone(VECTOR_ELT(x, i), left)) return 0;
    return 1;
  default: return 0;
  }
}

int clu_serializes_alone(SEXP frame) {
  int left = 100;
  return is_written_alone(Rf_eval(symbol(ITS_OBJECT), frame), &left);
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
