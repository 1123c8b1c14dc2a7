#include "r/tasks/task-state.h"

#include <stdlib.h>

#include "r/tasks/wake.h"

#define MOST_NOTES 4096

/* ---- external pointers ---- */

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

tasks *clu_tasks_get(SEXP x) { return behind(x, tag_tasks(), "cluster"); }
task_job *clu_job_get(SEXP x) { return behind(x, tag_job(), "task"); }

/* ---- nodes ---- */

clu_node *clu_tasks_node(SEXP handles, int i) { return R_ExternalPtrAddr(VECTOR_ELT(handles, i)); }

void clu_tasks_kill(clu_node *nd, task_node *at, int why) {
  if (at->killed) return;
  at->killed = why;
  clu_node_stop(nd, 0);
}

/* ---- queued results ---- */

int clu_result_push(result_queue *q, uint64_t task, uint32_t flags, clu_blob *body) {
  queued_result *x = malloc(sizeof *x);
  if (!x) return CLU_NOMEM;
  x->next = NULL;
  x->task = task;
  x->flags = flags;
  x->body = body ? clu_blob_ref(body) : NULL;
  if (q->last)
    q->last->next = x;
  else
    q->first = x;
  q->last = x;
  return CLU_OK;
}

int clu_result_take(result_queue *q, queued_result *out) {
  queued_result *x = q->first;
  if (!x) return 0;
  *out = *x;
  q->first = x->next;
  if (!q->first) q->last = NULL;
  free(x);
  return 1;
}

static void drop_results(result_queue *q) {
  queued_result x;
  while (clu_result_take(q, &x)) clu_blob_unref(x.body);
}

/* ---- notes ---- */

static int has_room_for_note(tasks *t) {
  size_t cap = t->notes.cap ? 2 * t->notes.cap : 16;
  task_note *more;
  if (t->notes.n < t->notes.cap) return 1;
  if (t->notes.n >= MOST_NOTES) return 0;
  more = realloc(t->notes.list, cap * sizeof *more);
  if (!more) return 0;
  t->notes.list = more;
  t->notes.cap = cap;
  return 1;
}

void clu_tasks_note(tasks *t, int what, int node, const task_job *j, uint64_t task,
                    uint32_t attempt) {
  task_note *x;
  if (!has_room_for_note(t)) return;
  x = &t->notes.list[t->notes.n++];
  x->what = what;
  x->node = node;
  x->job = j ? (double)j->number : NA_REAL;
  x->element = j ? clu_job_element(j, task) : NA_REAL;
  x->attempt = attempt;
  x->at = clu_os_now();
}

double clu_job_element(const task_job *j, uint64_t task) {
  return j->bare ? NA_REAL : (double)task + 1;
}

/* ---- how tasks ended ---- */

void clu_job_count(task_job *j) {
  if (!j->bare || j->counted) return;
  j->counted = 1;
  j->tasks->jobs.nbare++;
  j->tasks->jobs.nrestartable += j->spec.retries > 0;
}

void clu_job_uncount(task_job *j) {
  if (!j->counted) return;
  j->counted = 0;
  j->tasks->jobs.nbare--;
  j->tasks->jobs.nrestartable -= j->spec.retries > 0;
}

void clu_job_finish(task_job *j, uint64_t at) {
  if (at > j->finished) j->finished = at;
}

void clu_job_fail(task_job *j, const clu_ended *x) {
  task_failure *f;
  clu_job_uncount(j);
  if (x->why == CLU_END_TIMEOUT && j->tasks)
    clu_tasks_note(j->tasks, TASK_NOTE_LIMIT, x->node, j, x->task, x->attempt);
  if (j->nfailures == j->capfailures) {
    size_t cap = j->capfailures ? 2 * j->capfailures : 4;
    task_failure *more = realloc(j->failures, cap * sizeof *more);
    if (!more) {
      j->out_of_memory =
          1; /* R is told: an element without a value must not look like one whose value is NULL */
      return;
    }
    j->failures = more;
    j->capfailures = cap;
  }
  f = &j->failures[j->nfailures++];
  j->ended[x->task] = 1;
  f->task = x->task;
  f->why = x->why;
  f->cause = x->cause;
  f->node = x->node;
  f->attempt = x->attempt;
  f->stack = NULL;
}

int clu_task_end(const clu_ended *x, int is_error) {
  switch (x->why) {
  case CLU_END_DIED: return TASK_DIED;
  case CLU_END_TIMEOUT: return TASK_TIMEOUT;
  case CLU_END_CANCELLED: return TASK_CANCELLED;
  default: return is_error ? TASK_ERROR : TASK_OK;
  }
}

void clu_tasks_remember(tasks *t, const task_job *j, const clu_ended *x, const task_record *r) {
  clu_view_end end = {j->number, x->task, r->began,          r->took,   r->bytes,
                      j->shown,  x->node, r->end == TASK_OK, x->attempt};
  task_record *to = clu_trace_next(&t->trace, j->facts);
  clu_view_ended(t->view, &end);
  if (!to) return;
  to->task = x->task;
  to->sent = x->sent;
  to->began = r->began;
  to->took = r->took;
  to->received = r->received;
  to->attempt = x->attempt;
  to->bytes = r->bytes;
  to->node = x->node;
  to->end = r->end;
}

/* Nodes of other hosts have another clock, and other processes. */
static clu_pid pid_here(const void *of, int i) {
  const clu_node *nd = clu_tasks_known_node(of, i);
  return nd && clu_node_is_ready(nd) && clu_node_clock_is_ours(nd) ? clu_node_pid(nd) : 0;
}

void clu_tasks_look_at_memory(tasks *t, uint64_t now) {
  if (now >= t->memory.due && t->trace.most > 0) clu_memory_sample(&t->memory, t->n, pid_here, t);
}

void clu_tasks_look_at_all_memory(tasks *t) {
  if (t->trace.most > 0) clu_memory_sample_all(&t->memory, t->n, pid_here, t);
}

int clu_job_name(task_job *j, const char *label) {
  job_facts *f = clu_facts_new(j->number, j->n, label);
  if (!f) return CLU_NOMEM;
  clu_facts_unref(j->facts);
  j->facts = f;
  return CLU_OK;
}

void clu_tasks_take_endings(tasks *t) {
  clu_ended x;
  while (clu_sched_ended(t->sched, &x)) {
    uint64_t now = clu_os_now();
    task_record r = {.began = now, .received = now};
    clu_job_finish(x.user, now);
    clu_job_fail(x.user, &x);
    r.end = clu_task_end(&x, 0);
    clu_tasks_remember(t, x.user, &x, &r);
    clu_job_tell(x.user);
  }
}

int clu_job_is_incomplete(const task_job *j) {
  return j->out_of_memory || (j->job && clu_job_out_of_memory(j->job));
}

/* ---- who waits while R is idle ---- */

int clu_job_await(task_job *j) {
  tasks *t = j->tasks;
  if (!t || j->awaited) return CLU_OK;
  if (t->news.n + t->news.nawaited == t->news.cap) {
    size_t cap = t->news.cap ? 2 * t->news.cap : 16;
    uint64_t *more = realloc(t->news.ended, cap * sizeof *more);
    if (!more) return CLU_NOMEM;
    t->news.ended = more;
    t->news.cap = cap;
  }
  j->awaited = 1;
  t->news.nawaited++;
  return CLU_OK;
}

static void tell_ended(task_job *j) {
  tasks *t = j->tasks;
  j->awaited = 0;
  t->news.nawaited--;
  t->news.ended[t->news.n++] = j->number;
  clu_wake();
}

void clu_job_tell(task_job *j) {
  if (j->awaited && clu_job_left(j->job) == 0) tell_ended(j);
}

void clu_tasks_tell_all(tasks *t) {
  t->news.tell_all = 1;
  clu_wake();
}

/* ---- the end of a job ---- */

void clu_job_detach(task_job *j) {
  tasks *t = j->tasks;
  if (!t) return;
  if (j->prev)
    j->prev->next = j->next;
  else
    t->jobs.first = j->next;
  if (j->next) j->next->prev = j->prev;
  t->jobs.n--;
  t->jobs.nmaps -= !j->bare;
  t->limits.njobs -= j->max_memory > 0;
  if (!j->is_hearing) t->jobs.unheard -= j->unheard;
  clu_job_uncount(j);
  if (j->awaited) tell_ended(j);
  if (!j->finished) clu_job_finish(j, clu_os_now());
  clu_view_job_ends(t->view, j->shown, j->number, j->finished);
  clu_job_free(t->sched, j->job, clu_os_now());
  j->tasks = NULL;
  j->job = NULL;
}

static void job_free(task_job *j) {
  drop_results(&j->results);
  drop_results(&j->relays);
  clu_blob_unref(j->ring_results);
  clu_blob_unref(j->message);
  clu_facts_unref(j->facts);
  free(j->spec.only);
  free(j->sent_to);
  free(j->ended);
  for (size_t i = 0; i < j->nfailures; i++) clu_blob_unref(j->failures[i].stack);
  free(j->failures);
  free(j);
}

void clu_job_release(task_job *j) {
  j->tasks = NULL;
  j->job = NULL;
  j->finalized = 1;
  if (j->pins == 0) job_free(j);
}

void clu_job_unpin(task_job *j) {
  if (--j->pins == 0 && j->finalized) job_free(j);
}

void clu_tasks_free(tasks *t) {
  if (!t) return;
  for (task_job *j = t->jobs.first; j; j = j->next) {
    j->tasks = NULL;
    j->job = NULL;
  }
  clu_sched_free(t->sched);
  free(t->nodes);
  free(t->deaths.list);
  free(t->notes.list);
  free(t->news.ended);
  clu_trace_free(&t->trace);
  clu_memory_free(&t->memory);
  clu_view_unref(t->view);
  free(t);
}

int clu_tasks_share(const tasks *t) {
  int any = 0;
  for (int i = 0; i < t->n; i++) {
    const clu_node *nd = clu_tasks_known_node(t, i);
    if (nd && !clu_node_takes_segments(nd)) return 0;
    any |= nd != NULL;
  }
  return any;
}
