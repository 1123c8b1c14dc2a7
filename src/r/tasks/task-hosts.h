/* Hosts that come and go with the work (R/resize.R): how many nodes are wanted, and the end of
 * hosts that have nothing to do.
 *
 * A host:
 *
 *   asked for --its nodes are attached--> there --idle for `idle_after`--> told to end --R forgets
 * it
 *       `------ nothing was under way in this cluster for `idle_after` -----^
 *
 * Also while R's thread is elsewhere: who has the turn at the session may call this, see
 * task-state.h. A host is told to end by the end of its control channel; the command that has
 * started it, and that cancels its job if need be, by SIGTERM. Of its nodes none has anything then.
 * For the scheduler they are not there from that moment on, which is no death.
 */
#ifndef CLUTCH_TASK_HOSTS_H
#define CLUTCH_TASK_HOSTS_H

#include "r/tasks/task-state.h"

/* Ends those that have been idle for as long as they may. */
void clu_hosts_end_idle(tasks *t);
/* When one of them has been, if nothing happens until then; 0: none will. */
uint64_t clu_hosts_due(tasks *t);
void clu_hosts_free(task_host *hosts); /* accepts NULL */

#endif
