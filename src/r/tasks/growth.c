/* Nodes of this machine that come and go with the work (core/tasks/grow.c), as R asks for them. */
#include "r/tasks/tasks.h"

/* From now on nodes behind the `first` ones come and go: `most` at most. Each is started by that
 * fork server as `kind` says, while the settings with this number are in force there, and ends when
 * it was idle for `idle` seconds. `numbers`: first, most, settings, idle. */
SEXP ffi_tasks_growth(SEXP x, SEXP server, SEXP kind, SEXP numbers) {
  clu_engine *t = clu_tasks_get(x);
  const double *v = REAL(numbers);
  clu_engine_growth g = {.first = (int)v[0],
                         .most = (int)v[1],
                         .server = clu_get_server(server),
                         .kind = clu_start_kind_named(CHAR(STRING_ELT(kind, 0))),
                         .settings = (uint64_t)v[2],
                         .idle_after = clu_span_ns(v[3])};
  clu_engine_set_growth(t, &g);
  return R_NilValue;
}

static void add_call(clu_engine *t, SEXP call) {
  clu_blob *b = clu_call_bytes(VECTOR_ELT(call, 0), VECTOR_ELT(call, 1), 1, 1);
  int rc = clu_engine_add_call(t, b);
  clu_blob_unref(b);
  if (rc != CLU_OK) clu_raise("memory", "not enough memory");
}

/* A new node calls these first: a list of list(fun, args). */
SEXP ffi_tasks_calls(SEXP x, SEXP list) {
  clu_engine *t = clu_tasks_get(x);
  clu_engine_calls_begin(t);
  clu_call_forget_sent();
  for (R_xlen_t k = 0; k < Rf_xlength(list); k++) add_call(t, VECTOR_ELT(list, k));
  clu_engine_calls_end(t);
  return R_NilValue;
}

/* Tells whether the fork server or the calls have to be made ready first. */
SEXP ffi_tasks_growth_is_blocked(SEXP x) {
  return Rf_ScalarLogical(clu_engine_growth_is_blocked(clu_tasks_get(x)));
}

void clu_tasks_take_grown(SEXP x, clu_engine *t) {
  SEXP handles = R_ExternalPtrProtected(x);
  clu_node *nd;
  int i;
  for (SEXP fresh;; UNPROTECT(1)) {
    fresh = PROTECT(clu_node_handle_new());
    if (!(nd = clu_engine_take_grown(t, &i))) break;
    clu_node_handle_set(fresh, nd);
    clu_node_handle_swap(VECTOR_ELT(handles, i), fresh);
  }
  UNPROTECT(1);
}

/* Numbers of those that are there; their handles have them then. */
SEXP ffi_tasks_grown(SEXP x) {
  clu_engine *t = clu_tasks_get(x);
  SEXP out;
  int n = 0;
  clu_tasks_take_grown(x, t);
  out = PROTECT(Rf_allocVector(INTSXP, clu_engine_size(t)));
  for (int i = clu_engine_first(t); i < clu_engine_size(t); i++)
    if (clu_engine_has_any(t, i)) INTEGER(out)[n++] = i + 1;
  out = Rf_lengthgets(out, n);
  UNPROTECT(1);
  return out;
}

/* None comes any more. Handles have all that there are, and those that start. */
SEXP ffi_tasks_end_growth(SEXP x) {
  clu_engine *t = clu_tasks_get(x);
  clu_engine_end_growth(t);
  clu_tasks_take_grown(x, t);
  return R_NilValue;
}

/* The error that was the answer to one of the first calls of a new node; NULL: there was none. */
SEXP ffi_tasks_growth_failure(SEXP x) {
  clu_blob *b = clu_engine_take_failure(clu_tasks_get(x));
  return b ? clu_unserialize(b, 5 * sizeof(double)) : R_NilValue;
}
