/* The budget of cores, as R sets it: see core/tasks/cores.c. */
#include "r/tasks/tasks.h"

/* From now on it computes with tokens of a budget of `size`, which is under `under`; 0: without. */
SEXP ffi_tasks_budget(SEXP x, SEXP size, SEXP under) {
  clu_engine_set_budget(clu_tasks_get(x), Rf_asInteger(size), CHAR(STRING_ELT(under, 0)));
  return R_NilValue;
}

/* A map begins, for which `tokens` were taken. `own`: it is waited for by a task. Whether that was
 * so before, by another map around this one. */
SEXP ffi_tasks_map_begins(SEXP x, SEXP tokens, SEXP own) {
  clu_engine *t = clu_tasks_get(x);
  return Rf_ScalarLogical(
      clu_engine_map_begins(t, Rf_asInteger(tokens), Rf_asLogical(own) == TRUE));
}

/* `own`: what ffi_tasks_map_begins() has answered. */
SEXP ffi_tasks_map_ends(SEXP x, SEXP own) {
  clu_engine_map_ends(clu_tasks_get(x), Rf_asLogical(own) == TRUE);
  return R_NilValue;
}
