/* Nodes of an engine that have something of the caller's besides tasks: actors. */
#ifndef CLUTCH_TASKS_KEPT_H
#define CLUTCH_TASKS_KEPT_H

#include "core/tasks/engine.h"

/* Node `i`, if it is the process `pid`, has something of the caller's (`keeps`), or has it no more;
 * that counts. It is not ended meanwhile since nobody needs it or memory is short, and not stopped.
 */
void clu_engine_keep_node(clu_engine *t, int i, clu_pid pid, int keeps);
/* Whether it has something to do, or is not there. */
int clu_engine_is_busy(const clu_engine *t, int i);

#endif
