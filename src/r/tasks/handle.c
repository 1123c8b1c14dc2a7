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

/* In a forked child its jobs may be gone already, without having been taken out of its list: there
 * it is not freed. */
static void free_engine(void *p) { clu_engine_free(p); }
static clu_handle_kind engines = {.name = "clutch_tasks", .free = free_engine};

static void free_job(void *p) { clu_task_job_release(p); }
static void forget_job(void *p) { clu_task_job_forget(p); }
static clu_handle_kind jobs = {.name = "clutch_job", .free = free_job, .forget = forget_job};

SEXP clu_tasks_handle(SEXP handles) { return clu_handle_new(&engines, handles); }
SEXP clu_job_handle(SEXP prot) { return clu_handle_new(&jobs, prot); }

static void *behind(SEXP x, clu_handle_kind *kind, const char *what) {
  if (!clu_handle_is(x, kind) || !R_ExternalPtrAddr(x)) clu_raise_foreign(what);
  clu_need_session_of(x);
  return R_ExternalPtrAddr(x);
}

clu_engine *clu_tasks_get(SEXP x) { return behind(x, &engines, "cluster"); }
clu_task_job *clu_job_get(SEXP x) { return behind(x, &jobs, "task"); }

SEXP clu_job_prot(const clu_task_job *j) {
  return R_ExternalPtrProtected((SEXP)clu_task_job_caller(j));
}

clu_node *clu_tasks_node(SEXP handles, int i) { return R_ExternalPtrAddr(VECTOR_ELT(handles, i)); }
