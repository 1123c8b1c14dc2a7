/* How many nodes of the session's own cluster compute at a time: as many as the session has tokens
 * of the budget of cores (core/base/budget.h), which all processes of the user share.
 *
 *   need    nodes that have something, and those that could get something
 *   held    tokens that the session has for this cluster
 *   own     1 while a task's map is waited for: the core of that task is free meanwhile
 *
 * Not more than held + own nodes have something, but always one may: so nobody waits for a token
 * that never comes. Tokens are taken when tasks wait for a node, and are given back when they were
 * of no use for some milliseconds, by R's thread or the package's: who submits task after task
 * takes one for all of them.
 */
#ifndef CLUTCH_TASK_BUDGET_H
#define CLUTCH_TASK_BUDGET_H

#include "r/tasks/task-state.h"

/* Before it is decided who gets what: takes tokens, or gives some back, and tells the scheduler how
 * many nodes may have something. */
void clu_tasks_fit(tasks *t);
/* How long to wait, `wait` at most: tokens may come, or are to be given back. */
int64_t clu_tasks_fit_wait(const tasks *t, int64_t wait);
/* When that has to be done although nobody is here; 0: never. */
uint64_t clu_tasks_fit_due(const tasks *t);
/* All are given back but those of nodes that compute. */
void clu_tasks_release(tasks *t);

#endif
