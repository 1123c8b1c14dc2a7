/* Values of tasks that are arguments of others. The bytes of a result are handed on as they have
 * come, and never become an R object of the session for that: a task (here: the taker) waits until
 * it has all that it needs, and they leave with its JOB message. Where the task that it waits for
 * has failed, was cancelled or is closed without a value, it ends, too. */
#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/tasks/engine-private.h"
#include "core/wire/task-message.h"

/* One more of what the taker needs: its place in the list; NULL without memory. */
static clu_given *add_given(clu_task_job *j) {
  size_t n = j->given.n;
  clu_given *more = clu_grow(j->given.list, &j->given.cap, n + 1, sizeof *more);
  if (!more) return NULL;
  j->given.list = more;
  memset(&more[n], 0, sizeof *more);
  j->given.n++;
  return &more[n];
}

static int add_taker(clu_task_job *from, clu_task_job *taker) {
  clu_task_job **more =
      clu_grow(from->given.takers, &from->given.captakers, from->given.ntakers + 1, sizeof *more);
  if (!more) return CLU_NOMEM;
  from->given.takers = more;
  more[from->given.ntakers++] = taker;
  return CLU_OK;
}

int clu_task_job_give(clu_task_job *j, clu_blob *body) {
  clu_given *g = add_given(j);
  if (!g) return CLU_NOMEM;
  g->body = clu_blob_ref(body);
  return CLU_OK;
}

int clu_task_job_await_value(clu_task_job *j, clu_task_job *from) {
  clu_given *g;
  if (!from->engine || from->n != 1 || clu_job_left(from->job) == 0) return CLU_DEAD;
  if (!(g = add_given(j))) return CLU_NOMEM;
  if (add_taker(from, j) != CLU_OK) {
    j->given.n--;
    return CLU_NOMEM;
  }
  g->from = from;
  j->given.missing++;
  return CLU_OK;
}

void clu_task_job_lacks(clu_task_job *j) { j->given.lacks = 1; }

void clu_task_job_hold(clu_task_job *j) {
  if (j->given.missing == 0) return;
  clu_job_until(j->engine->sched, j->job, 0);
  j->given.held = 1;
  j->engine->jobs.nheld++;
}

static void unhold(clu_task_job *j) {
  if (!j->given.held) return;
  j->given.held = 0;
  if (j->engine) j->engine->jobs.nheld--;
}

/* A segment that can be handed on. One that came and is mapped has no descriptor any more. */
static clu_segment *with_descriptor(clu_segment *s) {
  clu_segment *copy;
  const unsigned char *bytes = clu_segment_bytes(s, NULL);
  if (clu_segment_fd(s) != CLU_NO_FD) return clu_segment_ref(s);
  if (!bytes || !(copy = clu_segment_new())) return NULL;
  if (clu_segment_append(copy, bytes, (size_t)clu_segment_size(s)) == CLU_OK &&
      clu_segment_seal(copy) == CLU_OK)
    return copy;
  clu_segment_unref(copy);
  return NULL;
}

/* The same bytes, with segments that can be sent; NULL: there is no memory. */
static clu_blob *to_hand_on(clu_blob *b) {
  clu_blob *out;
  if (!b->segments) return clu_blob_ref(b);
  out = clu_blob_new(b->size);
  if (!out) return NULL;
  clu_blob_append(out, b->data, b->size); /* there is room */
  for (int i = 0; i < b->segments->n; i++) {
    clu_segment *s = with_descriptor(b->segments->of[i]);
    if (s && clu_blob_attach(out, s) >= 0) continue;
    clu_segment_unref(s);
    clu_blob_unref(out);
    return NULL;
  }
  return out;
}

int clu_task_job_hand_on(clu_task_job *from, clu_blob *body) {
  clu_blob *b;
  if (from->given.ntakers == 0) return CLU_OK;
  if (!(b = to_hand_on(body))) return CLU_NOMEM;
  while (from->given.ntakers > 0) {
    clu_task_job *j = from->given.takers[--from->given.ntakers];
    for (size_t k = 0; k < j->given.n; k++) {
      clu_given *g = &j->given.list[k];
      if (g->from != from) continue;
      g->from = NULL;
      g->body = clu_blob_ref(b);
      j->given.missing--;
      break; /* the same task may be two of its arguments: it is two of the takers */
    }
    if (j->given.missing > 0) continue;
    unhold(j);
    if (j->job) clu_job_until(j->engine->sched, j->job, UINT64_MAX);
  }
  clu_blob_unref(b);
  return CLU_OK;
}

int clu_task_job_hand_on_bytes(clu_task_job *from, uint32_t flags, const unsigned char *p,
                               size_t n) {
  unsigned char head[CLU_RESULT_HEAD] = {0};
  clu_blob *b;
  int rc;
  if (from->given.ntakers == 0) return CLU_OK;
  b = clu_blob_new(sizeof head + n);
  if (!b) return CLU_NOMEM;
  clu_put32(head, flags);
  clu_blob_append(b, head, sizeof head); /* there is room */
  clu_blob_append(b, p, n);
  rc = clu_task_job_hand_on(from, b);
  clu_blob_unref(b);
  return rc;
}

clu_task_job *clu_task_job_next_taker(clu_task_job *from) {
  clu_task_job *j;
  if (from->given.ntakers == 0) return NULL;
  j = from->given.takers[--from->given.ntakers];
  for (size_t k = 0; k < j->given.n; k++)
    if (j->given.list[k].from == from) {
      j->given.list[k].from = NULL;
      break;
    }
  j->given.lacks = 1;
  unhold(j);
  return j;
}

/* It takes nothing any more of that one. */
static void leave(clu_task_job *j, clu_task_job *from) {
  size_t n = 0;
  for (size_t k = 0; k < from->given.ntakers; k++)
    if (from->given.takers[k] != j) from->given.takers[n++] = from->given.takers[k];
  from->given.ntakers = n;
}

void clu_task_job_take_nothing(clu_task_job *j) {
  unhold(j);
  for (size_t k = 0; k < j->given.n; k++) {
    if (j->given.list[k].from) leave(j, j->given.list[k].from);
    clu_blob_unref(j->given.list[k].body);
  }
  free(j->given.list);
  j->given.list = NULL;
  j->given.n = j->given.cap = j->given.missing = 0;
}

void clu_task_job_given_free(clu_task_job *j) {
  clu_task_job_take_nothing(j);
  while (clu_task_job_next_taker(j)) continue;
  free(j->given.takers);
  j->given.takers = NULL;
  j->given.captakers = 0;
}
