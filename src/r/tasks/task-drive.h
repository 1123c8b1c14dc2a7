/* Turns of the work: the scheduler is asked for a decision, it is carried out, and the scheduler is
 * told. */
#ifndef CLUTCH_TASK_DRIVE_H
#define CLUTCH_TASK_DRIVE_H

#include "r/tasks/task-state.h"

/* Carries out what the scheduler decides, until there is nothing to do or much was done. Only where
 * it may send, it may jump, and not then if the scheduler's caller is away. */
void clu_tasks_act(tasks *t, int may_send);
/* Nodes that have ended unseen are lost to the scheduler, and R is to hear of them. Why a node has
 * ended, where that matters, is waited for a second, if `may_wait`; else such a node is left for
 * later. */
void clu_tasks_see_deaths(tasks *t, int may_wait);
/* Works until `deadline`, or until there is something to be done about the job (may be NULL), of
 * whose failures `known` are known to R. What there is to be done: "deaths" (ffi_tasks_deaths()
 * tells of them), "relay" (ffi_job_relay()), "failed" (ffi_job_failures()), "done", "no_node" (no
 * node is there that may do it), or nothing: "time_up". May jump. */
const char *clu_tasks_work(tasks *t, task_job *j, uint64_t deadline, size_t known);
/* The same in passing, as submitting a task does it: sends what can be sent by what is known, and
 * looks for more now and then. May jump. */
void clu_tasks_pass(tasks *t);

#endif
