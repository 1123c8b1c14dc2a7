/* The values of a map as one vector. */
#include "r/base/r-api.h"

#include <string.h>

static int is_among(SEXPTYPE type, SEXP types) {
  for (R_xlen_t i = 0; i < XLENGTH(types); i++)
    if (strcmp(CHAR(STRING_ELT(types, i)), Rf_type2char(type)) == 0) return 1;
  return 0;
}

static void put(SEXP out, R_xlen_t i, SEXP v) {
  switch (TYPEOF(out)) {
  case REALSXP: REAL(out)[i] = Rf_asReal(v); break;
  case INTSXP: INTEGER(out)[i] = TYPEOF(v) == LGLSXP ? LOGICAL_ELT(v, 0) : INTEGER_ELT(v, 0); break;
  case LGLSXP: LOGICAL(out)[i] = LOGICAL_ELT(v, 0); break;
  default: SET_STRING_ELT(out, i, STRING_ELT(v, 0));
  }
}

/* A vector of the type of `empty`, where each of `values` is one value, of one of `types`; else
 * NULL. `types`: those that this type can hold. */
SEXP ffi_values_typed(SEXP values, SEXP types, SEXP empty) {
  SEXPTYPE fits = NILSXP; /* the last that was among `types` */
  R_xlen_t n;
  SEXP out;
  if (TYPEOF(values) != VECSXP) return R_NilValue;
  n = XLENGTH(values);
  out = PROTECT(Rf_allocVector(TYPEOF(empty), n));
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP v = VECTOR_ELT(values, i);
    SEXPTYPE type = (SEXPTYPE)TYPEOF(v);
    if (Rf_xlength(v) != 1 || (type != fits && !is_among(type, types))) {
      UNPROTECT(1);
      return R_NilValue;
    }
    fits = type;
    put(out, i, v);
  }
  UNPROTECT(1);
  return out;
}
