/* Notes, and news of awaited jobs: the thread may find these out, and the caller is told later. */
#include <stdlib.h>

#include "core/base/grow.h"
#include "core/tasks/engine-private.h"
#include "core/tasks/wake.h"

#define MOST_NOTES 4096
#define MEMORY_EVERY 20000000 /* ns between two looks at the memory of nodes */

/* ---- notes ---- */

static int reserve_note(clu_engine *t) {
  clu_note *more;
  if (t->notes.n >= MOST_NOTES) return 0;
  more = clu_grow(t->notes.list, &t->notes.cap, t->notes.n + 1, sizeof *more);
  if (more) t->notes.list = more;
  return more != NULL;
}

void clu_engine_note(clu_engine *t, int what, int node, const clu_task_job *j, uint64_t task,
                     uint32_t attempt) {
  clu_note *x;
  if (!reserve_note(t)) return;
  x = &t->notes.list[t->notes.n++];
  x->what = what;
  x->node = node;
  x->job = j ? j->number : 0;
  x->element = j ? clu_task_job_element(j, task) : 0;
  x->attempt = attempt;
  x->at = clu_os_now();
}

const clu_note *clu_engine_notes(const clu_engine *t, size_t *n) {
  *n = t->notes.n;
  return t->notes.list;
}

void clu_engine_notes_told(clu_engine *t) { t->notes.n = 0; }

uint64_t clu_task_job_element(const clu_task_job *j, uint64_t task) {
  return j->bare ? 0 : task + 1;
}

/* ---- news for who waits while the caller is idle ---- */

/* Room for its number is made now, so that nothing can fail when it ends. */
int clu_task_job_await(clu_task_job *j) {
  clu_engine *t = j->engine;
  uint64_t *more;
  if (!t || j->awaited) return CLU_OK;
  more = clu_grow(t->news.ended, &t->news.cap, t->news.n + t->news.nawaited + 1, sizeof *more);
  if (!more) return CLU_NOMEM;
  t->news.ended = more;
  j->awaited = 1;
  t->news.nawaited++;
  clu_task_job_tell(j);
  return CLU_OK;
}

static void tell_ended(clu_task_job *j) {
  clu_engine *t = j->engine;
  j->awaited = 0;
  t->news.nawaited--;
  t->news.ended[t->news.n++] = j->number;
  clu_wake();
}

void clu_task_job_tell(clu_task_job *j) {
  if (j->awaited && clu_job_left(j->job) == 0) tell_ended(j);
}

void clu_task_job_tell_closed(clu_task_job *j) {
  if (j->awaited) tell_ended(j);
}

void clu_engine_tell_all(clu_engine *t) {
  t->news.tell_all = 1;
  clu_wake();
}

const uint64_t *clu_engine_news(const clu_engine *t, size_t *n, int *all) {
  *n = t->news.n;
  *all = t->news.tell_all;
  return t->news.ended;
}

void clu_engine_news_told(clu_engine *t) { t->news.n = t->news.tell_all = 0; }

static int has_unlimited(const clu_engine *t) {
  for (int i = 0; i < t->n; i++) {
    const clu_node *nd = clu_engine_node(t, i);
    if (nd && !clu_node_limits_memory(nd)) return 1;
  }
  return 0;
}

int64_t clu_engine_idle_wait(const clu_engine *t) {
  int64_t wait = (int64_t)clu_sched_wait(t->sched, clu_os_now(), (uint64_t)INT64_MAX);
  wait = clu_loop_until_timer(clu_session_loop(t->all->session), wait);
  wait = clu_engines_room_wait(t->all, clu_os_now(), wait);
  if (wait > MEMORY_EVERY && t->limits.bytes > 0 && has_unlimited(t)) wait = MEMORY_EVERY;
  return wait;
}

void clu_engine_notes_free(clu_engine *t) {
  free(t->notes.list);
  free(t->news.ended);
}
