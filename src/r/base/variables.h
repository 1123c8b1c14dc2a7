/* The variables of an environment. */
#ifndef CLUTCH_R_VARIABLES_H
#define CLUTCH_R_VARIABLES_H

#include "r/base/r-api.h"

/* A named list of the values that `value_of` returns for the variables of this environment itself,
 * in the order of ls(sorted = FALSE); NULL leaves one out. `value_of` runs no code of R, and what
 * it returns is protected by the environment. The caller protects the list. */
SEXP clu_variables_of(SEXP env, SEXP (*value_of)(SEXP symbol, SEXP env));

#endif
