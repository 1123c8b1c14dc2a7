/* What R asks about tasks while it is idle: for what to wait, and what has come of it. */
#include <math.h>

#include "r/tasks/memory-limit.h"
#include "r/tasks/task-state.h"
#include "r/tasks/wake.h"

#define MEMORY_EVERY 20000000 /* ns between two looks at the memory of nodes */

/* R is to be woken when this job has ended. Its number. */
SEXP ffi_job_await(SEXP job) {
  task_job *j = clu_job_get(job);
  if (clu_job_await(j) != CLU_OK) clu_raise("memory", "not enough memory");
  if (j->tasks) clu_job_tell(j);
  return Rf_ScalarReal((double)j->number);
}

/* The descriptors to wait for; none: they have to be polled. */
SEXP ffi_wake_descriptors(void) {
  clu_fd loop, wake;
  SEXP out;
  clu_need_session();
  loop = clu_loop_descriptor(clu_session_loop(clu_the_session));
  wake = loop == CLU_NO_FD ? CLU_NO_FD : clu_wake_descriptor();
  if (wake == CLU_NO_FD) return Rf_allocVector(INTSXP, 0);
  out = Rf_allocVector(INTSXP, 2);
  INTEGER(out)[0] = (int)loop;
  INTEGER(out)[1] = (int)wake;
  return out;
}

/* Who waits for the descriptors is woken. */
SEXP ffi_wake(void) {
  clu_wake();
  return R_NilValue;
}

SEXP ffi_wake_hold(void) {
  clu_wake_hold();
  return R_NilValue;
}

SEXP ffi_wake_seen(void) {
  clu_wake_seen();
  return R_NilValue;
}

/* Numbers of awaited jobs that have ended since the last time, each once. 0 among them: something
 * has happened that may concern any of those that are awaited. */
SEXP ffi_tasks_news(SEXP x) {
  tasks *t = clu_tasks_get(x);
  R_xlen_t n = (R_xlen_t)t->news.n + (t->news.tell_all != 0);
  SEXP out = PROTECT(Rf_allocVector(REALSXP, n));
  for (size_t i = 0; i < t->news.n; i++) REAL(out)[i] = (double)t->news.ended[i];
  if (t->news.tell_all) REAL(out)[n - 1] = 0;
  t->news.n = 0;
  t->news.tell_all = 0;
  UNPROTECT(1);
  return out;
}

static int has_unlimited(const tasks *t) {
  for (int i = 0; i < t->n; i++) {
    const clu_node *nd = clu_tasks_known_node(t, i);
    if (nd && !clu_node_limits_memory(nd)) return 1;
  }
  return 0;
}

/* Seconds after which there is something to do although nothing is heard: a time limit of a task, a
 * limit of memory that only the session knows about, a timer of the event loop. Inf: nothing. */
SEXP ffi_tasks_wait(SEXP x) {
  const int64_t never = INT64_MAX;
  tasks *t = clu_tasks_get(x);
  int64_t wait = (int64_t)clu_sched_wait(t->sched, clu_os_now(), (uint64_t)never);
  wait = clu_loop_until_timer(clu_session_loop(clu_the_session), wait);
  if (wait > MEMORY_EVERY && t->limits.bytes > 0 && has_unlimited(t)) wait = MEMORY_EVERY;
  return Rf_ScalarReal(wait == never ? R_PosInf : 1e-9 * (double)wait);
}

/* ---- notes ---- */

static const char *name_of(int what) {
  switch (what) {
  case TASK_NOTE_LIMIT: return "limit";
  case TASK_NOTE_RETRY: return "retry";
  case TASK_NOTE_CUT: return "cut";
  case TASK_NOTE_RESUME: return "resume";
  default: return "idle";
  }
}

/* What was noted since the last time: a list of vectors; NULL: nothing. `at`: seconds by this
 * machine's clock. */
SEXP ffi_tasks_notes(SEXP x) {
  static const char *names[] = {"kind", "node", "job", "element", "attempt", "at", ""};
  tasks *t = clu_tasks_get(x);
  int n = (int)t->notes.n;
  SEXP out;
  if (n == 0) return R_NilValue;
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_allocVector(STRSXP, n));
  SET_VECTOR_ELT(out, 1, Rf_allocVector(INTSXP, n));
  for (int c = 2; c < 6; c++) SET_VECTOR_ELT(out, c, Rf_allocVector(REALSXP, n));
  for (int i = 0; i < n; i++) {
    const task_note *k = &t->notes.list[i];
    double v[4] = {k->job, k->element, k->attempt, 1e-9 * (double)k->at};
    SET_STRING_ELT(VECTOR_ELT(out, 0), i, Rf_mkChar(name_of(k->what)));
    INTEGER(VECTOR_ELT(out, 1))[i] = k->node < 0 ? NA_INTEGER : k->node + 1;
    for (int c = 0; c < 4; c++) REAL(VECTOR_ELT(out, c + 2))[i] = v[c];
  }
  t->notes.n = 0;
  UNPROTECT(1);
  return out;
}
