#include "core/sched/sched-job.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

/* They are served by priority, and in the order in which they came: a job that waits again goes
 * where it was. */
void clu_sched_job_move(clu_sched *s, clu_job *j) {
  clu_list *list = &j->group->waiting, *after;
  if (clu_list_has(&j->waiting)) {
    clu_list_remove(&j->waiting);
    s->waiting--;
    s->waiting_alone -= !j->group->needs_caller;
    s->waiting_asks -= j->group->asks != CLU_ASKS_NOTHING;
    return;
  }
  after = list->prev;
  while (after != list && CLU_LIST_MEMBER(after, clu_job, waiting)->id > j->id) after = after->prev;
  clu_list_insert(after, &j->waiting);
  s->waiting++;
  s->waiting_alone += !j->group->needs_caller;
  s->waiting_asks += j->group->asks != CLU_ASKS_NOTHING;
}

static int is_group_of(const clu_group *g, const unsigned char *only, int nonly) {
  if (!only || !g->only) return !only && !g->only;
  return g->nonly == nonly && memcmp(g->only, only, (size_t)nonly) == 0;
}

/* Tells whether the tasks of a job ask for something, and all for the same: enum clu_asks. What
 * they say of memory makes no difference. */
static int asks_of(const clu_sched *s, const clu_job_spec *spec) {
  int any = 0, alike = 1;
  if (!s->ledger) return CLU_ASKS_NOTHING;
  for (uint32_t k = 0; k < spec->nneeds; k++) {
    any |= clu_need_asks(&spec->needs[k]);
    alike &= clu_need_is_same(&spec->needs[k], &spec->needs[0]);
  }
  if (!any) return CLU_ASKS_NOTHING;
  return alike ? CLU_ASKS_ALIKE : CLU_ASKS_VARIOUS;
}

/* They stay as long as the scheduler: there are about as many as ways in which its nodes are chosen
 * from, and things that are asked for. */
clu_group *clu_sched_group(clu_sched *s, const clu_job_spec *spec) {
  int asks = asks_of(s, spec);
  clu_group *g = s->groups;
  for (; g; g = g->next) {
    if (g->needs_caller != spec->needs_caller || g->asks != asks) continue;
    if (asks == CLU_ASKS_ALIKE && !clu_need_is_same(&g->need, &spec->needs[0])) continue;
    if (is_group_of(g, spec->only, spec->nonly)) break;
  }
  if (g) {
    free(spec->only);
    return g;
  }
  g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->only = spec->only;
  g->nonly = spec->nonly;
  g->needs_caller = spec->needs_caller;
  g->asks = asks;
  if (asks == CLU_ASKS_ALIKE) g->need = spec->needs[0];
  clu_list_init(&g->waiting);
  g->next = s->groups;
  s->groups = g;
  return g;
}

int clu_sched_job_copy_needs(clu_job *j, const clu_job_spec *spec) {
  if (spec->nneeds == 0) return CLU_OK;
  j->needs = malloc(spec->nneeds * sizeof *j->needs);
  if (!j->needs) return CLU_NOMEM;
  memcpy(j->needs, spec->needs, spec->nneeds * sizeof *j->needs);
  if (!spec->need_of) return CLU_OK;
  j->need_of = malloc((size_t)(spec->n + 1) * sizeof *j->need_of);
  if (!j->need_of) return CLU_NOMEM;
  memcpy(j->need_of, spec->need_of, (size_t)spec->n * sizeof *j->need_of);
  return CLU_OK;
}

void clu_sched_job_drop(clu_job *j) {
  clu_list_remove(&j->all);
  clu_pending_fini(&j->pending);
  free(j->needs);
  free(j->need_of);
  free(j);
}

void clu_sched_end_without(clu_sched *s, int why, clu_job *j, uint64_t task, int node,
                           uint32_t attempt, int cause) {
  clu_ended x;
  j->left--;
  clu_sched_fill_ended(&x, why, j, task, node, attempt);
  x.cause = cause;
  if (clu_fifo_push(&s->ended, &x, sizeof x) != CLU_OK) j->out_of_memory = 1;
}

void clu_sched_wait_again(clu_sched *s, clu_job *j, uint64_t first, uint64_t n) {
  if (n == 0 || j->cancelled) return;
  if (clu_pending_return(&j->pending, first, n) != CLU_OK)
    for (uint64_t k = 0; k < n; k++) clu_sched_end_without(s, CLU_END_DIED, j, first + k, -1, 0, 0);
  clu_sched_job_enlist(s, j);
}

void clu_sched_retry(clu_sched *s, clu_job *j, uint64_t task, int last, uint32_t attempt,
                     int cause) {
  if (j->cancelled) return;
  if (clu_pending_retry(&j->pending, task, attempt, last) != CLU_OK)
    clu_sched_end_without(s, CLU_END_DIED, j, task, last, attempt, cause);
  clu_sched_job_enlist(s, j);
}

void clu_sched_clear_pending(clu_sched *s, clu_job *j, const int *cause) {
  clu_taken x;
  j->pending.until = UINT64_MAX;
  while (cause && clu_pending_take(&j->pending, UINT32_MAX, -1, &x))
    for (uint32_t k = 0; k < x.n; k++)
      clu_sched_end_without(s, CLU_END_DIED, j, x.first + k, x.last, x.attempt - 1, *cause);
  clu_pending_clear(&j->pending);
  clu_sched_job_enlist(s, j);
}
