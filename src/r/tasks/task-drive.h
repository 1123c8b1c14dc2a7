/* Turns of the work: the scheduler is asked for a decision, it is carried out, and the scheduler is
 * told. */
#ifndef CLUTCH_TASK_DRIVE_H
#define CLUTCH_TASK_DRIVE_H

#include "r/tasks/task-state.h"

/* Carries out what the scheduler decides, until there is nothing to do or much was done. Only where
 * it may send, it may jump. */
void clu_tasks_act(tasks *t, SEXP handles, int may_send);
/* Nodes that have ended unseen are lost to the scheduler, and R is to hear of them. */
void clu_tasks_see_deaths(tasks *t, SEXP handles);

#endif
