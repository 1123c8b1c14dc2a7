#include "r/tasks/seeding.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/base/os-files.h"
#include "r/base/r-api.h"

#define MERSENNE 3 /* what R's kind of generator is called in .Random.seed, of two digits */
#define WORDS 624  /* of its state */
/* So many seconds after the session began too many seeds look like a time. */
#define LONGEST 600.0
#define CHOSEN 22000000u /* people choose smaller seeds: up to a date such as 20261231 */

static SEXP session_state(void) { return clu_variable(Rf_install(".Random.seed"), R_GlobalEnv); }

/* A list with the state that this package has left. */
static SEXP left_by_us(void) {
  static SEXP kept;
  if (!kept) R_PreserveObject(kept = Rf_allocVector(VECSXP, 1));
  return kept;
}

/* Functions of Rcpp put a copy in its place. */
static int is_left_by_us(SEXP state) {
  SEXP left = VECTOR_ELT(left_by_us(), 0);
  if (state == left) return 1;
  if (TYPEOF(state) != INTSXP || TYPEOF(left) != INTSXP || XLENGTH(state) != XLENGTH(left))
    return 0;
  return memcmp(INTEGER_RO(state), INTEGER_RO(left), sizeof(int) * (size_t)XLENGTH(state)) == 0;
}

/* Returns the number before `x` in the sequence that R fills a state with: x = 69069 y + 1. */
static uint32_t before(uint32_t x) {
  static uint32_t inverse;
  if (!inverse) {
    inverse = 1;
    for (int i = 0; i < 5; i++) inverse *= 2 - 69069 * inverse; /* Newton's steps: 1, 2, ... bits */
  }
  return (x - 1) * inverse;
}

/* The number of which R has made this state, if none was drawn since: as set.seed() has it. Whether
 * there is one. */
static int seed_of(SEXP state, uint32_t *seed) {
  const int *p;
  uint32_t x;
  if (TYPEOF(state) != INTSXP || XLENGTH(state) != WORDS + 2) return 0;
  p = INTEGER_RO(state);
  if (p[0] % 100 != MERSENNE || p[1] != WORDS) return 0;
  for (int i = 3; i < WORDS + 2; i++)
    if ((uint32_t)p[i] != 69069 * (uint32_t)p[i - 1] + 1) return 0;
  x = (uint32_t)p[2];
  for (int i = 0; i < 52; i++) x = before(x);
  *seed = x;
  return 1;
}

static double seconds_of_session(void) {
  SEXP call = PROTECT(Rf_lang1(Rf_install("proc.time")));
  SEXP times = PROTECT(Rf_eval(call, R_BaseEnv));
  double out = REAL(times)[2];
  UNPROTECT(2);
  return out;
}

/* The lower 16 bits of R's own seed are those of the time, in seconds; the others are as good as
 * random, so one in 200 is taken for a seed that somebody has chosen. */
static int is_by_clock(uint32_t seed) {
  double now = clu_os_date(), ago = seconds_of_session() + 2;
  uint64_t to = (uint64_t)ceil(now), from = (uint64_t)(now - ago);
  if (seed < CHOSEN || ago > LONGEST) return 0;
  for (uint64_t t = from; t <= to; t++)
    if ((t & UINT16_MAX) == (seed & UINT16_MAX)) return 1;
  return 0;
}

int clu_is_unseeded(void) {
  SEXP state = session_state();
  uint32_t seed;
  if (state == R_NilValue || is_left_by_us(state)) return 1;
  return seed_of(state, &seed) && is_by_clock(seed);
}

SEXP ffi_is_unseeded(void) { return Rf_ScalarLogical(clu_is_unseeded()); }

void clu_seed_is_ours(void) { SET_VECTOR_ELT(left_by_us(), 0, session_state()); }
