/* What R asks of a job, and of the work of a cluster as a whole. */
#include "r/tasks/tasks.h"
#include "core/wire/task-message.h"

#include <string.h>

#include "core/base/rng-stream.h"

/* list(left, answered, time in s, bytes_out, bytes_in, about_bytes) */
SEXP ffi_job_state(SEXP job) {
  static const char *names[] = {"left", "waiting", "answered", "time", "bytes_out", "bytes_in", "about", "failures", ""};
  tjob *j = clu_get_job(job);
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  double v[8] = {0, 0, (double)j->answered, 0, (double)j->bytes_out, (double)j->bytes_in, (double)j->about->size,
                 (double)j->nfailures};
  if (j->job) {
    v[0] = (double)clu_job_left(j->job);
    v[1] = (double)clu_job_waiting(j->job);
    v[3] = 1e-9 * (double)clu_job_time(j->job);
  }
  for (int i = 0; i < 8; i++) SET_VECTOR_ELT(out, i, Rf_ScalarReal(v[i]));
  UNPROTECT(1);
  return out;
}

/* How many elements at the beginning have all ended. */
SEXP ffi_job_ready(SEXP job) {
  tjob *j = clu_get_job(job);
  clu_take_results(j, R_ExternalPtrProtected(job));
  while (j->ready < j->n && j->ended[j->ready]) j->ready++;
  return Rf_ScalarReal((double)j->ready);
}

/* list(values, logs) as they are now */
SEXP ffi_job_values(SEXP job) {
  tjob *j = clu_get_job(job);
  SEXP prot = R_ExternalPtrProtected(job), out;
  clu_take_results(j, prot);
  if (clu_tasks_lost(j)) clu_raise("memory", "not enough memory for the results");
  out = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(out, 0, VECTOR_ELT(prot, 2));
  SET_VECTOR_ELT(out, 1, VECTOR_ELT(prot, 3));
  UNPROTECT(1);
  return out;
}

/* Failures from number `from` on: a list of vectors. */
SEXP ffi_job_failures(SEXP job, SEXP from) {
  static const char *names[] = {"element", "why", "cause", "node", "attempt", ""};
  tjob *j = clu_get_job(job);
  size_t k = (size_t)Rf_asReal(from);
  int n = j->nfailures > k ? (int)(j->nfailures - k) : 0;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_allocVector(REALSXP, n));
  for (int c = 1; c < 5; c++) SET_VECTOR_ELT(out, c, Rf_allocVector(INTSXP, n));
  for (int i = 0; i < n; i++) {
    failure *f = &j->failures[k + (size_t)i];
    REAL(VECTOR_ELT(out, 0))[i] = (double)f->element + 1;
    INTEGER(VECTOR_ELT(out, 1))[i] = f->why;
    INTEGER(VECTOR_ELT(out, 2))[i] = f->cause;
    INTEGER(VECTOR_ELT(out, 3))[i] = f->node + 1;
    INTEGER(VECTOR_ELT(out, 4))[i] = (int)f->attempt;
  }
  UNPROTECT(1);
  return out;
}

/* The next piece of live output or condition: list(element, text or condition), or NULL. */
SEXP ffi_job_relay(SEXP job) {
  tjob *j = clu_get_job(job);
  note x;
  SEXP out, v;
  unsigned char what;
  if (!clu_take_note(&j->relays, &x)) return R_NilValue;
  out = PROTECT(Rf_allocVector(VECSXP, 2));
  if (!x.body || x.body->size < 1) {
    clu_blob_unref(x.body);
    UNPROTECT(1);
    return out;
  }
  what = x.body->data[0];
  v = what == 1 ? clu_unserialize(x.body, 1)
                : Rf_ScalarString(Rf_mkCharLenCE((char *)x.body->data + 1, (int)(x.body->size - 1), CE_NATIVE));
  if (what != 1) clu_blob_unref(x.body);
  SET_VECTOR_ELT(out, 1, v);
  SET_VECTOR_ELT(out, 0, Rf_ScalarReal((double)x.element + 1));
  UNPROTECT(1);
  return out;
}

static int all_in_step(void *handles) {
  for (R_xlen_t i = 0; i < Rf_xlength(handles); i++) {
    clu_node *nd = clu_tasks_node(handles, (int)i);
    if (nd && !clu_node_in_step(nd)) return 0;
  }
  return 1;
}

/* Gives the job up. `wait`: seconds to wait until the nodes have, at most. No interrupt ends it: it is bounded. */
SEXP ffi_job_end(SEXP job, SEXP wait) {
  tjob *j = clu_get_job(job);
  SEXP handles = VECTOR_ELT(R_ExternalPtrProtected(job), 0);
  tasks *t = j->of;
  int busy;
  if (!t) return R_NilValue;
  busy = clu_job_left(j->job) > 0;
  clu_job_cancel(t->e, j->job, clu_os_now());
  clu_tasks_act(t, handles, 0);
  if (busy && Rf_asReal(wait) > 0) clu_pump_for(all_in_step, handles, clu_in_seconds(wait));
  clu_job_tell_end(t, handles, j);
  clu_job_forget(j);
  clu_tasks_limit_memory(t, handles);
  return R_NilValue;
}

/* Elements of all jobs that have not ended. */
SEXP ffi_tasks_open(SEXP x) {
  tasks *t = clu_get_tasks(x);
  double n = 0;
  for (tjob *j = t->jobs; j; j = j->next) n += (double)clu_job_left(j->job);
  return Rf_ScalarReal(n);
}

/* Jobs that were not given up: theirs are the causes of deaths that may still be asked for. */
SEXP ffi_tasks_jobs(SEXP x) {
  int n = 0;
  for (tjob *j = clu_get_tasks(x)->jobs; j; j = j->next) n++;
  return Rf_ScalarInteger(n);
}

/* Deaths since the last time, each a list: `killed`: by us, and why, see clu_tasks_kill(); `began`: whether it had begun anything;
 * `memory`: bytes that it had, where that was too much. */
SEXP ffi_tasks_deaths(SEXP x) {
  static const char *names[] = {"index", "cause", "over_memory", "killed", "info", "began", "memory", ""};
  tasks *t = clu_get_tasks(x);
  int n = (int)t->ndeaths;
  SEXP out = PROTECT(Rf_allocVector(VECSXP, n));
  for (int i = 0; i < n; i++) {
    death d = t->deaths[i];
    SEXP one = PROTECT(Rf_mkNamed(VECSXP, names));
    clu_node *nd = clu_tasks_node(R_ExternalPtrProtected(x), d.index);
    SET_VECTOR_ELT(one, 0, Rf_ScalarInteger(d.index + 1));
    SET_VECTOR_ELT(one, 1, Rf_ScalarInteger(d.cause));
    SET_VECTOR_ELT(one, 2, Rf_ScalarLogical(d.over_memory));
    SET_VECTOR_ELT(one, 3, Rf_ScalarInteger(d.killed));
    SET_VECTOR_ELT(one, 5, Rf_ScalarLogical(d.began));
    SET_VECTOR_ELT(one, 6, Rf_ScalarReal(d.memory));
    if (nd && !clu_node_is_open(nd)) { /* else a call has put another in its place */
      clu_await_reason(nd);
      SET_VECTOR_ELT(one, 4, clu_node_info(nd));
    }
    SET_VECTOR_ELT(out, i, one);
    UNPROTECT(1);
  }
  memmove(t->deaths, t->deaths + n, (t->ndeaths - (size_t)n) * sizeof *t->deaths);
  t->ndeaths -= (size_t)n;
  UNPROTECT(1);
  return out;
}

/* No node is left and none can be had: what waits will not be done. */
SEXP ffi_job_strand(SEXP job, SEXP cause) {
  tjob *j = clu_get_job(job);
  if (j->of) {
    clu_job_fail_pending(j->of->e, j->job, Rf_asInteger(cause));
    clu_tasks_look_at_endings(j->of);
  }
  return R_NilValue;
}

/* What was done when: a list of vectors, times in seconds by this machine's clock. */
SEXP ffi_tasks_trace(SEXP x) {
  static const char *names[] = {"job", "element", "node", "attempt", "sent", "began", "ended", "bytes", "ok", ""};
  tasks *t = clu_get_tasks(x);
  size_t n = t->ntrace < t->captrace ? t->ntrace : t->captrace, from = t->ntrace - n;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  for (int c = 0; c < 9; c++) SET_VECTOR_ELT(out, c, Rf_allocVector(c == 8 ? LGLSXP : REALSXP, (R_xlen_t)n));
  for (size_t i = 0; i < n; i++) {
    record *r = &t->trace[(from + i) % t->captrace];
    double v[8] = {(double)r->job, (double)r->element + 1, r->node + 1.0, r->attempt, 1e-9 * (double)r->sent,
                   1e-9 * (double)r->began, 1e-9 * (double)(r->began + r->took), r->bytes};
    for (int c = 0; c < 8; c++) REAL(VECTOR_ELT(out, c))[i] = v[c];
    LOGICAL(VECTOR_ELT(out, 8))[i] = r->ok;
  }
  UNPROTECT(1);
  return out;
}

/* `n` streams of random numbers after `state`: for tests. */
SEXP ffi_stream_jump(SEXP state, SEXP n) {
  uint32_t s[6];
  SEXP out = PROTECT(Rf_allocVector(INTSXP, 6));
  for (int i = 0; i < 6; i++) s[i] = (uint32_t)INTEGER(state)[i];
  clu_stream_jump(s, (uint64_t)Rf_asReal(n));
  for (int i = 0; i < 6; i++) INTEGER(out)[i] = (int)s[i];
  UNPROTECT(1);
  return out;
}
