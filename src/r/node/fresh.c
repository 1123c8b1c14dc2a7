/* This file has what a task with a fresh workspace (`.fresh`) may change of the workspace and of
 * the search path, and what the next task finds as it was before.
 *
 * Values are compared as pointers: R makes a new object when a variable is set, and copies one that
 * is changed in place, since it is remembered here. What has no copies (environments, external
 * pointers) is not seen to. Where nothing was changed that takes 0.1 us a variable. What has
 * changed is put back with the help of R/node-fresh.R. */
#include "r/node/node.h"

#include <stdlib.h>

#include "core/base/grow.h"

/* Preserved: the variables of the workspace, by number; the environments of the search path. */
enum { SYMBOLS, NAMES, VALUES, PATH, N_KEPT };

/* These are properties of a variable. The value of an active one is its function. One that is
 * delayed has none that could be remembered. */
enum { ACTIVE = 1, LOCKED = 2, DELAYED = 4 };

static struct {
  SEXP kept;
  unsigned char *how; /* by variable */
  R_xlen_t n;
  size_t cap;
} fresh;

static SEXP keep(int which, SEXP x) { return clu_keep_in(&fresh.kept, N_KEPT, which, x); }

static SEXP kept(int which) { return clu_kept_in(fresh.kept, which); }

/* ---- variables ---- */

SEXP clu_job_seed_symbol(void) {
  static SEXP symbol;
  if (!symbol) symbol = Rf_install(".Random.seed");
  if (R_existsVarInFrame(R_GlobalEnv, symbol) && R_BindingIsLocked(symbol, R_GlobalEnv))
    R_unLockBinding(symbol, R_GlobalEnv);
  return symbol;
}

static unsigned char how_is(SEXP symbol) {
  unsigned char how = R_BindingIsLocked(symbol, R_GlobalEnv) ? LOCKED : 0;
  if (R_BindingIsActive(symbol, R_GlobalEnv)) return how | ACTIVE;
#if R_VERSION >= R_Version(4, 6, 0)
  if (R_GetBindingType(symbol, R_GlobalEnv) == R_BindingTypeDelayed) how |= DELAYED;
#endif
  return how;
}

/* A promise is not forced. */
static SEXP value_of(SEXP symbol, unsigned char how) {
  if (how & DELAYED) return R_NilValue;
  if (how & ACTIVE) return R_ActiveBindingFunction(symbol, R_GlobalEnv);
#if R_VERSION >= R_Version(4, 6, 0)
  if (R_GetBindingType(symbol, R_GlobalEnv) == R_BindingTypeMissing) return R_MissingArg;
  return R_getVarEx(symbol, R_GlobalEnv, FALSE, R_NilValue);
#else
  return Rf_findVarInFrame(R_GlobalEnv, symbol);
#endif
}

static SEXP symbol_of(R_xlen_t i) { return VECTOR_ELT(kept(SYMBOLS), i); }

/* Tells whether the variable is as it was. What a promise has become is not known any more. */
static int is_same(R_xlen_t i) {
  SEXP symbol = symbol_of(i);
  unsigned char how;
  if (!R_existsVarInFrame(R_GlobalEnv, symbol)) return 0;
  how = how_is(symbol);
  if (fresh.how[i] & DELAYED) return 1;
  return how == fresh.how[i] && value_of(symbol, how) == VECTOR_ELT(kept(VALUES), i);
}

static void make_room(R_xlen_t n) {
  unsigned char *more = clu_grow(fresh.how, &fresh.cap, (size_t)n, 1);
  if (!more && n > 0) clu_raise("memory", "not enough memory");
  fresh.how = more;
}

/* .Random.seed is seen to elsewhere. */
static R_xlen_t variables_now(void) {
  return Rf_length(R_GlobalEnv) - R_existsVarInFrame(R_GlobalEnv, clu_job_seed_symbol());
}

static void remember_variables(void) {
  SEXP names = PROTECT(R_lsInternal3(R_GlobalEnv, TRUE, FALSE)), seed = clu_job_seed_symbol();
  R_xlen_t n = Rf_xlength(names);
  make_room(n);
  fresh.n = 0;
  keep(NAMES, names);
  keep(SYMBOLS, Rf_allocVector(VECSXP, n));
  keep(VALUES, Rf_allocVector(VECSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
    if (symbol == seed) continue;
    fresh.how[fresh.n] = how_is(symbol);
    SET_VECTOR_ELT(kept(SYMBOLS), fresh.n, symbol);
    SET_VECTOR_ELT(kept(VALUES), fresh.n, value_of(symbol, fresh.how[fresh.n]));
    fresh.n++;
  }
  UNPROTECT(1);
}

static void put_variable_back(R_xlen_t i) {
  SEXP symbol = symbol_of(i), value = VECTOR_ELT(kept(VALUES), i);
  if (fresh.how[i] & DELAYED) return;
  if (R_existsVarInFrame(R_GlobalEnv, symbol) && R_BindingIsLocked(symbol, R_GlobalEnv))
    R_unLockBinding(symbol, R_GlobalEnv);
  if (fresh.how[i] & ACTIVE)
    R_MakeActiveBinding(symbol, value, R_GlobalEnv);
  else
    Rf_defineVar(symbol, value, R_GlobalEnv);
  if (fresh.how[i] & LOCKED) R_LockBinding(symbol, R_GlobalEnv);
}

/* R removes what is new and what has changed; then what was there is put back. */
static void put_variables_back(void) {
  SEXP changed = PROTECT(Rf_allocVector(VECSXP, fresh.n)), todo;
  R_xlen_t n = 0;
  for (R_xlen_t i = 0; i < fresh.n; i++)
    if (!is_same(i)) SET_VECTOR_ELT(changed, n++, Rf_ScalarReal((double)i));
  todo = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(todo, 0, kept(NAMES));
  SET_VECTOR_ELT(todo, 1, Rf_allocVector(STRSXP, n));
  for (R_xlen_t k = 0; k < n; k++)
    SET_STRING_ELT(VECTOR_ELT(todo, 1), k,
                   PRINTNAME(symbol_of((R_xlen_t)Rf_asReal(VECTOR_ELT(changed, k)))));
  clu_node_r("workspace_remove", todo);
  for (R_xlen_t k = 0; k < n; k++) put_variable_back((R_xlen_t)Rf_asReal(VECTOR_ELT(changed, k)));
  UNPROTECT(2);
}

static int variables_are_same(void) {
  if (variables_now() != fresh.n) return 0;
  for (R_xlen_t i = 0; i < fresh.n; i++)
    if (!is_same(i)) return 0;
  return 1;
}

/* ---- the search path ---- */

static void remember_search_path(void) {
  R_xlen_t n = 0;
  SEXP path;
  for (SEXP e = clu_parent_env(R_GlobalEnv); e != R_BaseEnv; e = clu_parent_env(e)) n++;
  path = keep(PATH, Rf_allocVector(VECSXP, n));
  n = 0;
  for (SEXP e = clu_parent_env(R_GlobalEnv); e != R_BaseEnv; e = clu_parent_env(e))
    SET_VECTOR_ELT(path, n++, e);
}

static int search_path_is_same(void) {
  SEXP path = kept(PATH);
  R_xlen_t i = 0, n = Rf_xlength(path);
  for (SEXP e = clu_parent_env(R_GlobalEnv); e != R_BaseEnv; e = clu_parent_env(e), i++)
    if (i >= n || e != VECTOR_ELT(path, i)) return 0;
  return i == n;
}

/* ---- both ---- */

void clu_workspace_remember(void) {
  remember_variables();
  remember_search_path();
}

int clu_workspace_is_same(void) { return search_path_is_same() && variables_are_same(); }

void clu_workspace_put_back(void) {
  if (!search_path_is_same()) clu_node_r("search_path_put_back", kept(PATH));
  if (!variables_are_same()) put_variables_back();
  for (int k = 0; k < N_KEPT; k++) keep(k, R_NilValue);
  fresh.n = 0;
}
