/* This file has what the options of a map or task are made of: options of the session, random
 * streams. */
#include <R_ext/Random.h>
#include <stdint.h>
#include <string.h>

#include "r/base/r-api.h"
#include "r/tasks/options.h"

int clu_options_any(void) {
  for (SEXP o = clu_variable(Rf_install(".Options"), R_BaseEnv); o != R_NilValue; o = CDR(o))
    if (strncmp(CHAR(PRINTNAME(TAG(o))), "clutch.", 7) == 0) return 1;
  return 0;
}

/* Values of options(): a list with one for each of these names, all of which begin with "clutch.";
 * or NULL: none that begins so is set, which is nearly always the case. */
SEXP ffi_options_set(SEXP names) {
  SEXP out = R_NilValue;
  for (SEXP o = clu_variable(Rf_install(".Options"), R_BaseEnv); o != R_NilValue; o = CDR(o)) {
    const char *name = CHAR(PRINTNAME(TAG(o)));
    if (name[0] != 'c' || strncmp(name, "clutch.", 7) != 0) continue;
    if (out == R_NilValue) out = PROTECT(Rf_allocVector(VECSXP, Rf_xlength(names)));
    for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
      if (strcmp(name, CHAR(STRING_ELT(names, i))) == 0) SET_VECTOR_ELT(out, i, CAR(o));
  }
  if (out != R_NilValue) UNPROTECT(1);
  return out;
}

/* Computes what set.seed(seed, "L'Ecuyer-CMRG") puts into .Random.seed, behind the kinds. The
 * session's own generator has no part in it. */
static void stream_of(uint32_t seed, int *stream) {
  const uint32_t m2 = 4294944443u;
  for (int i = 0; i < 50; i++) seed = 69069 * seed + 1;
  for (int i = 0; i < 6; i++) {
    do seed = 69069 * seed + 1;
    while (seed >= m2);
    stream[i] = (int)seed;
  }
}

/* Draws as runif(1) does. */
static double draw(void) {
  double u;
  GetRNGstate();
  do u = unif_rand();
  while (u <= 0 || u >= 1);
  PutRNGstate();
  return u;
}

void clu_stream_of_session(int *stream) { stream_of((uint32_t)(int)(draw() * 2147483647), stream); }

/* The stream of the first task, six integers, from one number, a value of .Random.seed, or TRUE: it
 * depends on the session's generator. That is left as one draw leaves it in each case. */
SEXP ffi_stream_of_seed(SEXP seed) {
  SEXP out = PROTECT(Rf_allocVector(INTSXP, 6));
  if (TYPEOF(seed) == LGLSXP) {
    clu_stream_of_session(INTEGER(out));
  } else {
    draw();
    seed = PROTECT(Rf_coerceVector(seed, INTSXP));
    if (Rf_xlength(seed) == 7)
      memcpy(INTEGER(out), INTEGER(seed) + 1, 6 * sizeof(int));
    else
      stream_of((uint32_t)INTEGER(seed)[0], INTEGER(out));
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return out;
}
