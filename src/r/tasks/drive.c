/* Turns of the work, until there is something for R to do. */
#include "r/tasks/tasks.h"

int clu_tasks_work(clu_engine *t, clu_task_job *j, uint64_t deadline, size_t known) {
  clu_engine_wait w;
  clu_engine_wait_begin(&w, t, deadline, clu_may_spin());
  for (;;) {
    clu_err e = {0, 0, ""};
    int what, rc;
    clu_tasks_check(clu_engine_turn(t));
    if (j) clu_job_take_results(j);
    if (j && clu_task_job_is_incomplete(j))
      clu_raise("memory", "not enough memory for the results");
    what = clu_engine_event(t, j, known);
    if (what != CLU_EVENT_NONE) return what;
    rc = clu_engine_await(&w, t, j, &e);
    if (rc == CLU_TIMEOUT) return CLU_EVENT_TIME_UP;
    if (rc != CLU_OK) clu_raise_err(&e);
    if (w.interrupts) clu_check_interrupt_now(NULL, NULL); /* may jump: nothing is held here */
  }
}

static const char *event_name(int event) {
  switch (event) {
  case CLU_EVENT_UNCLEAR: return "unclear";
  case CLU_EVENT_DEATHS: return "deaths";
  case CLU_EVENT_NOTES: return "notes";
  case CLU_EVENT_RELAY: return "relay";
  case CLU_EVENT_FAILED: return "failed";
  case CLU_EVENT_READY: return "ready";
  case CLU_EVENT_DONE: return "done";
  case CLU_EVENT_NO_NODE: return "no_node";
  default: return "time_up";
  }
}

/* Works for at most `seconds`, or until there is something to be done about `job` (may be NULL), of
 * whose failures `known` are known to R. What there is to be done: "unclear" (ffi_tasks_unclear()
 * says about which nodes R is asked), "deaths" (ffi_tasks_deaths() tells of them), "notes"
 * (ffi_tasks_notes()), "relay" (ffi_job_relay()), "failed" (ffi_job_failures()), "ready"
 * (ffi_job_let_go()), "done", "no_node" (no node is there that may do it), or nothing: "time_up".
 */
SEXP ffi_tasks_step(SEXP x, SEXP job, SEXP seconds, SEXP known) {
  clu_engine *t = clu_tasks_get(x);
  clu_task_job *j = job == R_NilValue ? NULL : clu_job_get(job);
  int event = clu_tasks_work(t, j, clu_in_seconds(seconds), (size_t)Rf_asReal(known));
  return Rf_mkString(event_name(event));
}
