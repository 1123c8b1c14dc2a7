/* Lines of text with a cluster's secret and keys, on their way to a host. R's strings stay in
 * memory, also in that of processes which are forked later, and cannot be overwritten. This text is
 * behind an external pointer instead, and is overwritten when it was used or is garbage.
 */
#ifndef CLUTCH_R_PRIVATE_TEXT_H
#define CLUTCH_R_PRIVATE_TEXT_H

#include "r/base/r-api.h"

/* A new one with `n` bytes, copied. May jump. */
SEXP clu_private_new(const char *bytes, size_t n);
/* Tells whether it is one, also one that was overwritten. */
int clu_is_private(SEXP x);
/* Its bytes, which end with 0; an R error where there are none any more. */
const char *clu_private_bytes(SEXP x, size_t *n);
/* The value of the line `name "value"`, in which \n is the end of a line: its length, -1: there is
 * no such line, or it has no room in `out` with a 0 at the end. */
int clu_private_value(SEXP x, const char *name, char *out, size_t room);

#endif
