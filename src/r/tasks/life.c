/* Where the tasks of a cluster and its jobs begin and end, as R sees it. */
#include "r/tasks/life.h"

#include <string.h>

#include "core/wire/task-message.h"
#include "r/tasks/job-label.h"
#include "r/tasks/needs.h"
#include "core/tasks/kept.h"
#include "core/tasks/wake.h"

/* ---- the tasks of a cluster ---- */

/* Tells whether this is a forked child of a session, without one of its own: then it has one
 * now. */
SEXP ffi_session_in_child(void) {
  if (!clu_session_is_parents()) return Rf_ScalarLogical(0);
  clu_session_begin_in_child();
  clu_journals_forget();
  clu_tasks_forget();
  clu_wake_forget();
  return Rf_ScalarLogical(1);
}

/* For a cluster with these nodes. `grace`: seconds that an interrupted task has to end. `most`:
 * tasks remembered. */
SEXP ffi_tasks_new(SEXP handles, SEXP grace, SEXP most) {
  clu_turns_work work;
  clu_engine *t;
  SEXP x;
  clu_need_session();
  x = PROTECT(clu_tasks_handle(handles));
  t = clu_engine_new(clu_tasks_all(), Rf_length(handles), (uint64_t)(1e9 * Rf_asReal(grace)),
                     (size_t)Rf_asReal(most));
  if (!t) clu_raise("memory", "not enough memory");
  clu_handle_set(x, t);
  work = clu_engines_work(clu_tasks_all());
  if (clu_session_set_work(&work) != CLU_OK) clu_raise("memory", "not enough memory");
  clu_engine_drive_always(t);
  UNPROTECT(1);
  return x;
}

/* Shows what is done in this view from now on. */
SEXP ffi_tasks_show(SEXP x, SEXP view) {
  clu_engine_show(clu_tasks_get(x), clu_get_view(view));
  return R_NilValue;
}

/* From now on its nodes end when they were not in use for so many seconds; 0: they stay. */
SEXP ffi_tasks_idle(SEXP x, SEXP seconds) {
  clu_engine_end_idle(clu_tasks_get(x), clu_span_ns(Rf_asReal(seconds)));
  return R_NilValue;
}

/* They are in use now. Whether all are there. */
SEXP ffi_tasks_use(SEXP x) { return Rf_ScalarLogical(clu_engine_use(clu_tasks_get(x))); }

/* Numbers of the nodes that have ended since nobody needed them. */
SEXP ffi_tasks_idle_nodes(SEXP x) {
  clu_engine *t = clu_tasks_get(x);
  SEXP out = PROTECT(Rf_allocVector(INTSXP, clu_engine_size(t)));
  int n = 0;
  for (int i = 0; i < clu_engine_size(t); i++)
    if (clu_engine_was_idle(t, i)) INTEGER(out)[n++] = i + 1;
  out = Rf_lengthgets(out, n);
  UNPROTECT(1);
  return out;
}

/* The node behind handle `i`, if the tasks have a place for it. */
static clu_node *node_at(const clu_engine *t, SEXP handles, int i) {
  return i >= 0 && i < clu_engine_size(t) ? clu_tasks_node(handles, i) : NULL;
}

/* From now on node `index` (from 1) has its part in the work: "attached". "dead": it has to be
 * replaced, as it has died or has ended since nobody needed it; "stopped": it was told to end. */
SEXP ffi_tasks_attach(SEXP x, SEXP index) {
  clu_engine *t = clu_tasks_get(x);
  int i = Rf_asInteger(index) - 1;
  clu_node *nd = node_at(t, R_ExternalPtrProtected(x), i);
  if (!nd) clu_raise("argument", "there is no node %d", i + 1);
  switch (clu_engine_attach(t, i, nd)) {
  case CLU_ATTACHED: return Rf_mkString("attached");
  case CLU_ATTACH_DEAD: return Rf_mkString("dead");
  case CLU_ATTACH_STOPPED: return Rf_mkString("stopped");
  default: clu_raise("memory", "not enough memory");
  }
}

/* The ranks of these nodes of the cluster, all of which have their part in the work; NULL: of one
 * ffi_tasks_attach() has to be asked. */
SEXP ffi_tasks_attach_all(SEXP x, SEXP nodes) {
  clu_engine *t = clu_tasks_get(x);
  SEXP handles = R_ExternalPtrProtected(x);
  R_xlen_t n = Rf_xlength(nodes);
  SEXP ranks = PROTECT(Rf_allocVector(INTSXP, n));
  for (R_xlen_t k = 0; k < n; k++) {
    int i = Rf_asInteger(clu_element(VECTOR_ELT(nodes, k), "rank")) - 1;
    clu_node *nd = node_at(t, handles, i);
    if (!nd || !clu_engine_has(t, i, nd)) {
      UNPROTECT(1);
      return R_NilValue;
    }
    INTEGER(ranks)[k] = i + 1;
  }
  UNPROTECT(1);
  return ranks;
}

/* Node `rank`, if it is that process, has an actor, or has it no more. */
SEXP ffi_tasks_keep_node(SEXP x, SEXP rank, SEXP pid, SEXP keeps) {
  clu_engine *t = clu_tasks_get(x);
  int i = Rf_asInteger(rank) - 1;
  if (i < 0 || i >= clu_engine_size(t)) clu_raise("argument", "there is no node %d", i + 1);
  clu_engine_keep_node(t, i, Rf_asInteger(pid), Rf_asLogical(keeps) == 1);
  return R_NilValue;
}

/* For each of these nodes 0, 1: it has something to do, or 2: it is not there. */
SEXP ffi_tasks_busy(SEXP x, SEXP ranks) {
  clu_engine *t = clu_tasks_get(x);
  R_xlen_t n = Rf_xlength(ranks);
  SEXP out = PROTECT(Rf_allocVector(INTSXP, n));
  for (R_xlen_t k = 0; k < n; k++) {
    int i = INTEGER(ranks)[k] - 1, is_there = i >= 0 && i < clu_engine_size(t);
    INTEGER(out)[k] = !is_there || !clu_engine_has_any(t, i) ? 2 : clu_engine_is_busy(t, i);
  }
  UNPROTECT(1);
  return out;
}

/* ---- jobs ---- */

int clu_job_receivers(const clu_engine *t, SEXP elements, SEXP only) {
  R_xlen_t nodes = only == R_NilValue ? clu_engine_size(t) : Rf_xlength(only);
  R_xlen_t n = elements == R_NilValue ? 1 : Rf_xlength(elements);
  return (int)(n < nodes ? n : nodes);
}

clu_blob *clu_job_message(const clu_engine *t, SEXP parts, int receivers) {
  unsigned char len[4];
  clu_blob *fun = clu_call_function(VECTOR_ELT(parts, CLU_JOB_FUN)), *b;
  b = clu_blob_new(fun ? fun->size + 512 : 1024);
  if (!b) clu_raise("memory", "not enough memory");
  clu_put32(len, fun ? (uint32_t)fun->size : 0);
  clu_blob_append(b, len, sizeof len); /* there is room */
  if (fun) {
    clu_blob_append(b, fun->data, fun->size);
    SET_VECTOR_ELT(parts, CLU_JOB_FUN, R_NilValue);
  }
  return clu_serialize_for(b, parts, clu_engine_shares(t) ? receivers : 0);
}

SEXP clu_job_handle_for(SEXP x, SEXP elements) {
  SEXP prot = PROTECT(Rf_allocVector(VECSXP, 6)), out = PROTECT(clu_job_handle(prot));
  R_xlen_t n = elements == R_NilValue ? 1 : Rf_xlength(elements);
  SET_VECTOR_ELT(prot, 0, R_ExternalPtrProtected(x));
  SET_VECTOR_ELT(prot, 1, elements);
  SET_VECTOR_ELT(prot, 2, Rf_allocVector(VECSXP, n));
  UNPROTECT(2);
  return out;
}

clu_task_job *clu_job_fill(clu_engine *t, SEXP handle, clu_blob *message, const double *numbers,
                           const int *seed, SEXP only, SEXP needs) {
  SEXP prot = R_ExternalPtrProtected(handle);
  clu_task_spec spec = {.n = (uint64_t)Rf_xlength(VECTOR_ELT(prot, 2))};
  uint32_t stream[6];
  clu_task_job *j;
  spec.bare = VECTOR_ELT(prot, 1) == R_NilValue;
  spec.retries = (uint32_t)numbers[0];
  spec.chunk = (uint32_t)numbers[1];
  spec.timeout_ns = (uint64_t)(1e9 * numbers[2]);
  spec.max_memory = numbers[3];
  spec.priority = (int)numbers[4];
  for (int i = 0; i < 6 && seed; i++) stream[i] = (uint32_t)seed[i];
  if (seed) spec.seed = stream;
  if (only != R_NilValue) {
    spec.only = INTEGER(only);
    spec.nonly = (size_t)Rf_xlength(only);
  }
  if (needs != R_NilValue) clu_needs_of(&spec, needs);
  j = clu_task_job_new(t, &spec, message, handle);
  if (!j) clu_raise("memory", "not enough memory");
  clu_handle_set(handle, j);
  return j;
}

/* A job, of which nothing is done before ffi_job_start(): `parts` go to each node once,
 * `elements` is a list or a plain vector, or NULL: one task without an element. `spec`: retries,
 * chunk, timeout in seconds, max_memory in bytes, priority. `seed`: six integers or NULL. `only`:
 * numbers of the nodes that may do it, or NULL. `needs`: what its tasks ask for, see needs.h, or
 * NULL. */
SEXP ffi_job_new(SEXP x, SEXP parts, SEXP elements, SEXP spec, SEXP seed, SEXP only, SEXP needs) {
  clu_engine *t = clu_tasks_get(x);
  SEXP out = PROTECT(clu_job_handle_for(x, elements));
  clu_blob *b = clu_job_message(t, parts, clu_job_receivers(t, elements, only));
  clu_job_fill(t, out, b, REAL(spec), seed == R_NilValue ? NULL : INTEGER(seed), only, needs);
  UNPROTECT(1);
  return out;
}

void clu_job_label_call(clu_task_job *j, SEXP name, SEXP code) {
  char label[CLU_LABEL_MOST + 1];
  clu_label_of_call(label, name, code);
  if (clu_task_job_name(j, label) != CLU_OK) clu_raise("memory", "not enough memory");
}

/* Says what a job that has not begun is called: the call of `name` with `code`, see job-label.h;
 * where `name` is NULL the text `code`. */
SEXP ffi_job_name(SEXP job, SEXP name, SEXP code) {
  clu_task_job *j = clu_job_get(job);
  char label[CLU_LABEL_MOST + 1];
  if (name != R_NilValue) {
    clu_job_label_call(j, name, code);
    return R_NilValue;
  }
  clu_label_of_text(label, Rf_translateCharUTF8(Rf_asChar(code)));
  if (clu_task_job_name(j, label) != CLU_OK) clu_raise("memory", "not enough memory");
  return R_NilValue;
}

/* One more argument of a job that has not begun is the value of another task, which has not ended:
 * TRUE. FALSE: that one has; R is to say what came of it, by ffi_job_give() or ffi_job_lacks(). */
SEXP ffi_job_needs(SEXP job, SEXP from) {
  int rc = clu_task_job_await_value(clu_job_get(job), clu_job_get(from));
  if (rc == CLU_NOMEM) clu_raise("memory", "not enough memory");
  return Rf_ScalarLogical(rc == CLU_OK);
}

/* One more argument of a job that has not begun is this value. */
SEXP ffi_job_give(SEXP x, SEXP job, SEXP value) {
  static const unsigned char head[CLU_RESULT_HEAD];
  clu_engine *t = clu_tasks_get(x);
  clu_task_job *j = clu_job_get(job);
  clu_blob *b = clu_blob_new(sizeof head + 64);
  int rc;
  if (!b) clu_raise("memory", "not enough memory");
  clu_blob_append(b, head, sizeof head); /* there is room */
  b = clu_serialize_for(b, value, clu_engine_shares(t));
  rc = clu_task_job_give(j, b);
  clu_blob_unref(b);
  if (rc != CLU_OK) clu_raise("memory", "not enough memory");
  return R_NilValue;
}

/* One of its arguments there will never be: it ends when it is begun. */
SEXP ffi_job_lacks(SEXP job) {
  clu_task_job_lacks(clu_job_get(job));
  return R_NilValue;
}

/* Tells whether all nodes take large vectors by shared memory; NA: some do. */
SEXP ffi_tasks_share(SEXP x) {
  const clu_engine *t = clu_tasks_get(x);
  if (clu_engine_shares(t)) return Rf_ScalarLogical(1);
  return Rf_ScalarLogical(clu_engine_shares_some(t) ? NA_LOGICAL : 0);
}

void clu_job_begin(clu_engine *t, clu_task_job *j) {
  if (clu_task_job_begin(t, j) != CLU_OK) clu_raise("memory", "not enough memory");
}

/* From now on it is worked at. The caller has seen to it that it is ended, whatever happens: see
 * ffi_job_end(). */
SEXP ffi_job_start(SEXP x, SEXP job) {
  clu_engine *t = clu_tasks_get(x);
  clu_task_job *j = clu_job_get(job);
  if (clu_task_job_engine(j)) return R_NilValue;
  clu_job_begin(t, j);
  clu_engine_limit_memory(t);
  clu_engines_back_at_once(
      clu_tasks_all()); /* to send it: or each start of a task would wake the thread */
  return R_NilValue;
}

static int all_in_step(void *handles) {
  for (R_xlen_t i = 0; i < Rf_xlength(handles); i++) {
    clu_node *nd = clu_tasks_node(handles, (int)i);
    if (nd && !clu_node_in_step(nd)) return 0;
  }
  return 1;
}

/* Gives the job up, and waits until the nodes have, `wait` seconds at the most. */
static void end_job(clu_task_job *j, SEXP handles, double wait) {
  int busy;
  SET_VECTOR_ELT(clu_job_prot(j), 5, R_NilValue);
  if (!clu_task_job_engine(j)) return;
  busy = clu_task_job_cancel(j);
  if (busy && wait > 0) clu_pump_for(all_in_step, handles, clu_os_now() + (uint64_t)(1e9 * wait));
  clu_task_job_close(j);
}

/* Gives the job up. `wait`: seconds to wait until the nodes have, at most. No interrupt ends it: it
 * is bounded. */
SEXP ffi_job_end(SEXP job, SEXP wait) {
  end_job(clu_job_get(job), VECTOR_ELT(R_ExternalPtrProtected(job), 0), Rf_asReal(wait));
  return R_NilValue;
}

/* Returns what has come of a job with one task: NULL: it has not ended; list(value): it has ended
 * well and has said nothing; NA: R has to ask for the rest. In the last two cases nothing more will
 * come. */
SEXP ffi_job_outcome(SEXP job) {
  clu_task_job *j = clu_job_get(job);
  SEXP prot = R_ExternalPtrProtected(job), out;
  if (clu_task_job_counts(j).left > 0) return R_NilValue;
  clu_job_take_results(j);
  if (clu_task_job_counts(j).failures > 0 || !clu_task_job_has_ended(j, 0) ||
      VECTOR_ELT(prot, 3) != R_NilValue || clu_task_job_is_incomplete(j))
    return Rf_ScalarLogical(NA_LOGICAL);
  out = PROTECT(Rf_allocVector(VECSXP, 1));
  SET_VECTOR_ELT(out, 0, VECTOR_ELT(VECTOR_ELT(prot, 2), 0));
  end_job(j, VECTOR_ELT(prot, 0), 0);
  UNPROTECT(1);
  return out;
}

/* The value of a job with one task is somebody else's from now on: R keeps what an object with a
 * finalizer refers to for one more collection, and mostly until a full one. */
SEXP ffi_job_drop_value(SEXP job) {
  SET_VECTOR_ELT(VECTOR_ELT(R_ExternalPtrProtected(job), 2), 0, R_NilValue);
  return R_NilValue;
}

/* No node is left and none can be had: tasks that wait fail with this cause. */
SEXP ffi_job_fail_pending(SEXP job, SEXP cause) {
  clu_task_job_fail_pending(clu_job_get(job), Rf_asInteger(cause));
  return R_NilValue;
}
