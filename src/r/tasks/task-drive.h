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

#endif
