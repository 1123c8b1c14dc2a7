/* Tasks without elements that are under way, of an engine: what they keep in memory, and which was
 * begun first. Who submits task after task waits for these where there are too many.
 */
#ifndef CLUTCH_TASKS_QUEUED_H
#define CLUTCH_TASKS_QUEUED_H

#include "core/tasks/engine.h"

/* Bytes of their messages, with the segments that these bring. A message is freed when its task has
 * ended. */
uint64_t clu_engine_queued_bytes(const clu_engine *t);
/* The one that was begun before all others; NULL: there is none. It stays its caller's. */
clu_task_job *clu_engine_oldest_task(const clu_engine *t);

#endif
