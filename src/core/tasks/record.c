/* What is recorded of tasks in the journal of their job. A record has the bytes that the node has
 * sent; it is appended as soon as they have come, by whoever reads them. */
#include <stdlib.h>
#include <string.h>

#include "core/base/rng-stream.h"
#include "core/tasks/engine-private.h"
#include "core/wire/task-message.h"

int clu_task_job_record(clu_task_job *j, clu_journal *file, unsigned char *keys,
                        unsigned char *done, const clu_task_recorded *as) {
  clu_recording *r = calloc(1, sizeof *r);
  if (r) r->streams = calloc((size_t)j->nsent_to + 1, sizeof *r->streams);
  if (!r || !r->streams) {
    free(r);
    free(keys);
    free(done);
    return CLU_NOMEM;
  }
  r->file = clu_journal_ref(file);
  r->keys = keys;
  r->done = done;
  r->as = *as;
  r->nodes = j->nsent_to;
  j->recording = r;
  for (uint64_t i = 0; i < j->n; i++) j->ended[i] = done[i] != 0;
  return CLU_OK;
}

/* No stream begins with such a number: they are below 2^32 - 209. */
void clu_task_place(uint32_t out[6], const clu_task_recorded *as, uint64_t task) {
  uint64_t at = as->first + task;
  memset(out, 0, 6 * sizeof *out);
  out[0] = UINT32_MAX;
  out[1] = as->run;
  out[2] = (uint32_t)at;
  out[3] = (uint32_t)(at >> 32);
}

void clu_recording_free(clu_recording *r) {
  if (!r) return;
  clu_journal_unref(r->file);
  free(r->keys);
  free(r->done);
  free(r->streams);
  free(r);
}

/* The stream of a task. Tasks of a node come in their order, mostly. */
static const uint32_t *stream_of(clu_task_job *j, uint64_t task, int node) {
  struct clu_recorded_stream *s;
  s = &j->recording->streams[node >= 0 && node < j->recording->nodes ? node : 0];
  if (!s->task || s->task - 1 > task) {
    memcpy(s->seed, j->seed, sizeof s->seed);
    s->task = 1;
  }
  clu_stream_jump(s->seed, task - (s->task - 1));
  s->task = task + 1;
  return s->seed;
}

static void fill(clu_record *r, clu_task_job *j, const clu_ended *x, uint32_t flags) {
  memset(r, 0, sizeof *r);
  memcpy(r->key, j->recording->keys + CLU_HASH * x->task, CLU_HASH);
  if ((flags & CLU_RESULT_DREW) || j->recording->as.draws) {
    uint32_t place[6];
    r->flags = CLU_RECORD_DREW;
    if (!j->seeded) clu_task_place(place, &j->recording->as, x->task);
    clu_record_key_of_stream(r->key, j->seeded ? stream_of(j, x->task, x->node) : place);
  }
  r->element = (uint32_t)(j->recording->as.first + x->task + 1);
  r->attempt = (uint8_t)(x->attempt > UINT8_MAX ? UINT8_MAX : x->attempt);
  r->node = (uint16_t)(x->node + 1);
  r->job = (uint16_t)j->recording->as.number;
}

void clu_task_job_record_result(clu_task_job *j, const clu_ended *x, uint32_t flags, uint64_t took,
                                const unsigned char *p, size_t n) {
  const clu_journal_head *head = clu_journal_head_of(j->recording->file);
  clu_record r;
  fill(&r, j, x, flags);
  r.kind = flags & CLU_RESULT_ERROR ? CLU_RECORD_ERROR : CLU_RECORD_VALUE;
  if (flags & CLU_RESULT_LOG) r.flags |= CLU_RECORD_LOG;
  r.seconds = (float)(1e-9 * (double)took);
  if (!(flags & CLU_RESULT_BARE)) {
    size_t skip = clu_record_r_header(head, p, n);
    if (skip == 0) r.flags |= CLU_RECORD_HEADED;
    p += skip;
    n -= skip;
  }
  r.size = n;
  clu_journal_add(j->recording->file, &r, p);
}

void clu_task_job_record_end(clu_task_job *j, const clu_ended *x) {
  clu_record r;
  if (!j->recording || (x->why != CLU_END_DIED && x->why != CLU_END_TIMEOUT) || x->attempt == 0)
    return;
  fill(&r, j, x, 0);
  r.kind = CLU_RECORD_ERROR;
  r.flags |= x->why == CLU_END_DIED ? CLU_RECORD_DIED : CLU_RECORD_TIMEOUT;
  clu_journal_add(j->recording->file, &r, NULL);
}

int64_t clu_engine_flush_journals(clu_engine *t, int64_t wait) {
  uint64_t now = clu_os_now();
  for (const clu_task_job *j = t->jobs.first; j; j = j->next) {
    int64_t left = j->recording ? clu_journal_tick(j->recording->file, now) : INT64_MAX;
    if (left < wait) wait = left;
  }
  return wait;
}

void clu_task_job_flush_journal(clu_task_job *j) { clu_journal_flush(j->recording->file); }
