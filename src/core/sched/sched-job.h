/* A job and its tasks change here: they wait, wait again, or end without an answer. Knows
 * nothing of what nodes have.
 *
 * Nothing here fails: a task for which there is no memory ends as CLU_END_DIED, an ending for which
 * there is none is remembered as the job's out_of_memory.
 */
#ifndef CLUTCH_SCHED_JOB_H
#define CLUTCH_SCHED_JOB_H

#include "core/sched/sched-state.h"

/* Its place among those of its group that have tasks which may leave, or none there: as its pending
 * tasks say. */
void clu_sched_job_move(clu_sched *s, clu_job *j);
static inline void clu_sched_job_enlist(clu_sched *s, clu_job *j) {
  if (clu_list_has(&j->waiting) != clu_pending_offers(&j->pending)) clu_sched_job_move(s, j);
}
/* The group for a job like this, whose flags belong to it then; NULL without memory. */
clu_group *clu_sched_group(clu_sched *s, const clu_job_spec *spec);
/* Copies what its tasks ask for. CLU_OK or CLU_NOMEM. */
int clu_sched_job_copy_needs(clu_job *j, const clu_job_spec *spec);
void clu_sched_job_drop(clu_job *j);
/* One batch less is with nodes: of a job that was freed meanwhile it was perhaps the last. */
static inline void clu_sched_job_release(clu_job *j) {
  if (--j->batches == 0 && j->freed) clu_sched_job_drop(j);
}

static inline void clu_sched_fill_ended(clu_ended *x, int why, clu_job *j, uint64_t task, int node,
                                        uint32_t attempt) {
  x->why = why;
  x->user = j->spec.user;
  x->job = j;
  x->task = task;
  x->node = node;
  x->attempt = attempt;
  x->cause = 0;
  x->sent = 0;
}
/* A task ends without an answer. */
void clu_sched_end_without(clu_sched *s, int why, clu_job *j, uint64_t task, int node,
                           uint32_t attempt, int cause);
/* Tasks that were not begun wait again. */
void clu_sched_wait_again(clu_sched *s, clu_job *j, uint64_t first, uint64_t n);
/* A task whose start number `attempt` has ended with a death is to be tried again, not at node
 * `last`. */
void clu_sched_retry(clu_sched *s, clu_job *j, uint64_t task, int last, uint32_t attempt,
                     int cause);
/* Nothing of it waits any more; what waited ends, if `cause` is not NULL. */
void clu_sched_clear_pending(clu_sched *s, clu_job *j, const int *cause);

#endif
