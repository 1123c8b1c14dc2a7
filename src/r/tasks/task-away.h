/* Tasks while R's thread is elsewhere: what a thread of the package does then (core/loop/turns.h).
 *
 * It reads results and queues their bytes, sees deaths, sends submitted tasks to nodes that are
 * free, whose bytes are ready, and puts time limits into force. The elements of maps are R's: they
 * wait. So do the values that become of bytes, replacements of nodes, and whatever a user hears of.
 * It is at work only while there are submitted tasks for which that makes a difference: a task that
 * runs alone at its node needs nobody before it is asked for.
 *
 * Bounded memory: of what comes while R's thread is elsewhere it reads MOST_READ bytes (256 MB),
 * and what had begun to be read. Then nodes wait with their results, and with what follows.
 */
#ifndef CLUTCH_TASK_AWAY_H
#define CLUTCH_TASK_AWAY_H

#include "r/tasks/task-state.h"

/* From now on they are driven also while R's thread is elsewhere; no more. CLU_OK or CLU_NOMEM. */
int clu_tasks_drive_always(tasks *t);
void clu_tasks_drive_no_more(tasks *t);
/* In a forked child: those that there were are the parent's. */
void clu_tasks_drive_none(void);
/* R's thread leaves now, and comes back at once: nothing has become urgent by what it has done. */
void clu_tasks_back_at_once(void);

#endif
