/* Jobs: what is queued of them, how their tasks ended, their end. */
#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/tasks/engine-private.h"

void clu_task_node_kill(clu_node *nd, clu_task_node *at, int why) {
  if (at->killed) return;
  at->killed = why;
  clu_node_stop(nd, 0);
}

/* ---- queued results ---- */

int clu_queue_push(clu_queue *q, uint64_t task, uint32_t flags, clu_blob *body) {
  clu_queued *x = malloc(sizeof *x);
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

int clu_queue_take(clu_queue *q, clu_queued *out) {
  clu_queued *x = q->first;
  if (!x) return 0;
  *out = *x;
  q->first = x->next;
  if (!q->first) q->last = NULL;
  free(x);
  return 1;
}

static void drop_results(clu_queue *q) {
  clu_queued x;
  while (clu_queue_take(q, &x)) clu_blob_unref(x.body);
}

/* ---- how tasks ended ---- */

static int any_has_open(const clu_engines *all) {
  for (const clu_engine *t = all->first; t; t = t->next)
    if (clu_engine_has_open(t)) return 1;
  return 0;
}

/* Where other sessions are told that this one is at work, its last task has them told that it is
 * not: the next look at memory does so. */
void clu_task_job_finish(clu_task_job *j, uint64_t at) {
  clu_engines *all = j->engine->all;
  if (at > j->finished) j->finished = at;
  if (all->room.counted && !any_has_open(all)) all->room.due = 1;
}

void clu_task_job_fail_takers(clu_task_job *from) {
  clu_task_job *j;
  while ((j = clu_task_job_next_taker(from))) {
    if (!j->job) continue;
    clu_job_fail_pending(j->engine->sched, j->job, CLU_CAUSE_NEEDED);
    clu_engine_take_endings(j->engine);
  }
}

void clu_task_job_fail(clu_task_job *j, const clu_ended *x) {
  clu_task_failure *f;
  clu_task_job_fail_takers(j);
  clu_task_failure *more = clu_grow(j->failures, &j->capfailures, j->nfailures + 1, sizeof *more);
  clu_task_job_uncount(j);
  if (x->why == CLU_END_TIMEOUT && j->engine)
    clu_engine_note(j->engine, CLU_NOTE_LIMIT, x->node, j, x->task, x->attempt);
  if (!more) {
    /* R is told: an element without a value must not look like one whose value is NULL */
    j->out_of_memory = 1;
    return;
  }
  j->failures = more;
  f = &j->failures[j->nfailures++];
  j->ended[x->task] = 2;
  f->task = x->task;
  f->why = x->why;
  f->cause = x->cause;
  f->node = x->node;
  f->attempt = x->attempt;
  f->stack = NULL;
}

int clu_task_end_of(const clu_ended *x, int is_error) {
  switch (x->why) {
  case CLU_END_DIED: return CLU_TASK_DIED;
  case CLU_END_TIMEOUT: return CLU_TASK_TIMED_OUT;
  case CLU_END_CANCELLED: return CLU_TASK_CANCELLED;
  default: return is_error ? CLU_TASK_ERROR : CLU_TASK_OK;
  }
}

void clu_engine_remember(clu_engine *t, const clu_task_job *j, const clu_ended *x,
                         const clu_task_record *r) {
  clu_view_end end = {j->number, x->task,  r->began, r->took,
                      r->bytes,  j->shown, x->node,  r->end == CLU_TASK_OK,
                      x->attempt};
  clu_task_record *to = clu_trace_next(&t->trace, j->facts);
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

int clu_task_job_name(clu_task_job *j, const char *label) {
  clu_job_facts *f = clu_facts_new(j->number, j->n, label);
  if (!f) return CLU_NOMEM;
  clu_facts_unref(j->facts);
  j->facts = f;
  return CLU_OK;
}

/* A task that has failed ends those that need its value, and so do these in turn. That is no
 * recursion, which would need a stack as deep as the chain of such tasks is long: what they add is
 * taken by who is at it already. */
void clu_engine_take_endings(clu_engine *t) {
  clu_ended x;
  if (t->jobs.takes_endings) return;
  t->jobs.takes_endings = 1;
  while (clu_sched_ended(t->sched, &x)) {
    uint64_t now = clu_os_now();
    clu_task_record r = {.began = now, .received = now};
    if (x.cause == CLU_CAUSE_NEEDED) x.why = CLU_END_CANCELLED; /* as the one that it needs */
    clu_task_job_finish(x.user, now);
    clu_task_job_record_end(x.user, &x);
    clu_task_job_fail(x.user, &x);
    r.end = clu_task_end_of(&x, 0);
    clu_engine_remember(t, x.user, &x, &r);
    clu_task_job_tell(x.user);
  }
  t->jobs.takes_endings = 0;
}

int clu_task_job_is_incomplete(const clu_task_job *j) {
  return j->out_of_memory || (j->job && clu_job_out_of_memory(j->job));
}

/* ---- the end of a job ---- */

void clu_task_job_detach(clu_task_job *j) {
  clu_engine *t = j->engine;
  if (!t) return;
  if (j->prev)
    j->prev->next = j->next;
  else
    t->jobs.first = j->next;
  if (j->next) j->next->prev = j->prev;
  t->jobs.n--;
  t->jobs.nmaps -= !j->bare;
  t->jobs.nrecorded -= j->recording != NULL;
  t->jobs.nsaid -= (size_t)j->says_memory;
  clu_recording_free(j->recording);
  j->recording = NULL;
  t->limits.njobs -= j->max_memory > 0;
  if (!j->is_hearing) t->jobs.unheard -= j->unheard;
  clu_task_job_uncount(j);
  clu_task_job_take_nothing(j);
  clu_task_job_tell_closed(j);
  if (!j->finished) clu_task_job_finish(j, clu_os_now());
  clu_view_job_ends(t->view, j->shown, j->number, j->finished);
  clu_job_free(t->sched, j->job, clu_os_now());
  j->engine = NULL;
  j->job = NULL;
  clu_task_job_fail_takers(j);
}

static void job_free(clu_task_job *j) {
  drop_results(&j->results);
  drop_results(&j->relays);
  clu_blob_unref(j->ring_results);
  clu_blob_unref(j->message);
  clu_facts_unref(j->facts);
  clu_recording_free(j->recording);
  free(j->spec.only);
  clu_task_job_order_free(j);
  clu_task_job_given_free(j);
  clu_task_job_drop_needs(j);
  free(j->sent_to);
  free(j->ended);
  for (size_t i = 0; i < j->nfailures; i++) clu_blob_unref(j->failures[i].stack);
  free(j->failures);
  free(j);
}

void clu_task_job_forget(clu_task_job *j) {
  if (j->recording) j->recording->file = NULL; /* another process has it */
  j->engine = NULL;
  j->job = NULL;
  j->released = 1;
  if (j->pins == 0) job_free(j);
}

void clu_task_job_unpin(clu_task_job *j) {
  if (--j->pins == 0 && j->released) job_free(j);
}

/* ---- what is asked of a job ---- */

clu_engine *clu_task_job_engine(const clu_task_job *j) { return j->engine; }
void *clu_task_job_caller(const clu_task_job *j) { return j->caller; }
uint64_t clu_task_job_number(const clu_task_job *j) { return j->number; }
uint64_t clu_task_job_size(const clu_task_job *j) { return j->n; }
const char *clu_task_job_label(const clu_task_job *j) { return j->facts ? j->facts->label : ""; }
uint64_t clu_task_job_finished(const clu_task_job *j) { return j->finished; }
size_t clu_task_job_message_size(const clu_task_job *j) {
  return j->message ? j->message->size : 0;
}
size_t clu_task_job_message_weight(const clu_task_job *j) {
  return j->message ? clu_blob_weight(j->message) : 0;
}

clu_task_counts clu_task_job_counts(const clu_task_job *j) {
  clu_task_counts c = {.answered = j->answered, .bytes_in = j->bytes_in, .failures = j->nfailures};
  if (j->facts) c.bytes_out = j->facts->bytes_out;
  if (!j->job) return c;
  c.left = clu_job_left(j->job);
  c.waiting = clu_job_waiting(j->job);
  c.time_ns = clu_job_time(j->job);
  return c;
}

void clu_task_job_has_value(clu_task_job *j, uint64_t task) { j->ended[task] |= 1; }
int clu_task_job_has_ended(const clu_task_job *j, uint64_t task) { return j->ended[task]; }

int clu_task_job_has_failed(const clu_task_job *j, uint64_t task) { return j->ended[task] & 2; }

uint64_t clu_task_job_ready(clu_task_job *j) {
  while (j->ready < j->n && j->ended[j->ready]) j->ready++;
  return j->ready;
}

const clu_task_failure *clu_task_job_failures(const clu_task_job *j, size_t *n) {
  *n = j->nfailures;
  return j->failures;
}

/* ---- live output and conditions ---- */

static void count_heard(clu_task_job *j) {
  if (j->unheard == 0) return;
  j->unheard--;
  if (j->engine && !j->is_hearing) j->engine->jobs.unheard--;
}

int clu_task_job_next_relay(clu_task_job *j, uint64_t *task, clu_blob **body) {
  clu_queued x;
  if (!clu_queue_take(&j->relays, &x)) return 0;
  count_heard(j);
  *task = x.task;
  *body = x.body;
  return 1;
}

int clu_task_job_has_relay(const clu_task_job *j) { return j->relays.first != NULL; }
void clu_task_job_hear(clu_task_job *j) { j->is_heard = 1; }

void clu_task_job_hearing(clu_task_job *j, int now) {
  if (now == j->is_hearing) return;
  j->is_hearing = now;
  if (j->engine && now) j->engine->jobs.unheard -= j->unheard;
  if (j->engine && !now) j->engine->jobs.unheard += j->unheard;
}

clu_task_job *clu_engine_next_unheard(const clu_engine *t, const clu_task_job *j) {
  clu_task_job *next = j ? j->next : t->jobs.first;
  while (next && (next->unheard == 0 || next->is_hearing)) next = next->next;
  return next;
}

/* ---- all of them ---- */

uint64_t clu_engine_open(const clu_engine *t) {
  uint64_t n = 0;
  for (const clu_task_job *j = t->jobs.first; j; j = j->next) n += clu_job_left(j->job);
  return n;
}

int clu_engine_has_open(const clu_engine *t) {
  for (const clu_task_job *j = t->jobs.first; j; j = j->next)
    if (clu_job_left(j->job) > 0) return 1;
  return 0;
}

size_t clu_engine_jobs(const clu_engine *t) { return t->jobs.n; }

uint64_t clu_engine_open_since(const clu_engine *t) {
  uint64_t since = 0;
  for (const clu_task_job *j = t->jobs.first; j; j = j->next)
    if (clu_job_left(j->job) > 0 && (!since || j->facts->begun < since)) since = j->facts->begun;
  return since;
}
