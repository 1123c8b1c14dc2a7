/* Hosts that come and go with the work (R/resize-size.R), as R asks for them. */
#include "r/tasks/tasks.h"

/* Host `number`, with these nodes (from 1), was asked for by that command (a handle), and ends when
 * it was idle for so many seconds. `task`: its number there; NULL: it is the command's only one. */
SEXP ffi_tasks_host(SEXP x, SEXP number, SEXP nodes, SEXP server, SEXP command, SEXP task,
                    SEXP idle) {
  clu_engine *t = clu_tasks_get(x);
  clu_engine_host h = {.server = clu_get_server(server),
                       .command = clu_node_id(clu_get_node(command))};
  h.number = Rf_asInteger(number);
  h.first = INTEGER(nodes)[0] - 1;
  h.n = Rf_length(nodes);
  h.task = task == R_NilValue ? -1 : Rf_asInteger(task);
  h.idle_after = clu_span_ns(Rf_asReal(idle));
  if (clu_engine_host_asked(t, &h) != CLU_OK) clu_raise("memory", "not enough memory");
  return R_NilValue;
}

/* Its nodes are attached. */
SEXP ffi_tasks_host_there(SEXP x, SEXP number) {
  clu_engine_host_there(clu_tasks_get(x), Rf_asInteger(number));
  return R_NilValue;
}

/* It has ended, or is told to by the caller. */
SEXP ffi_tasks_host_gone(SEXP x, SEXP number) {
  clu_engine_host_gone(clu_tasks_get(x), Rf_asInteger(number));
  return R_NilValue;
}

/* Ends those that were idle for long. Numbers of the hosts that were told to end and are not
 * forgotten yet. */
SEXP ffi_tasks_hosts_idle(SEXP x) {
  clu_engine *t = clu_tasks_get(x);
  SEXP out;
  clu_engine_end_idle_hosts(t);
  out = Rf_allocVector(INTSXP, clu_engine_ended_hosts(t, NULL));
  clu_engine_ended_hosts(t, INTEGER(out));
  return out;
}

/* How many nodes there should be so that each has work for so many seconds. */
SEXP ffi_tasks_desired(SEXP x, SEXP seconds) {
  clu_engine *t = clu_tasks_get(x);
  return Rf_ScalarReal(clu_engine_desired(t, (uint64_t)(1e9 * Rf_asReal(seconds))));
}

/* Tells whether none of these nodes (from 1) has a part in the work. */
SEXP ffi_tasks_are_gone(SEXP x, SEXP nodes) {
  clu_engine *t = clu_tasks_get(x);
  for (R_xlen_t k = 0; k < Rf_xlength(nodes); k++)
    if (clu_engine_has_any(t, INTEGER(nodes)[k] - 1)) return Rf_ScalarLogical(0);
  return Rf_ScalarLogical(1);
}
