#include "r/state/state.h"

#include <errno.h>

static SEXP tag;

static void end(SEXP x) {
  clu_state *s = R_ExternalPtrAddr(x);
  R_ClearExternalPtr(x);
  clu_state_free(s);
}

static SEXP new_pointer(void) {
  SEXP x;
  if (!tag) tag = Rf_install("clutch_state");
  x = PROTECT(R_MakeExternalPtr(NULL, tag, R_NilValue));
  R_RegisterCFinalizerEx(x, end, FALSE);
  UNPROTECT(1);
  return x;
}

clu_state *clu_state_here(SEXP x, int kind) {
  static SEXP symbol;
  SEXP name;
  if (TYPEOF(x) != ENVSXP) return NULL;
  if (!symbol) symbol = Rf_install("name");
  name = clu_variable(symbol, x);
  if (TYPEOF(name) != STRSXP || Rf_xlength(name) != 1) return NULL;
  return clu_state_find(CHAR(STRING_ELT(name, 0)), kind);
}

clu_state *clu_state_or_elsewhere(SEXP x, int kind) {
  clu_state *s = clu_state_here(x, kind);
  SEXP is_here;
  if (s) return s;
  is_here = Rf_eval(PROTECT(Rf_lang3(Rf_install("open_state"), x, PROTECT(Rf_ScalarInteger(kind)))),
                    clu_namespace());
  UNPROTECT(2);
  if (Rf_asLogical(is_here) == 0) return NULL;
  s = clu_state_here(x, kind);
  if (!s) clu_raise("argument", "this is no shared state of that kind");
  return s;
}

clu_state *clu_state_of(SEXP x, int kind) {
  clu_state *s = clu_state_or_elsewhere(x, kind);
  if (!s) clu_raise("state_gone", "this shared state is gone");
  return s;
}

/* `kind`: of enum clu_state_kind; `folder`: a folder of this session's. */
SEXP ffi_state_new(SEXP kind, SEXP folder) {
  SEXP x = PROTECT(new_pointer());
  clu_state *s = NULL;
  clu_err e = {0};
  if (clu_state_new(Rf_asInteger(kind), CHAR(STRING_ELT(folder, 0)), &s, &e) != CLU_OK)
    clu_raise_err(&e);
  R_SetExternalPtrAddr(x, s);
  UNPROTECT(1);
  return x;
}

SEXP ffi_state_name(SEXP pointer) {
  return Rf_mkString(clu_state_name(R_ExternalPtrAddr(pointer)));
}

/* NULL: it is gone. */
SEXP ffi_state_open(SEXP name, SEXP kind) {
  SEXP x = PROTECT(new_pointer());
  clu_state *s = NULL;
  clu_err e = {0};
  int rc = clu_state_open(CHAR(STRING_ELT(name, 0)), Rf_asInteger(kind), &s, &e);
  if (rc == CLU_OK) R_SetExternalPtrAddr(x, s);
  UNPROTECT(1);
  if (rc == CLU_SYS && (e.sys == EMFILE || e.sys == ENFILE)) rc = CLU_LIMIT;
  if (rc == CLU_SYS || rc == CLU_PROTO) return R_NilValue;
  if (rc != CLU_OK) clu_raise_err(&e);
  return x;
}

/* It is of no use to anybody any more. */
SEXP ffi_state_close(SEXP pointer) {
  end(pointer);
  return R_NilValue;
}
