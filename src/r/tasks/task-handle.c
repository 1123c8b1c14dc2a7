/* The handles by which R has the tasks of a cluster, and its jobs. */
#include "r/tasks/tasks.h"

static clu_engines *all;

clu_engines *clu_tasks_all(void) {
  if (!all) all = clu_engines_new(clu_the_session, &clu_turn, &clu_elements);
  if (!all) clu_raise("memory", "not enough memory");
  return all;
}

/* Engines of the parent still refer to it. */
void clu_tasks_forget(void) { all = NULL; }

static SEXP tag_tasks(void) { return Rf_install("clutch_tasks"); }
static SEXP tag_job(void) { return Rf_install("clutch_job"); }

SEXP clu_tasks_handle(SEXP handles, R_CFinalizer_t finalizer) {
  return clu_handle_new(tag_tasks(), handles, finalizer);
}

SEXP clu_job_handle(SEXP prot, R_CFinalizer_t finalizer) {
  return clu_handle_new(tag_job(), prot, finalizer);
}

static void *behind(SEXP x, SEXP tag, const char *what) {
  if (TYPEOF(x) != EXTPTRSXP || R_ExternalPtrTag(x) != tag || !R_ExternalPtrAddr(x))
    clu_raise_foreign(what);
  clu_need_session_of(x);
  return R_ExternalPtrAddr(x);
}

clu_engine *clu_tasks_get(SEXP x) { return behind(x, tag_tasks(), "cluster"); }
clu_task_job *clu_job_get(SEXP x) { return behind(x, tag_job(), "task"); }

SEXP clu_job_prot(const clu_task_job *j) {
  return R_ExternalPtrProtected((SEXP)clu_task_job_caller(j));
}

clu_node *clu_tasks_node(SEXP handles, int i) { return R_ExternalPtrAddr(VECTOR_ELT(handles, i)); }
