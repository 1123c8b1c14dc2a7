/* This file has what R asks about tasks while it is idle: for what to wait, and what has come of
 * it. */
#include "r/tasks/tasks.h"
#include "core/tasks/wake.h"

/* R is to be woken when this job has ended. Its number. */
SEXP ffi_job_await(SEXP job) {
  clu_task_job *j = clu_job_get(job);
  if (clu_task_job_await(j) != CLU_OK) clu_raise("memory", "not enough memory");
  return Rf_ScalarReal((double)clu_task_job_number(j));
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

/* Wakes whoever waits for the descriptors. */
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
  clu_engine *t = clu_tasks_get(x);
  size_t n;
  int all;
  const uint64_t *ended = clu_engine_news(t, &n, &all);
  SEXP out = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)n + (all != 0)));
  for (size_t i = 0; i < n; i++) REAL(out)[i] = (double)ended[i];
  if (all) REAL(out)[n] = 0;
  clu_engine_news_told(t);
  UNPROTECT(1);
  return out;
}

/* Seconds after which there is something to do although nothing is heard: a time limit of a task, a
 * limit of memory that only the session knows about, a timer of the event loop. Inf: nothing. */
SEXP ffi_tasks_wait(SEXP x) {
  int64_t wait = clu_engine_idle_wait(clu_tasks_get(x));
  return Rf_ScalarReal(wait == INT64_MAX ? R_PosInf : 1e-9 * (double)wait);
}

/* ---- notes ---- */

static const char *name_of(int what) {
  switch (what) {
  case CLU_NOTE_LIMIT: return "limit";
  case CLU_NOTE_RETRY: return "retry";
  case CLU_NOTE_CUT: return "cut";
  case CLU_NOTE_RESUME: return "resume";
  case CLU_NOTE_GROWN: return "grown";
  case CLU_NOTE_SHRUNK: return "shrunk";
  case CLU_NOTE_NOT_GROWN: return "not_grown";
  case CLU_NOTE_RENEW: return "renew";
  default: return "idle";
  }
}

/* Returns what was noted since the last time: a list of vectors; NULL: nothing. `at`: seconds by
 * this machine's clock. */
SEXP ffi_tasks_notes(SEXP x) {
  static const char *names[] = {"kind", "node", "job", "element", "attempt", "at", ""};
  clu_engine *t = clu_tasks_get(x);
  size_t size;
  const clu_note *notes = clu_engine_notes(t, &size);
  int n = (int)size;
  SEXP out;
  if (n == 0) return R_NilValue;
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_allocVector(STRSXP, n));
  SET_VECTOR_ELT(out, 1, Rf_allocVector(INTSXP, n));
  for (int c = 2; c < 6; c++) SET_VECTOR_ELT(out, c, Rf_allocVector(REALSXP, n));
  for (int i = 0; i < n; i++) {
    const clu_note *k = &notes[i];
    double v[4] = {clu_number_or_na(k->job), clu_number_or_na(k->element), k->attempt,
                   1e-9 * (double)k->at};
    SET_STRING_ELT(VECTOR_ELT(out, 0), i, Rf_mkChar(name_of(k->what)));
    INTEGER(VECTOR_ELT(out, 1))[i] = k->node < 0 ? NA_INTEGER : k->node + 1;
    for (int c = 0; c < 4; c++) REAL(VECTOR_ELT(out, c + 2))[i] = v[c];
  }
  clu_engine_notes_told(t);
  UNPROTECT(1);
  return out;
}
