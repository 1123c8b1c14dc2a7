/* Conditions are signalled, shown and muffled by internal functions of base R. Its own functions
 * around these take ten times as long, which counts for tasks that signal thousands of them. */
#include "r/base/r-api.h"

#include <string.h>

SEXP clu_internal_call(SEXP call) {
  PROTECT(call);
  call = Rf_lang2(Rf_install(".Internal"), call);
  UNPROTECT(1);
  return call;
}

/* .Internal(name(a, b, c)); arguments that are NULL are left out. */
static SEXP internal(const char *name, SEXP a, SEXP b, SEXP c) {
  SEXP args = PROTECT(c ? Rf_cons(c, R_NilValue) : R_NilValue), call;
  if (b) args = Rf_cons(b, args);
  UNPROTECT(1);
  PROTECT(args);
  call = PROTECT(Rf_lcons(Rf_install(name), Rf_cons(a, args)));
  call = PROTECT(clu_internal_call(call));
  call = Rf_eval(call, R_BaseEnv);
  UNPROTECT(3);
  return call;
}

static SEXP quoted(SEXP x) { return Rf_lang2(Rf_install("quote"), x); }

/* Does what warning() does with a condition that no handler has muffled. */
SEXP ffi_show_warning(SEXP text, SEXP call) {
  call = PROTECT(quoted(call));
  internal(".dfltWarn", text, call, NULL);
  UNPROTECT(1);
  return R_NilValue;
}

/* Tells whether `x` is a condition of these classes as base R makes it: list(message, call). */
static int is_simple(SEXP x, const char *const *classes) {
  SEXP cls, names, text;
  if (TYPEOF(x) != VECSXP || XLENGTH(x) != 2) return 0;
  cls = Rf_getAttrib(x, R_ClassSymbol);
  names = Rf_getAttrib(x, R_NamesSymbol);
  if (Rf_xlength(cls) != 3 || Rf_xlength(names) != 2) return 0;
  for (int i = 0; i < 3; i++)
    if (strcmp(CHAR(STRING_ELT(cls, i)), classes[i]) != 0) return 0;
  if (strcmp(CHAR(STRING_ELT(names, 0)), "message") != 0) return 0;
  if (strcmp(CHAR(STRING_ELT(names, 1)), "call") != 0) return 0;
  text = VECTOR_ELT(x, 0);
  return TYPEOF(text) == STRSXP && XLENGTH(text) == 1;
}

int clu_warn_level(void) {
  int level = Rf_asInteger(Rf_GetOption1(Rf_install("warn")));
  return level == NA_INTEGER ? 0 : level;
}

/* Shows, as warning() does it with a condition, or message(), those of `log` after the first `done`
 * that are simple and of that kind, and follow each other. Before each variable `done` of
 * environment `state` says that it is done. `restart`, which muffles, ends the call of the R
 * function whose frame `frame` is. `show`: the function that is called for those that no handler
 * has muffled; for warnings only where options(warn =) makes errors of them. */
SEXP ffi_relay_simple(SEXP log, SEXP done, SEXP state, SEXP show, SEXP restart, SEXP frame) {
  static const char *const warning[] = {"simpleWarning", "warning", "condition"};
  static const char *const message[] = {"simpleMessage", "message", "condition"};
  SEXP counted = Rf_install("done");
  const char *name = CHAR(STRING_ELT(VECTOR_ELT(restart, 0), 0));
  int are_messages = strcmp(name, "muffleMessage") == 0;
  restart = PROTECT(Rf_shallow_duplicate(restart));
  SET_VECTOR_ELT(restart, 1, frame);
  internal(".addRestart", restart, NULL, NULL);
  for (int i = Rf_asInteger(done); i < XLENGTH(log); i++) {
    SEXP x = VECTOR_ELT(log, i), call;
    if (!is_simple(x, are_messages ? message : warning)) break;
    Rf_defineVar(counted, PROTECT(Rf_ScalarInteger(i + 1)), state);
    call = PROTECT(quoted(VECTOR_ELT(x, 1)));
    internal(".signalCondition", x, VECTOR_ELT(x, 0), call);
    if (are_messages || clu_warn_level() >= 2)
      Rf_eval(PROTECT(Rf_lang2(show, x)), R_GlobalEnv);
    else
      internal(".dfltWarn", VECTOR_ELT(x, 0), PROTECT(call), NULL);
    UNPROTECT(3);
  }
  UNPROTECT(1);
  return R_NilValue;
}

/* The frame in which withRestarts() established `restart`, which does nothing but to return NULL:
 * its end does the same in a tenth of the time. NULL: it was established in another way. `exit` is
 * the frame of a function within that one, and it within that of withRestarts(). */
static SEXP frame_of_restart(SEXP restart) {
  SEXP exit = VECTOR_ELT(restart, 1), handler = VECTOR_ELT(restart, 2), frame, outer;
  if (TYPEOF(exit) != ENVSXP || exit == R_GlobalEnv || TYPEOF(handler) != CLOSXP) return NULL;
  if (R_ClosureExpr(handler) != R_NilValue) return NULL;
  frame = clu_parent_env(exit);
  if (frame == R_EmptyEnv || !R_existsVarInFrame(frame, Rf_install("restart"))) return NULL;
  outer = clu_parent_env(frame);
  if (outer == R_EmptyEnv || clu_parent_env(outer) != R_BaseNamespace) return NULL;
  return R_existsVarInFrame(outer, Rf_install("withOneRestart")) ? frame : NULL;
}

void clu_muffle(const char *how) {
  SEXP first = PROTECT(Rf_ScalarInteger(1)), name, frame;
  SEXP restart = PROTECT(internal(".getRestart", first, NULL, NULL));
  name = TYPEOF(restart) == VECSXP && XLENGTH(restart) ? VECTOR_ELT(restart, 0) : R_NilValue;
  if (TYPEOF(name) == STRSXP && XLENGTH(name) == 1 && strcmp(CHAR(STRING_ELT(name, 0)), how) == 0) {
    frame = XLENGTH(restart) > 2 ? frame_of_restart(restart) : NULL;
    if (frame) {
      restart = PROTECT(Rf_shallow_duplicate(restart));
      SET_VECTOR_ELT(restart, 1, frame);
      internal(".addRestart", restart, NULL, NULL);
      internal(".invokeRestart", restart, R_NilValue, NULL);
    }
    internal(".invokeRestart", restart, PROTECT(Rf_allocVector(VECSXP, 0)), NULL);
  }
  UNPROTECT(2);
}
