#include "r/base/variables.h"

SEXP clu_variables_of(SEXP env, SEXP (*value_of)(SEXP symbol, SEXP env)) {
  SEXP names = PROTECT(R_lsInternal3(env, TRUE, FALSE)), values, kept;
  R_xlen_t n = 0;
  values = PROTECT(Rf_allocVector(VECSXP, Rf_xlength(names)));
  kept = PROTECT(Rf_allocVector(STRSXP, Rf_xlength(names)));
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP value = value_of(Rf_installTrChar(STRING_ELT(names, i)), env);
    if (!value) continue;
    SET_VECTOR_ELT(values, n, value);
    SET_STRING_ELT(kept, n++, STRING_ELT(names, i));
  }
  values = PROTECT(Rf_lengthgets(values, n));
  Rf_setAttrib(values, R_NamesSymbol, PROTECT(Rf_lengthgets(kept, n)));
  UNPROTECT(5);
  return values;
}
