/* Results of tasks, which have come as bytes, become values of their job. */
#include <string.h>

#include "core/wire/task-message.h"
#include "r/serialize/travel.h"
#include "r/share/share.h"
#include "r/tasks/tasks.h"

void clu_job_set_value(clu_task_job *j, SEXP prot, uint64_t task, uint32_t flags, SEXP v) {
  int is_made;
  if (flags & CLU_RESULT_LOG) {
    if (VECTOR_ELT(prot, 3) == R_NilValue) {
      PROTECT(v);
      SET_VECTOR_ELT(prot, 3, Rf_allocVector(VECSXP, Rf_xlength(VECTOR_ELT(prot, 2))));
      UNPROTECT(1);
    }
    SET_VECTOR_ELT(VECTOR_ELT(prot, 3), (R_xlen_t)task, VECTOR_ELT(v, 1));
    v = VECTOR_ELT(v, 0);
  }
  v = PROTECT(clu_is_packed(v) ? clu_unpack("unpack_or_why", v) : v);
  is_made = !Rf_isObject(v) || !Rf_inherits(v, "clutch_not_made");
  SET_VECTOR_ELT(VECTOR_ELT(prot, 2), (R_xlen_t)task, is_made ? v : VECTOR_ELT(v, 0));
  clu_task_job_has_value(j, task);
  if (!is_made) clu_unpack("warn_not_made", v); /* may jump: the task has what comes in place */
  UNPROTECT(1);
}

static SEXP value_of_record(uint32_t flags, const unsigned char *p, size_t n) {
  if (!(flags & CLU_RESULT_BARE)) return clu_unserialize_bytes(p, n);
  return flags & CLU_RESULT_LOG ? clu_log_bare_get(p, n) : clu_plain_bare_get(p, n);
}

static void set_class(SEXP x, const char *const *names, int n) {
  SEXP class = PROTECT(Rf_allocVector(STRSXP, n));
  for (int i = 0; i < n; i++) SET_STRING_ELT(class, i, Rf_mkChar(names[i]));
  Rf_setAttrib(x, R_ClassSymbol, class);
  UNPROTECT(1);
}

/* In place of a result whose large vectors could not be received, see task_failure() in
 * R/node-tasks.R. */
static SEXP failure_of_lost(void) {
  static const char *parts[] = {"cond", "calls", ""}, *of_cond[] = {"message", "call", ""};
  static const char *const classes[] = {"clutch_limit", "clutch_error", "error", "condition"};
  static const char *const class[] = {"clutch_task_failure"};
  SEXP failure = PROTECT(Rf_mkNamed(VECSXP, parts)), cond = Rf_mkNamed(VECSXP, of_cond);
  SET_VECTOR_ELT(failure, 0, cond);
  SET_VECTOR_ELT(cond, 0, Rf_mkString(clu_shared_lost_text()));
  set_class(cond, classes, 4);
  set_class(failure, class, 1);
  UNPROTECT(1);
  return failure;
}

static SEXP value_of(clu_blob *b) {
  if (!clu_segments_are_lost(b->segments))
    return clu_unserialize(b, CLU_RESULT_HEAD); /* gives it back */
  clu_blob_unref(b);
  return failure_of_lost();
}

/* R code may run while one is read: a namespace is loaded, finalizers. A jump (no memory, an object
 * that cannot be read) leaves the rest for later. */
void clu_job_take_results(clu_task_job *j) {
  unsigned char small[CLU_RING_MOST];
  SEXP prot = clu_job_prot(j);
  clu_task_result r;
  while (clu_task_job_next_result(j, small, &r)) {
    SEXP v = PROTECT(r.body ? value_of(r.body) : value_of_record(r.flags, small, r.size));
    clu_job_set_value(j, prot, r.task, r.flags, v);
    UNPROTECT(1);
  }
}
