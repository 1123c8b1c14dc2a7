/* The budgets of cores and of memory, as R sets them: see core/tasks/cores.c and room.c. */
#include "r/tasks/tasks.h"
#include "core/base/os-machine.h"

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

/* From now on tasks of this session may have so many bytes together, and no more than the system
 * has left; 0: what it has left; -1: nobody looks. */
SEXP ffi_memory_budget(SEXP bytes) {
  clu_need_session();
  clu_engines_set_memory(clu_tasks_all(), (int64_t)Rf_asReal(bytes));
  return R_NilValue;
}

/* From now on no more nodes compute than there are cores that others leave free, if `polite`. */
SEXP ffi_polite(SEXP polite) {
  clu_need_session();
  clu_engines_set_polite(clu_tasks_all(), Rf_asLogical(polite) == TRUE);
  return R_NilValue;
}

/* Returns what was found out about the memory of tasks: c(limit, expected, peak, short, went,
 * width), bytes and seconds; 0: not known. */
static SEXP room_use(clu_room_use x) {
  SEXP out = Rf_allocVector(REALSXP, 6);
  double *to = REAL(out);
  to[0] = (double)x.limit;
  to[1] = (double)x.expected;
  to[2] = (double)x.peak;
  to[3] = 1e-9 * (double)x.short_ns;
  to[4] = x.went;
  to[5] = x.width;
  return out;
}

SEXP ffi_job_room(SEXP job) { return room_use(clu_task_job_room_use(clu_job_get(job))); }
/* This tells it of all tasks of a cluster. */
SEXP ffi_tasks_room(SEXP x) { return room_use(clu_engine_room_use(clu_tasks_get(x))); }

/* Tells which nodes are stopped, since memory is short: a logical vector. */
SEXP ffi_tasks_held(SEXP x) {
  const clu_engine *t = clu_tasks_get(x);
  SEXP out = Rf_allocVector(LGLSXP, clu_engine_size(t));
  for (int i = 0; i < clu_engine_size(t); i++) LOGICAL(out)[i] = clu_engine_is_held(t, i);
  return out;
}

/* Bytes that this process and all others may have together. */
SEXP ffi_memory_limit(void) { return Rf_ScalarReal((double)clu_os_memory_limit()); }
