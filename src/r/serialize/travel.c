/* Questions of R/code-pack.R and R/code-session-only.R about objects that are of use in one process
 * only: those with external pointers in them. */
#include "r/serialize/travel.h"

#include <Rversion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/os-machine.h"
#include "r/base/variables.h"
#include "r/serialize/serialize.h"

/* A data.table has a pointer to R's NULL, by which it knows whether it was copied. */
int clu_is_live_pointer(SEXP x) {
  return TYPEOF(x) == EXTPTRSXP && R_ExternalPtrAddr(x) != NULL &&
         R_ExternalPtrAddr(x) != (void *)R_NilValue;
}

SEXP ffi_is_pointer(SEXP x) { return Rf_ScalarLogical(clu_is_live_pointer(x)); }

/* ---- data ---- */

static int is_of_class(SEXP x, SEXP classes) {
  SEXP class;
  if (!Rf_isObject(x) || Rf_xlength(classes) == 0) return 0;
  class = Rf_getAttrib(x, R_ClassSymbol);
  if (TYPEOF(class) != STRSXP) return 0;
  for (R_xlen_t i = 0; i < Rf_xlength(class); i++)
    for (R_xlen_t k = 0; k < Rf_xlength(classes); k++)
      if (STRING_ELT(class, i) == STRING_ELT(classes, k)) return 1;
  return 0;
}

typedef struct {
  SEXP classes;
  double large;
  int deep, data;
} walk;

static void look_at(SEXP x, walk *w);

#if R_VERSION >= R_Version(4, 6, 0)
static SEXP look_at_mapped(SEXP name, SEXP value, void *w) {
  (void)name;
  look_at(value, w);
  return NULL;
}
#endif

static void look_at_attributes(SEXP x, walk *w) {
#if R_VERSION >= R_Version(4, 6, 0)
  if (ANY_ATTRIB(x)) R_mapAttrib(x, look_at_mapped, w);
#else
  for (SEXP a = ATTRIB(x); w->data && a != R_NilValue; a = CDR(a)) look_at(CAR(a), w);
#endif
}

/* Sets `data` to 0 where anything is met but vectors, code and names, or what is too deep. */
static void look_at(SEXP x, walk *w) {
  if (!w->data) return;
  switch (TYPEOF(x)) {
  case NILSXP:
  case SYMSXP:
  case CHARSXP:
  case BUILTINSXP:
  case SPECIALSXP: return;
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case STRSXP:
  case RAWSXP: break;
  case ENVSXP: w->data = clu_env_stays(x); return;
  case VECSXP:
  case EXPRSXP:
  case LANGSXP:
  case LISTSXP: break;
  default: w->data = 0; return;
  }
  if (!clu_has_attributes(x) && Rf_isVectorAtomic(x)) {
    w->data = (double)Rf_xlength(x) < w->large;
    return;
  }
  if (is_of_class(x, w->classes) || ++w->deep > 200) {
    w->data = 0;
    return;
  }
  if (TYPEOF(x) == VECSXP || TYPEOF(x) == EXPRSXP)
    for (R_xlen_t i = 0; w->data && i < Rf_xlength(x); i++) look_at(VECTOR_ELT(x, i), w);
  if (clu_has_attributes(x)) look_at_attributes(x, w);
  for (; w->data && (TYPEOF(x) == LANGSXP || TYPEOF(x) == LISTSXP); x = CDR(x)) look_at(CAR(x), w);
  w->deep--;
}

/* Tells whether this is data only: it leads to no pointer, closure or environment that travels, to
 * no vector of `large` elements and more, and nothing in it has one of these classes. */
SEXP ffi_only_data(SEXP x, SEXP classes, SEXP large) {
  walk w = {classes, Rf_asReal(large), 0, 1};
  look_at(x, &w);
  return Rf_ScalarLogical(w.data);
}

/* ---- environments ---- */

static SEXP value_if_known(SEXP symbol, SEXP env) {
  SEXP x;
  if (R_BindingIsActive(symbol, env)) return NULL;
#if R_VERSION >= R_Version(4, 6, 0)
  switch (R_GetBindingType(symbol, env)) {
  case R_BindingTypeValue:
  case R_BindingTypeForced: x = R_getVarEx(symbol, env, FALSE, R_NilValue); break;
  default: return NULL;
  }
#else
  x = Rf_findVarInFrame(env, symbol);
  if (TYPEOF(x) == PROMSXP) x = PRVALUE(x);
#endif
  return x == R_UnboundValue || x == R_MissingArg || TYPEOF(x) == DOTSXP ? NULL : x;
}

/* The variables of an environment that have a value now, by name. No code is run: promises that
 * nobody has asked for, and active bindings, are left out. */
SEXP ffi_known_values(SEXP env) { return clu_variables_of(env, value_if_known); }

/* Gives an environment the `...` that another has, if it has any. */
SEXP ffi_copy_dots(SEXP from, SEXP to) {
  if (R_existsVarInFrame(from, R_DotsSymbol))
    Rf_defineVar(R_DotsSymbol, clu_plain_variable(R_DotsSymbol, from), to);
  return R_NilValue;
}

/* The name that who made a pointer has given it, or NULL. */
SEXP ffi_pointer_tag(SEXP x) {
  SEXP tag = TYPEOF(x) == EXTPTRSXP ? R_ExternalPtrTag(x) : R_NilValue;
  return TYPEOF(tag) == SYMSXP ? Rf_ScalarString(PRINTNAME(tag)) : R_NilValue;
}

/* Which object it is, as text: the same for the same object, as long as that is kept. */
SEXP ffi_address(SEXP x) {
  char text[32];
  snprintf(text, sizeof text, "%p", (void *)x);
  return Rf_mkString(text);
}

/* ---- compiled code ---- */

/* c(file, name) of the function that a pointer of class "NativeSymbol" leads to; NULL: the system
 * does not tell, or it is none. */
SEXP ffi_symbol_of(SEXP x) {
  char file[4096], name[1024];
  SEXP out;
  if (TYPEOF(x) != EXTPTRSXP || R_ExternalPtrTag(x) != Rf_install("native symbol"))
    return R_NilValue;
  if (!clu_os_symbol_of((void (*)(void))R_ExternalPtrAddrFn(x), file, sizeof file, name,
                        sizeof name))
    return R_NilValue;
  out = PROTECT(Rf_allocVector(STRSXP, 2));
  SET_STRING_ELT(out, 0, Rf_mkChar(file));
  SET_STRING_ELT(out, 1, Rf_mkChar(name));
  UNPROTECT(1);
  return out;
}

/* ---- what has arrived ---- */

int clu_is_packed(SEXP x) {
  return TYPEOF(x) == VECSXP && Rf_isObject(x) && Rf_inherits(x, "clutch_packed");
}

SEXP clu_unpack(const char *fun, SEXP packed) {
  SEXP ns = PROTECT(R_FindNamespace(PROTECT(Rf_mkString("clutch"))));
  SEXP call = PROTECT(Rf_lang2(Rf_install(fun), packed)); /* a list is its own value */
  SEXP out = Rf_eval(call, ns);
  UNPROTECT(3);
  return out;
}
