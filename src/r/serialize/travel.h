/* Objects that are of use in one process only, on their way: R/code-pack.R packs them. */
#ifndef CLUTCH_R_TRAVEL_H
#define CLUTCH_R_TRAVEL_H

#include "r/base/r-api.h"

/* Tells whether it is an external pointer that leads somewhere. */
int clu_is_live_pointer(SEXP x);

/* Tells whether R/code-pack.R has packed it. */
int clu_is_packed(SEXP x);
/* The object that was packed, by this function of R/code-pack.R. Not protected. May raise R's
 * errors.
 */
SEXP clu_unpack(const char *fun, SEXP packed);

#endif
