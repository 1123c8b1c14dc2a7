/* Code that is submitted again and again, one expression a time: whether it needs anything of this
 * session but variables of the workspace and of the frames it stands in. Most does not, and then no
 * R code is needed to find that out.
 *
 * What R/code-globals.R does for such code (locals_of(), find_needs()) has the same result.
 * Whatever is not plainly so is left to that.
 *
 * A task or map with all options as by default takes the same way in C for its bytes:
 * submit.c. Whatever is out of the ordinary takes the way by R, from the beginning or from
 * where it was noticed.
 */
#include "r/globals/globals.h"

#include <string.h>

/* Preserved: a search that nobody uses; code, and the function that was made of it. */
enum { SPARE, CODE, FUN, N_KEPT };

static SEXP list;

static SEXP keep(int which, SEXP x) { return clu_keep_in(&list, N_KEPT, which, x); }

static SEXP kept(int which) { return clu_kept_in(list, which); }

/* ---- which code ---- */

/* Takes what `code` has off `left`. Data counts as it is long, and what no one writes as too much.
 */
static void count_down(SEXP code, int *left) {
  for (; TYPEOF(code) == LANGSXP || TYPEOF(code) == LISTSXP; code = CDR(code)) {
    if (--*left < 0) return;
    count_down(CAR(code), left);
  }
  switch (TYPEOF(code)) {
  case NILSXP:
  case SYMSXP: break;
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case STRSXP:
    *left -= XLENGTH(code) < 1000 && !clu_has_attributes(code) ? (int)XLENGTH(code) : 1000;
    break;
  default: *left -= 1000;
  }
}

static int is_short(SEXP code) {
  int left = 200;
  count_down(code, &left);
  return left >= 0;
}

/* Tells whether it is code as people write it in a line or two, without data in it. */
SEXP ffi_code_is_short(SEXP code) { return Rf_ScalarLogical(is_short(code)); }

static int is_language(SEXP code) { return TYPEOF(code) == LANGSXP || TYPEOF(code) == SYMSXP; }

/* Tells whether `env` is the workspace, or a frame of a function of the workspace that has no
 * `...`. */
static int is_of_workspace(SEXP env) {
  SEXP package = Rf_install(".packageName");
  for (; env != R_GlobalEnv; env = clu_parent_env(env)) {
    if (clu_env_stays(env) || R_existsVarInFrame(env, package) ||
        R_existsVarInFrame(env, R_DotsSymbol))
      return 0;
  }
  return !R_existsVarInFrame(env, R_DotsSymbol);
}

/* ---- its function ---- */

/* Tells whether it is one of those that every R attaches: default_packages() in
 * R/code-globals.R. */
static int is_default_package(SEXP name) {
  static const char *names[] = {"base",      "methods",  "datasets", "utils",
                                "grDevices", "graphics", "stats"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (strcmp(CHAR(STRING_ELT(name, 0)), names[k]) == 0) return 1;
  return 0;
}

static int has_found_variables_only(const clu_search *s) {
  if (s->has_pointer || s->has_task) return 0;
  for (int k = 0; k < N_FOUND; k++)
    if (k != HELD && k != PACKAGES && k != BY_NAME && k != GLOBALS &&
        clu_search_found(s, k) != R_NilValue)
      return 0;
  for (SEXP p = clu_search_found(s, PACKAGES); p != R_NilValue; p = CDR(p))
    if (!is_default_package(CAR(p))) return 0;
  return 1;
}

/* The value of a variable of the workspace; NULL: it is not there but in attached data, or is not
 * plainly a value. */
static SEXP value_of(SEXP symbol) {
  SEXP value;
  if (!R_existsVarInFrame(R_GlobalEnv, symbol) || R_BindingIsActive(symbol, R_GlobalEnv))
    return NULL;
  value = clu_plain_variable(symbol, R_GlobalEnv);
  return value == R_NilValue || value == R_MissingArg ? NULL : value;
}

/* The variables that were found, by name; NULL: one of them is not plainly a value. */
static SEXP variables_of(const clu_search *s) {
  SEXP found = clu_search_found(s, GLOBALS), values, names;
  R_xlen_t n = Rf_length(found);
  values = PROTECT(Rf_allocVector(VECSXP, n));
  names = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++, found = CDR(found)) {
    SEXP value = value_of(CAR(found));
    if (!value) {
      UNPROTECT(2);
      return R_NilValue;
    }
    SET_VECTOR_ELT(values, i, value);
    SET_STRING_ELT(names, i, PRINTNAME(CAR(found)));
  }
  Rf_setAttrib(values, R_NamesSymbol, names);
  UNPROTECT(2);
  return values;
}

/* list(fun, variables), or NULL. */
static SEXP with_variables(const clu_search *s, SEXP fun) {
  SEXP variables = PROTECT(variables_of(s)), both = R_NilValue;
  if (variables != R_NilValue) {
    both = Rf_allocVector(VECSXP, 2);
    SET_VECTOR_ELT(both, 0, fun);
    SET_VECTOR_ELT(both, 1, variables);
  }
  UNPROTECT(1);
  return both;
}

/* function() code, made in `frame`. */
static SEXP function_of(SEXP code, SEXP frame) {
  SEXP call = PROTECT(Rf_lang3(Rf_install("function"), R_NilValue, code));
  SEXP fun = Rf_eval(call, frame);
  UNPROTECT(1);
  return fun;
}

/* Returns the same function again for the same code: then its bytes need not be made again. Its
 * environment is the workspace. */
static SEXP known_function_of(SEXP code) {
  SEXP fun;
  if (kept(CODE) == code && kept(FUN) != R_NilValue) return kept(FUN);
  fun = function_of(code, R_GlobalEnv);
  keep(FUN, fun);
  keep(CODE, code);
  return fun;
}

/* Does as ffi_code_alone(). */
static SEXP search_function(clu_search *s, SEXP code, SEXP env) {
  SEXP frame = R_NilValue, fun;
  if (env != R_GlobalEnv && is_language(code)) {
    frame = PROTECT(R_NewEnv(R_GlobalEnv, FALSE, 0));
    if (clu_search_locals(s, code, env, R_GlobalEnv, frame, R_NilValue) > 0) {
      UNPROTECT(1);
      return R_NilValue;
    }
    if (Rf_length(frame) == 0) frame = R_NilValue;
    UNPROTECT(1);
  }
  PROTECT(frame);
  fun = PROTECT(frame == R_NilValue ? known_function_of(code) : function_of(code, frame));
  clu_search_later(s, fun);
  clu_search_go_on(s);
  if (!has_found_variables_only(s))
    fun = R_NilValue;
  else if (clu_search_found(s, GLOBALS) != R_NilValue)
    fun = with_variables(s, fun);
  UNPROTECT(2);
  return fun;
}

/* A search for which there may be memory from the one before; `search` has to be protected, and
 * given back. R code that runs meanwhile may come here, too, or jump. */
static SEXP borrow(void) {
  SEXP search = PROTECT(kept(SPARE));
  keep(SPARE, R_NilValue);
  if (search == R_NilValue) search = ffi_globals_new();
  UNPROTECT(1);
  return search;
}

static void give_back(SEXP search) {
  clu_search_reset(clu_search_get(search));
  keep(SPARE, search);
}

/* The variables of the workspace that these objects, a list, need as a map sends them, by name:
 * none, nearly always. NULL: they need something else, or that has to be looked at more closely. */
SEXP ffi_objects_alone(SEXP objects) {
  SEXP search = PROTECT(borrow()), variables = R_NilValue;
  clu_search *s = clu_search_get(search);
  clu_search_later(s, objects);
  clu_search_go_on(s);
  if (has_found_variables_only(s)) variables = variables_of(s);
  PROTECT(variables);
  give_back(search);
  UNPROTECT(2);
  return variables;
}

/* The function of no arguments with this body, as cluster_submit() sends it, if it needs no
 * variable of the workspace, and no package that not every R attaches. If it needs variables, and
 * neither they nor the code anything else: list(function, variables by name). Else, or if that has
 * to be looked at more closely: NULL. `env`: where the code stands. */
SEXP ffi_code_alone(SEXP code, SEXP env) {
  SEXP search, fun;
  if (TYPEOF(env) != ENVSXP || !is_short(code) || !is_of_workspace(env)) return R_NilValue;
  if (!is_language(code)) return known_function_of(code);
  search = PROTECT(borrow());
  fun = PROTECT(search_function(clu_search_get(search), code, env));
  give_back(search);
  UNPROTECT(2);
  return fun;
}
