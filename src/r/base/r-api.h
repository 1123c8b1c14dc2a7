/* The interface between R and the core: src/r is the only C that includes R headers.
 *
 * ffi_*() are the entry points of .Call (entry-points.h): they check, convert and call the core. An
 * R error is a jump, so no function of the core is on the stack when one is raised. What the core
 * holds belongs to external pointers, or is freed by R_UnwindProtect().
 */
#ifndef CLUTCH_R_API_H
#define CLUTCH_R_API_H

#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>
#include <Rversion.h>

#include <string.h>

#include "core/base/blob.h"
#include "core/base/err.h"

/* R 4.6 has no ATTRIB() any more. */
#if R_VERSION >= R_Version(4, 5, 0)
#define clu_has_attributes(x) ANY_ATTRIB(x)
#else
#define clu_has_attributes(x) (ATTRIB(x) != R_NilValue)
#endif

#if R_VERSION >= R_Version(4, 6, 0)
#define clu_attribute_count(x) R_getAttribCount(x)
#else
#define clu_attribute_count(x) Rf_length(ATTRIB(x))
#endif

#if R_VERSION >= R_Version(4, 5, 0)
#define clu_closure_env(x) R_ClosureEnv(x)
#define clu_closure_formals(x) R_ClosureFormals(x)
#define clu_closure_body(x) R_ClosureBody(x)
#else
#define clu_closure_env(x) CLOENV(x)
#define clu_closure_formals(x) FORMALS(x)
#define clu_closure_body(x) BODY(x)
#endif

/* Tells whether the environment is one that does not travel. */
static inline int clu_env_stays(SEXP env) {
  return env == R_GlobalEnv || env == R_BaseEnv || env == R_EmptyEnv || env == R_BaseNamespace ||
         R_IsNamespaceEnv(env) || R_IsPackageEnv(env);
}

/* A new closure; its body may be compiled code. */
static inline SEXP clu_closure(SEXP formals, SEXP body, SEXP env) {
#if R_VERSION >= R_Version(4, 5, 0)
  return R_mkClosure(formals, body, env);
#else
  SEXP f = Rf_allocSExp(CLOSXP);
  SET_FORMALS(f, formals);
  SET_BODY(f, body);
  SET_CLOENV(f, env);
  return f;
#endif
}

#if R_VERSION >= R_Version(4, 5, 0)
#define clu_parent_env(x) R_ParentEnv(x)
#else
#define clu_parent_env(x) ENCLOS(x)
#endif

/* The value of a variable of this environment itself; R_NilValue where it has none. */
static inline SEXP clu_variable(SEXP symbol, SEXP env) {
#if R_VERSION >= R_Version(4, 5, 0)
  return R_getVarEx(symbol, env, FALSE, R_NilValue);
#else
  SEXP x = Rf_findVarInFrame(env, symbol);
  return x == R_UnboundValue ? R_NilValue : x;
#endif
}

/* Does the same, and evaluates nothing: R_NilValue also where it is a promise, forced or not;
 * R_MissingArg where it is missing, for which R_getVarEx() is an error. Not of an active one before
 * R 4.6. */
static inline SEXP clu_plain_variable(SEXP symbol, SEXP env) {
#if R_VERSION >= R_Version(4, 6, 0)
  switch (R_GetBindingType(symbol, env)) {
  case R_BindingTypeValue: return R_getVarEx(symbol, env, FALSE, R_NilValue);
  case R_BindingTypeMissing: return R_MissingArg;
  default: return R_NilValue;
  }
#else
  SEXP x = Rf_findVarInFrame(env, symbol);
  return x == R_UnboundValue || TYPEOF(x) == PROMSXP ? R_NilValue : x;
#endif
}

/* The element of this name; R_NilValue where there is none. */
static inline SEXP clu_element(SEXP list, const char *name) {
  SEXP names = Rf_getAttrib(list, R_NamesSymbol);
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
    if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0) return VECTOR_ELT(list, i);
  return R_NilValue;
}

/* A file keeps objects of R in `*list`, which has room for `n` and is preserved, made when it
 * is first needed. Returns `x`. */
static inline SEXP clu_keep_in(SEXP *list, int n, int which, SEXP x) {
  if (!*list) {
    SEXP made;
    PROTECT(x);
    made = Rf_allocVector(VECSXP, n);
    R_PreserveObject(made);
    *list = made;
    UNPROTECT(1);
  }
  return SET_VECTOR_ELT(*list, which, x);
}

static inline SEXP clu_kept_in(SEXP list, int which) {
  return list ? VECTOR_ELT(list, which) : R_NilValue;
}

/* Raises an R condition of class "clutch_<what>", then "clutch_error". Does not return. */
NORET void clu_raise(const char *what, const char *fmt, ...);
/* Does the same for a failure of the core. */
NORET void clu_raise_err(const clu_err *e);
/* Does the same for a "cluster" or "task" of another process, whose pointers were lost on the way
 * here.
 */
NORET void clu_raise_foreign(const char *what);
/* Tells whether this process is a node that has said hello. */
extern int clu_is_node;

/* The namespace of this package, as it was at the first call: a task may unload the package, and
 * what is found by its name then is a copy that knows nothing of this process. */
SEXP clu_namespace(void);

/* condition.c. The call .Internal(call), not evaluated and not protected. */
SEXP clu_internal_call(SEXP call);
/* Returns what options(warn =) says; 0 where that is no number. */
int clu_warn_level(void);
/* Does what invokeRestart(how) does where the restart that was established last is of that name: it
 * jumps there. Returns where it is another. */
void clu_muffle(const char *how);

#include "r/base/entry-points.h"

#endif
