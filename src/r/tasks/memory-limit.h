/* The limits of the nodes' memory, in the session. The limit in force is the least of those of the
 * jobs under way. The nodes' fork server sees to it, also while the session does other things; of
 * nodes without one the session does. */
#ifndef CLUTCH_MEMORY_LIMIT_H
#define CLUTCH_MEMORY_LIMIT_H

#include "r/tasks/task-state.h"

/* Puts the limit into force for a node that is new; or for all where it has changed, and ends those
 * that have too much and that nobody else can end. */
void clu_tasks_limit_node(const tasks *t, clu_node *nd);
void clu_tasks_limit_memory(tasks *t);
/* Whether its memory can be known, where the system tells of processes at all. */
int clu_tasks_can_limit(const clu_node *nd);

#endif
