/* What nodes are sent about tasks: the JOB message once, batches of tasks (TASKS), and that a job
 * has ended (JOB_END). The formats: core/wire/task-message.h. */
#ifndef CLUTCH_TASK_SEND_H
#define CLUTCH_TASK_SEND_H

#include "r/tasks/task-state.h"

/* Sends the batch `a` and tells the scheduler whether it was. The messages leave with
 * clu_tasks_flush(). One with elements needs R, and may jump (an interrupt, an element that cannot
 * be serialized): then the batch waits again, and node `last` (-1: none) is flushed. */
void clu_tasks_send(tasks *t, const clu_action *a, int last);
/* What was queued for this node (-1: none) leaves. */
void clu_tasks_flush(tasks *t, int node);
/* Nodes that know of the job are told that nothing more will come of it. `t` are its tasks. */
void clu_job_send_end(tasks *t, task_job *j);

#endif
