/* Packages that the session has from their source: which there are, and whether one is still as it
 * was. That is asked before each job while package pkgload is there, see R/code-source.R. */
#include "r/base/variables.h"
#include "r/globals/globals.h"

static SEXP registry(void) {
  SEXP call = PROTECT(Rf_lang1(Rf_install("getNamespaceRegistry")));
  SEXP env = Rf_eval(PROTECT(clu_internal_call(call)), R_BaseEnv);
  UNPROTECT(2);
  return env;
}

/* The names of the namespaces that pkgload::load_all() has made: it marks them. */
SEXP ffi_source_packages(void) {
  SEXP all = PROTECT(registry()), mark = Rf_install(".__DEVTOOLS__");
  SEXP names = PROTECT(R_lsInternal3(all, TRUE, FALSE)), found;
  R_xlen_t n = 0;
  found = PROTECT(Rf_allocVector(STRSXP, Rf_xlength(names)));
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP ns = clu_variable(Rf_installTrChar(STRING_ELT(names, i)), all);
    if (TYPEOF(ns) == ENVSXP && R_existsVarInFrame(ns, mark))
      SET_STRING_ELT(found, n++, STRING_ELT(names, i));
  }
  found = Rf_lengthgets(found, n);
  UNPROTECT(3);
  return found;
}

static SEXP closure_of(SEXP symbol, SEXP env) {
  SEXP value = R_BindingIsActive(symbol, env) ? R_NilValue : clu_plain_variable(symbol, env);
  return TYPEOF(value) == CLOSXP ? value : NULL;
}

/* The closures that are variables of `env`, by name. No promise is forced and no code is run. */
SEXP ffi_closures_in(SEXP env) { return clu_variables_of(env, closure_of); }
