/* The life of a job: made, begun, given up, closed, freed. */
#include <stdlib.h>
#include <string.h>

#include "core/tasks/engine-private.h"

/* Zeroed, for `n` tasks and this many nodes; NULL without memory. */
static clu_task_job *job_alloc(uint64_t n, int nodes) {
  clu_task_job *j = calloc(1, sizeof *j);
  if (!j) return NULL;
  j->n = n;
  j->nsent_to = nodes;
  j->sent_to = calloc((size_t)nodes + 1, sizeof *j->sent_to);
  j->ended = calloc((size_t)n + 1, 1);
  if (!j->sent_to || !j->ended) {
    clu_task_job_forget(j);
    return NULL;
  }
  return j;
}

/* Fills in what the scheduler is told of it. CLU_OK or CLU_NOMEM. */
static int fill_spec(clu_task_job *j, const clu_task_spec *spec) {
  clu_job_spec *s = &j->spec;
  s->n = j->n;
  s->retries = spec->retries;
  s->chunk = spec->chunk;
  s->timeout_ns = spec->timeout_ns;
  s->priority = spec->priority;
  s->user = j;
  s->needs_caller = !j->bare; /* its elements are the caller's */
  if (!spec->only) return CLU_OK;
  s->nonly = j->nsent_to;
  s->only = calloc((size_t)s->nonly, 1);
  if (!s->only) return CLU_NOMEM;
  for (size_t i = 0; i < spec->nonly; i++) {
    int node = spec->only[i];
    if (node >= 1 && node <= s->nonly) s->only[node - 1] = 1;
  }
  return CLU_OK;
}

/* A limit of more than the machine has is none. */
static double usable_limit(double bytes) {
  double total;
  if (bytes <= 0) return 0;
  total = (double)clu_os_total_memory();
  return bytes > (total > 0 ? total : 9e18) ? 0 : bytes;
}

clu_task_job *clu_task_job_new(clu_engine *t, const clu_task_spec *spec, clu_blob *message,
                               void *caller) {
  clu_task_job *j = job_alloc(spec->n, t->n);
  if (j) j->bare = spec->bare;
  if (!j || fill_spec(j, spec) != CLU_OK || clu_task_job_copy_needs(j, spec) != CLU_OK) {
    if (j) clu_task_job_forget(j);
    clu_blob_unref(message);
    return NULL;
  }
  j->message = message;
  j->caller = caller;
  j->max_memory = usable_limit(spec->max_memory);
  if (spec->seed) clu_task_job_seed(j, spec->seed);
  j->number = ++t->jobs.numbers;
  j->name = t->jobs.names + j->number;
  return j;
}

const uint32_t *clu_task_job_stream(const clu_task_job *j) { return j->seeded ? j->seed : NULL; }

void clu_task_job_seed(clu_task_job *j, const uint32_t seed[6]) {
  memcpy(j->seed, seed, sizeof j->seed);
  j->seeded = 1;
}

int clu_task_job_begin(clu_engine *t, clu_task_job *j) {
  if (!j->facts && clu_task_job_name(j, "") != CLU_OK) return CLU_NOMEM;
  if (j->recording) j->spec.done = j->recording->done;
  j->job = clu_job_new(t->sched, &j->spec);
  j->spec.done = NULL;
  if (!j->job) return CLU_NOMEM;
  j->spec.only = NULL; /* the scheduler has it */
  clu_task_job_drop_needs(j);
  j->engine = t;
  j->next = t->jobs.first;
  if (j->next) j->next->prev = j;
  t->jobs.first = j;
  t->jobs.n++;
  t->jobs.nmaps += !j->bare;
  t->jobs.nrecorded += j->recording != NULL;
  t->jobs.nsaid += (size_t)j->says_memory;
  if (j->says_memory) t->all->room.due = 1; /* before anything of it is handed out */
  t->limits.njobs += j->max_memory > 0;
  clu_task_job_count(j);
  clu_task_job_hold(j);
  j->facts->begun = clu_os_now();
  j->shown = clu_view_job_begins(t->view, j->number, j->n, j->facts->begun);
  clu_view_job_label(t->view, j->shown, j->number, clu_task_job_label(j));
  if (j->given.lacks) clu_task_job_fail_pending(j, CLU_CAUSE_NEEDED);
  return CLU_OK;
}

void clu_task_job_fail_before(clu_task_job *j, uint64_t task, uint32_t attempt) {
  clu_ended x = {.why = CLU_END_ANSWER, .user = j, .task = task, .node = -1, .attempt = attempt};
  clu_task_job_fail(j, &x);
}

int clu_task_job_cancel(clu_task_job *j) {
  clu_engine *t = j->engine;
  int busy;
  if (!t) return 0;
  busy = clu_job_left(j->job) > 0;
  clu_job_cancel(t->sched, j->job, clu_os_now());
  clu_engine_act(t, 0);
  return busy;
}

void clu_task_job_fail_pending(clu_task_job *j, int cause) {
  if (!j->engine) return;
  clu_job_fail_pending(j->engine->sched, j->job, cause);
  clu_engine_take_endings(j->engine);
}

void clu_task_job_close(clu_task_job *j) {
  clu_engine *t = j->engine;
  if (!t) return;
  clu_task_job_send_end(t, j);
  clu_task_job_detach(j);
  clu_engine_limit_memory(t);
}

void clu_task_job_release(clu_task_job *j) {
  clu_engine *t = j->engine;
  if (t) {
    clu_task_job_detach(j);
    clu_engine_act(t, 0); /* who is at it is interrupted */
    clu_task_job_send_end(t, j);
  }
  clu_recording_free(j->recording); /* it has never begun */
  j->recording = NULL;
  clu_task_job_forget(j);
}
