#include "core/sched/sched-job.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

/* They are served in the order in which they came: a job that waits again goes where it was. */
void clu_sched_job_move(clu_sched *s, clu_job *j) {
  clu_list *list = &j->group->waiting, *after;
  if (clu_list_has(&j->waiting)) {
    clu_list_remove(&j->waiting);
    s->waiting--;
    s->waiting_alone -= !j->group->needs_caller;
    return;
  }
  after = list->prev;
  while (after != list && CLU_LIST_MEMBER(after, clu_job, waiting)->id > j->id) after = after->prev;
  clu_list_insert(after, &j->waiting);
  s->waiting++;
  s->waiting_alone += !j->group->needs_caller;
}

static int is_group_of(const clu_group *g, const unsigned char *only, int nonly) {
  if (!only || !g->only) return !only && !g->only;
  return g->nonly == nonly && memcmp(g->only, only, (size_t)nonly) == 0;
}

/* They stay as long as the scheduler: there are about as many as ways in which its nodes are chosen
 * from. */
clu_group *clu_sched_group(clu_sched *s, unsigned char *only, int nonly, int needs_caller) {
  clu_group *g = s->groups;
  while (g && (g->needs_caller != needs_caller || !is_group_of(g, only, nonly))) g = g->next;
  if (g) {
    free(only);
    return g;
  }
  g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->only = only;
  g->nonly = nonly;
  g->needs_caller = needs_caller;
  clu_list_init(&g->waiting);
  g->next = s->groups;
  s->groups = g;
  return g;
}

void clu_sched_job_drop(clu_job *j) {
  clu_list_remove(&j->all);
  clu_pending_fini(&j->pending);
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
